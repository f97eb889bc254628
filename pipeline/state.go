package pipeline

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/posterior"
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
type part interface{ State(s *snapshot.Schema) }

// State declares the engine's state without its strings. A part comes after those that
// its checks use.
func (e *Engine) State(s *snapshot.Schema) {
	e.base.State(s)
	declareHeads(s, e.serving, &e.lessons.last.posterior)
	e.lessons.state(s, e.next)
	e.scorer.State(s)
	declareObservers(s, e.observers, e.cfg, e.model)
}

// rest waits for the end of a job of Config.Run.
func (e *Engine) rest() {
	e.base.rest()
	e.lessons.settle()
}

// State declares the graph and what was served on it.
func (e *base) State(s *snapshot.Schema) {
	e.nodes.Graph.State(s)
	e.serving.State(s)
	e.nodes.State(s)
	e.pending.state(s, e.nodes.Numbers(), e.next, e.serving, e.model.Prior.Classes, e.model.Temperature.At, e.isOwn)
	s.Check(func() error { return e.nodes.CheckWaiting(e.pending.all()) })
	e.nodes.WaitingState(s)
	e.labels.State(s)
}

func (e *base) rest() {
	if e.now != nil {
		panic("pipeline: a snapshot within a window")
	}
}

func (e *base) open() **Snapshot { return &e.snapshot }

func (e *base) appendBlocks(list []int64) []int64 { return e.pending.rows.numbers(list) }

// State declares the shard's state without its strings.
func (s *Shard) State(schema *snapshot.Schema) {
	s.base.State(schema)
	store.DeclareField(schema, "pending.head", s.pending.nodes, func(x *served) *uint8 { return &x.head })
	schema.Check(func() error {
		for i := range int32(s.pending.nodes.Len()) {
			if by := s.pending.nodes.At(i).Value.head; int(by) >= len(s.heads.heads()) {
				return snapshot.Damaged("a node was served by head %d", by)
			}
		}
		return nil
	})
	snapshot.Bytes(schema, "heads.serve", (*headsToServe)(s))
	s.heard.state(schema, s.next)
	for _, o := range s.observers {
		o.State(schema)
	}
}

// headsToServe is the heads of a shard, as bytes.
type headsToServe Shard

// AppendState implements [snapshot.Stateful].
func (h *headsToServe) AppendState(b []byte) []byte { return h.heads.appendHeads(b, false) }

// SetState implements [snapshot.Stateful].
func (h *headsToServe) SetState(b []byte) error { return h.heads.setHeads(b) }

// rest panics if a window has entered and is not served: what its Serve needs is not in a snapshot.
func (s *Shard) rest() {
	if len(s.ahead) > 0 {
		panic("pipeline: a snapshot before all windows that have entered are served")
	}
}

// State declares the lead's state without its strings.
func (l *Lead) State(s *snapshot.Schema) {
	declareHeads(s, l.heads, &l.posterior)
	l.scorer.State(s)
	declareObservers(s, l.observers, l.cfg, l.model)
}

func (l *Lead) rest() {}

func (l *Lead) open() **Snapshot { return &l.snapshot }

func (l *Lead) appendBlocks(list []int64) []int64 { return list }

// declareHeads declares the whole state of heads, which have the given hash.
func declareHeads(s *snapshot.Schema, l learner, hash *event.Hash) {
	for _, h := range l.heads() {
		snapshot.Bytes(s, "heads."+h.Name(), h)
	}
	s.Check(func() error {
		if !l.matches(*hash) {
			return snapshot.Damaged("the heads have another hash than %x", *hash)
		}
		return nil
	})
}

// declareObservers declares the state of observers.
func declareObservers(s *snapshot.Schema, list []observer, cfg Config, m *model.Model) {
	for _, o := range list {
		o.State(s)
	}
	if cfg.Unwatched && !s.Saving() { // check the snapshot's detectors all the same
		s.Check(func() error {
			unused, err := newDetectors(m, &posterior.Rows{})
			if err == nil {
				unused.State(s)
			}
			return err
		})
	}
}

// engineString is a string of a snapshot that identifies the engine or its progress.
type engineString struct {
	key  string // after metaOwn
	text string // of this engine now
	set  func(text string) error
}

// strings returns the engine's strings.
func (e *Engine) strings() []engineString {
	return stringsOf(e.cfg, e.model.ID, &e.next, &e.chain, &e.lessons.last.posterior)
}

// strings returns the shard's strings.
func (s *Shard) strings() []engineString {
	of := fmt.Sprintf("%d of %d", s.share.slice, s.share.of)
	return append(stringsOf(s.cfg, s.model.ID, &s.next, &s.chain, &s.posterior), fixedString("shard", of, "shard", "give the snapshot of this shard"))
}

// strings returns the lead's strings.
func (l *Lead) strings() []engineString {
	return append(stringsOf(l.cfg, l.model.ID, &l.next, &l.chain, &l.posterior), fixedString("shard", "lead", "shard", "give the snapshot of the lead"))
}

// stringsOf returns the strings of an engine, or a part of one. Setting one that must not
// differ returns an error with the remedy if it does.
func stringsOf(cfg Config, id string, next *int64, chain, heads *event.Hash) []engineString {
	settings := cfg.Settings()
	return []engineString{
		fixedString("format", snapshotFormat, "format", "restore it with the gvbll that wrote it"),
		{"engine", string(settings), func(got string) error { return sameSettings(event.Settings(got), settings) }},
		fixedString(metaModel, id, "model", "give the model it was taken with"),
		{"window", strconv.FormatInt(*next, 10), func(text string) (err error) {
			if *next, err = strconv.ParseInt(text, 10, 64); err != nil || *next < 0 {
				return snapshot.Damaged("window %q", text)
			}
			return nil
		}},
		hashString("chain", chain),
		hashString("posterior", heads),
	}
}

// fixedString is a string that must not differ.
func fixedString(key, text, what, remedy string) engineString {
	return engineString{key, text, func(got string) error {
		if got != text {
			return fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", what, got, text, remedy)
		}
		return nil
	}}
}

func hashString(key string, x *event.Hash) engineString {
	return engineString{key, hex.EncodeToString(x[:]), func(text string) error {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != len(x) {
			return snapshot.Damaged("%s %q", key, text)
		}
		copy(x[:], b)
		return nil
	}}
}
