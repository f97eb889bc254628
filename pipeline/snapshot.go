package pipeline

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
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

// Snapshot is the state of a pair as it was when [Pair.Snapshot] was called, as the
// bytes of a safetensors file. It may be read between steps, in
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
	states  []*snapshot.Schema
	stream  *safetensors.Stream
}

// behind is the prefix of the names of a shadow's tensors, and, after metaOwn, of
// its strings.
const behind = "shadow."

// Snapshot begins a snapshot of the pair's state after the last window, for
// [RestorePair]. meta goes with it, under keys that do not begin with "gvbll.". It
// copies some 5 bytes a node and the order of what waits; the rest is copied as it is
// read, or before a step changes it. The names of a shadow's tensors begin with
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
		e.describe(meta, metaOwn+own)
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

// describe enters the engine's own strings, under keys that begin with own.
func (e *Engine) describe(meta map[string]string, own string) {
	meta[own+metaFormat] = snapshotFormat
	meta[own+metaEngine] = e.cfg.String()
	meta[own+metaModel] = e.model.ID
	meta[own+metaWindow] = strconv.FormatInt(e.next, 10)
	meta[own+metaChain] = hex.EncodeToString(e.chain[:])
	meta[own+metaPosterior] = hex.EncodeToString(e.posterior[:])
}

// part is a piece of the engine's state. Its one declaration writes it, reads it
// back and checks it.
type part interface{ state(s *snapshot.Schema) }

// state declares the whole state but the strings. Parts are declared after those
// that they are checked against.
func (e *Engine) state(s *snapshot.Schema) {
	e.nodes.graph.State(s)
	e.serving.state(s)
	e.nodes.state(s)
	e.pending.state(s, e.nodes.states.len(), e.next, e.serving, e.model.Prior.Classes)
	s.Check(e.checkPending)
	e.nodes.waitingState(s)
	e.labels.state(s)
	for _, h := range e.heads {
		snapshot.Bytes(s, "heads."+h.Name(), h)
	}
	s.Check(func() error {
		if !e.serving.matches(e.posterior) {
			return snapshot.Damaged("the heads have another hash than %x", e.posterior)
		}
		return nil
	})
	e.scorer.state(s)
	for _, o := range e.observers {
		o.state(s)
	}
	if e.cfg.Unwatched && !s.Saving() { // damage is to be found, though nobody needs these
		s.Check(func() error {
			unused, err := newDetectors(e.nodes)
			if err == nil {
				unused.state(s)
			}
			return err
		})
	}
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
