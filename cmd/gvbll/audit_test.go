package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestAuditWithEverythingOn: sets, abstentions, the random walk and the fallback are
// proved too, with the model file alone, and are in the bytes of the predictions.
func TestAuditWithEverythingOn(t *testing.T) {
	b, err := broker.Start(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	on := []string{"--coverage", "0.9", "--sets", "aps/aci/slice", "--abstain", "outside=1,confidence=0.3", "--head", "paper", "--fallback", "1", "--walk", "0.01"}
	sum := demo(t, small(append([]string{"--brokers", b.Addr(), "--dir", dir}, on...)...))
	model := filepath.Join(dir, "model.safetensors")
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"audit", "--brokers", b.Addr(), "--model", model}, &out, &errs); code != exitOK || !strings.Contains(out.String(), sum.Chain) {
		t.Errorf("audit ends with %d: %s%s, want chain %s", code, &out, &errs, sum.Chain)
	}
	out.Reset()
	// A worker without them names each, with both values.
	if code := run(t.Context(), []string{"work", "--brokers", b.Addr(), "--http", "127.0.0.1:0", "--model", model}, &out, &errs); code != exitFailed {
		t.Errorf("work without them ends with %d: %s", code, &errs)
	}
	for _, want := range []string{
		"coverage is 0.9 there and 0 here", "sets-score is aps there and lac here", "sets-groups is slice there and none here", "abstain-outside is 1 there and 0 here",
		"abstain-confidence is 0.3 there and 0 here", "fallback is 1 there and 20 here", "walk is 0.01 there and 0 here", "head is paper there and default here", "start with the ledger's settings",
	} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("want %q in: %s", want, &errs)
		}
	}
	if strings.Contains(errs.String(), "lambda") {
		t.Errorf("names what does not differ: %s", &errs)
	}
}

// TestLedgerOfFormat1: a ledger that an older program wrote, with everything on, is
// audited and gone on with. Of its settings --fallback and --walk have no effect on
// the model's pool, and need not be given.
func TestLedgerOfFormat1(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", "testdata/ledger-v1.tgz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := broker.Start(broker.Config{Dir: filepath.Join(dir, "broker")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m, err := model.Open(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{b.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	names, err := topics.Under("gvbll")
	if err != nil {
		t.Fatal(err)
	}
	g := &moving{t: t, addr: b.Addr(), client: client, names: names, rng: rand.New(rand.NewPCG(1, 2)), dim: m.Encoder.In()}
	modelFlag := []string{"--model", filepath.Join(dir, "model.safetensors")}
	before := g.audit(modelFlag...)
	if before.Windows == 0 || before.Predictions == 0 || before.Chain[:16] != "86d82a1f5b122a0e" {
		t.Errorf("audited %+v", before)
	}
	code, _, errs := g.command(append([]string{"work", "--http", "127.0.0.1:0"}, modelFlag...)...)
	if code != exitFailed || strings.Contains(errs, "fallback") || !strings.Contains(errs, "sets-groups is slice there and none here") {
		t.Errorf("work with other settings ends with %d: %s", code, errs)
	}
	checkpoints := filepath.Join(dir, "checkpoints")
	on := append([]string{"--coverage", "0.9", "--sets", "aps/aci/slice", "--abstain", "confidence=0.3", "--checkpoint-dir", checkpoints}, modelFlag...)
	g.sent = 1000 // ids that are not there
	for part := range 2 {
		stop := g.work(on...)
		g.send(20)
		g.await(func(all []*ledger.Record) bool {
			predictions := 0
			for _, r := range all[min(int(before.Windows), len(all)):] {
				predictions += r.Predictions
			}
			return predictions == 20*(part+1)
		})
		stop()
	}
	after := g.audit(modelFlag...)
	if after.Predictions != before.Predictions+40 || after.Windows <= before.Windows {
		t.Errorf("audited %+v, and before %+v", after, before)
	}
	list, err := checkpoint.List(checkpoints)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	if found := g.audit(append([]string{"--checkpoint", list[len(list)-1].Path}, modelFlag...)...); found.Chain != after.Chain || found.First < before.Windows {
		t.Errorf("audited from a checkpoint %+v, want chain %s", found, after.Chain)
	}
	holds := 0
	g.await(func(all []*ledger.Record) bool {
		holds = 0
		for i, r := range all {
			if r.Configuration != "" {
				holds++
			}
			if want := map[bool]int{true: 1, false: ledger.Version}[int64(i) < before.Windows]; r.Version != want {
				t.Errorf("record %d is of format %d", i, r.Version)
			}
		}
		return int64(len(all)) == after.Windows
	})
	if holds != 1 {
		t.Errorf("%d records hold the settings", holds)
	}
}

// TestAuditOfTheDemo: what the demo published is proved from its logs, and the
// ledger tells the same; a worker with other settings says which.
func TestAuditOfTheDemo(t *testing.T) {
	b, err := broker.Start(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	dir := t.TempDir()
	sum := demo(t, small("--brokers", b.Addr(), "--dir", dir))
	model := filepath.Join(dir, "model.safetensors")
	command := func(args ...string) (code int, out, errs string) {
		var o, e bytes.Buffer
		code = run(t.Context(), append(args, "--brokers", b.Addr()), &o, &e)
		return code, o.String(), e.String()
	}

	code, out, errs := command("audit", "--model", model, "--json")
	var found worker.Audited
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		t.Fatalf("audit ends with %d: %s%s (%v)", code, out, errs, err)
	}
	if found.Predictions != int64(sum.Predictions) || found.Chain != sum.Chain {
		t.Errorf("audited %+v, the demo says %d predictions and chain %s", found, sum.Predictions, sum.Chain)
	}
	code, out, _ = command("ledger", "--json")
	if lines := strings.Count(out, "\n"); code != exitOK || int64(lines) != found.Windows || !strings.Contains(out, found.Chain) {
		t.Errorf("ledger ends with %d and has %d lines of %d windows", code, lines, found.Windows)
	}
	if code, out, _ := command("ledger", "--from", "2"); code != exitOK || !strings.Contains(out, "WINDOW") || strings.Contains(out, "\n       1 ") {
		t.Errorf("ledger from window 2 ends with %d: %s", code, out)
	}
	if code, _, errs := command("work", "--model", model, "--http", "127.0.0.1:0", "--coverage", "0.8"); code != exitFailed || !strings.Contains(errs, "settings: coverage is 0 there and 0.8 here; start") {
		t.Errorf("work with other settings ends with %d: %s", code, errs)
	}
}
