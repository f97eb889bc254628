package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestAuditWithEverythingOn: an audit with the model file alone verifies sets,
// abstentions, the random walk and the fallback too, because the ledger holds their
// settings. A worker with other settings names each one that differs, with both values.
func TestAuditWithEverythingOn(t *testing.T) {
	addr := startBroker(t, broker.Config{})
	dir := t.TempDir()
	on := []string{"--coverage", "0.9,score=aps,groups=slice", "--abstain", "outside=1,confidence=0.3", "--head", "paper", "--fallback", "1", "--update", "walk=0.01"}
	sum := demo(t, smallDemo(append([]string{"--brokers", addr, "--dir", dir}, on...)...))
	model := filepath.Join(dir, "model.safetensors")
	code, out, errs := command(t, "audit", "--brokers", addr, "--model", model)
	if code != exitOK || !strings.Contains(out, sum.Chain) {
		t.Errorf("audit: exit code %d, want %d and chain %s: %s%s", code, exitOK, sum.Chain, out, errs)
	}
	code, _, errs = command(t, "work", "--brokers", addr, "--http", "127.0.0.1:0", "--model", model)
	if code != exitFailed {
		t.Errorf("work with default settings: exit code %d, want %d: %s", code, exitFailed, errs)
	}
	for _, want := range []string{
		"coverage is 0.9 there and 0 here", "sets-score is aps there and lac here", "sets-groups is slice there and none here", "abstain-outside is 1 there and 0 here",
		"abstain-confidence is 0.3 there and 0 here", "fallback is 1 there and 20 here", "walk is 0.01 there and 0 here", "head is paper there and default here", "start with the ledger's settings",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("the error lacks %q: %s", want, errs)
		}
	}
	if strings.Contains(errs, "lambda") {
		t.Errorf("the error names lambda, which does not differ: %s", errs)
	}
}

// TestLedgerOfFormat1: a ledger that a program of another engine wrote in an older format,
// with every feature on, goes on by an epoch of this one. Of the windows before it the audit
// checks what needs no engine, and it proves all others. Which settings of another
// engine have no effect cannot be known, so the epoch names all that differ.
func TestLedgerOfFormat1(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", "testdata/ledger-v1.tgz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	addr := startBroker(t, broker.Config{Dir: filepath.Join(dir, "broker")})
	m, err := model.Open(filepath.Join(dir, "model.safetensors"))
	must(t, err)
	g := newTestGraph(t, addr, "gvbll", m.Encoder.In())
	modelFlag := []string{"--model", filepath.Join(dir, "model.safetensors")}
	before := g.audit(modelFlag...)
	if len(before.Epochs) != 1 || before.Windows == 0 || before.Elsewhere != before.Windows || before.Predictions != 0 || before.Epochs[0].Checked == 0 || before.Chain[:16] != "86d82a1f5b122a0e" {
		t.Errorf("audited %+v, want every window checked and none proved", before)
	}
	if out := gvbll(t, append([]string{"audit", "--brokers", addr}, modelFlag...)...); !strings.Contains(out, "epoch 0, from window 0 on (the first): 10 windows of another program, settings or model") || strings.Contains(out, "proved") {
		t.Errorf("gvbll audit prints %q, want that no window of epoch 0 is proved", out)
	}
	checkpoints := filepath.Join(dir, "checkpoints")
	on := append([]string{"--coverage", "0.9,score=aps,groups=slice", "--abstain", "confidence=0.3", "--state-dir", checkpoints}, modelFlag...)
	code, _, errs := g.command(append([]string{"work", "--http", "127.0.0.1:0"}, on...)...)
	if want := fmt.Sprintf("was written by a program of engine 5, and this is gvbll \"dev\" (engine %d): begin an epoch of this one with --rebase", pipeline.Version); code != exitFailed || !strings.Contains(errs, want) {
		t.Errorf("work without --rebase: exit code %d, want %d and %q: %s", code, exitFailed, want, errs)
	}
	if code, _, errs := command(t, "train", "--brokers", addr, "--out", filepath.Join(dir, "new")); code != exitFailed || !strings.Contains(errs, "begin an epoch of this one with 'gvbll rebase' first") {
		t.Errorf("training on the ledger: exit code %d, want %d and the remedy: %s", code, exitFailed, errs)
	}
	on = append(on, "--rebase")
	g.sent = 1000         // ids that the old ledger does not have
	for part := range 2 { // the second worker starts from a checkpoint
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
	if len(after.Epochs) != 2 {
		t.Fatalf("audited %+v, want two epochs", after)
	}
	if old, own := after.Epochs[0], after.Epochs[1]; !reflect.DeepEqual(old, before.Epochs[0]) || own.Proved != own.Windows || own.Predictions != 40 || own.Why != fmt.Sprintf("batch 0 to 50, engine 5 to %d, fallback 1 to 20, walk 0.01 to 0, model %s to %s", pipeline.Version, old.Model, own.Model) {
		t.Errorf("audited %+v, want epoch 0 as before, %+v, and 40 predictions proved in one that names what differs", after.Epochs, before.Epochs[0])
	}
	list, err := checkpoint.Find(checkpoints, g.names.Ledger)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	if found := g.audit(append([]string{"--checkpoint", list[len(list)-1].Path}, modelFlag...)...); found.Chain != after.Chain || found.First < before.Windows {
		t.Errorf("audited from a checkpoint %+v, want chain %s", found, after.Chain)
	}
	withSettings := 0
	g.await(func(all []*ledger.Record) bool {
		withSettings = 0
		for i, r := range all {
			if r.Configuration != "" {
				withSettings++
			}
			if want := map[bool]int{true: 1, false: ledger.Version}[int64(i) < before.Windows]; r.Version != want {
				t.Errorf("ledger record %d has format %d, want %d", i, r.Version, want)
			}
		}
		return int64(len(all)) == after.Windows
	})
	if withSettings != 1 {
		t.Errorf("%d ledger records hold the settings, want 1", withSettings)
	}
}

// TestAuditOfTheDemo: an audit of the demo's topics finds the predictions and the chain
// of hashes that the demo reported, and gvbll ledger prints the same windows. A worker
// with another setting names it.
func TestAuditOfTheDemo(t *testing.T) {
	addr := startBroker(t, broker.Config{})
	dir := t.TempDir()
	sum := demo(t, smallDemo("--brokers", addr, "--dir", dir))
	model := filepath.Join(dir, "model.safetensors")

	code, out, errs := command(t, "audit", "--brokers", addr, "--model", model, "--json")
	var found worker.Audited
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		t.Fatalf("audit: exit code %d: %s%s (%v)", code, out, errs, err)
	}
	if found.Predictions != int64(sum.Predictions) || found.Chain != sum.Chain {
		t.Errorf("audited %+v, the demo says %d predictions and chain %s", found, sum.Predictions, sum.Chain)
	}
	if code, _, errs := command(t, "audit", "--brokers", addr, "--model", model, "--checkpoint", model); code != exitFailed || !strings.Contains(errs, "gvbll: audit: checkpoint "+model+": damaged: ") {
		t.Errorf("audit from a file that is no checkpoint: exit code %d, want %d and the file: %s", code, exitFailed, errs)
	}
	code, out, _ = command(t, "ledger", "--brokers", addr, "--json")
	if lines := strings.Count(out, "\n"); code != exitOK || int64(lines) != found.Windows || !strings.Contains(out, found.Chain) {
		t.Errorf("ledger --json: exit code %d and %d lines, want a line for each of %d windows", code, lines, found.Windows)
	}
	if code, out, _ := command(t, "ledger", "--brokers", addr, "--from", "2"); code != exitOK || !strings.Contains(out, "WINDOW") || strings.Contains(out, "\n       1 ") {
		t.Errorf("ledger --from 2: exit code %d: %s", code, out)
	}
	if code, _, errs := command(t, "work", "--brokers", addr, "--model", model, "--http", "127.0.0.1:0", "--coverage", "0.8"); code != exitFailed || !strings.Contains(errs, "settings: coverage is 0 there and 0.8 here; start") {
		t.Errorf("work with another coverage: exit code %d, want %d: %s", code, exitFailed, errs)
	}
}
