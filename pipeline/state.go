package pipeline

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
)

// This file declares an engine's state, which snapshot.go writes and restore.go reads.

// snapshotFormat changes whenever the format of snapshots changes.
const snapshotFormat = "1"

// metaOwn begins the keys of an engine's strings in a snapshot; others are the
// caller's. metaModel is the key of the model's ID after it.
const (
	metaOwn   = "gvbll."
	metaModel = "model"
)

// part is a piece of the engine's state. Its one declaration serves to write the piece,
// to read it back, and to check it.
type part interface{ state(s *snapshot.Schema) }

// state declares the engine's state without its strings. A part comes after those that
// its checks use.
func (e *Engine) state(s *snapshot.Schema) {
	e.nodes.graph.State(s)
	e.serving.state(s)
	e.nodes.state(s)
	e.pending.state(s, e.nodes.states.len(), e.next, e.serving, e.model.Prior.Classes, e.model.Temperature.At, e.isOwn)
	s.Check(e.checkPending)
	e.nodes.waitingState(s)
	e.labels.state(s)
	for _, h := range e.serving.heads() {
		snapshot.Bytes(s, "heads."+h.Name(), h)
	}
	s.Check(func() error {
		if !e.serving.matches(e.lessons.last.posterior) {
			return snapshot.Damaged("the heads have another hash than %x", e.lessons.last.posterior)
		}
		return nil
	})
	e.lessons.state(s, e.next)
	e.scorer.state(s)
	for _, o := range e.observers {
		o.state(s)
	}
	if e.cfg.Unwatched && !s.Saving() { // check the snapshot's detectors all the same
		s.Check(func() error {
			unused, err := newDetectors(e.model, &e.nodes.arrivals.rows)
			if err == nil {
				unused.state(s)
			}
			return err
		})
	}
}

// checkPending checks the invariants of restored pending nodes: the node has no label and is
// not of the context; and a node that has left is in departed.waiting.
func (e *Engine) checkPending() error {
	n, q := e.nodes, e.pending.nodes
	left := 0 // the graph
	for i := range int32(q.len()) {
		v := q.entries.at(i).key
		state := n.states.at(v)
		if n.context.has(v) || state.label != none {
			return snapshot.Damaged("node %d does not wait for a label", v)
		}
		if !state.gone {
			continue
		}
		left++
		if l := n.departed.waiting.get(n.index.ids.at(v)); l == nil || l.number != v {
			return snapshot.Damaged("number %d waits for a label and is of no node", v)
		}
	}
	if waits := n.departed.waiting.len(); left != waits {
		return snapshot.Damaged("%d nodes that left wait for their label, %d of them were served", waits, left)
	}
	return nil
}

// engineString is a string of a snapshot that identifies the engine or its progress.
type engineString struct {
	key  string // after metaOwn
	text string // of this engine now
	set  func(text string) error
}

// strings returns the engine's strings. Setting one that must not differ returns an error
// with the remedy if it does.
func (e *Engine) strings() []engineString {
	fixed := func(key, text, what, remedy string) engineString {
		return engineString{key, text, func(got string) error {
			if got != text {
				return fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", what, got, text, remedy)
			}
			return nil
		}}
	}
	hash := func(key string, x *event.Hash) engineString {
		return engineString{key, hex.EncodeToString(x[:]), func(text string) error {
			b, err := hex.DecodeString(text)
			if err != nil || len(b) != len(x) {
				return snapshot.Damaged("%s %q", key, text)
			}
			copy(x[:], b)
			return nil
		}}
	}
	settings := e.cfg.Settings()
	return []engineString{
		fixed("format", snapshotFormat, "format", "restore it with the gvbll that wrote it"),
		{"engine", string(settings), func(got string) error { return sameSettings(event.Settings(got), settings) }},
		fixed(metaModel, e.model.ID, "model", "give the model it was taken with"),
		{"window", strconv.FormatInt(e.next, 10), func(text string) (err error) { // the next
			if e.next, err = strconv.ParseInt(text, 10, 64); err != nil || e.next < 0 {
				return snapshot.Damaged("window %q", text)
			}
			return nil
		}},
		hash("chain", &e.chain),
		hash("posterior", &e.lessons.last.posterior),
	}
}
