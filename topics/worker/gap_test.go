package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// consumed returns up to where the ledger's windows have taken each partition.
func (f *fixture) consumed() map[kafka.TopicPartition]int64 {
	to := make(map[kafka.TopicPartition]int64)
	for _, r := range f.records() {
		for _, g := range r.Ranges {
			at := kafka.TopicPartition{Topic: g.Topic, Partition: g.Partition}
			to[at] = max(to[at], g.To)
		}
	}
	return to
}

// left returns the number of input records that are there and that no window has taken.
func (f *fixture) left() (n int) {
	f.t.Helper()
	taken := f.consumed()
	for _, topic := range []string{f.names.Nodes, f.names.Labels} {
		for _, r := range f.read(topic) {
			if r.Offset >= taken[kafka.TopicPartition{Topic: topic, Partition: r.Partition}] {
				n++
			}
		}
	}
	return n
}

// newestCheckpoint returns the path of the newest checkpoint in the directory.
func (f *fixture) newestCheckpoint(dir string) checkpoint.Entry {
	f.t.Helper()
	list, err := checkpoint.Find(dir, f.names.Ledger)
	if err != nil || len(list) == 0 {
		f.t.Fatalf("no checkpoint (error %v)", err)
	}
	return list[0]
}

// copied returns a new directory with what is in another.
func (f *fixture) copied(dir string) string {
	f.t.Helper()
	to := filepath.Join(f.t.TempDir(), "state")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		f.t.Fatal(err)
	}
	return to
}

// checkLine checks that an error is one line with the texts.
func checkLine(t *testing.T, doing string, err error, want ...string) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: error %v, want one line with %q", doing, err, want)
		return
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: error %v, want one with %q", doing, err, text)
		}
	}
}

// TestAcceptGap is the story of a gap. Records were taken that windows behind the newest
// checkpoint have, and others that no window has yet. The worker stops at the gap, and says
// so. An operator accepts it, and the graph goes on: with what is left, each node is predicted
// once. Later replays begin behind the gap, or say that they must.
func TestAcceptGap(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		dir := t.TempDir()
		keptIn := func(dir string) worker.Config {
			return worker.Config{Checkpoints: replay.Checkpoints{Dir: dir, Every: time.Hour, Restore: readTally}}
		}
		kept := keptIn(dir)

		f.send(0, 60)
		if err := f.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		inCheckpoint := f.consumed()
		before := f.newestCheckpoint(dir)
		f.send(60, 120)
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		served := len(f.records())
		atEnd := f.consumed()
		f.send(120, 180)

		// Nothing is gone that is needed: nothing happens.
		done, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(keptIn(f.copied(dir))), "")
		if err != nil || done.Began {
			t.Fatalf("accepted a gap where there is none as %+v with error %v", done, err)
		}

		nodes0 := kafka.TopicPartition{Topic: f.names.Nodes}
		labels2 := kafka.TopicPartition{Topic: f.names.Labels, Partition: 2}
		first := map[kafka.TopicPartition]int64{
			nodes0:  atEnd[nodes0] + 4,          // and so four that no window has
			labels2: inCheckpoint[labels2] + 10, // within a window
		}
		gone := 0
		for _, r := range f.read(f.names.Nodes) {
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
		checkLine(t, "a worker at the gap", f.run(&tally{}, kept), " partition ", "has offsets", "gvbll rebase --accept-gap")
		_, err = worker.Rebase(t.Context(), f.client, &tally{}, f.config(kept), "")
		checkLine(t, "a rebase without a word of the gap", err, "gvbll rebase --accept-gap")
		checkLine(t, "a worker without a checkpoint", f.run(&tally{}, worker.Config{}), "which the topic no longer has", "gvbll rebase --accept-gap")
		_, err = worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(worker.Config{}), "")
		checkLine(t, "accepting without a folder", err, "--state-dir")
		_, err = worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(keptIn(t.TempDir())), "")
		checkLine(t, "accepting without a checkpoint", err, "copy one of another worker", "gvbll work --begin-again")
		other := kept
		other.Terms.Settings = otherSettings
		_, err = worker.AcceptGap(t.Context(), f.client, &tally{salt: "b"}, f.config(other), "")
		checkLine(t, "accepting on other terms", err, "own terms")
		if n := len(f.records()); n != served {
			t.Fatalf("the ledger has %d windows after what was refused, want %d", n, served)
		}

		old := f.copied(dir)
		done, err = worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(kept), "the disk was full")
		if err != nil {
			t.Fatal(err)
		}
		want := []ledger.Range{
			{Topic: nodes0.Topic, Partition: 0, From: inCheckpoint[nodes0], To: first[nodes0]},
			{Topic: labels2.Topic, Partition: 2, From: inCheckpoint[labels2], To: first[labels2]},
		}
		begin := f.records()[served]
		if !done.Began || done.Epoch != 1 || done.Window != int64(served) || done.Checkpoint != before.Window || len(begin.Begins.Front) != 2 || begin.Begins.Front[0] != want[0] || begin.Begins.Front[1] != want[1] {
			t.Errorf("accepted as %+v, and the ledger says %+v, want epoch 1 at window %d behind %v", done, begin.Begins, served, want)
		}
		if begin.Begins.Why != "the disk was full" || begin.Begins.Checkpoint != before.Window || len(begin.Ranges) != 0 || begin.Settings != f.records()[0].Settings {
			t.Errorf("the epoch begins with %+v, want the operator's words, the checkpoint before window %d and the same settings", begin, before.Window)
		}
		if n := f.count(f.names.Predictions); n != 120 {
			t.Errorf("%d predictions after the gap was accepted, want the 120 of before", n)
		}

		// The graph goes on from the epoch's checkpoint. A standby with a copy of it takes over.
		behind := f.newestCheckpoint(dir)
		if behind.Window != int64(served)+1 {
			t.Errorf("the newest checkpoint is before window %d, want %d", behind.Window, served+1)
		}
		events := f.left()
		standbyDir := f.copied(dir)
		owner := f.startWorker(&tally{}, kept)
		<-owner.took
		_, err = worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(keptIn(old)), "")
		checkLine(t, "accepting while a worker is up", err, "workers of ledger", "end them first")
		standby := f.startWorker(&tally{}, keptIn(standbyDir))
		<-standby.recovered
		owner.awaitEvents(t, events)
		if err := owner.stop(); err != nil {
			t.Fatal(err)
		}
		<-standby.took
		standby.awaitEvents(t, events+f.send(180, 200))
		if err := standby.stop(); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(200-gone, 4)
		if gone == 0 {
			t.Error("no node was gone that no window had")
		}
		if n := f.left(); n != 0 {
			t.Errorf("%d records are left", n)
		}

		// A restart goes on from the newest checkpoint, and without one behind the gap it says so.
		again := f.startWorker(&tally{}, kept)
		<-again.took
		again.awaitEvents(t, f.events(int64(len(f.records())))-f.events(f.newestCheckpoint(dir).Window)+f.send(200, 210))
		if err := again.stop(); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(210-gone, 5)
		for what, cfg := range map[string]worker.Config{"a start without a checkpoint": {}, "a start from an older checkpoint": keptIn(old)} {
			checkLine(t, what, f.run(&tally{}, cfg), "epoch 1 begins at window", "behind a gap", want[0].String(), "or a later one")
		}
		if done, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(kept), ""); err != nil || done.Began {
			t.Errorf("accepted again as %+v with error %v, want nothing to do", done, err)
		}

		f.checkGapAudit(behind.Path, f.newestCheckpoint(old).Path, served)

		// With the older checkpoint alone, the same gap can be accepted once more.
		done, err = worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(keptIn(old)), "")
		if err != nil || !done.Began || done.Epoch != 2 || done.Checkpoint != before.Window {
			t.Fatalf("accepted from the older checkpoint as %+v with error %v, want epoch 2", done, err)
		}
		last := f.startWorker(&tally{}, keptIn(old))
		<-last.took
		last.awaitEvents(t, f.send(210, 220))
		if err := last.stop(); err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(220-gone, 6)
	})
}

// checkGapAudit checks what an audit says of a ledger with one gap, whose epoch begins at window
// served: with the checkpoint behind it, without one, and with one before it.
func (f *fixture) checkGapAudit(behind, before string, served int) {
	t := f.t
	t.Helper()
	windows, predictions := int64(0), int64(0)
	for _, r := range f.records() {
		if windows++; r.Window > int64(served) {
			predictions += int64(r.Predictions)
		}
	}
	restore := f.config(worker.Config{Checkpoints: replay.Checkpoints{Restore: readTally}})
	_, err := f.audit(&tally{}, restore)
	checkLine(t, "an audit without a checkpoint", err, "behind a gap", fmt.Sprintf("with one before window %d or a later one", served+1))
	proved, err := audit.Run(t.Context(), f.client, nil, restore.Replay(), audit.From{Checkpoint: behind}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if e := proved.Epochs; proved.First != int64(served)+1 || proved.Windows != windows || len(e) != 1 || e[0].Number != 1 || e[0].Proved != windows-int64(served)-1 || predictions == 0 || e[0].Predictions != predictions {
		t.Errorf("audited from the checkpoint behind the gap: %+v, want the windows from %d on", proved, served+1)
	}
	_, err = audit.Run(t.Context(), f.client, nil, restore.Replay(), audit.From{Checkpoint: before}, nil)
	checkLine(t, "an audit from before the gap", err, "behind a gap", "needs a checkpoint of window")
}

// TestLedgerGoneInPart: the ledger's beginning is gone. With a checkpoint the graph goes on
// without any gap, and without one nothing can.
func TestLedgerGoneInPart(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.on.Fake
		kept := worker.Config{Checkpoints: replay.Checkpoints{Dir: t.TempDir(), Every: time.Hour, Restore: readTally}}
		f.send(0, 60)
		if err := f.run(&tally{}, kept); err != nil {
			t.Fatal(err)
		}
		if err := cluster.DeleteRecords(f.names.Ledger, 0, 3); err != nil {
			t.Fatal(err)
		}
		none := kept
		none.Checkpoints.Dir = t.TempDir()
		_, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(none), "")
		checkLine(t, "accepting without the ledger's beginning and a checkpoint", err, "give --state-dir")
		done, err := worker.AcceptGap(t.Context(), f.client, &tally{}, f.config(kept), "")
		if err != nil || done.Began {
			t.Errorf("accepted with a checkpoint as %+v with error %v, want nothing to do", done, err)
		}
		w := f.startWorker(&tally{}, kept)
		<-w.took
		w.awaitEvents(t, f.send(60, 80))
		if err := w.stop(); err != nil {
			t.Fatal(err)
		}
		if n := f.count(f.names.Predictions); n != 80 {
			t.Errorf("%d predictions, want 80", n)
		}
	})
}
