package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/audit"
)

// TestAuditWithEverythingOn: an audit with the model file alone verifies sets,
// abstentions, constants of the update and the fallback too, because the ledger holds their
// settings. A worker with other settings names each one that differs, with both values.
func TestAuditWithEverythingOn(t *testing.T) { onKFake(t, testAuditWithEverythingOn) }

func testAuditWithEverythingOn(t *testing.T, sh *shell) {
	dir := t.TempDir()
	on := []string{"--coverage", "0.9,groups=class", "--abstain", "set-size=2,confidence=0.3", "--head", "paper", "--fallback", "1", "--clip", "0.05"}
	sum := sh.demo(smallDemo(t, append([]string{"--brokers", sh.addr, "--dir", dir}, on...)...))
	model := filepath.Join(dir, "model.safetensors")
	code, out, errs := sh.command("audit", "--brokers", sh.addr, "--model", model)
	if code != exitOK || !strings.Contains(out, sum.Chain) {
		t.Errorf("audit: exit code %d, want %d and chain %s: %s%s", code, exitOK, sum.Chain, out, errs)
	}
	code, _, errs = sh.command("work", "--brokers", sh.addr, "--http", "127.0.0.1:0", "--model", model)
	if code != exitFailed {
		t.Errorf("work with default settings: exit code %d, want %d: %s", code, exitFailed, errs)
	}
	for _, want := range []string{
		"coverage is 0.9 there and 0 here", "sets-groups is class there and none here", "abstain-set-size is 2 there and 0 here",
		"abstain-confidence is 0.3 there and 0 here", "fallback is 1 there and 20 here", "clip is 0.05 there and 0.1 here", "head is paper there and default here", "start with the ledger's settings",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("the error lacks %q: %s", want, errs)
		}
	}
	if strings.Contains(errs, "lambda") {
		t.Errorf("the error names lambda, which does not differ: %s", errs)
	}
}

// TestAuditOfTheDemo: an audit of the demo's topics finds the predictions and the chain
// of hashes that the demo reported, and gvbll ledger prints the same windows. A worker
// with another setting names it.
func TestAuditOfTheDemo(t *testing.T) { onKFake(t, testAuditOfTheDemo) }

func testAuditOfTheDemo(t *testing.T, sh *shell) {
	dir := t.TempDir()
	sum := sh.demo(smallDemo(t, "--brokers", sh.addr, "--dir", dir))
	model := filepath.Join(dir, "model.safetensors")

	code, out, errs := sh.command("audit", "--brokers", sh.addr, "--model", model, "--json")
	var found audit.Result
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		t.Fatalf("audit: exit code %d: %s%s (%v)", code, out, errs, err)
	}
	if found.Predictions != int64(sum.Predictions) || found.Chain != sum.Chain {
		t.Errorf("audited %+v, the demo says %d predictions and chain %s", found, sum.Predictions, sum.Chain)
	}
	if code, _, errs := sh.command("audit", "--brokers", sh.addr, "--model", model, "--checkpoint", model); code != exitFailed || !strings.Contains(errs, "gvbll: audit: checkpoint "+model+": damaged: ") {
		t.Errorf("audit from a file that is no checkpoint: exit code %d, want %d and the file: %s", code, exitFailed, errs)
	}
	events := filepath.Join(dir, "late.jsonl")
	must(t, os.WriteFile(events, []byte(strings.Repeat(`{"id": "late", "indices": [1]}`+"\n", 3)), 0o600))
	sh.gvbll("send", "--brokers", sh.addr, "--events", events)
	if out := sh.gvbll("audit", "--brokers", sh.addr, "--model", model); !strings.Contains(out, "\n3 events wait: no window has them yet\n") {
		t.Errorf("an audit right after three events were sent says %q", out)
	}
	code, out, _ = sh.command("ledger", "--brokers", sh.addr, "--json")
	if lines := strings.Count(out, "\n"); code != exitOK || int64(lines) != found.Windows || !strings.Contains(out, found.Chain) {
		t.Errorf("ledger --json: exit code %d and %d lines, want a line for each of %d windows", code, lines, found.Windows)
	}
	if code, out, _ := sh.command("ledger", "--brokers", sh.addr, "--from", "2"); code != exitOK || !strings.Contains(out, "WINDOW") || strings.Contains(out, "\n       1 ") {
		t.Errorf("ledger --from 2: exit code %d: %s", code, out)
	}
	if code, _, errs := sh.command("work", "--brokers", sh.addr, "--model", model, "--http", "127.0.0.1:0", "--coverage", "0.8"); code != exitFailed || !strings.Contains(errs, "settings: coverage is 0 there and 0.8 here, sets-groups is none there and floor here; start") {
		t.Errorf("work with another coverage: exit code %d, want %d: %s", code, exitFailed, errs)
	}
}

// TestAuditOfAnEmptyCell: a cell that nothing has come to has nothing to prove, and is no failure.
func TestAuditOfAnEmptyCell(t *testing.T) {
	var out strings.Builder
	if err := printAudit(&out, "cell 0: ", audit.Result{}); err != nil || out.String() != "cell 0: no windows: nothing has come to it\n" {
		t.Errorf("audit prints %q (error %v)", out.String(), err)
	}
}
