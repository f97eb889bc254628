package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestCheckpointOfUncommittedWindows: another worker takes over while this one's engine is
// ahead of the ledger. A checkpoint that it has begun is not kept, because its windows were
// never committed.
func TestCheckpointOfUncommittedWindows(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		dir := t.TempDir()
		f.Send(0, 50)
		workertest.AnswerEndTxn(cluster, func() int16 { return kerr.ProducerFenced.Code })
		refused := false
		err := f.Run(&tally{}, worker.Config{
			Checkpoints: replay.Checkpoints{Dir: dir, Every: -1, Restore: workertest.ReadTally},
			Events:      replay.On(func(s replay.Saved) { refused = refused || s.Err != nil }),
		})
		if !errors.Is(err, publish.ErrOwned) {
			t.Fatalf("the worker ended with error %v, want %v", err, publish.ErrOwned)
		}
		if list, err := checkpoint.Find(dir, f.Names.Ledger); err != nil || len(list) > 0 {
			t.Errorf("there are checkpoints %v (error %v), want none", list, err)
		}
		if !refused {
			t.Error("no checkpoint was begun, so the test has tried nothing")
		}
	})
}

// TestCheckpointFolderShared: workers of two graphs are given the same folder. Each finds its
// own checkpoints, and none prunes the other's. A second worker of one graph does not
// start there.
func TestCheckpointFolderShared(t *testing.T) {
	onFake(t, func(t *testing.T, long *fixture) {
		short := newFixture(t, long.On)
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Nanosecond, Keep: 1, Restore: workertest.ReadTally}}
		short.Send(0, 10)
		if err := short.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		long.Send(0, 100)
		if err := long.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		from := replay.Recovered{}
		kept.Events = replay.On(func(r replay.Recovered) { from = r })
		if err := short.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		if from.Checkpoint == 0 || from.Checkpoint != from.Windows {
			t.Errorf("recovered %+v, want all windows from the checkpoint", from)
		}
		first := long.StartWorker(&tally{}, worker.Config{Checkpoints: kept.Checkpoints})
		<-first.Recovered
		long.Refused("another worker writes its checkpoints there", &tally{}, worker.Config{Checkpoints: kept.Checkpoints})
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}
