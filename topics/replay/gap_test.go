package replay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// left returns the number of input records that are there and that no window has taken.
func left(f *fixture) (n int) {
	f.T.Helper()
	taken := f.Consumed()
	for _, topic := range []string{f.Names.Nodes, f.Names.Labels} {
		for _, r := range f.Read(topic) {
			if r.Offset >= taken[kafka.TopicPartition{Topic: topic, Partition: r.Partition}] {
				n++
			}
		}
	}
	return n
}

// TestAcceptGap is the story of a gap. Records were taken that windows behind the newest
// checkpoint have, and others that no window has yet. The worker stops at the gap, and says
// so. An operator accepts it, and the graph goes on: with what is left, each node is predicted
// once. Later replays begin behind the gap, or say that they must.
func TestAcceptGap(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		dir := t.TempDir()
		keptIn := func(dir string) worker.Config {
			return worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: workertest.ReadTally}}
		}
		kept := keptIn(dir)

		f.Send(0, 60)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		inCheckpoint := f.Consumed()
		before := f.NewestCheckpoint(dir)
		f.Send(60, 120)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		served := len(f.Records())
		atEnd := f.Consumed()
		f.Send(120, 180)

		// Nothing is gone that is needed: nothing happens.
		done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(keptIn(f.Copied(dir))), "")
		if err != nil || done.Began {
			t.Fatalf("accepted a gap where there is none as %+v with error %v", done, err)
		}

		nodes0 := kafka.TopicPartition{Topic: f.Names.Nodes}
		labels2 := kafka.TopicPartition{Topic: f.Names.Labels, Partition: 2}
		first := map[kafka.TopicPartition]int64{
			nodes0:  atEnd[nodes0] + 4,          // and so four that no window has
			labels2: inCheckpoint[labels2] + 10, // within a window
		}
		gone := 0
		for _, r := range f.Read(f.Names.Nodes) {
			if r.Partition == 0 && r.Offset >= atEnd[nodes0] && r.Offset < first[nodes0] {
				gone++
			}
		}
		for at, offset := range first {
			if err := cluster.DeleteRecords(at.Topic, at.Partition, offset); err != nil {
				t.Fatal(err)
			}
		}

		// The worker stops, and so does a rebase that is not told to accept the gap.
		workertest.CheckLine(t, "a worker at the gap", f.Run(&tally{}, kept), " partition ", "has offsets", "gvbll rebase --accept-gap")
		_, err = worker.Rebase(t.Context(), f.Client, &tally{}, f.Config(kept), "")
		workertest.CheckLine(t, "a rebase without a word of the gap", err, "gvbll rebase --accept-gap")
		workertest.CheckLine(t, "a worker without a checkpoint", f.Run(&tally{}, worker.Config{}), "which the topic no longer has", "gvbll rebase --accept-gap")
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(worker.Config{}), "")
		workertest.CheckLine(t, "accepting without a folder", err, "--state-dir")
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(keptIn(t.TempDir())), "")
		workertest.CheckLine(t, "accepting without a checkpoint", err, "copy one of another worker", "gvbll work --begin-again")
		other := kept
		other.Terms.Settings = otherSettings
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{Salt: "b"}, f.Config(other), "")
		workertest.CheckLine(t, "accepting on other terms", err, "own terms")
		if n := len(f.Records()); n != served {
			t.Fatalf("the ledger has %d windows after what was refused, want %d", n, served)
		}

		old := f.Copied(dir)
		done, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "the disk was full")
		if err != nil {
			t.Fatal(err)
		}
		want := []ledger.Range{
			{Topic: nodes0.Topic, Partition: 0, From: inCheckpoint[nodes0], To: first[nodes0]},
			{Topic: labels2.Topic, Partition: 2, From: inCheckpoint[labels2], To: first[labels2]},
		}
		begin := f.Records()[served]
		if !done.Began || done.Epoch != 1 || done.Window != int64(served) || done.Checkpoint != before.Window || len(begin.Begins.Front) != 2 || begin.Begins.Front[0] != want[0] || begin.Begins.Front[1] != want[1] {
			t.Errorf("accepted as %+v, and the ledger says %+v, want epoch 1 at window %d behind %v", done, begin.Begins, served, want)
		}
		if begin.Begins.Why != "the disk was full" || begin.Begins.Checkpoint != before.Window || len(begin.Ranges) != 0 || begin.Settings != f.Records()[0].Settings {
			t.Errorf("the epoch begins with %+v, want the operator's words, the checkpoint before window %d and the same settings", begin, before.Window)
		}
		if n := f.Count(f.Names.Predictions); n != 120 {
			t.Errorf("%d predictions after the gap was accepted, want the 120 of before", n)
		}

		// The graph goes on from the epoch's checkpoint. A standby with a copy of it takes over.
		behind := f.NewestCheckpoint(dir)
		if behind.Window != int64(served)+1 {
			t.Errorf("the newest checkpoint is before window %d, want %d", behind.Window, served+1)
		}
		events := left(f)
		standbyDir := f.Copied(dir)
		owner := f.StartWorker(&tally{}, kept)
		<-owner.Took
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(keptIn(old)), "")
		workertest.CheckLine(t, "accepting while a worker is up", err, "workers of ledger", "end them first")
		standby := f.StartWorker(&tally{}, keptIn(standbyDir))
		<-standby.Recovered
		owner.AwaitEvents(t, events)
		if err := owner.Stop(); err != nil {
			t.Fatal(err)
		}
		<-standby.Took
		standby.AwaitEvents(t, events+f.Send(180, 200))
		if err := standby.Stop(); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(200-gone, 4)
		if gone == 0 {
			t.Error("no node was gone that no window had")
		}
		if n := left(f); n != 0 {
			t.Errorf("%d records are left", n)
		}

		// A restart goes on from the newest checkpoint, and without one behind the gap it says so.
		again := f.StartWorker(&tally{}, kept)
		<-again.Took
		again.AwaitEvents(t, f.Events(int64(len(f.Records())))-f.Events(f.NewestCheckpoint(dir).Window)+f.Send(200, 210))
		if err := again.Stop(); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(210-gone, 5)
		for what, cfg := range map[string]worker.Config{"a start without a checkpoint": {}, "a start from an older checkpoint": keptIn(old)} {
			workertest.CheckLine(t, what, f.Run(&tally{}, cfg), "epoch 1 begins at window", "behind a gap", want[0].String(), "or a later one")
		}
		if done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), ""); err != nil || done.Began {
			t.Errorf("accepted again as %+v with error %v, want nothing to do", done, err)
		}

		checkGapAudit(f, behind.Path, f.NewestCheckpoint(old).Path, served)

		// With the older checkpoint alone, the same gap can be accepted once more.
		done, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(keptIn(old)), "")
		if err != nil || !done.Began || done.Epoch != 2 || done.Checkpoint != before.Window {
			t.Fatalf("accepted from the older checkpoint as %+v with error %v, want epoch 2", done, err)
		}
		last := f.StartWorker(&tally{}, keptIn(old))
		<-last.Took
		last.AwaitEvents(t, f.Send(210, 220))
		if err := last.Stop(); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(220-gone, 6)
	})
}

// checkGapAudit checks what an audit says of a ledger with one gap, whose epoch begins at window
// served: with the checkpoint behind it, without one, and with one before it.
func checkGapAudit(f *fixture, behind, before string, served int) {
	t := f.T
	t.Helper()
	windows, predictions := int64(0), int64(0)
	for _, r := range f.Records() {
		if windows++; r.Window > int64(served) {
			predictions += int64(r.Predictions)
		}
	}
	restore := f.Config(worker.Config{Checkpoints: replay.Checkpoints{Restore: workertest.ReadTally}})
	_, err := f.Audit(&tally{}, restore)
	workertest.CheckLine(t, "an audit without a checkpoint", err, "behind a gap", fmt.Sprintf("with one before window %d or a later one", served+1))
	proved, err := audit.Run(t.Context(), f.Client, nil, restore.Replay(), audit.From{Checkpoint: behind}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := proved.Epochs; proved.First != int64(served)+1 || proved.Windows != windows || len(e) != 1 || e[0].Number != 1 || e[0].Proved != windows-int64(served)-1 || predictions == 0 || e[0].Predictions != predictions {
		t.Errorf("audited from the checkpoint behind the gap: %+v, want the windows from %d on", proved, served+1)
	}
	_, err = audit.Run(t.Context(), f.Client, nil, restore.Replay(), audit.From{Checkpoint: before}, nil)
	workertest.CheckLine(t, "an audit from before the gap", err, "behind a gap", "needs a checkpoint of window")
}

// TestLedgerGoneInPart: the ledger's beginning is gone. With a checkpoint the graph goes on
// without any gap, and without one nothing can.
func TestLedgerGoneInPart(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 60)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		if err := cluster.DeleteRecords(f.Names.Ledger, 0, 3); err != nil {
			t.Fatal(err)
		}
		none := kept
		none.Checkpoints.Dir = t.TempDir()
		_, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(none), "")
		workertest.CheckLine(t, "accepting without the ledger's beginning and a checkpoint", err, "give --state-dir")
		done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "")
		if err != nil || done.Began {
			t.Errorf("accepted with a checkpoint as %+v with error %v, want nothing to do", done, err)
		}
		w := f.StartWorker(&tally{}, kept)
		<-w.Took
		w.AwaitEvents(t, f.Send(60, 80))
		if err := w.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(f.Names.Predictions); n != 80 {
			t.Errorf("%d predictions, want 80", n)
		}
	})
}

// TestEmptyLedgerGoesOnFromACheckpoint: compaction has taken all of a ledger of 1.0.0, whose records had no key. No worker begins
// another, and accept-gap goes on from a checkpoint: no node is predicted twice.
func TestEmptyLedgerGoesOnFromACheckpoint(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: workertest.ReadTally}}
		f.Send(0, 60)
		if err := f.Run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		served := int64(len(f.Records()))
		for _, r := range f.Read(f.Names.Ledger) {
			if string(r.Key) == "" {
				t.Errorf("the record at offset %d has no key: compaction takes it", r.Offset)
			}
		}
		bounds, err := f.Client.Offsets(t.Context(), f.Names.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.On.Fake.DeleteRecords(f.Names.Ledger, 0, bounds[f.Names.LedgerAt()].End); err != nil {
			t.Fatal(err)
		}
		n := f.Send(60, 120)
		workertest.CheckGone(t, "a worker with an empty ledger", f.Run(&tally{}, kept), "a checkpoint of its first 10 windows", "gvbll rebase --accept-gap")
		_, err = worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(worker.Config{Checkpoints: replay.Checkpoints{
			Dir: t.TempDir(), Restore: workertest.ReadTally,
		}}), "")
		workertest.CheckLine(t, "without a checkpoint", err, "without a checkpoint of it", "--state-dir")
		done, err := worker.AcceptGap(t.Context(), f.Client, &tally{}, f.Config(kept), "")
		if err != nil || !done.Began || done.Window != served || done.Checkpoint != served || done.Windows != served {
			t.Fatalf("accepted as %+v with error %v, want an epoch at window %d", done, err, served)
		}
		on := f.StartWorker(&tally{}, kept)
		on.AwaitEvents(t, n)
		if err := on.Stop(); err != nil {
			t.Fatal(err)
		}
		if n := f.Count(f.Names.Predictions); n != 120 {
			t.Errorf("%d predictions of 120 nodes", n)
		}
	})
}

// TestCompactionIsNamed: where compaction may have taken what a worker lacks, its last line says so.
func TestCompactionIsNamed(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		f.Send(0, 60)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if err := f.On.Fake.DeleteRecords(f.Names.Nodes, 0, 5); err != nil {
			t.Fatal(err)
		}
		if err := f.Run(&tally{}, worker.Config{}); strings.Contains(err.Error(), "compact") {
			t.Errorf("without compaction: %v", err)
		}
		res, err := f.Admin().AlterConfigs(t.Context(), &kafkago.AlterConfigsRequest{Resources: []kafkago.AlterConfigRequestResource{{
			ResourceType: kafkago.ResourceTypeTopic, ResourceName: f.Names.Nodes,
			Configs: []kafkago.AlterConfigRequestConfig{{Name: "cleanup.policy", Value: "compact"}},
		}}})
		if err != nil || len(res.Errors) != 1 {
			t.Fatal(res, err)
		}
		workertest.CheckLine(t, "with compaction", f.Run(&tally{}, worker.Config{}), f.Names.Nodes+" has cleanup.policy=compact, which takes records that are needed: set it to delete")
	})
}
