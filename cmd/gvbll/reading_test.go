package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/kafka"
)

// oddFeatures are values that 1.0.0 read otherwise, or refused.
var oddFeatures = []string{
	`"country": "C01"`, `"country": " C01"`, `"country": "NA"`, `"country": "None"`, `"country": "nan"`, `"country": ""`, `"country": 1`,
	`"country": true`, `"plan": "\ud800gold"`, `"plan": "gold\udc00"`, `"note": " None "`, `"note": "\ud83d\ude00 two"`,
	`"amount": "12.5"`, `"amount": " 12.5"`, `"amount": "0x1p3"`, `"amount": "1e3"`, `"amount": "NA"`, `"amount": "-"`, `"amount": "inf"`,
	`"amount": "1,5"`, `"amount": null`, `"amount": {"double": 3}`, `"amount": ["a"]`, `"age": "?"`, `"visits": "3.0"`,
	`"new": "t"`, `"new": "True"`, `"new": " true"`, `"new": "1"`, `"new": "F"`, `"new": 1`,
	`"opened": "2025-03-01"`, `"opened": "2025-03-01T10:00"`, `"opened": "2025-03-01 10:00:00+00"`, `"opened": "2025/03/01"`,
	`"opened": 1741000000`, `"opened": 1741000000000`, `"opened": 1741000000000000`, `"opened": "1741000000000.0"`, `"opened": 20000`,
	`"opened": "2025-03-01 10:00:00.25Z"`, `"opened": {"$date": 1741000000000}`, `"opened": "0000-00-00"`,
}

// oddTimes and oddClasses are fields of events that it read otherwise.
var (
	oddTimes   = []string{`1766000000000`, `"2025-12-20T10:00:00Z"`, `1766000000`, `1766000000000.5`, `"1766000000000"`, `null`, `1766000000000000`}
	oddClasses = []string{`1`, `"2"`, `0`, `2`, `"1.0"`, `" 1"`, `true`, `-1`, `1.0`, `1e0`, `3`, `"true"`, `0.5`, `null`, `4294967297`}
)

// oddly returns the n-th events of both graphs, with ids that begin with a prefix. The first graph has gvbll's own format, the
// second one a map.
func oddly(prefix string, n int) (records []kafka.Record) {
	when := time.Date(2025, time.December, 20, 0, n, 0, 0, time.UTC)
	add := func(topic, key, format string, args ...any) {
		r := kafka.Record{Topic: topic, Value: fmt.Appendf(nil, format, args...), Time: when}
		if key != "" {
			r.Key = []byte(key)
		}
		if format == "" {
			r.Value = nil
		}
		records = append(records, r)
	}
	pick := func(list []string) string { return list[n%len(list)] }
	at, card := fmt.Sprint(when.UnixMilli()), fmt.Sprint(n)
	if n%5 == 0 {
		at, card = oddTimes[n/5%len(oddTimes)], "[1, 2]"
	}
	id := fmt.Sprintf("%s%d", prefix, n)
	add("odd.nodes", "", `{"id": %q, "features": {%s}, "neighbours": ["%s%d"], "time": %s}`, id, pick(oddFeatures), prefix, n/2, at)
	add("odd.labels", "", `{"node": %q, "class": %s, "time": %s}`, id, pick(oddClasses), at)
	add("mapped.nodes", "", `{"op": "c", "ts": %s, "after": {"id": %q, "card": %s, %s}}`, at, id, card, pick(oddFeatures))
	add("mapped.nodes", "", `{"op": "u", "ts": 1766000000, "before": {"card": %d}, "after": {"id": %q, "card": %d, %s, "plan": "__debezium_unavailable_value"}}`,
		n, id, n+1, pick(oddFeatures))
	add("mapped.labels", "", `{"id": %q, "outcome": %s, "undo": %t, "ts": %s}`, id, pick(oddClasses), n%11 == 0, at)
	switch n % 10 {
	case 1:
		for _, topic := range []string{"odd.nodes", "mapped.nodes"} {
			add(topic, "", "\x00\x00\x00\x00\x07"+`{"id": "%s-framed", "features": {"amount": 1}, "op": "c"}`, id)
			add(topic, "", "\ufeff"+`{"id": "%s-marked", "features": {"amount": 1}, "op": "c"}`, id)
		}
	case 2:
		add("mapped.nodes", "", `{"op": "t", "ts": 1, "after": null}`)
		add("mapped.nodes", "", `{"op": "d", "after": null, "before": {"id": "%s%d"}}`, prefix, n-2)
		add("mapped.nodes", "", `{"op": "\u0064", "ts": 1, "after": {"id": "%s%d"}}`, prefix, n-2)
	case 3:
		add("odd.nodes", fmt.Sprintf(`"%s%d"`, prefix, n-2), "")
		add("odd.nodes", fmt.Sprintf(`%s%d`, prefix, n-3), "")
		add("odd.nodes", "\x00\x00\x00\x00\x00\x00\x00\x07", "")
		add("mapped.nodes", fmt.Sprintf(`{"id": "%s%d"}`, prefix, n-1), "")
		add("mapped.nodes", fmt.Sprintf(`"%s%d"`, prefix, n-2), "")
		add("mapped.nodes", fmt.Sprintf(`%s%d`, prefix, n-3), "")
	case 4:
		add("mapped.nodes", "", `{"after": {"id": {"string": "%s-wrapped"}, "amount": 1}, "op": "c"}`, id)
		add("mapped.nodes", "", `{"ids": {"a": 1, "b": "%s"}, "op": "c"}`, id)
	}
	return records
}

const oddMap = `
nodes:
  - {when: {pointer: /op, equals: c}, id: {pointer: /after/id, or: /ids/*, prefix: "p:"}, time: {pointer: /ts, unit: ms, optional: true},
     features: /after, neighbours: [{pointer: /after/card, prefix: "card:", implicit: true, optional: true}]}
  - preset: debezium
    id: {pointer: /after/id, or: /before/id, prefix: "p:"}
    time: {pointer: /ts, unit: s}
    neighbours: [{pointer: /after/card, prefix: "card:", implicit: true}]
labels:
  - {node: {pointer: /id, prefix: "p:"}, class: {pointer: /outcome}, time: {pointer: /ts, optional: true}, remove: {pointer: /undo, equals: "True"}}
`

// TestFirstReading: a graph that 1.0.0 began is read by its rules for as long as its epoch lasts, whatever its events spell:
// numbers as names of classes, other spellings and units, halves of surrogate pairs, gaps, frames, change records. What
// was recorded is proved, goes on to the bits that 1.0.0 went on to, and begins to be read by the new rules with an epoch.
//
// go test ./cmd/gvbll -run TestFirstReading -update records this program as the release.
func TestFirstReading(t *testing.T) {
	const file = "testdata/reading-1.0.0"
	if *update {
		dir := t.TempDir()
		t.Run("record", func(t *testing.T) {
			t.Run("graphs", func(t *testing.T) {
				onKFake(t, func(t *testing.T, sh *shell) { readOddly(t, sh, dir, 0, 60) }, kfake.DataDir(filepath.Join(dir, "broker")))
			})
			t.Cleanup(func() {
				tar := exec.Command("tar", "czf", file+".tgz", "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "-C", dir, ".")
				if out, err := tar.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			})
		})
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", file+".tgz", "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	onKFake(t, func(t *testing.T, sh *shell) {
		found, err := json.MarshalIndent(readOddly(t, sh, dir, 60, 120), "", "\t")
		must(t, err)
		if *update {
			must(t, os.WriteFile(file+".json", append(found, '\n'), 0o644))
		}
		want, err := os.ReadFile(file + ".json")
		must(t, err)
		if string(found)+"\n" != string(want) {
			t.Errorf("the audits find\n%s\nwant what the release found:\n%s", found, want)
		}
		if *update {
			return
		}
		model := filepath.Join(dir, "model.safetensors")
		said := sh.gvbll("rebase", "--brokers", sh.addr, "--prefix", "odd", "--model", model, "--state-dir", t.TempDir())
		if !strings.Contains(said, "reading not set to 2") {
			t.Errorf("an epoch of the new rules says %q", said)
		}
	}, kfake.DataDir(filepath.Join(dir, "broker")))
}

// readOddly serves the events from to to-1 of both graphs, and returns what audits find.
func readOddly(t *testing.T, sh *shell, dir string, from, to int) map[string]audit.Result {
	model, mapped := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "map.yaml")
	if from == 0 {
		table := paymentsTable(t, 200)
		b, err := os.ReadFile(filepath.Join(table, "nodes.csv"))
		must(t, err)
		b = []byte(strings.NewReplacer(",fraud,", ",1,", ",good,", ",2,").Replace(string(b)))
		must(t, os.WriteFile(filepath.Join(table, "nodes.csv"), b, 0o644))
		sh.gvbll("train", "--data", table, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--embedding", "4", "--out", model)
		must(t, os.WriteFile(mapped, []byte(oddMap), 0o644))
		for _, prefix := range []string{"odd", "mapped"} {
			sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix, "--partitions", "1")
		}
	} else {
		time.Sleep(20 * time.Minute) // since the release
	}
	found := make(map[string]audit.Result)
	for _, prefix := range []string{"odd", "mapped"} {
		g := sh.graph(prefix, 0)
		p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		must(t, err)
		flags := []string{"--prefix", prefix, "--model", model}
		if from > 0 {
			found[prefix] = g.audit(flags...)
		}
		var records []kafka.Record
		for n := from; n < to; n++ {
			for _, r := range oddly("n", n) {
				if strings.HasPrefix(r.Topic, prefix) {
					records = append(records, r)
				}
			}
		}
		must(t, p.Send(t.Context(), records))
		work := append(flags[:len(flags):len(flags)], "--window", "20", "--linger", "2s")
		if prefix == "mapped" {
			work = append(work, "--map", mapped)
		}
		g.serve(work...)
		found[prefix+", gone on"] = g.audit(flags...)
	}
	return found
}

// TestOneTopic: a topic whose records are nodes and labels, several of them each, serves a graph that an audit proves; a label that
// is refused is a dead letter of its record.
func TestOneTopic(t *testing.T) {
	onKFake(t, func(t *testing.T, sh *shell) {
		dir := t.TempDir()
		model, mapped := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "map.yaml")
		sh.gvbll("train", "--data", paymentsTable(t, 200), "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--embedding", "4", "--out", model)
		must(t, os.WriteFile(mapped, []byte(`
nodes:
  - {each: /payments, id: {pointer: /id}, features: "", neighbours: [{pointer: /^/card, prefix: "card:", implicit: true}], next: true}
  - {each: /payments, node: {pointer: /id}, class: {pointer: /outcome}}
`), 0o644))
		sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "one", "--partitions", "1")
		g := sh.graph("one", 0)
		p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		must(t, err)
		var records []kafka.Record
		for n := range 30 {
			outcome := "fraud"
			if n == 7 {
				outcome = "unheard of"
			}
			records = append(records, kafka.Record{Topic: g.names.Nodes, Value: fmt.Appendf(nil,
				`{"card": %d, "payments": [{"id": "a%d", "amount": 1, "outcome": "good"}, {"id": "b%d", "amount": 2, "outcome": %q}]}`, n%5, n, n, outcome)})
		}
		must(t, p.Send(t.Context(), records))
		g.serve("--prefix", "one", "--model", model, "--map", mapped, "--window", "10")
		found := g.audit("--prefix", "one", "--model", model)
		if found.Predictions != 60 || found.DeadLetters != 1 || found.Epochs[0].Proved != found.Epochs[0].Windows {
			t.Errorf("the audit finds %+v, want 60 predictions and a dead letter, all proved", found)
		}
		_, status, _ := sh.command("status", "--brokers", sh.addr, "--prefix", "one")
		listed := sh.gvbll("topics", "--brokers", sh.addr, "--prefix", "one")
		for _, said := range []string{status, listed} {
			if !strings.Contains(said, "fraud, good; numbers in labels are indices, from 0") {
				t.Errorf("what a number in a label means is not said in\n%s", said)
			}
		}
	})
}
