package topics_test

import (
	"io"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// TestLedgerGone: the ledger was deleted, or created anew without its records. No worker begins
// another one beside the predictions of the first, and the topic is not created. With BeginAgain
// it is meant, and every node is predicted once more.
func TestLedgerGone(t *testing.T) {
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) {
		f.Send(0, 50)
		if err := f.Run(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.DeleteTopic(f.Names.Ledger)
		_, err := topics.Create(t.Context(), f.Client, f.Names, topics.Layout{Partitions: 3, Replication: 1})
		workertest.CheckGone(t, "creating topics", err, "predictions in "+f.Names.Predictions)
		if missing, err := topics.Missing(t.Context(), f.Client, f.Names); err != nil || len(missing) != 1 {
			t.Errorf("the topics %v are missing, error %v, want the ledger and none", missing, err)
		}
		workertest.CheckGone(t, "a worker without a ledger", f.Run(&workertest.Tally{}, worker.Config{}), "predictions in "+f.Names.Predictions)
		f.CreateTopic(f.Names.Ledger, 1)
		workertest.CheckGone(t, "a worker with an empty ledger", f.Run(&workertest.Tally{}, worker.Config{}), "predictions in "+f.Names.Predictions)
		if err := f.Run(&workertest.Tally{}, worker.Config{BeginAgain: true}); err != nil {
			t.Fatal(err)
		}
		f.Fence()
		if n := f.Count(f.Names.Predictions); n != 100 {
			t.Errorf("%d predictions after the graph has begun again, want 100", n)
		}
		f.Send(50, 60)
		if err := f.Run(&workertest.Tally{}, worker.Config{BeginAgain: true}); err != nil {
			t.Errorf("BeginAgain with a ledger: %v, want no error", err)
		}
		if n := f.Count(f.Names.Predictions); n != 110 {
			t.Errorf("%d predictions, want 110", n)
		}
	})
}

// TestLedgerGoneBesideOffsets: of the graph there are only the offsets that the group has
// committed, or only a checkpoint.
func TestLedgerGoneBesideOffsets(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 50)
		if err := f.Run(&workertest.Tally{}, kept); err != nil {
			t.Fatal(err)
		}
		f.DeleteTopic(f.Names.Ledger)
		f.DeleteTopic(f.Names.Predictions)
		_, err := topics.Create(t.Context(), f.Client, f.Names, topics.Layout{Partitions: 3, Replication: 1})
		workertest.CheckGone(t, "beside group offsets", err, "group "+f.Names.Ledger, f.Names.Nodes)

		admin := f.Admin()
		res, err := admin.DeleteGroups(t.Context(), &kafkago.DeleteGroupsRequest{GroupIDs: []string{f.Names.Ledger}})
		if err == nil {
			err = res.Errors[f.Names.Ledger]
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.Create(t.Context(), f.Client, f.Names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
			t.Errorf("without any trace: %v, want no error", err)
		}
		var restored closedEngines
		kept.Checkpoints.Restore = restored.read
		workertest.CheckGone(t, "beside a checkpoint", f.Run(&workertest.Tally{}, kept), "a checkpoint of its first", dir)
		if restored.open != 0 || restored.all == 0 {
			t.Errorf("%d of %d engines that were read from checkpoints are open, want none", restored.open, restored.all)
		}
	})
}

// closedEngines restores tallies that count which of them are closed.
type closedEngines struct{ all, open int }

func (c *closedEngines) read(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
	e, meta, err := workertest.ReadTally(r, size, folder)
	if err != nil {
		return nil, nil, err
	}
	c.all, c.open = c.all+1, c.open+1
	return &closable{e.(*workertest.Tally), c}, meta, nil
}

// closable is a tally with something outside of memory.
type closable struct {
	*workertest.Tally
	count *closedEngines
}

func (e *closable) Close() error {
	e.count.open--
	return nil
}

// TestFirstTransactionIsSeenInPart: a standby starts while the owner's first transaction is
// being committed, and sees its predictions before its ledger record. It waits for that.
func TestFirstTransactionIsSeenInPart(t *testing.T) {
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) {
		f.Send(0, 20)
		first := f.StartWorker(&workertest.Tally{}, worker.Config{})
		for range 5 {
			if err := topics.CheckLedger(t.Context(), f.Client, f.Names); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
	})
}
