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
)

// snapshotFormat changes whenever a snapshot is written otherwise.
const snapshotFormat = "1"

// The strings of a snapshot beside the caller's.
const (
	metaOwn       = "gvbll."
	metaFormat    = metaOwn + "format"
	metaEngine    = metaOwn + "engine" // Config.String
	metaModel     = metaOwn + "model"
	metaWindow    = metaOwn + "window" // number of the next
	metaChain     = metaOwn + "chain"
	metaPosterior = metaOwn + "posterior"
	metaDrift     = metaOwn + "drift" // "watched", or not there
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
//	pending.probabilities  F32  p × heads × classes
//	waiting.*                   ids of nodes that have not come, the oldest first
//	waiting.edges          I32  how many edges wait for each
//	waiting.nodes          I32  from which nodes, one after the other
//	early.*                     ids of nodes that have a label and have not come
//	early.records          U8   the labels, see appendLabel
//	heads.NAME             U8   a head's state, see [posterior.Head]
//	summaries.counts       I64  heads × 42, see Summary.appendState
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
// where ids are three tensors, see idParts. [safetensors.Stream] adds checksums.
type Snapshot struct {
	e      *Engine // nil when closed
	stream *safetensors.Stream
}

// taken is what is noted for a snapshot, to find the state as it was.
type taken struct {
	graph   *gnn.Frozen
	fate    map[int32]fate // as they were, of nodes whose fate has changed since
	pending still[int32, served]
	waiting still[event.ID, []int32]
	edges   []int32 // that wait, by slot: the lists may get longer
	early   still[event.ID, early]
}

// keep notes the fate of a node that is about to change, if a snapshot is under
// way.
func (t *taken) keep(v int32, f fate) {
	if t.fate == nil {
		return
	}
	if _, changed := t.fate[v]; !changed {
		t.fate[v] = f
	}
}

// Snapshot begins to take down the engine's state behind the last window, for
// [Restore]. meta goes with it; keys that begin with "gvbll." are taken. It
// copies some 5 bytes a node and the order of what waits; the rest is copied as it
// is read, or before a step changes it.
//
// There is one snapshot at a time: it panics when the last one was not closed,
// and when meta cannot stand in a file.
func (e *Engine) Snapshot(meta map[string]string) *Snapshot {
	if e.snapshot != nil {
		panic("pipeline: a snapshot is under way")
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
	meta[metaFormat] = snapshotFormat
	meta[metaEngine] = e.cfg.String()
	meta[metaModel] = e.model.ID
	meta[metaWindow] = strconv.FormatInt(e.next, 10)
	meta[metaChain] = hex.EncodeToString(e.chain[:])
	meta[metaPosterior] = hex.EncodeToString(e.posterior[:])

	if e.drift != nil {
		meta[metaDrift] = "watched"
	}

	t := &e.taken
	t.graph = e.graph.Freeze()
	t.fate = map[int32]fate{}
	t.pending.take(e.pending.nodes)
	t.waiting.take(e.roster.waiting)
	t.early.take(e.early)

	parts := t.graph.Parts()
	parts = append(parts, e.nodeParts()...)
	parts = append(parts, e.pendingParts()...)
	parts = append(parts, e.waitingParts()...)
	parts = append(parts, e.earlyParts()...)
	parts = append(parts, e.headParts()...)
	parts = append(parts, e.fallbackParts()...)
	parts = append(parts, e.setParts()...)
	parts = append(parts, e.driftParts()...)
	stream, err := safetensors.NewStream(meta, parts)
	if err != nil {
		panic(fmt.Sprintf("pipeline: snapshot: %v", err))
	}
	e.snapshot = &Snapshot{e: e, stream: stream}
	return e.snapshot
}

var errClosed = errors.New("snapshot: it is closed")

// Read is an [io.Reader]'s. It fills p, except at the end.
func (s *Snapshot) Read(p []byte) (int, error) {
	if s.e == nil {
		return 0, errClosed
	}
	return s.stream.Read(p)
}

// Len is how many bytes there are from the beginning to the end.
func (s *Snapshot) Len() int64 { return s.stream.Len() }

// Close gives up what the snapshot holds, read to the end or not, and lets
// another begin. It may be called twice.
func (s *Snapshot) Close() {
	if s.e == nil {
		return
	}
	t := &s.e.taken
	t.graph.Release()
	t.pending.release()
	t.waiting.release()
	t.early.release()
	t.fate = nil
	s.e.snapshot, s.e = nil, nil
}

// nodeParts are the ids of the nodes and what is known of them.
func (e *Engine) nodeParts() []safetensors.Part {
	came := &e.roster.came // of which the beginning stays as it is
	fates := func() func() fate {
		v := int32(-1)
		return func() fate {
			v++
			if f, changed := e.taken.fate[v]; changed {
				return f
			}
			return e.fate[v]
		}
	}
	label, context := fates(), fates()
	return append(idParts("nodes", len(e.fate), len(came.strings), came.bytes, came.walk),
		column("nodes.label", len(e.fate), func() int32 { return label().label }),
		column("nodes.context", len(e.fate), func() uint8 {
			if context().context {
				return 1
			}
			return 0
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
		safetensors.NewPart[float32]("pending.probabilities", rows(p.probs), s.len, len(e.heads), e.model.Prior.Classes),
	}
}

// waitingParts are the ids that edges wait for, the oldest first, and the nodes
// that named them.
func (e *Engine) waitingParts() []safetensors.Part {
	t := &e.taken
	lists := t.waiting.q.entries
	t.edges = kernel.Room(t.edges, len(lists))
	for i := range lists {
		t.edges[i] = int32(len(lists[i].value))
	}
	next, list := t.waiting.walk(), t.waiting.walk()
	return append(queueIDs("waiting", &t.waiting),
		column("waiting.edges", t.waiting.len, func() int32 {
			slot, _ := next()
			return t.edges[slot]
		}),
		safetensors.NewPart[int32]("waiting.nodes", func(b []byte) []byte {
			slot, entry := list()
			return safetensors.Append(b, entry.value[:t.edges[slot]]...)
		}, e.roster.edges))
}

// earlyParts are the labels whose nodes have not come, the oldest first.
func (e *Engine) earlyParts() []safetensors.Part {
	s := &e.taken.early
	size := 0
	for i := range s.q.entries {
		size += s.q.entries[i].value.size // 0 in an empty slot
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
	for h := range e.summary {
		counts, sums = e.summary[h].appendState(counts, sums)
	}
	return append(parts,
		safetensors.PartOf("summaries.counts", counts, len(e.heads), summaryCounts),
		safetensors.PartOf("summaries.sums", sums, len(e.heads), summarySums))
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
	for i := range s.q.entries {
		if id := s.q.entries[i].key.Str; id != "" { // there is none in an empty slot
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
