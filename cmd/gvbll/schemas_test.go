package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// schemasDir has a schema for each topic, in a file of the topic's name without its prefix.
const schemasDir = "../../docs/schemas"

// schemas returns the compiled schemas by their topics' names.
func schemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	all := make(map[string]*jsonschema.Schema)
	for _, topic := range topicsUnder(t, "x").All() {
		name := strings.TrimPrefix(topic, "x.")
		s, err := jsonschema.NewCompiler().Compile(filepath.Join(schemasDir, name+".json"))
		must(t, err)
		all[name] = s
	}
	return all
}

// fits returns why a JSON value does not fit a schema, nil if it does.
func fits(t *testing.T, s *jsonschema.Schema, value []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestRecordsFitTheirSchemas: what a worker writes in JSON, and what it is sent, fits the
// schemas: predictions with sets, abstentions and revisions, dead letters of every kind of
// record, a forgetting and an epoch in the ledger.
func TestRecordsFitTheirSchemas(t *testing.T) { onKFake(t, testRecordsFitTheirSchemas) }

func testRecordsFitTheirSchemas(t *testing.T, sh *shell) {
	dir := t.TempDir()
	sh.demo(smallDemo(t, "--brokers", sh.addr, "--dir", dir))
	path := filepath.Join(dir, "model.safetensors")
	m, err := model.Open(path)
	must(t, err)
	g := sh.graph("schemas", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "schemas")

	var lines strings.Builder
	for i := range 60 {
		fmt.Fprintf(&lines, `{"id":"n%d","indices":[%d],"neighbours":["n%d"],"time":%d}`+"\n", i, i%m.Encoder.In(), i/2, time.Now().UnixMilli())
		fmt.Fprintf(&lines, `{"node":"n%d","class":%d}`+"\n", i/3, i/3%len(m.Classes))
	}
	lines.WriteString(`{"source":"n1","target":"n9"}` + "\n" + `[{"source":"n1","target":"n9","remove":true}]` + "\n" + `{"id":"n3","neighbors":["n8"]}` + "\n" + `{"id":"n4","departed":true}` + "\n")
	events := filepath.Join(dir, "events.jsonl")
	must(t, os.WriteFile(events, []byte(lines.String()), 0o644))
	sh.gvbll("send", "--brokers", sh.addr, "--prefix", "schemas", "--events", events)
	later := filepath.Join(dir, "later.jsonl") // edges of nodes that were predicted, and have no label
	must(t, os.WriteFile(later, []byte(`{"source":"n50","target":"n52"}`), 0o644))
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for _, value := range []string{"\xff\x00", `{"id": "n7", "features": [1]}`, "", strings.Repeat("x", 600<<10)} {
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Key: []byte("k\xff"), Value: []byte(value), Headers: []kafka.Header{{Key: "a"}, {Key: "b", Value: []byte{0xff}}}}}))
	}
	flags := []string{"--model", path, "--prefix", "schemas", "--output", "json", "--coverage", "0.9", "--abstain", "confidence=0.9,set-size=1", "--rescore", "after=1", "--act", "class=" + m.Classes[0] + ",capacity=9/m", "--reasons", "3", "--ask", "1000/s"}
	stop := g.work(flags...)
	g.awaitTaken()
	sh.gvbll("send", "--brokers", sh.addr, "--prefix", "schemas", "--events", later)
	g.awaitTaken()
	sh.gvbll("forget", "n5", "--brokers", sh.addr, "--prefix", "schemas")
	stop()
	stop = g.work(append(flags, "--head", "paper", "--rebase")...)
	g.await("epoch 1 has begun", func(all []*ledger.Record) bool { return len(all) > 0 && all[len(all)-1].Epoch == 1 })
	stop()

	all := schemas(t)
	seen := make(map[string]bool) // fields, as topic.name
	for _, topic := range g.names.All() {
		name := strings.TrimPrefix(topic, "schemas.")
		must(t, g.client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
			if asJSON := slices.ContainsFunc(r.Headers, func(h kafka.Header) bool { return h.Key == wire.ContentType && string(h.Value) == string(wire.JSON) }); !asJSON {
				if string(r.Key) != "k\xff" { // of this test
					t.Errorf("%s offset %d has the headers %q, want JSON", topic, r.Offset, r.Headers)
				}
				return
			}
			if err := fits(t, all[name], r.Value); err != nil {
				t.Errorf("%s offset %d, %.300s: %v", topic, r.Offset, r.Value, err)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Value))
			must(t, err)
			if object, ok := v.(map[string]any); ok {
				for field := range object {
					seen[name+"."+field] = true
				}
			}
		}))
	}
	for _, field := range []string{
		"nodes.source", "labels.class", "commands.nodes", "predictions.set", "predictions.abstain_reason", "predictions.revision", "predictions.asked", "predictions.reasons", "to-label.asked", "ledger.figures",
		"dead-letters.value", "dead-letters.value_base64", "dead-letters.key_base64", "dead-letters.truncated", "ledger.forgot", "ledger.begins", "ledger.scores", "ledger.reasons",
	} {
		if !seen[field] {
			t.Errorf("no record had the field %s, want one: saw %v", field, slices.Sorted(maps.Keys(seen)))
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[ledger.Record]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" && !f.Anonymous {
			seen["ledger."+name] = true
		}
	}
	for field := range seen {
		name, property, _ := strings.Cut(field, ".")
		file := filepath.Join(schemasDir, name+".json")
		text, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Contains(text, []byte(`"`+property+`"`)) {
			t.Errorf("records of %s have the field %s: add it to %s", name, property, file)
		}
	}
}

// TestKcatLines: the line for gvbll send in README.md and those for kcat in docs/wire-format.md work as they
// stand, whatever the model: the node is predicted, and its label is learned.
func TestKcatLines(t *testing.T) { onKFake(t, testKcatLines) }

func testKcatLines(t *testing.T, sh *shell) {
	dir := t.TempDir()
	sh.demo(smallDemo(t, "--brokers", sh.addr, "--dir", dir))
	g := sh.graph("gvbll", 0)
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	lines := regexp.MustCompile(`(?s)\n    echo '([^\n]*)' \|\n      kcat -P -b localhost:9092 -t gvbll\.(nodes|labels) -k (\S+)\n`)
	letters := total(t, g.client, g.names.DeadLetters)
	text, err := os.ReadFile("../../README.md")
	must(t, err)
	nodes := regexp.MustCompile(`\n    echo '([^\n]*)' \|\n      gvbll send --events - --brokers localhost:9092\n`).FindAllSubmatch(text, -1)
	if len(nodes) != 1 {
		t.Fatalf("README.md has %d lines for gvbll send, want 1", len(nodes))
	}
	sent := filepath.Join(dir, "event.jsonl")
	must(t, os.WriteFile(sent, nodes[0][1], 0o600))
	sh.gvbll("send", "--events", sent, "--brokers", sh.addr)
	text, err = os.ReadFile("../../docs/wire-format.md")
	must(t, err)
	all := lines.FindAllSubmatch(bytes.ReplaceAll(text, []byte("\n    echo"), []byte("\n\n    echo")), -1)
	if len(all) != 3 { // an edge and a label
		t.Fatalf("docs/wire-format.md has %d lines for kcat, want 3", len(all))
	}
	for _, l := range all {
		must(t, p.Send(t.Context(), []kafka.Record{{
			Topic: "gvbll." + string(l[2]), Key: l[3], Value: append(l[1], '\n'), Time: time.Now(),
		}}))
	}
	stop := g.work("--model", filepath.Join(dir, "model.safetensors"))
	g.awaitTaken()
	stop()
	if n := total(t, g.client, g.names.DeadLetters) - letters; n != 0 {
		t.Errorf("%d of the records are refused: %s", n, sh.gvbll("dead-letters", "--brokers", sh.addr))
	}
	if got := sh.gvbll("tail", "--brokers", sh.addr, "--no-follow", "-k", "paper-7", "--json"); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"paper-7"`) {
		t.Errorf("tail shows %q, want the prediction of paper-7", got)
	}
}

// TestAsyncAPI: the document has a channel for each topic, with its schema as payload. CI
// checks the rest of it (.ci/asyncapi).
func TestAsyncAPI(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(schemasDir, "asyncapi.yaml"))
	must(t, err)
	for _, topic := range topicsUnder(t, "x").All() {
		name := strings.TrimPrefix(topic, "x.")
		for _, want := range []string{"address: '{prefix}." + name + "'\n", "$ref: ./" + name + ".json\n"} {
			if n := strings.Count(string(text), want); n != 1 {
				t.Errorf("the document has %q %d times, want once", want, n)
			}
		}
	}
}
