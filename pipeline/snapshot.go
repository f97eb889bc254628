package pipeline

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// snapshotFormat changes whenever a snapshot is written otherwise.
const snapshotFormat = "1"

// The strings of a snapshot beside the caller's.
const (
	metaOwn       = "gvbll." // before all of these
	metaFormat    = "format"
	metaEngine    = "engine" // Config.String
	metaModel     = "model"
	metaWindow    = "window" // number of the next
	metaChain     = "chain"
	metaPosterior = "posterior"
)

// Snapshot is the state of an engine as it was when [Engine.Snapshot] was
// called, as the bytes of a safetensors file. It may be read between steps, in
// any pieces: the engine's own goroutine makes the bytes as they are asked for,
// and there is no other.
//
// The file's strings are the caller's and, under keys that begin with "gvbll.",
// what says which engine it is of. Its tensors, of n nodes, e edges and p nodes
// that wait for their label, are
//
//	graph.degrees          I32  n
//	graph.neighbours       I32  2e: by node, in the order in which the edges came
//	graph.stale            U8   n: 1 where sums are to be made anew
//	graph.rows             F32  n × what the encoder keeps of a node; or, in halves,
//	graph.own              BF16   what it makes of the node's features
//	graph.heard            F32    and of its neighbours
//	nodes.*                     ids, by number
//	nodes.label            I32  n: -1 for none
//	nodes.context          U8   n: 1 where it was not asked about
//	pending.node           I32  p, the oldest first
//	pending.window         I64  p: in which it was served
//	pending.time           I64  p
//	pending.temperature    F64  p
//	pending.embedding      F32  p × d_e
//	pending.probabilities  F32  p × heads × classes; or, of a pool,
//	pending.said           F32  p × (heads + 2) × classes: log probabilities, n_v and q_v
//	waiting.*                   ids of nodes that have not come, the oldest first
//	waiting.edges          I32  how many edges wait for each
//	waiting.nodes          I32  from which nodes, one after the other
//	early.*                     ids of nodes that have a label and have not come
//	early.records          U8   the labels, see appendLabel
//	heads.NAME             U8   a head's state, see [posterior.Head]
//	features.*                  of a pool: the nodes' features, see [neighbourhood.Vicinity.Parts]
//	departed.free          I32  numbers that no node has, the next to be used last
//	departed.node          I32  numbers of nodes that left and wait for their label, in the order in which they left
//	departed.near          I32  × 2: neighbours that came before, and those of them not of the context
//	departed.next          I64  how many nodes have come
//	departed.born          I64  n: how many had come before
//	summaries.counts       I64  heads × 42, see calibration.Prequential
//	summaries.sums         F64  heads × 27
//	fallback.lead          F64  1: of the static head, in nats, where it may serve
//	fallback.head          U8   1: who serves
//	fallback.pending       U8   p: who served
//	sets.thresholds        U8   see [conformal.Predictor], where sets are asked for
//	sets.outside           U8   see [conformal.Outside], where it counts
//	sets.counts            I64  4: predictions; sets with a label, of these that held it, their classes
//	sets.served            I64  p × (number of the prediction, slice, words of its set)
//	drift.NAME             U8   a detector's state, see package drift, where it is watched
//	drift.found            I64  4: how often each detector found a change
//
// where ids are three tensors, see idParts. Of departed.* those are missing that
// would be empty.
// There are rescore.* where nodes are predicted again, see rescoring.parts.
// [safetensors.Stream] adds checksums.
type Snapshot struct {
	engines []*Engine // none when closed
	stream  *safetensors.Stream
}

// taken is what is noted for a snapshot, to find the state as it was.
type taken struct {
	graph   *gnn.Frozen
	was     map[int32]was // nodes as they were that have changed since
	pending still[int32, served]
	waiting still[event.ID, []int32]
	edges   []int32           // that wait, by slot: the lists may get longer
	lists   map[int32][]int32 // those that got shorter, as they were, by slot
	early   still[event.ID, waiting]
}

// was is what a node was.
type was struct {
	state   nodeState
	context int
	id      event.ID
	born    int64
}

// noteState notes the state of a node that is about to change, if a snapshot is
// under way.
func (n *nodes) noteState(v int32) {
	t := n.taken
	if t.was == nil {
		return
	}
	if _, changed := t.was[v]; changed {
		return
	}
	w := was{state: *n.states.at(v), context: n.context.at(v), id: n.index.came.at(v)}
	if n.departed.born != nil {
		w.born = n.departed.born[v]
	}
	t.was[v] = w
}

// keepList notes a list of edges that wait, by slot, which is about to get
// shorter.
func (t *taken) keepList(slot int32, list []int32) {
	if t.was == nil || int(slot) >= len(t.edges) {
		return
	}
	if _, kept := t.lists[slot]; !kept {
		t.lists[slot] = list[:t.edges[slot]]
	}
}

// Snapshot begins to take down the engine's state behind the last window, for
// [Restore]. meta goes with it; keys that begin with "gvbll." are taken. It
// copies some 5 bytes a node and the order of what waits; the rest is copied as it
// is read, or before a step changes it.
//
// There is one snapshot at a time: it panics when the last one was not closed,
// and when meta cannot stand in a file.
func (e *Engine) Snapshot(meta map[string]string) *Snapshot { return takeDown(meta, e) }

// takeDown begins the snapshot of an engine, or of one and its shadow.
func takeDown(meta map[string]string, engines ...*Engine) *Snapshot {
	for _, e := range engines {
		if e.snapshot != nil {
			panic("pipeline: a snapshot is under way")
		}
	}
	for key := range meta {
		if strings.HasPrefix(key, metaOwn) {
			panic(fmt.Sprintf("pipeline: %q is a key of the engine's own", key))
		}
	}
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]string{}
	}
	var parts []safetensors.Part
	own := ""
	for _, e := range engines {
		e.describe(meta, metaOwn+own)
		for _, p := range e.parts() {
			p.Name = own + p.Name
			parts = append(parts, p)
		}
		own = behind
	}
	stream, err := safetensors.NewStream(meta, parts)
	if err != nil {
		panic(fmt.Sprintf("pipeline: snapshot: %v", err))
	}
	s := &Snapshot{engines: engines, stream: stream}
	for _, e := range engines {
		e.snapshot = s
	}
	return s
}

// describe enters the engine's own strings, under keys that begin with own.
func (e *Engine) describe(meta map[string]string, own string) {
	meta[own+metaFormat] = snapshotFormat
	meta[own+metaEngine] = e.cfg.String()
	meta[own+metaModel] = e.model.ID
	meta[own+metaWindow] = strconv.FormatInt(e.next, 10)
	meta[own+metaChain] = hex.EncodeToString(e.chain[:])
	meta[own+metaPosterior] = hex.EncodeToString(e.posterior[:])
}

// parts notes the state as it is, and returns the tensors that will be made of it.
func (e *Engine) parts() []safetensors.Part {
	t := &e.taken
	t.graph = e.nodes.graph.Freeze()
	t.was, t.lists = map[int32]was{}, map[int32][]int32{}
	t.pending.take(e.pending.nodes)
	t.waiting.take(e.nodes.index.waiting)
	t.early.take(e.labels.unmatched.queue)
	e.serving.freeze()

	parts := t.graph.Parts()
	parts = append(parts, e.nodeParts()...)
	parts = append(parts, e.pendingParts()...)
	parts = append(parts, e.waitingParts()...)
	parts = append(parts, e.earlyParts()...)
	parts = append(parts, e.serving.parts()...)
	parts = append(parts, e.nodes.departedParts()...)
	for _, o := range e.observers {
		parts = append(parts, o.parts()...)
	}
	return append(parts, e.headParts()...)
}

var errClosed = errors.New("snapshot: it is closed")

// Read is an [io.Reader]'s. It fills p, except at the end.
func (s *Snapshot) Read(p []byte) (int, error) {
	if s.engines == nil {
		return 0, errClosed
	}
	return s.stream.Read(p)
}

// Len is how many bytes there are from the beginning to the end.
func (s *Snapshot) Len() int64 { return s.stream.Len() }

// Close gives up what the snapshot holds, read to the end or not, and lets
// another begin. It may be called twice.
func (s *Snapshot) Close() {
	for _, e := range s.engines {
		t := &e.taken
		t.graph.Release()
		t.pending.release()
		t.waiting.release()
		t.early.release()
		e.serving.release()
		t.was, t.lists = nil, nil
		e.snapshot = nil
	}
	s.engines = nil
}

// nodeParts are the ids of the nodes and what is known of them.
func (e *Engine) nodeParts() []safetensors.Part {
	n := e.nodes
	came := &n.index.came
	label, context := int32(-1), int32(-1)
	return append(idParts("nodes", n.states.len(), came.texts(), came.bytes, func() func() event.ID {
		v := int32(-1)
		return func() event.ID {
			v++
			if w, changed := e.taken.was[v]; changed {
				return w.id
			}
			return came.at(v)
		}
	}),
		column("nodes.label", n.states.len(), func() int32 {
			label++
			if w, changed := e.taken.was[label]; changed {
				return w.state.label
			}
			return n.states.at(label).label
		}),
		column("nodes.context", n.states.len(), func() uint8 {
			context++
			if w, changed := e.taken.was[context]; changed {
				return uint8(w.context)
			}
			return uint8(n.context.at(context))
		}))
}

// pendingParts are what was served and has no label, the oldest first. What was
// served lies by the queue's slots, which stay as they are.
func (e *Engine) pendingParts() []safetensors.Part {
	p, s := e.pending, &e.taken.pending
	rows := func(of *kernel.Table[float32]) func(b []byte) []byte {
		next := s.walk()
		return func(b []byte) []byte {
			slot, _ := next()
			return safetensors.Append(b, of.Row(slot)...)
		}
	}
	return []safetensors.Part{
		queueColumn("pending.node", s, func(v int32, _ *served) int32 { return v }),
		queueColumn("pending.window", s, func(_ int32, x *served) int64 { return x.window }),
		queueColumn("pending.time", s, func(_ int32, x *served) int64 { return x.time }),
		queueColumn("pending.temperature", s, func(_ int32, x *served) float64 { return x.tau }),
		safetensors.NewPart[float32]("pending.embedding", rows(p.z), s.len, e.model.Prior.Dim),
		safetensors.NewPart[float32](e.serving.keptName(), rows(p.kept), s.len, p.kept.Width()/e.model.Prior.Classes, e.model.Prior.Classes),
	}
}

// waitingParts are the ids that edges wait for, the oldest first, and the nodes
// that named them.
func (e *Engine) waitingParts() []safetensors.Part {
	t := &e.taken
	lists := &t.waiting.q.entries
	t.edges = kernel.Room(t.edges, lists.len())
	for i := range int32(lists.len()) {
		t.edges[i] = int32(len(lists.at(i).value))
	}
	next, list := t.waiting.walk(), t.waiting.walk()
	return append(queueIDs("waiting", &t.waiting),
		column("waiting.edges", t.waiting.len, func() int32 {
			slot, _ := next()
			return t.edges[slot]
		}),
		safetensors.NewPart[int32]("waiting.nodes", func(b []byte) []byte {
			slot, entry := list()
			if was, kept := t.lists[slot]; kept {
				return safetensors.Append(b, was...)
			}
			return safetensors.Append(b, entry.value[:t.edges[slot]]...)
		}, e.nodes.index.edges))
}

// earlyParts are the labels whose nodes have not come, the oldest first.
func (e *Engine) earlyParts() []safetensors.Part {
	s := &e.taken.early
	size := 0
	for i := range int32(s.q.entries.len()) {
		size += s.q.entries.at(i).value.size // 0 in an empty slot
	}
	next := s.walk()
	return append(queueIDs("early", s),
		safetensors.NewPart[uint8]("early.records", func(b []byte) []byte {
			_, entry := next()
			return appendLabel(b, &entry.value.label)
		}, size))
}

// headParts are the state of each head, and its scores.
func (e *Engine) headParts() (parts []safetensors.Part) {
	for _, h := range e.heads {
		state := h.AppendState(nil)
		parts = append(parts, safetensors.PartOf("heads."+h.Name(), state, len(state)))
	}
	var counts []int64
	var sums []float64
	for h := range e.scorer.summaries {
		counts, sums = e.scorer.summaries[h].AppendState(counts, sums)
	}
	return append(parts,
		safetensors.PartOf("summaries.counts", counts, len(e.heads), calibration.StateCounts),
		safetensors.PartOf("summaries.sums", sums, len(e.heads), calibration.StateSums))
}

func queueColumn[T safetensors.Element, K comparable, V any](name string, s *still[K, V], of func(K, *V) T) safetensors.Part {
	next := s.walk()
	return column(name, s.len, func() T {
		_, entry := next()
		return of(entry.key, &entry.value)
	})
}

func queueIDs[V any](name string, s *still[event.ID, V]) []safetensors.Part {
	strings, bytes := 0, 0
	for i := range int32(s.q.entries.len()) {
		if id := s.q.entries.at(i).key.Str; id != "" { // there is none in an empty slot
			strings++
			bytes += len(id)
		}
	}
	return idParts(name, s.len, strings, bytes, func() func() event.ID {
		next := s.walk()
		return func() event.ID {
			_, entry := next()
			return entry.key
		}
	})
}
