package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestMap: change events of Debezium, without headers, in topics of their own names, have the
// predictions of the same events in our own format, byte by byte. Cards enter as payments name
// them, as if they had been sent. A record without an id is a dead letter that names the pointer.
// An audit decodes through the map that the ledger has, without the file; another map is another
// epoch.
func TestMap(t *testing.T) { onKFake(t, testMap) }

func testMap(t *testing.T, sh *shell) {
	const payments = 200
	dir := t.TempDir()
	table, model := paymentsTable(t, payments), filepath.Join(dir, "m.safetensors")
	sh.gvbll("train", "--data", table, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--out", model)
	file := filepath.Join(dir, "map.yaml")
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o644)) }
	write(`
nodes:
  - preset: debezium
    id: {pointer: /after/payment, or: /before/payment, prefix: "payment:"}
    neighbours: [{pointer: /after/card, prefix: "card:", implicit: true}, {pointer: /after/merchant/id, prefix: "merchant:", implicit: true, optional: true}]
labels:
  - {node: {pointer: /payment, prefix: "payment:"}, class: {pointer: /outcome, map: {chargeback: fraud, settled: good}}}
`)
	client := sh.dial()
	p, err := client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	send := func(topic, value string) {
		t.Helper()
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: topic, Value: []byte(value)}}))
	}
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "own", "--partitions", "1")
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "mapped", "--partitions", "1", "--nodes-topic", "db.public.payments", "--labels-topic", "chargebacks")
	entered := make(map[string]bool)
	for i := range payments {
		card, shop, when := fmt.Sprintf("c%d", i*i%40), fmt.Sprint(i%30), 1772323200000+int64(i)*60000
		features := fmt.Sprintf(`"amount": %d.5, "country": "C%d", "new": %t`, i, i%7, i%2 == 0)
		send("db.public.payments", fmt.Sprintf(`{"before": null, "after": {"payment": %d, "card": %q, "merchant": {"id": %s}, "tags": ["web"], %s}, "op": "c", "ts_ms": %d}`, i, card, shop, features, when))
		send("own.nodes", fmt.Sprintf(`{"id": "payment:%d", "neighbours": ["card:%s", "merchant:%s"], "features": {%s}, "time": %d}`, i, card, shop, features, when))
		for _, id := range []string{"card:" + card, "merchant:" + shop} {
			if !entered[id] {
				entered[id] = true
				send("own.nodes", fmt.Sprintf(`{"id": %q, "context": true, "indices": []}`, id))
			}
		}
		class, outcome := "good", "settled"
		if i%7 == 3 {
			class, outcome = "fraud", "chargeback"
		}
		send("chargebacks", fmt.Sprintf(`{"payment": %d, "outcome": %q}`, i, outcome))
		send("own.labels", fmt.Sprintf(`{"node": "payment:%d", "class": %q}`, i, class))
	}
	if out := sh.gvbll("map", "--try", file, "--topic", "db.public.payments", "--brokers", sh.addr, "-n", "3"); strings.Count(out, "\n") != 3 || !strings.Contains(out, `"implicit":["card:c1","merchant:1"],"neighbours":["card:c1","merchant:1"]`) {
		t.Errorf("gvbll map prints\n%s", out)
	}

	predictions := func(prefix string, more ...string) (list []string) {
		t.Helper()
		g := sh.graph(prefix, 0)
		stop := g.work(append([]string{"--model", model, "--prefix", prefix, "--output", "json", "--window", "400", "--linger", "2s"}, more...)...)
		g.await("all payments are predicted", func(all []*ledger.Record) bool {
			n := 0
			for _, r := range all {
				n += r.Predictions
			}
			return n >= payments
		})
		g.awaitTaken()
		stop()
		must(t, client.ReadAll(t.Context(), prefix+".predictions", func(r *kafka.Record) { list = append(list, string(r.Value)) }))
		return list
	}
	inputs := []string{"--nodes-topic", "db.public.payments", "--labels-topic", "chargebacks"}
	send("db.public.payments", `{"before": null, "after": {"card": "c1"}, "op": "c"}`)
	own, mapped := predictions("own"), predictions("mapped", append(inputs, "--map", file)...)
	if len(own) != payments || len(mapped) != payments {
		t.Fatalf("%d and %d predictions, want %d", len(own), len(mapped), payments)
	}
	for i := range own {
		if own[i] != mapped[i] {
			t.Fatalf("prediction %d is\n%s\nthrough the map, and\n%s", i, mapped[i], own[i])
		}
	}
	if out := sh.gvbll("dead-letters", "--brokers", sh.addr, "--prefix", "mapped", "--json"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "the pointer /after/payment finds nothing") {
		t.Errorf("dead letters of the map:\n%s", out)
	}
	must(t, os.Remove(file))
	audit := append([]string{"audit", "--model", model, "--brokers", sh.addr, "--prefix", "mapped"}, inputs...)
	sh.gvbll(audit...)
	sh.gvbll("export", "--brokers", sh.addr, "--prefix", "own", "--out", filepath.Join(dir, "own"))
	sh.gvbll(append([]string{"export", "--brokers", sh.addr, "--prefix", "mapped", "--out", filepath.Join(dir, "mapped")}, inputs...)...)
	read := func(prefix, file string, columns int) (cut string) {
		text, err := os.ReadFile(filepath.Join(dir, prefix, file))
		must(t, err)
		for line := range strings.Lines(string(text)) { // without the attributes that no schema names
			fields := strings.Split(strings.TrimSpace(line), ",")
			cut += strings.Join(fields[:min(columns, len(fields))], ",") + "\n"
		}
		return cut
	}
	for file, columns := range map[string]int{"nodes.csv": 4, "edges.csv": 2} {
		if own, mapped := read("own", file, columns), read("mapped", file, columns); own != mapped || !strings.Contains(mapped, "payment:3") || !strings.Contains(mapped, "merchant:3") {
			t.Errorf("%s exported through the map:\n%s\nand of the same events:\n%s", file, mapped, own)
		}
	}

	write("nodes: [{id: {pointer: /after/payment}, features: /after}]")
	code, _, errs := sh.command(append([]string{"work", "--model", model, "--brokers", sh.addr, "--prefix", "mapped", "--http", "127.0.0.1:0", "--output", "json", "--window", "400", "--map", file}, inputs...)...)
	if code != exitFailed || !strings.Contains(errs, "was written with other settings: map is # ") || !strings.Contains(errs, "--rebase") {
		t.Errorf("another map: exit code %d and %s", code, errs)
	}
	g := sh.graph("mapped", 0)
	stop := g.work(append([]string{"--model", model, "--prefix", "mapped", "--output", "json", "--window", "400", "--linger", "2s", "--map", file, "--rebase"}, inputs...)...)
	g.await("epoch 1 has begun", func(all []*ledger.Record) bool { return len(all) > 0 && all[len(all)-1].Epoch == 1 })
	stop()
	sh.gvbll(audit...)
	if n := g.predictions(); n != payments {
		t.Errorf("%d predictions after another map's epoch, want %d", n, payments)
	}
	write("nodes: [{id: {pointer: payment}}]")
	if code, _, errs := sh.command("work", "--model", model, "--map", file); code != exitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "--map") || !strings.Contains(errs, `pointer "payment": begin it with /`) {
		t.Errorf("a map that makes no sense: exit code %d and %s", code, errs)
	}
}

// TestEventText: what gvbll map prints is an event that we would read.
func TestEventText(t *testing.T) {
	for _, text := range []string{
		`{"features":{"b":1.5,"c":"x","d":true,"e":null},"id":"a","neighbours":[7],"time":5}`,
		`{"remove":true,"source":"a","target":7}`, `{"departed":true,"id":7}`, `{"context":true,"features":[1,2],"id":"a"}`,
	} {
		var n, again event.Node
		var d wire.Decoder
		if reason, detail := d.Node(&event.Origin{Value: []byte(text)}, &n); reason != "" {
			t.Fatal(reason, detail)
		}
		got := eventText(&n)
		if reason, detail := d.Node(&event.Origin{Value: got}, &again); reason != "" || !json.Valid(got) || string(got) != text {
			t.Errorf("%s is printed as %s (%s %s)", text, got, reason, detail)
		}
	}
}

// TestWhy: a line of gvbll map says which values are gaps and which edges leave.
func TestWhy(t *testing.T) {
	n := event.Node{Named: []event.Attribute{{Name: "a"}, {Name: "b", Kind: event.Number}, {Name: "c", Kind: event.Nested}}, Dropped: []event.ID{{Str: "card:1"}}}
	if got, want := why(&n), "  gaps, null in the record: a  no values, but objects or lists of texts: c  without the edges to [card:1] any more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
