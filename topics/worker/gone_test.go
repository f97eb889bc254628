package worker_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// createTopic creates a topic alone, as somebody who restores topics without their
// records may.
func (f *fixture) createTopic(name string, partitions int) {
	f.t.Helper()
	admin := f.admin()
	res, err := admin.CreateTopics(f.t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err == nil {
		err = res.Errors[name]
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// checkGone checks that an error is one line that says what was found of an earlier ledger.
func checkGone(t *testing.T, doing string, err error, found ...string) {
	t.Helper()
	var gone *topics.GoneError
	if !errors.As(err, &gone) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "--begin-again") {
		t.Errorf("%s: error %v, want a GoneError of one line with the remedy", doing, err)
		return
	}
	for _, what := range found {
		if !strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v, want one that names %q", doing, err, what)
		}
	}
}

// TestLedgerGone: the ledger was deleted, or created anew without its records. No worker begins
// another one beside the predictions of the first, and the topic is not created. With BeginAgain
// it is meant, and every node is predicted once more.
func TestLedgerGone(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 50)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.deleteTopic(f.names.Ledger)
		_, err := topics.Create(t.Context(), f.client, f.names, topics.Layout{Partitions: 3, Replication: 1})
		checkGone(t, "creating topics", err, "predictions in "+f.names.Predictions)
		if missing, err := topics.Missing(t.Context(), f.client, f.names); err != nil || len(missing) != 1 {
			t.Errorf("the topics %v are missing, error %v, want the ledger and none", missing, err)
		}
		checkGone(t, "a worker without a ledger", f.run(&tally{}, worker.Config{}), "predictions in "+f.names.Predictions)
		f.createTopic(f.names.Ledger, 1)
		checkGone(t, "a worker with an empty ledger", f.run(&tally{}, worker.Config{}), "predictions in "+f.names.Predictions)
		if err := f.run(&tally{}, worker.Config{BeginAgain: true}); err != nil {
			t.Fatal(err)
		}
		f.fence()
		if n := f.count(f.names.Predictions); n != 100 {
			t.Errorf("%d predictions after the graph has begun again, want 100", n)
		}
		f.send(50, 60)
		if err := f.run(&tally{}, worker.Config{BeginAgain: true}); err != nil {
			t.Errorf("BeginAgain with a ledger: %v, want no error", err)
		}
		if n := f.count(f.names.Predictions); n != 110 {
			t.Errorf("%d predictions, want 110", n)
		}
	})
}

// TestLedgerGoneBesideOffsets: of the graph there are only the offsets that the group has
// committed, or only a checkpoint.
func TestLedgerGoneBesideOffsets(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		dir := t.TempDir()
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		f.send(0, 50)
		if err := f.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		f.deleteTopic(f.names.Ledger)
		f.deleteTopic(f.names.Predictions)
		_, err := topics.Create(t.Context(), f.client, f.names, topics.Layout{Partitions: 3, Replication: 1})
		checkGone(t, "beside group offsets", err, "group "+f.names.Ledger, f.names.Nodes)

		admin := f.admin()
		res, err := admin.DeleteGroups(t.Context(), &kafkago.DeleteGroupsRequest{GroupIDs: []string{f.names.Ledger}})
		if err == nil {
			err = res.Errors[f.names.Ledger]
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.Create(t.Context(), f.client, f.names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
			t.Errorf("without any trace: %v, want no error", err)
		}
		var restored closedEngines
		kept.Checkpoints.Restore = restored.read
		checkGone(t, "beside a checkpoint", f.run(&tally{}, kept), "a checkpoint of its first", dir)
		if restored.open != 0 || restored.all == 0 {
			t.Errorf("%d of %d engines that were read from checkpoints are open, want none", restored.open, restored.all)
		}
	})
}

// closedEngines restores tallies that count which of them are closed.
type closedEngines struct{ all, open int }

func (c *closedEngines) read(r io.ReaderAt, size int64, folder string) (replay.Keeper, map[string]string, error) {
	e, meta, err := readTally(r, size, folder)
	if err != nil {
		return nil, nil, err
	}
	c.all, c.open = c.all+1, c.open+1
	return &closable{e.(*tally), c}, meta, nil
}

// closable is a tally with something outside of memory.
type closable struct {
	*tally
	count *closedEngines
}

func (e *closable) Close() error {
	e.count.open--
	return nil
}

// TestFirstTransactionIsSeenInPart: a standby starts while the owner's first transaction is
// being committed, and sees its predictions before its ledger record. It waits for that.
func TestFirstTransactionIsSeenInPart(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.send(0, 20)
		first := f.startWorker(&tally{}, worker.Config{})
		for range 5 {
			if err := topics.CheckLedger(t.Context(), f.client, f.names); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
