package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
)

// paymentsTable writes a folder with a table as people have them: a heavy-tailed amount, an age
// with gaps, two categories, a boolean, a time and a text, of n payments that follow each
// other on the same card.
func paymentsTable(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "payments")
	must(t, os.Mkdir(dir, 0o755))
	nodes, edges := "id,label,time,amount,age,country,plan,new,opened,note\n", "source,target\n"
	for i := range n {
		label, age := "good", fmt.Sprint(18+i%60)
		if i%7 == 3 {
			label = "fraud"
		}
		if i%8 == 0 {
			age = ""
		}
		country := fmt.Sprintf("C%d", i%7)
		nodes += fmt.Sprintf("p-%d,%s,2026-03-%02dT%02d:00:00Z,%g,%s,%s,%s,%t,2026-02-%02d,item %d of %d\n", i, label, 1+i/24, i%24, float64((i*i*i)%(1+i*i)), age, country, []string{"free", "gold", "team"}[i%3], i%2 == 0, 1+i%28, i, n)
		if i >= 5 {
			edges += fmt.Sprintf("p-%d,p-%d\n", i, i-5)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "nodes.csv"), []byte(nodes), 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges), 0o644))
	return dir
}

// TestNamedAttributes: a table with names, categories and gaps trains a model that says what
// it learned of them. Producers send the same names: gaps, unseen values and numbers as text
// are predicted, a wrong kind is a dead letter that names attribute, value and kind. An audit
// agrees, what was sent is exported under its names, and a model is trained on either.
func TestNamedAttributes(t *testing.T) { onKFake(t, testNamedAttributes) }

func testNamedAttributes(t *testing.T, sh *shell) {
	const nodes = 300
	dir, file := paymentsTable(t, nodes), filepath.Join(t.TempDir(), "m.safetensors")
	code, _, errs := sh.command("train", "--data", dir, "--train-share", "0.3", "--epochs", "5", "--hidden", "8", "--out", file)
	if code != exitOK || !strings.Contains(errs, "country    7        category, 7 values (C0, C1, C2, …)\n") {
		t.Fatalf("train: exit code %d\n%s", code, errs)
	}
	if out := sh.gvbll("inspect", file); !strings.Contains(out, "ATTRIBUTE") || !strings.Contains(out, "amount") {
		t.Errorf("inspect prints no schema:\n%s", out)
	}
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	stop := g.work("--model", file)
	sh.gvbll("send", "--data", dir, "--train-share", "0.3", "--brokers", sh.addr)

	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for i, features := range []string{
		`{"amount": "12.50", "country": "Atlantis", "age": null, "iban": "DE00"}`,
		`{"amount": 7, "plan": "gold", "new": 1, "opened": 1770000000000, "time-zone": "UTC"}`,
		`{}`,
		`{"amount": "abc"}`,
	} {
		value := fmt.Sprintf(`{"id": "extra-%d", "features": %s, "neighbours": ["p-%d"], "time": 1774000000000}`, i, features, i)
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Value: []byte(value)}}))
	}
	g.awaitTaken()
	stop()

	if out := sh.gvbll("dead-letters", "--brokers", sh.addr); strings.Count(out, "\n") != 2 || !strings.Contains(out, `attribute amount: "abc" is no number`) {
		t.Errorf("dead letters, want one that names the attribute:\n%s", out)
	}
	out := sh.gvbll("tail", "--json", "--no-follow", "--brokers", sh.addr)
	for i := range 3 {
		if !strings.Contains(out, fmt.Sprintf(`"node":"extra-%d"`, i)) {
			t.Errorf("no prediction of extra-%d", i)
		}
	}
	sh.gvbll("audit", "--model", file, "--brokers", sh.addr)

	exported := filepath.Join(t.TempDir(), "exported")
	sh.gvbll("export", "--brokers", sh.addr, "--out", exported)
	table, err := os.ReadFile(filepath.Join(exported, "nodes.csv"))
	must(t, err)
	if header, _, _ := strings.Cut(string(table), "\n"); !strings.HasSuffix(header, "amount,age,country,plan,new,opened,note,iban,time-zone") || !strings.Contains(string(table), ",12.50,,Atlantis,") {
		t.Errorf("exported %s…", table[:min(len(table), 300)])
	}
	// What was refused was sent all the same: a table with it is not taken for one of categories.
	if code, _, errs := sh.command("train", "--data", exported, "--out", filepath.Join(exported, "m")); code != exitFailed || !strings.Contains(errs, `column "amount": "abc" in row`) || !strings.Contains(errs, `{"amount": "category"}`) {
		t.Errorf("train on what was exported: exit code %d: %s", code, errs)
	}
	must(t, os.WriteFile(filepath.Join(exported, "nodes.csv"), []byte(strings.Replace(string(table), ",abc,", ",,", 1)), 0o644))
	sh.gvbll("train", "--data", exported, "--epochs", "2", "--out", filepath.Join(exported, "m"))
	again := filepath.Join(exported, "again")
	sh.gvbll("train", "--brokers", sh.addr, "--serving", file, "--epochs", "2", "--out", again)
	if next, err := model.Open(again); err != nil || next.Schema == nil || next.Schema.Width() != m.Schema.Width() {
		t.Errorf("trained on the ledger: %v, %+v, want the schema of the model that serves", err, next)
	}
}
