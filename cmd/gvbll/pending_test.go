package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestPendingInFiles: a worker with memory for 5,000 predictions keeps 12,000 that wait for
// their label. It goes on from a checkpoint that refers to files of them, also when somebody has
// removed the folder meanwhile, and replays the ledger when such a file was lost. It ends before it
// learns from a file that is not what it wrote. Every label is joined to what was served, and what was
// published is, byte by byte, what an audit finds with everything in memory.
func TestPendingInFiles(t *testing.T) { onKFake(t, testPendingInFiles) }

func testPendingInFiles(t *testing.T, sh *shell) {
	const nodes = 12_000
	dir := t.TempDir()
	file, state := threeClasses(t), filepath.Join(dir, "state")
	m, err := model.Open(file)
	must(t, err)
	const prefix = "pending"
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	producer, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	send := func(from, to int) {
		t.Helper()
		var records []kafka.Record
		for i := from; i < to; i++ {
			l := event.Label{Node: event.ID{Str: fmt.Sprintf("node-%d", i*7919%nodes)}, Index: int32(i % 3)}
			records = append(records, kafka.Record{Topic: g.names.Labels, Value: wire.AppendLabel(nil, &l), Time: time.Now()})
		}
		must(t, producer.Send(t.Context(), records))
	}
	label := func(from, to int) {
		t.Helper()
		send(from, to)
		g.awaitTaken()
	}
	args := []string{"--model", file, "--state-dir", state, "--pending", "memory=1MiB", "--checkpoints", "every=1h,keep=1"}
	work := func() (stop func()) { return g.work(args...) }
	// kept returns the files that the checkpoint refers to.
	kept := func() []string {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(state, "*", "checkpoint-*.blocks", "*"))
		must(t, err)
		return files
	}

	stop := work()
	g.sendUnlabelled(nodes)
	g.awaitTaken()
	stop()
	if n := len(kept()); n < 5 {
		t.Errorf("the checkpoint refers to %d files, want some", n)
	}
	if left, err := filepath.Glob(filepath.Join(state, "blocks-*")); err != nil || len(left) > 0 {
		t.Errorf("the worker left %v (error %v)", left, err)
	}

	stop = work()
	label(0, nodes/4)
	must(t, os.RemoveAll(state))
	label(nodes/4, nodes/2)
	stop()
	if log := g.log(); !strings.Contains(log, "read a checkpoint") || strings.Contains(log, "skipped") {
		t.Errorf("the worker did not go on from its checkpoint:\n%s", log)
	}

	lost := kept()
	if len(lost) == 0 {
		t.Fatal("the checkpoint refers to no files")
	}
	must(t, os.Remove(lost[len(lost)/2]))
	stop = work()
	label(nodes/2, nodes*3/4)
	stop()
	if log := g.log(); strings.Contains(log, "read a checkpoint") || !strings.Contains(log, "a checkpoint is skipped") {
		t.Errorf("the worker did not skip a checkpoint that refers to a lost file:\n%s", log)
	}

	ended := make(chan string, 1)
	go func() {
		code, _, errs := g.command(append([]string{"work", "--http", "127.0.0.1:0"}, args...)...)
		ended <- fmt.Sprintf("exit code %d: %s", code, errs)
	}()
	g.awaitOwner()
	before := len(kept())
	for _, name := range kept() {
		b, err := os.ReadFile(name)
		must(t, err)
		for i := 0; i < len(b); i += 100 {
			b[i] ^= 1
		}
		must(t, os.WriteFile(name, b, 0o600)) // the worker has the same file
	}
	send(nodes*3/4, nodes)
	if got := kafkatest.Receive(t, ended, "the worker has ended"); before == 0 || !strings.Contains(got, "exit code 1") || !strings.Contains(got, ".blocks/") || !strings.Contains(got, "check the disk; start the worker again") {
		t.Errorf("with %d files that are damaged: %s, want an exit code of 1, the file and the remedy", before, got)
	}
	stop = work()
	g.awaitTaken()
	stop()
	if log := g.log(); !strings.Contains(log, "a checkpoint is skipped") || !strings.Contains(log, "check the disk") {
		t.Errorf("the worker did not skip the checkpoint, or does not say why:\n%s", log)
	}

	learned := 0
	must(t, ledger.Scan(t.Context(), g.client, g.names.LedgerAt(), func(r *ledger.Record) bool {
		learned += r.Labels
		return true
	}))
	if learned != nodes {
		t.Errorf("%d labels are learned, want %d", learned, nodes)
	}
	if found := g.audit("--model", file); found.Predictions != nodes {
		t.Errorf("audited %+v, want %d predictions", found, nodes)
	}
	g.audit("--model", file, "--state-dir", state)
}
