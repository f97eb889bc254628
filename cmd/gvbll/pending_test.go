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
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestPendingInFiles: a worker with memory for 5,000 predictions keeps 12,000 that wait for
// their label. It goes on from a checkpoint that refers to files of them, and replays the
// ledger when such a file was lost. Every label is joined to what was served, and what was
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
	label := func(from, to int) {
		t.Helper()
		var records []kafka.Record
		for i := from; i < to; i++ {
			l := event.Label{Node: event.ID{Str: fmt.Sprintf("node-%d", i*7919%nodes)}, Index: int32(i % 3)}
			records = append(records, kafka.Record{Topic: g.names.Labels, Value: wire.AppendLabel(nil, &l), Time: time.Now()})
		}
		must(t, producer.Send(t.Context(), records))
		g.awaitTaken()
	}
	work := func() (stop func()) {
		return g.work("--model", file, "--state-dir", state, "--pending", "memory=1MiB", "--checkpoints", "every=1h,keep=1")
	}
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
	label(0, nodes/2)
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
	label(nodes/2, nodes)
	stop()
	if log := g.log(); strings.Contains(log, "read a checkpoint") || !strings.Contains(log, "a checkpoint is skipped") {
		t.Errorf("the worker did not skip a checkpoint that refers to a lost file:\n%s", log)
	}

	learned := 0
	must(t, ledger.Scan(t.Context(), g.client, g.names.LedgerAt(0), func(r *ledger.Record) bool {
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
