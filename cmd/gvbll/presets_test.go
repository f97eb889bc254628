package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestPresets: 10,000 change events of Debezium and 10,000 nodes of Neo4j's CUD format, with
// relationships, without headers (on Apache Kafka from its own console producer), have a
// prediction each, byte by byte that of the same events in our own format, although the worker
// is killed, and no dead letter. An audit agrees.
func TestPresets(t *testing.T) { onKafkaItself(t, testPresets, shortSessions) }

func testPresets(t *testing.T, sh *shell) {
	const nodes, window = 10_000, 100
	dir := t.TempDir()
	table, model := paymentsTable(t, 200), filepath.Join(dir, "m.safetensors")
	sh.gvbll("train", "--data", table, "--train-share", "0.3", "--epochs", "2", "--hidden", "8", "--out", model)
	exe, err := os.Executable()
	must(t, err)
	client := sh.dial()
	// predictions has a worker predict what a topic has, as many windows as there are.
	predictions := func(name string, values []string, kill bool, more ...string) (list []string) {
		t.Helper()
		prefix := fmt.Sprintf("presets-%s-%d", name, time.Now().UnixNano())
		g := sh.graph(prefix, 0)
		graph := []string{"--brokers", sh.addr, "--prefix", prefix}
		sh.gvbll(append([]string{"topics", "--create", "--partitions", "1"}, graph...)...)
		half := len(values) / 2
		sh.produce(g.names.Nodes, values[:half])
		work := append(append([]string{"work", "--model", model, "--output", "json", "--window", fmt.Sprint(window), "--linger", "1m", "--session-timeout", sessionTimeout(), "--http", "127.0.0.1:0"}, graph...), more...)
		if kill {
			killed := exec.CommandContext(t.Context(), exe, work...)
			var log lines
			killed.Env, killed.Stderr = append(os.Environ(), asProgram+"=1"), &log
			must(t, killed.Start())
			g.await("the ledger has a window", func(all []*ledger.Record) bool { return len(all) > 0 })
			must(t, killed.Process.Kill())
			if err := killed.Wait(); err == nil {
				t.Fatalf("the worker ended before it was killed:\n%s", log.b)
			}
		}
		sh.produce(g.names.Nodes, values[half:])
		stop := g.work(work[1:]...)
		g.awaitTaken()
		stop()
		must(t, client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) { list = append(list, string(r.Value)) }))
		if n := total(t, client, g.names.DeadLetters); n != 0 || len(list) != nodes {
			t.Errorf("%s: %d predictions and %d dead letters, want %d and none", name, len(list), n, nodes)
		}
		sh.gvbll(append([]string{"audit", "--model", model}, graph...)...)
		return list
	}
	var debezium, ownPayments, cud, ownPeople []string
	for i := range nodes {
		at := 1772323200000 + int64(i)*1000
		features := fmt.Sprintf(`"amount": "%d.50", "country": "C%d", "new": %t, "age": null, "note": "item \"%d\""`, i, i%7, i%2 == 0, i)
		parent, near := "null", ""
		if i > 7 {
			parent = fmt.Sprint(i * i % i)
			near = fmt.Sprintf(`"neighbours": [%s], `, parent)
		}
		debezium = append(debezium, fmt.Sprintf(`{"schema": {"type": "struct", "optional": false}, "payload": {"before": null, "after": {"id": %d, "parent": %s, %s}, "source": {"table": "payments"}, "op": "c", "ts_ms": %d}}`, i, parent, features, at))
		ownPayments = append(ownPayments, fmt.Sprintf(`{"id": %d, %s"features": {%s}, "time": %d}`, i, near, features, at))
		cud = append(cud, fmt.Sprintf(`{"op": "merge", "type": "node", "labels": ["Person"], "ids": {"uid": %d}, "properties": {%s}}`, i, features))
		ownPeople = append(ownPeople, fmt.Sprintf(`{"id": "person:%d", "features": {%s}}`, i, features))
		if i%5 == 4 {
			cud = append(cud, fmt.Sprintf(`{"op": "create", "type": "relationship", "rel_type": "KNOWS", "from": {"ids": {"uid": %d}, "labels": ["Person"]}, "to": {"ids": {"uid": %d}}}`, i+1, i-4))
			ownPeople = append(ownPeople, fmt.Sprintf(`{"source": "person:%d", "target": "person:%d"}`, i+1, i-4))
		}
	}
	for _, c := range []struct {
		name, text  string
		mapped, own []string
	}{
		{"debezium", "nodes: [{preset: debezium, id: {pointer: /after/id, or: /before/id}, neighbours: [{pointer: /after/parent, optional: true}]}]", debezium, ownPayments},
		{"cud", `nodes: [{preset: neo4j-cud, id: {pointer: "/ids/*", prefix: "person:"}}]`, cud, ownPeople},
	} {
		file := filepath.Join(dir, c.name+".yaml")
		must(t, os.WriteFile(file, []byte(c.text), 0o644))
		want, got := predictions(c.name+"-own", c.own, false), predictions(c.name, c.mapped, true, "--map", file)
		for i := range min(len(want), len(got)) {
			if got[i] != want[i] {
				t.Fatalf("%s: prediction %d is\n%s\nthrough the map, and\n%s", c.name, i, got[i], want[i])
			}
		}
	}
}

// produce sends lines as values without keys and headers: on Apache Kafka, unless the test is on kfake, with its console producer.
func (sh *shell) produce(topic string, lines []string) {
	sh.t.Helper()
	if tool := kafkatest.Tool(); tool != "" && kafkatest.Apache() != "" && sh.listen == nil {
		cmd := exec.CommandContext(sh.t.Context(), tool, "produce", sh.addr, topic)
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		if out, err := cmd.CombinedOutput(); err != nil {
			sh.t.Fatalf("%v: %s", err, out)
		}
		return
	}
	p, err := sh.dial().NewProducer(sh.t.Context(), kafka.ProducerConfig{})
	must(sh.t, err)
	records := make([]kafka.Record, len(lines))
	for i, line := range lines {
		records[i] = kafka.Record{Topic: topic, Value: []byte(line)}
	}
	must(sh.t, p.Send(sh.t.Context(), records))
}
