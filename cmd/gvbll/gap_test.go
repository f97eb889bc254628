package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/ledger"
)

// deleteRecords deletes a topic's records of partition 0 before an offset.
func (g *testGraph) deleteRecords(topic string, before int64) {
	g.t.Helper()
	k, err := kgo.NewClient(g.sh.kgoOptions()...)
	must(g.t, err)
	defer k.Close()
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.TimeoutMillis = 5000
	del.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: before}}}}
	res, err := del.RequestWith(g.t.Context(), k)
	if err != nil || res.Topics[0].Partitions[0].ErrorCode != 0 {
		g.t.Fatal(err, res)
	}
}

// TestAcceptGap: an operator meets a gap, accepts it as the line says, and serves on. The ledger
// and the audit name the gap, and the audit says what it proves and what it counts.
func TestAcceptGap(t *testing.T) { onKFake(t, testAcceptGap) }

func testAcceptGap(t *testing.T, sh *shell) {
	dir := t.TempDir()
	file, state := threeClasses(t), filepath.Join(dir, "state")
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.gvbll("topics", "--create", "--partitions", "1", "--brokers", sh.addr)
	serve := func(args ...string) {
		t.Helper()
		stop := g.work(append([]string{"--model", file}, args...)...)
		g.send(20)
		g.awaitLearned()
		stop()
	}
	serve("--state-dir", state)
	serve()
	g.send(20)
	g.deleteRecords(g.names.Nodes, 45) // 20 that the checkpoint does not have, and 5 that nothing has
	const gone = 5

	code, _, errs := g.command("work", "--http", "127.0.0.1:0", "--model", file, "--state-dir", state)
	if code != exitFailed || !strings.Contains(errs, "gvbll.nodes partition 0 has offsets 45 to 60, but 20 is needed") || !strings.Contains(errs, "gvbll rebase --accept-gap") {
		t.Errorf("work at the gap: exit code %d, want %d and the remedy: %s", code, exitFailed, errs)
	}
	for flags, want := range map[string]string{
		"--accept-gap": "give --state-dir",
		"--accept-gap --state-dir " + filepath.Join(dir, "none"): "copy one of another worker",
	} {
		if code, _, errs := g.command(append([]string{"rebase", "--model", file}, strings.Fields(flags)...)...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("rebase %s: exit code %d, want an error with %q: %s", flags, code, want, errs)
		}
	}
	out := sh.gvbll("rebase", "--accept-gap", "--brokers", sh.addr, "--model", file, "--state-dir", state, "--why", "retention was a day")
	for _, want := range []string{"epoch 1 begins at window", ": retention was a day\n", "behind a gap: gvbll.nodes partition 0 offsets 20 to 44;"} {
		if !strings.Contains(out, want) {
			t.Errorf("gvbll rebase prints %q, want %q", out, want)
		}
	}
	if out := sh.gvbll("rebase", "--accept-gap", "--brokers", sh.addr, "--model", file, "--state-dir", state); out != "nothing is gone that is needed: epoch 1 goes on\n" {
		t.Errorf("gvbll rebase prints %q the second time", out)
	}
	list, err := checkpoint.Find(state, g.names.Ledger)
	if err != nil || len(list) == 0 {
		t.Fatalf("no checkpoint: %v", err)
	}
	behind := list[0]

	stop := g.work("--model", file, "--state-dir", state)
	g.send(10)
	g.await("all nodes but those of the gap are predicted", func(all []*ledger.Record) bool {
		n := 0
		for _, r := range all {
			n += r.Predictions
		}
		return n == g.sent-gone
	})
	stop()
	if got := g.predictions(); got != g.sent-gone {
		t.Errorf("%d predictions, want one for each of %d nodes that are left", got, g.sent-gone)
	}

	if out := sh.gvbll("ledger", "--brokers", sh.addr); !strings.Contains(out, "epoch 1 begins, by gvbll") || !strings.Contains(out, "behind a gap, with the state before window") || !strings.Contains(out, "gone: gvbll.nodes partition 0 offsets 20 to 44\n") {
		t.Errorf("gvbll ledger does not show the gap:\n%s", out)
	}
	code, _, errs = g.command("audit", "--model", file)
	if code != exitFailed || !strings.Contains(errs, "behind a gap (gvbll.nodes partition 0 offsets 20 to 44), and nothing proves") || !strings.Contains(errs, "give --checkpoint with one before window") {
		t.Errorf("audit without a checkpoint: exit code %d: %s", code, errs)
	}
	proved := g.audit("--model", file, "--checkpoint", behind.Path)
	if e := proved.Epochs; len(e) != 1 || proved.First != behind.Window || e[0].Proved != e[0].Windows || e[0].Predictions != 25 {
		t.Errorf("audit with the checkpoint: %+v, want the windows from %d on proved", proved, behind.Window)
	}
	code, _, errs = g.command("work", "--http", "127.0.0.1:0", "--model", file)
	if code != exitFailed || !strings.Contains(errs, "behind a gap") || strings.Count(strings.TrimSpace(errs), "\n") > 20 {
		t.Errorf("work without a checkpoint behind the gap: exit code %d: %s", code, errs)
	}
}
