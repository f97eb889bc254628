package pipeline

import "github.com/gvbll/gvbll/pipeline/snapshots"

// Snapshot reads the state of a pair, as it was when the snapshot began, as the bytes of
// a safetensors file. The file is produced as it is read, a part at a time, while the
// pair goes on stepping: before an engine changes a record that has not been read, it
// copies the record into the snapshot. The bytes depend on the state and meta alone.
//
// The caller reads between windows, on the goroutine that steps the pair, any number of
// bytes at a time, and must Close the snapshot; until then there can be no other of the
// same pair. After Close the copies are freed.
//
// The file's metadata has the caller's strings and, under keys that begin with "gvbll.",
// those that identify each engine, its settings and its window. [safetensors.Stream]
// adds checksums. With n node numbers, e edges, p pending nodes (the oldest first), and
// C classes, the tensors are
//
//	graph.degrees          I32   n
//	graph.neighbours       I32   2e: by node, in the order in which its edges came
//	graph.stale            U8    n: 1 where the aggregate is to be recomputed
//	graph.rows             F32   n × (self term and aggregate); or, with BFloat16,
//	graph.own              BF16  n × self term
//	graph.heard            F32   n × aggregate, unless that is empty
//	features.rows          F32   n × d, of a pool whose heads read dense features; or, with sparse ones,
//	features.lengths       I32   n: number of nonzero features
//	features.index         I32   indices of these, node by node
//	features.value         F32   their values
//	features.served        U8    n × C: the part that counts of what was served, in 1/256; 0 for labelled nodes
//	features.sweep         I32   the number that the sweep over labelled nodes has come to
//	departed.free          I32   free numbers, the next to be used last
//	departed.node          I32   numbers of nodes that left while pending
//	departed.near          I32   × 2: their earlier neighbours, and those among them not of the context
//	departed.next          I64   1: number of arrivals so far; only if a number was reused
//	departed.born          I64   n: number of arrivals before the node's
//	nodes.label            I32   n: class, -1 for none
//	nodes.context          U8    n: 1 for a context node
//	nodes.ID               ids   n
//	nodes.kept             I32   n: bytes of the features that an update may leave out, if Config.Reading.Partial is set
//	nodes.features         U8    these, see [attributes.Encoder.Keep]
//	keys.nodes             I64   n × (keys and columns): hashes of a node's keys, and bits of what they made; if the model has keys
//	keys.NUMBER            I64   rows of a key, the one that came longest ago first, see package keys
//	pending.node           I32   p: numbers
//	pending.window         I64   p: window in which the node was served
//	pending.time           I64   p: event time of the arrival
//	pending.temperature    F64   p
//	pending.place          I32   of the oldest, whose rows are in blocks: where; absent if there are none
//	pending.perBlock       I64   1: rows in a block; absent if there are no blocks
//	pending.blocks         I64   × 2: number in Config.Blocks, -1 for none, and CRC-32C; absent alike
//	pending.embedding      F32   p × d_e, without those in blocks
//	pending.probabilities  F32   p × heads × C, without those in blocks; or, of a pool,
//	pending.said           F32   p × (heads + 2) × C: log probabilities, n_v and q_v; likewise
//	waiting.edges          I32   number of edges that wait for each missing node
//	waiting.nodes          I32   their other ends, by missing node
//	waiting.held           I32   by missing node: edges that it is the source of, no end of which had arrived; if there are any
//	targets.ID             ids   their targets, by missing node
//	waiting.ID             ids   of the missing nodes, the oldest first
//	keep.watermark         I64   1: if Config.Keep is set, -2⁶³ before the first event
//	keep.began             I64   1: the first watermark
//	keep.nodes             I32   numbers by age, the oldest first, and when they were last named:
//	keep.named             I64
//	keep.over              I32   numbers of nodes that were due before their label came, and when it did:
//	keep.answered          I64
//	keep.edges             I32   × 2: ends of edges by age, the lower first, and when they were last named:
//	keep.seen              I64
//	early.records          U8    labels that wait for their node, see appendLabel
//	early.ID               ids   of these nodes, the oldest first
//	heads.NAME             U8    a head's state, see [posterior.Head]
//	learn.clipped          I64   heads: entries that the last update clipped, if Config.LearnLag is set; its
//	learn.step             F64   heads: steps; to be reported with the next window
//	learn.window           I64   windows whose labels wait to be learned
//	learn.batches          U8    their batches, see [pool.Layout]
//	summaries.counts       I64   heads × 42, see [calibration.Prequential]
//	summaries.sums         F64   heads × 27
//	fallback.lead          F64   1: of the static head, nats; if Config.Fallback is on
//	fallback.head          U8    1: the head that serves
//	fallback.pending       U8    p: the head that served
//	rates.labels           F64   C: labels; if Config.LabelRates is counted
//	rates.expected         F64   C: nodes, by what was served for them
//	sets.thresholds        U8    see [conformal.Predictor]; if Config.Coverage is set
//	sets.counts            I64   4: predictions; sets with a label, those that held it, their classes
//	sets.served            I64   p × (number of the prediction, words of its set)
//	act.kept               U8    p: whether it is to be acted on: 0 no, 1 yes, 2 unknown; if Config.Act is set
//	act.counts             F64   512: served probabilities by bin of odds, see [parts.Actor]; if Config.Act has a capacity
//	act.sums               F64   3: their sum, the event time in which they came, and the part of a node that is due
//	act.times              I64   7: of the last three arrivals, the clock, where it began, acted, arrivals far behind it
//	rescore.degree         I32   p: degree at the last prediction; if Config.Rescore is set
//	rescore.probabilities  F32   p × C, as last published
//	rescore.due            I32   numbers of the nodes that are due, the longest first
//	rescore.counts         I64   42: of published predictions, see [calibration.Prequential]
//	rescore.sums           F64   27
//	revisions.node         I32   numbers of the nodes that were predicted again; if there are any
//	revisions.last         I32   the number of its last revision, of each
//	drift.NAME             U8    a detector's state, see package drift; if they are on
//	drift.found            I64   5: changes found by each detector, and what belongs to the last
//
// where ids are three tensors, see declareIDs. Tensors departed.* that would be empty
// are left out. The names of a shadow's tensors begin with "shadow.".
type Snapshot = snapshots.Snapshot

// behind is the prefix of a shadow.
const behind = "shadow."

// Snapshot begins a snapshot of the pair's state after the last window, for
// [RestorePair], which returns meta. It takes time and memory for about 5 bytes per
// node; see [Snapshot] for the rest.
//
// It panics if the previous snapshot is not closed, or if a key of meta begins with
// "gvbll.".
func (p *Pair) Snapshot(meta map[string]string) *snapshots.Snapshot {
	parts := []snapshots.Part{snapshots.Under("", savedEngine{p.engines[0]})}
	for _, shadow := range p.engines[1:] {
		parts = append(parts, snapshots.Under(behind, savedEngine{shadow}))
	}
	return snapshots.Take(meta, parts...)
}
