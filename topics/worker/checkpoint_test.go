package worker_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/worker"
)

// written is the state of a tally.
type written struct {
	Chain string
	Seen  []event.ID
	Meta  map[string]string
}

func (e *tally) Snapshot(meta map[string]string) io.ReadCloser {
	w := written{Chain: hex.EncodeToString(e.chain[:]), Meta: meta}
	for id := range e.seen {
		w.Seen = append(w.Seen, id)
	}
	b, err := json.Marshal(w)
	if err != nil {
		panic(err)
	}
	return io.NopCloser(bytes.NewReader(b))
}

// readTally reads a tally back. Every restored one counts in restored.
func readTally(r io.ReaderAt, size int64) (worker.Keeper, map[string]string, error) {
	b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	if err != nil {
		return nil, nil, err
	}
	var w written
	if err := json.Unmarshal(b, &w); err != nil {
		return nil, nil, err
	}
	chain, err := hex.DecodeString(w.Chain)
	if err != nil || len(chain) != len(event.Hash{}) {
		return nil, nil, errors.New("no chain")
	}
	e := &tally{chain: event.Hash(chain), seen: make(map[event.ID]bool)}
	for _, id := range w.Seen {
		e.seen[id] = true
	}
	return e, w.Meta, nil
}

// TestCheckpoint: a start goes on from the newest checkpoint that is whole, and
// steps only what came after it.
func TestCheckpoint(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		dir := t.TempDir()
		var from worker.Recovered
		saved := 0
		cfg := worker.Config{
			Checkpoints: worker.Checkpoints{Dir: dir, Every: time.Nanosecond, Keep: 2, Restore: readTally},
			Hooks: worker.Hooks{
				Recovered: func(r worker.Recovered) { from = r },
				Saved: func(s worker.Saved) {
					if s.Err == nil {
						saved++
					}
				},
			},
		}
		run := func(cfg worker.Config) {
			t.Helper()
			if err := w.run(&tally{}, cfg); err != nil {
				t.Fatal(err)
			}
		}
		newest := func() checkpoint.Entry {
			t.Helper()
			list, err := checkpoint.List(dir)
			if err != nil || len(list) == 0 {
				t.Fatal("no checkpoint", err)
			}
			return list[0]
		}
		w.send(0, 100)
		run(cfg)
		first := newest()
		if saved < 2 {
			t.Errorf("%d checkpoints were written beside %d windows", saved, first.Window)
		}
		w.send(100, 150)
		run(cfg)
		if from.Checkpoint != first.Window || from.Windows != first.Window {
			t.Errorf("recovered %+v, want all of it from the checkpoint before window %d", from, first.Window)
		}
		second := newest()

		// Without the checkpoints' help: the same ledger.
		run(worker.Config{})

		// One that is torn is passed over, and so is one of a window that the
		// ledger has otherwise.
		whole, err := os.ReadFile(second.Path)
		if err != nil {
			t.Fatal(err)
		}
		before := int64(0)
		if list, err := checkpoint.List(dir); err == nil && len(list) > 1 {
			before = list[1].Window
		}
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { return nil },
			func(b []byte) []byte { return bytes.Replace(b, []byte(`\"chain\":\"`), []byte(`\"chain\":\"0`), 1) },
		} {
			if err := os.WriteFile(second.Path, damage(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			idle := cfg
			idle.Checkpoints.Every = time.Hour
			run(idle)
			if from.Checkpoint != before || from.Windows != second.Window {
				t.Errorf("recovered %+v, want window %d from a checkpoint before window %d", from, second.Window, before)
			}
			// The end wrote it anew.
			if again := newest(); again.Window != second.Window {
				t.Errorf("the newest is of window %d, want %d", again.Window, second.Window)
			}
		}
		w.check(150, 2)
	})
}

// TestCheckpointInTheMiddleOfAReplay: a worker is told to end when it has a
// window's nodes and waits for its labels. No checkpoint may take the nodes for
// taken.
func TestCheckpointInTheMiddleOfAReplay(t *testing.T) {
	cluster := fake(t)
	w := newFixture(t, cluster.ListenAddrs()[0])
	w.send(0, 50)
	if err := w.run(&tally{}, worker.Config{}); err != nil {
		t.Fatal(err)
	}
	kept := worker.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	fault := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: w.names.Labels, Err: kerr.NotLeaderForPartition, Count: -1,
		When: func(kmsg.Request) bool {
			if asked++; asked == 20 {
				cancel()
			}
			return true
		},
	})
	if err := worker.Run(ctx, w.client, &tally{}, worker.Config{
		Names: w.names, Model: "tally", Settings: settings, Session: session, Policy: intake.CountOrLinger{Count: 7}, Checkpoints: kept,
	}); err != nil {
		t.Fatal(err)
	}
	fault.Remove()
	if err := w.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
		t.Fatal(err)
	}
	w.check(50, 1)
}

// TestCheckpointOfWhatWasNotCommitted: the state is ahead of the ledger when the
// worker loses the graph; no checkpoint of it is kept.
func TestCheckpointOfWhatWasNotCommitted(t *testing.T) {
	cluster := fake(t)
	w := newFixture(t, cluster.ListenAddrs()[0])
	dir := t.TempDir()
	w.send(0, 50)
	ends(cluster, func() int16 { return fencedOff })
	refused := false
	err := w.run(&tally{}, worker.Config{
		Checkpoints: worker.Checkpoints{Dir: dir, Every: time.Nanosecond, Restore: readTally},
		Hooks:       worker.Hooks{Saved: func(s worker.Saved) { refused = refused || s.Err != nil }},
	})
	if !errors.Is(err, worker.ErrOwned) {
		t.Fatalf("the worker ended with %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v was kept (%v)", files, err)
	}
	if !refused {
		t.Error("no checkpoint was begun")
	}
}
