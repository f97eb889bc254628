package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// Snapshot is the state of one or two engines when the snapshot began, as the bytes
// of a safetensors file. They are made when they are read, which may be between
// steps and in any pieces: by the engine's own goroutine, for there is no other.
//
// The file's strings are the caller's and, under keys that begin with "gvbll.", those
// that say which engine it is of. [safetensors.Stream] adds checksums. The tensors of
// n nodes, e edges, p nodes that wait for their label (the oldest first), and C
// classes are
//
//	graph.degrees          I32   n
//	graph.neighbours       I32   2e: by node, in the order in which its edges came
//	graph.stale            U8    n: 1 where the aggregate is to be recomputed
//	graph.rows             F32   n × (self term and aggregate); or, with BFloat16,
//	graph.own              BF16  n × self term
//	graph.heard            F32   n × aggregate, unless that is empty
//	features.rows          F32   n × d, of a pool with dense features; or, with sparse ones,
//	features.lengths       I32   n: how many features of a node are not zero
//	features.index         I32   of these, by node
//	features.value         F32
//	departed.free          I32   numbers that no node has, the next to be used last
//	departed.node          I32   numbers of nodes that left and wait for their label
//	departed.near          I32   × 2: their neighbours that came before, and those of them not of the context
//	departed.next          I64   1: how many nodes have come, if a number was used twice
//	departed.born          I64   n: how many had come before
//	nodes.label            I32   n: the class, -1 for none
//	nodes.context          U8    n: 1 where it was not asked about
//	nodes.ID               ids   n
//	pending.node           I32   p: numbers
//	pending.window         I64   p: in which it was served
//	pending.time           I64   p
//	pending.temperature    F64   p
//	pending.embedding      F32   p × d_e
//	pending.probabilities  F32   p × heads × C; or, of a pool,
//	pending.said           F32   p × (heads + 2) × C: log probabilities, n_v and q_v
//	waiting.edges          I32   how many edges wait for each node that has not come
//	waiting.nodes          I32   the nodes that named it, one list after the other
//	waiting.ID             ids   of the nodes that have not come, the oldest first
//	early.records          U8    labels whose node has not come, see appendLabel
//	early.ID               ids   of the nodes, the oldest first
//	heads.NAME             U8    a head's state, see [posterior.Head]
//	summaries.counts       I64   heads × 42, see [calibration.Prequential]
//	summaries.sums         F64   heads × 27
//	fallback.lead          F64   1: of the static head, in nats, where it may serve
//	fallback.head          U8    1: the head that serves
//	fallback.pending       U8    p: the head that served
//	sets.thresholds        U8    see [conformal.Predictor], where sets are asked for
//	sets.outside           U8    see [conformal.Outside], where it counts
//	sets.counts            I64   4: predictions; sets with a label, those that held it, their classes
//	sets.served            I64   p × (number of the prediction, slice, words of its set)
//	rescore.degree         I32   p: when it was last predicted, where nodes are predicted again
//	rescore.revision       I32   p
//	rescore.probabilities  F32   p × C, as last published
//	rescore.due            I32   numbers of the nodes that are due, the longest first
//	rescore.counts         I64   42: of what was last published, see [calibration.Prequential]
//	rescore.sums           F64   27
//	drift.NAME             U8    a detector's state, see package drift, where it is watched
//	drift.found            I64   4: how often each detector found a change
//
// where ids are three tensors, see declareIDs. Those of departed.* that would be empty
// are left out.
type Snapshot struct {
	engines []*Engine // none when closed
	states  []*snapshot.Schema
	stream  *safetensors.Stream
}

// behind is the prefix of the names of a shadow's tensors, and, after metaOwn, of
// its strings.
const behind = "shadow."

// Snapshot begins a snapshot of the pair's state after the last window, for
// [RestorePair]. meta goes with it, under keys that do not begin with "gvbll.". It
// copies some 5 bytes a node; the rest is copied as it is read, or before a step
// changes it. The names of a shadow's tensors begin with
// "shadow.".
//
// There is one snapshot at a time: it panics when the last one was not closed, when
// a window is between Enter and Learn, and when meta cannot be in a file.
func (p *Pair) Snapshot(meta map[string]string) *Snapshot { return takeSnapshot(meta, p.engines...) }

// takeSnapshot begins the snapshot of an engine, or of one and its shadow.
func takeSnapshot(meta map[string]string, engines ...*Engine) *Snapshot {
	for _, e := range engines {
		if e.snapshot != nil {
			panic("pipeline: a snapshot is under way")
		}
		if e.stage != entering {
			panic("pipeline: a snapshot within a window")
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
	s := &Snapshot{engines: engines}
	var parts []safetensors.Part
	own := ""
	for _, e := range engines {
		for _, x := range e.strings() {
			meta[metaOwn+own+x.key] = x.text
		}
		e.snapshot = s
		state := snapshot.Saving()
		e.state(state)
		s.states = append(s.states, state)
		for _, p := range state.Parts() {
			p.Name = own + p.Name
			parts = append(parts, p)
		}
		own = behind
	}
	var err error
	if s.stream, err = safetensors.NewStream(meta, parts); err != nil {
		panic(fmt.Sprintf("pipeline: snapshot: %v", err))
	}
	return s
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
	for i, e := range s.engines {
		s.states[i].Release()
		e.snapshot = nil
	}
	s.engines = nil
}
