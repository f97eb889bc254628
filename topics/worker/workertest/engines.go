package workertest

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// Tally is an engine without a model. Its chain, and the confidence of each prediction,
// are hashes of everything stepped so far. So a replay that loses a window, repeats one
// or cuts one differently publishes other bytes and another chain.
type Tally struct {
	Salt  string // engines with different salts give different hashes
	Chain event.Hash
	Seen  map[event.ID]bool
}

func (e *Tally) Err() error { return nil }

func (e *Tally) Step(w *event.Window) *event.Outcome {
	if e.Seen == nil {
		e.Seen = make(map[event.ID]bool)
	}
	out := &event.Outcome{Window: w.Number, Refused: w.Refused, Heads: []event.Head{{Name: "tally"}}}
	b := append(e.Chain[:], e.Salt...)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.Number))
	for _, n := range w.Nodes {
		b = append(b, n.ID.String()...)
		if e.Seen[n.ID] {
			continue
		}
		e.Seen[n.ID] = true
		h := sha256.Sum256(b)
		c := float32(h[0]) / 255
		out.Predictions = append(out.Predictions, event.Prediction{
			Node: n.ID, Class: "a", Confidence: c,
			Probabilities: []float32{c, 1 - c}, Window: w.Number,
		})
	}
	for _, l := range w.Labels {
		b = append(b, l.Node.String()+l.Class...)
		out.Labelled = append(out.Labelled, event.Labelled{Node: l.Node})
	}
	e.Chain = sha256.Sum256(b)
	out.Chain = e.Chain
	return out
}

// tallyState is the state of a tally as it is stored in a checkpoint.
type tallyState struct {
	Chain string
	Seen  []plainID
	Meta  map[string]string
}

// plainID is an id that is read as it is written: the JSON of an [event.ID] is for people.
type plainID event.ID

// Snapshot implements [replay.Keeper].
func (e *Tally) Snapshot(meta map[string]string) replay.Snapshot {
	s := tallyState{Chain: hex.EncodeToString(e.Chain[:]), Meta: meta}
	for id := range e.Seen {
		s.Seen = append(s.Seen, plainID(id))
	}
	slices.SortFunc(s.Seen, func(a, b plainID) int { return cmp.Compare(a.Num, b.Num) })
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return tallySnapshot{bytes.NewReader(b)}
}

// tallySnapshot is a snapshot of a tally, which refers to no files.
type tallySnapshot struct{ io.Reader }

func (tallySnapshot) Close() error { return nil }

func (tallySnapshot) Keep(string) error { return nil }

// ReadTally restores a tally from a checkpoint.
func ReadTally(r io.ReaderAt, size int64, _ string) (replay.Keeper, map[string]string, error) {
	b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, nil, err
	}
	var s tallyState
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, nil, err
	}
	chain, err := hex.DecodeString(s.Chain)
	if err != nil || len(chain) != len(event.Hash{}) {
		return nil, nil, errors.New("no chain")
	}
	e := &Tally{Chain: event.Hash(chain), Seen: make(map[event.ID]bool)}
	for _, id := range s.Seen {
		e.Seen[event.ID(id)] = true
	}
	return e, s.Meta, nil
}

// ReadTallyOf restores a tally with a salt.
func ReadTallyOf(salt string) func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
	return func(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
		e, meta, err := ReadTally(r, size, folder)
		if err == nil {
			e.(*Tally).Salt = salt
		}
		return e, meta, err
	}
}

// Recorder is a tally that keeps copies of the windows it was stepped through. The distance
// of two recorders is the difference of their numbers of nodes.
type Recorder struct {
	Tally
	Windows []*event.Window
}

func (e *Recorder) Step(w *event.Window) *event.Outcome {
	c := &event.Window{Number: w.Number}
	for _, n := range w.Nodes {
		n.Neighbours = slices.Clone(n.Neighbours)
		n.ID = n.ID.Clone()
		c.Nodes = append(c.Nodes, n)
	}
	for _, l := range w.Labels {
		c.Labels = append(c.Labels, event.Label{Node: l.Node.Clone(), Class: strings.Clone(l.Class)})
	}
	e.Windows = append(e.Windows, c)
	return e.Tally.Step(w)
}

// Apart implements [replay.Comparer].
func (e *Recorder) Apart(exact replay.Engine) (d ledger.Distance) {
	d.Mean = float64(len(e.Seen) - len(exact.(*Recorder).Seen))
	d.Variance = 3
	return d
}

// FreshRecorder and FreshTally make engines at window 0.
func FreshRecorder() (replay.Engine, error) { return &Recorder{}, nil }

func FreshTally() (replay.Engine, error) { return &Tally{}, nil }
