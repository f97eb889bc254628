package worker_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// tallyState is the state of a tally as it is stored in a checkpoint.
type tallyState struct {
	Chain string
	Seen  []plainID
	Meta  map[string]string
}

// plainID is an id that is read as it is written: the JSON of an [event.ID] is for people.
type plainID event.ID

func (e *tally) Snapshot(meta map[string]string) replay.Snapshot {
	s := tallyState{Chain: hex.EncodeToString(e.chain[:]), Meta: meta}
	for id := range e.seen {
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

func (tallySnapshot) Close() error      { return nil }
func (tallySnapshot) Keep(string) error { return nil }

// readTally restores a tally from a checkpoint.
func readTally(r io.ReaderAt, size int64, _ string) (replay.Keeper, map[string]string, error) {
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
	e := &tally{chain: event.Hash(chain), seen: make(map[event.ID]bool)}
	for _, id := range s.Seen {
		e.seen[event.ID(id)] = true
	}
	return e, s.Meta, nil
}

// TestCheckpoint: a worker starts at the newest checkpoint and replays only the windows
// after it. It skips a checkpoint that is damaged or whose hash is not in the ledger, and
// starts at the one before.
func TestCheckpoint(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		dir := t.TempDir()
		var from replay.Recovered
		var ahead replay.Replaying
		saved := 0
		cfg := worker.Config{
			Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Nanosecond, Keep: 2, Restore: readTally},
			Events: replay.Join(
				replay.On(func(r replay.Replaying) { ahead = r }),
				replay.On(func(r replay.Recovered) { from = r }),
				replay.On(func(s replay.Saved) {
					if s.Err == nil {
						saved++
					}
				}),
			),
		}
		run := func(cfg worker.Config) {
			t.Helper()
			if err := f.run(&tally{}, cfg); err != nil {
				t.Fatal(err)
			}
		}
		newest := func() checkpoint.Entry {
			t.Helper()
			list, err := checkpoint.Find(dir, f.names.Ledger)
			if err != nil || len(list) == 0 {
				t.Fatal("no checkpoint", err)
			}
			return list[0]
		}
		f.send(0, 100)
		run(cfg)
		first := newest()
		if saved < 2 {
			t.Errorf("%d checkpoints were written while serving %d windows, want at least 2", saved, first.Window)
		}
		f.send(100, 150)
		run(cfg)
		if from.Checkpoint != first.Window || from.Windows != first.Window {
			t.Errorf("recovered %+v, want all windows from the checkpoint before window %d", from, first.Window)
		}
		if ahead != (replay.Replaying{Windows: first.Window, Checkpoint: first.Window}) {
			t.Errorf("before the replay, %+v was reported, want all %d windows from the checkpoint", ahead, first.Window)
		}
		second := newest()

		// A replay from the ledger's beginning must agree with what the worker that
		// started at a checkpoint wrote.
		run(worker.Config{})

		// The newest checkpoint is damaged: truncated, emptied, and given another chain.
		intact, err := os.ReadFile(second.Path)
		if err != nil {
			t.Fatal(err)
		}
		before := int64(0)
		if list, err := checkpoint.Find(dir, f.names.Ledger); err == nil && len(list) > 1 {
			before = list[1].Window
		}
		for _, damage := range []func([]byte) []byte{
			func(b []byte) []byte { return b[:len(b)/2] },
			func(b []byte) []byte { return nil },
			func(b []byte) []byte { return bytes.Replace(b, []byte(`\"chain\":\"`), []byte(`\"chain\":\"0`), 1) },
		} {
			if err := os.WriteFile(second.Path, damage(bytes.Clone(intact)), 0o600); err != nil {
				t.Fatal(err)
			}
			idle := cfg
			idle.Checkpoints.Every = time.Hour
			run(idle)
			if from.Checkpoint != before || from.Windows != second.Window {
				t.Errorf("recovered %+v, want %d windows and the checkpoint before window %d", from, second.Window, before)
			}
			// A worker that ends without an error writes a checkpoint.
			if again := newest(); again.Window != second.Window {
				t.Errorf("the newest checkpoint is before window %d, want %d", again.Window, second.Window)
			}
		}
		f.checkOutputs(150, 2)
	})
}

// TestCheckpointDuringReplay: a worker is stopped while it replays a window of which it has
// claimed the nodes and waits for the labels. The inputs are then ahead of the engine, and
// a checkpoint of that would lose the nodes, so none is written: the next worker still
// agrees with the ledger.
func TestCheckpointDuringReplay(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		f.send(0, 50)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		kept := replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		fetches := 0
		fault := cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch}, Topic: f.names.Labels, Err: kerr.NotLeaderForPartition, Count: -1,
			When: func(kmsg.Request) bool {
				if fetches++; fetches == 20 {
					cancel()
				}
				return true
			},
		})
		if err := worker.Run(ctx, f.client, &tally{}, f.config(worker.Config{
			Session: session, Policy: intake.CountOrLinger{Count: 7}, Checkpoints: kept,
		})); err != nil {
			t.Fatal(err)
		}
		fault.Remove()
		if err := f.run(&tally{}, worker.Config{Checkpoints: kept}); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(50, 1)
	})
}

// TestCheckpointOfUncommittedWindows: another worker takes over while this one's engine is
// ahead of the ledger. A checkpoint that it has begun is not kept, because its windows were
// never committed.
func TestCheckpointOfUncommittedWindows(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		dir := t.TempDir()
		f.send(0, 50)
		answerEndTxn(cluster, func() int16 { return producerFenced })
		refused := false
		err := f.run(&tally{}, worker.Config{
			Checkpoints: replay.Checkpoints{Dir: dir, Every: -1, Restore: readTally},
			Events:      replay.On(func(s replay.Saved) { refused = refused || s.Err != nil }),
		})
		if !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if list, err := checkpoint.Find(dir, f.names.Ledger); err != nil || len(list) > 0 {
			t.Errorf("there are checkpoints %v (error %v), want none", list, err)
		}
		if !refused {
			t.Error("no checkpoint was begun, so the test has tried nothing")
		}
	})
}

// TestCheckpointOfAnotherInput: while no worker ran, an input topic was deleted and created anew,
// with more records than the checkpoint has consumed. The worker ends with one line that names
// the topic and the remedy, instead of skipping the records.
func TestCheckpointOfAnotherInput(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}}
		f.send(0, 100)
		if err := f.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		f.deleteTopic(f.names.Nodes)
		if _, err := topics.Create(t.Context(), f.client, f.names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		f.send(1000, 1150)
		err := f.run(&tally{}, kept)
		if err == nil || !strings.Contains(err.Error(), f.names.Nodes) || !strings.Contains(err.Error(), "created anew") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the worker ended with error %v, want one line with the topic and that it was created anew", err)
		}
		if n := f.count(f.names.Predictions); n != 100 {
			t.Errorf("%d predictions, want the 100 of before", n)
		}
	})
}

// TestCheckpointFolderShared: workers of two graphs are given the same folder. Each finds its
// own checkpoints, and none prunes the other's. A second worker of one graph does not
// start there.
func TestCheckpointFolderShared(t *testing.T) {
	onFake(t, func(t *testing.T, long *fixture) {
		short := newFixture(t, long.on)
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Nanosecond, Keep: 1, Restore: readTally}}
		short.send(0, 10)
		if err := short.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		long.send(0, 100)
		if err := long.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		from := replay.Recovered{}
		kept.Events = replay.On(func(r replay.Recovered) { from = r })
		if err := short.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		if from.Checkpoint == 0 || from.Checkpoint != from.Windows {
			t.Errorf("recovered %+v, want all windows from the checkpoint", from)
		}
		first := long.startWorker(&tally{}, worker.Config{Checkpoints: kept.Checkpoints})
		<-first.recovered
		long.refused("another worker writes its checkpoints there", &tally{}, worker.Config{Checkpoints: kept.Checkpoints})
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
