package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestTwoOutputsOverOneInput: a second deployment, with other settings and another
// encoding, predicts the stream of the first one again, without a copy of it and without
// disturbing it. Both can be audited, and without the prefix of its inputs the second
// neither goes on nor is audited.
func TestTwoOutputsOverOneInput(t *testing.T) { onKFake(t, testTwoOutputsOverOneInput) }

func testTwoOutputsOverOneInput(t *testing.T, sh *shell) {
	dir := t.TempDir()
	sum := sh.demo(smallDemo(t, "--brokers", sh.addr, "--dir", dir))
	model := filepath.Join(dir, "model.safetensors")

	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "trial", "--inputs-prefix", "gvbll")
	trial := sh.graph("trial", 0)
	work := []string{"--model", model, "--prefix", "trial", "--head", "paper", "--output", "json"}
	stop := trial.work(append(work, "--inputs-prefix", "gvbll")...)
	served := func(all []*ledger.Record) (n int) {
		for _, r := range all {
			n += r.Predictions
		}
		return n
	}
	trial.await("the trial has predicted what the graph has", func(all []*ledger.Record) bool { return served(all) == sum.Predictions })
	stop()

	list := sh.gvbll("topics", "--brokers", sh.addr, "--prefix", "trial", "--inputs-prefix", "gvbll")
	for _, topic := range []string{"gvbll.nodes ", "gvbll.labels ", "trial.commands ", "trial.predictions ", "trial.dead-letters ", "trial.ledger "} {
		if !strings.Contains(list, topic) {
			t.Errorf("the topics of the trial lack %s:\n%s", topic, list)
		}
	}
	if found, err := trial.client.Partitions(t.Context(), "trial.nodes", "trial.labels"); err != nil || len(found) > 0 {
		t.Errorf("the worker created %v (%v), want no inputs of its own", found, err)
	}
	for topic, want := range map[string]wire.Encoding{"gvbll.predictions": wire.MsgPack, "trial.predictions": wire.JSON} {
		predictions := 0
		must(t, trial.client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
			if predictions++; wire.EncodingOf(r.Value) != want {
				t.Errorf("%s offset %d is %s, want %s", topic, r.Offset, wire.EncodingOf(r.Value), want)
			}
		}))
		if predictions != sum.Predictions {
			t.Errorf("%s has %d records, want the %d arrivals", topic, predictions, sum.Predictions)
		}
	}

	// As people read them, probabilities have the names of their classes, whatever the encoding.
	classes := func(prefix string) string {
		var p struct{ Probabilities json.RawMessage }
		must(t, json.Unmarshal([]byte(sh.gvbll("tail", "--brokers", sh.addr, "--prefix", prefix, "--json", "--no-follow", "-n", "1")), &p))
		return regexp.MustCompile(`:[0-9.e-]+`).ReplaceAllString(string(p.Probabilities), "")
	}
	if a, b := classes("gvbll"), classes("trial"); a != b || !strings.HasPrefix(a, `{"c`) {
		t.Errorf("classes of probabilities in msgpack and JSON: %s and %s", a, b)
	}

	trial.audit("--model", model, "--prefix", "trial", "--inputs-prefix", "gvbll")
	trial.audit("--model", model, "--prefix", "trial", "--nodes-topic", "gvbll.nodes", "--labels-topic", "gvbll.labels")
	trial.audit("--model", model, "--prefix", "gvbll")
	if code, _, errs := sh.command("audit", "--brokers", sh.addr, "--model", model, "--prefix", "trial", "--nodes-topic", "trial.ledger"); code != exitUsage || !strings.Contains(errs, "topic trial.ledger cannot be used for two things") {
		t.Errorf("the ledger as the topic of nodes: exit code %d and %q", code, errs)
	}
	sh.gvbll("topics", "--brokers", sh.addr, "--prefix", "trial", "--create")
	args := append([]string{"work", "--brokers", sh.addr, "--http", "127.0.0.1:0"}, work...)
	if code, _, errs := sh.command(args...); code != exitFailed || !strings.Contains(errs, "the ledger reads topic gvbll.") || !strings.Contains(errs, "give that topic with --nodes-topic, --labels-topic or --inputs-prefix") {
		t.Errorf("work without --inputs-prefix: exit code %d and %q, want the remedy", code, errs)
	}
	trial.audit("--model", model, "--prefix", "trial") // which knows from the ledger
	for _, command := range []string{"ledger", "forget 1", "promote", "audit --model " + model, "audit --from latest --base " + t.TempDir() + " --model " + model} {
		args := append(strings.Fields(command), "--brokers", sh.addr, "--prefix", "trail")
		if code, _, errs := sh.command(args...); code != exitFailed || !strings.Contains(errs, "check --prefix") {
			t.Errorf("%s with a misspelt prefix: exit code %d and %q", command, code, errs)
		}
	}
}
