package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestAuditWithEverythingOn: sets, abstentions, the random walk and the fallback
// are proved too, and are in the bytes of the predictions.
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
	if code := run(t.Context(), append([]string{"audit", "--brokers", b.Addr(), "--model", model}, on...), &out, &errs); code != exitOK || !strings.Contains(out.String(), sum.Chain) {
		t.Errorf("audit ends with %d: %s%s, want chain %s", code, &out, &errs, sum.Chain)
	}
	out.Reset()
	if code := run(t.Context(), []string{"audit", "--brokers", b.Addr(), "--model", model}, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "coverage=0.9 sets=aps/aci/slice") {
		t.Errorf("audit without them ends with %d: %s", code, &errs)
	}
}

// TestAuditOfTheDemo: what the demo published is proved from its logs, and the
// ledger tells the same; with other settings it is not the same graph.
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
	if code, _, errs := command("audit", "--model", model, "--lambda", "0.5"); code != exitFailed || !strings.Contains(errs, "was written with settings") {
		t.Errorf("audit with other settings ends with %d: %s", code, errs)
	}
}
