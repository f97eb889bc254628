package replay_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

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
			Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Nanosecond, Keep: 2, Restore: workertest.ReadTally},
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
			if err := f.Run(&tally{}, cfg); err != nil {
				t.Fatal(err)
			}
		}
		newest := func() checkpoint.Entry {
			t.Helper()
			list, err := checkpoint.Find(dir, f.Names.Ledger)
			if err != nil || len(list) == 0 {
				t.Fatal("no checkpoint", err)
			}
			return list[0]
		}
		f.Send(0, 100)
		run(cfg)
		first := newest()
		if saved < 2 {
			t.Errorf("%d checkpoints were written while serving %d windows, want at least 2", saved, first.Window)
		}
		f.Send(100, 150)
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
		if list, err := checkpoint.Find(dir, f.Names.Ledger); err == nil && len(list) > 1 {
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
		f.CheckOutputs(150, 2)
	})
}

// TestCheckpointOfAnotherInput: while no worker ran, an input topic was deleted and created anew,
// with more records than the checkpoint has consumed. The worker ends with one line that names
// the topic and the remedy, instead of skipping the records.
func TestCheckpointOfAnotherInput(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 100)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		f.DeleteTopic(f.Names.Nodes)
		if _, err := topics.Create(t.Context(), f.Client, f.Names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		f.Send(1000, 1150)
		err := f.Run(&tally{}, kept)
		if err == nil || !strings.Contains(err.Error(), f.Names.Nodes) || !strings.Contains(err.Error(), "created anew") || strings.Contains(err.Error(), "\n") {
			t.Errorf("the worker ended with error %v, want one line with the topic and that it was created anew", err)
		}
		if n := f.Count(f.Names.Predictions); n != 100 {
			t.Errorf("%d predictions, want the 100 of before", n)
		}
	})
}
