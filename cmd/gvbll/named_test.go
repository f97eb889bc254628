package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// payment is a row of a table as people have them: four numbers, of which one is heavy-tailed and
// one has 12 % gaps, a category of 23 countries and one of three plans, a boolean, a time and a
// text. A third have no label.
type payment struct {
	ID      string    `parquet:"id"`
	Label   *string   `parquet:"label,optional"`
	Time    time.Time `parquet:"time,timestamp(millisecond)"`
	Amount  float64   `parquet:"amount"`
	Age     *int64    `parquet:"age,optional"`
	Balance float64   `parquet:"balance"`
	Visits  int32     `parquet:"visits"`
	Country string    `parquet:"country"`
	Plan    string    `parquet:"plan"`
	New     bool      `parquet:"new"`
	Opened  time.Time `parquet:"opened,timestamp(millisecond)"`
	Note    string    `parquet:"note"`
}

// paymentRows returns n payments, and edges to the fifth before on the same card.
func paymentRows(n int) (rows []payment, edges string) {
	rng := rand.New(rand.NewPCG(29, 1))
	first, edges := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), "source,target\n"
	for i := range n {
		p := payment{
			ID: fmt.Sprint("p-", i), Time: first.Add(time.Duration(i) * time.Hour), Amount: math.Exp(2 * rng.NormFloat64()), Balance: 1000 + 100*rng.NormFloat64(),
			Visits: rng.Int32N(20), Country: fmt.Sprintf("C%02d", i%23), Plan: []string{"free", "gold", "team"}[i%3], New: i%2 == 0,
			Opened: first.AddDate(0, 0, -1-rng.IntN(400)).Add(time.Duration(i%24) * time.Hour), Note: fmt.Sprintf("item %d of %d", i, n),
		}
		if i%25 >= 3 {
			age := int64(18 + rng.IntN(60))
			p.Age = &age
		}
		if label := []string{"good", "fraud"}[i%7/3%2]; i/3%3 != 2 {
			p.Label = &label
		}
		if rows = append(rows, p); i >= 5 {
			edges += fmt.Sprintf("p-%d,p-%d\n", i, i-5)
		}
	}
	return rows, edges
}

// paymentsTable writes n payments into a folder, as csv.
func paymentsTable(t *testing.T, n int) (dir string) {
	t.Helper()
	rows, edges := paymentRows(n)
	nodes := "id,label,time,amount,age,balance,visits,country,plan,new,opened,note\n"
	for _, p := range rows {
		label, age := "", ""
		if p.Label != nil {
			label = *p.Label
		}
		if p.Age != nil {
			age = fmt.Sprint(*p.Age)
		}
		nodes += fmt.Sprintf("%s,%s,%s,%v,%s,%v,%d,%s,%s,%t,%s,%s\n", p.ID, label, p.Time.Format(time.RFC3339), p.Amount, age, p.Balance, p.Visits, p.Country, p.Plan, p.New, p.Opened.Format(time.RFC3339), p.Note)
	}
	return writeTables(t, map[string]string{"nodes.csv": nodes, "edges.csv": edges})
}

// writeTables writes the files of a data set of the name payments.
func writeTables(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "payments")
	must(t, os.Mkdir(dir, 0o755))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// TestOwnTable: a table as people have it trains without a script, in csv and in Parquet to the
// same model. What it was taken for is printed, also of the model, and it can be demonstrated.
func TestOwnTable(t *testing.T) { onKFake(t, testOwnTable) }

func testOwnTable(t *testing.T, sh *shell) {
	const nodes = 600
	rows, edges := paymentRows(nodes)
	var b bytes.Buffer
	must(t, parquet.Write(&b, rows))
	schema := regexp.MustCompile(`(?m)^ATTRIBUTE +COLUMNS +KIND(?: +EXAMPLES)?
amount +2 +number, \S+ to \S+, median \S+(?:  .*)?
age +3 +number, \S+ to \S+, median \S+, \S+ % gaps(?:  .*)?
balance +2 +number, \S+ to \S+, median \S+(?:  .*)?
visits +2 +number, \S+ to \S+, median \S+(?:  .*)?
country +23 +category, 23 values \(C00, C01, C02, …\)(?:  .*)?
plan +3 +category, 3 values \(free, gold, team\)(?:  .*)?
new +1 +boolean(?:  .*)?
opened +5 +time(?:  .*)?
note +256 +text(?:  .*)?$`)
	var said []string
	for name, dir := range map[string]string{"csv": paymentsTable(t, nodes), "parquet": writeTables(t, map[string]string{"nodes.parquet": b.String(), "edges.csv": edges})} {
		file := filepath.Join(t.TempDir(), "m")
		code, out, errs := sh.command("train", "--data", dir, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--out", file)
		if code != exitOK || !schema.MatchString(errs) || !strings.Contains(errs, "198 nodes without a label") {
			t.Errorf("train of %s: exit code %d\n%s", name, code, errs)
		}
		said = append(said, strings.TrimPrefix(out, file))
		if out := sh.gvbll("inspect", file); !schema.MatchString(out) {
			t.Errorf("inspect of %s prints\n%s", name, out)
		}
		sum := sh.demo([]string{"demo", "--data", dir, "--train-share", "0.3", "--epochs", "3", "--steps", "5", "--brokers", sh.addr, "--prefix", name, "--json"})
		if sum.Labels != 282 {
			t.Errorf("demo of %s scored %d labels, want 282", name, sum.Labels)
		}
	}
	if said[0] != said[1] || !strings.Contains(said[0], "model ") {
		t.Errorf("of csv and of Parquet: %s and %s, want the same model", said[0], said[1])
	}
}

// TestNamedAttributes: a table with names, categories and gaps trains a model that says what
// it learned of them. Producers send the same names: gaps, unseen values and numbers as text
// are predicted, a wrong kind is a dead letter that names attribute, value and kind. An audit
// agrees, what was sent is exported under its names, and a model is trained on either.
func TestNamedAttributes(t *testing.T) { onKFake(t, testNamedAttributes) }

func testNamedAttributes(t *testing.T, sh *shell) {
	const nodes = 600
	dir, file := paymentsTable(t, nodes), filepath.Join(t.TempDir(), "m.safetensors")
	code, _, errs := sh.command("train", "--data", dir, "--train-share", "0.3", "--epochs", "5", "--hidden", "8", "--out", file)
	if code != exitOK || !strings.Contains(errs, "country    23       category, 23 values (C00, C01, C02, …)  ") {
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
	// send gives the events its own clock's time, so that their ages are others than in the table; all else is as in training.
	if _, out, _ := sh.command("status", "--brokers", sh.addr, "--json"); strings.Count(out, "GvbllAttributeShifted") != 1 ||
		!strings.Contains(out, "the mean of attribute opened is -") {
		t.Errorf("status of a stream as in training, but for the ages: %s", out)
	}

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
	if header, _, _ := strings.Cut(string(table), "\n"); !strings.HasSuffix(header, "amount,age,balance,visits,country,plan,new,opened,note,iban,time-zone") || !strings.Contains(string(table), ",12.50,,,,Atlantis,") {
		t.Errorf("exported %s…", table[:min(len(table), 300)])
	}
	// What was refused was sent all the same. Without the model that refused it nobody knows the column's kind, which is said.
	_, _, errs = sh.command("export", "--brokers", sh.addr, "--out", filepath.Join(t.TempDir(), "doubtful"))
	for _, want := range []string{`column "amount": "abc" in row`, "it is a category in dataset.json", "give --model"} {
		if !strings.Contains(errs, want) {
			t.Errorf("export without a model: %s, want %q", errs, want)
		}
	}
	exported = filepath.Join(t.TempDir(), "known")
	sh.gvbll("export", "--brokers", sh.addr, "--model", file, "--out", exported)
	description, err := os.ReadFile(filepath.Join(exported, "dataset.json"))
	must(t, err)
	if !strings.Contains(string(description), "\"amount\": {\n      \"kind\": \"number\"") {
		t.Errorf("exported with a model: %s, want a number", description)
	}
	sh.gvbll("train", "--data", exported, "--epochs", "2", "--out", filepath.Join(exported, "m"))
	again := filepath.Join(exported, "again")
	sh.gvbll("train", "--brokers", sh.addr, "--serving", file, "--epochs", "2", "--out", again)
	if next, err := model.Open(again); err != nil || next.Schema == nil || next.Schema.Width() != m.Schema.Width() {
		t.Errorf("trained on the ledger: %v, %+v, want the schema of the model that serves", err, next)
	}
}

// TestNamedBits: an engine that gets events by name, in msgpack or JSON, has the bits of one
// that gets the rows as they were encoded for the training.
func TestNamedBits(t *testing.T) {
	set, err := flags.Data{Data: paymentsTable(t, 600), TrainShare: 0.3}.Open()
	must(t, err)
	m, err := holdout.Train(t.Context(), set.Training(), model.Config{Hidden: []int{8}, Epochs: 2, Pool: true, Seed: 1}, nil, nil)
	must(t, err)
	rows := make(map[event.ID]gnn.Vector)
	for v, x := range set.Features {
		rows[set.ID(int32(v))] = x
	}
	var engines [3]*pipeline.Engine
	for i := range engines {
		engines[i], err = pipeline.New(m, pipeline.Config{Samples: 2})
		must(t, err)
	}
	stream := set.Stream()
	for number, items := range append([][]sender.Item{stream.Context}, stream.Steps...) {
		var windows [3]event.Window
		for i := range items {
			n := &items[i].Node
			encoded := *n
			encoded.Origin, encoded.Named, encoded.Dense = &event.Origin{}, nil, rows[n.ID].Dense
			windows[0].Nodes = append(windows[0].Nodes, encoded)
			for k, value := range [][]byte{wire.AppendNode(nil, n), eventText(n)} {
				var decoded event.Node
				var d wire.Decoder
				if reason, detail := d.Node(&event.Origin{Value: value}, &decoded); reason != "" || decoded.Named == nil {
					t.Fatalf("%s: %s %s", value, reason, detail)
				}
				windows[1+k].Nodes = append(windows[1+k].Nodes, decoded)
			}
			for k := range windows {
				if class := items[i].Class; class != "" {
					windows[k].Labels = append(windows[k].Labels, event.Label{Origin: &event.Origin{}, Node: n.ID, Class: class})
				}
			}
		}
		var chains [3]event.Hash
		for k, e := range engines {
			windows[k].Number = int64(number)
			chains[k] = e.Step(&windows[k]).Chain
		}
		if chains[1] != chains[0] || chains[2] != chains[0] {
			t.Fatalf("window %d: chains %x", number, chains)
		}
	}
}

// TestAttributesShifted: a producer that stops sending an attribute, and sends another in cents,
// is found without a label: by the status, on the live page and in a report.
func TestAttributesShifted(t *testing.T) { onKFake(t, testAttributesShifted) }

func testAttributesShifted(t *testing.T, sh *shell) {
	model := filepath.Join(t.TempDir(), "m")
	sh.gvbll("train", "--data", paymentsTable(t, 600), "--train-share", "0.3", "--epochs", "2", "--hidden", "8", "--out", model)
	g := sh.graph("gvbll", 0)
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	stop := g.work("--model", model)
	rows, _ := paymentRows(300)
	var values []string
	for _, p := range rows {
		age := "null"
		if p.Age != nil {
			age = fmt.Sprint(*p.Age)
		}
		values = append(values, fmt.Sprintf(`{"id": %q, "features": {"amount": %v, "age": %s, "balance": %v, "country": %q, "visits": %d, "plann": "gold", "note\u001b[2J": 1}}`, p.ID, p.Amount, age, 100*p.Balance, p.Country, p.Visits))
	}
	sh.produce(g.names.Nodes, values)
	g.awaitTaken()
	var s struct {
		Owner struct{ HTTP string }
		Wrong []look.Finding
	}
	_, out, _ := sh.command("status", "--brokers", sh.addr, "--json")
	must(t, json.Unmarshal([]byte(out), &s))
	page := sh.get(s.Owner.HTTP + "/")
	stop()
	var found []string
	for _, f := range s.Wrong {
		if f.Alert == "GvbllAttributeShifted" {
			found = append(found, f.What)
		}
	}
	want := []string{
		"the mean of attribute balance is 3.1 standard deviations from that of training",
		`attribute plan is missing or unknown in 100.0% of the events, in training in 0.0%: "plann" came instead`,
		"attribute new is missing or unknown in 100.0% of the events, in training in 0.0%",
		"attribute opened is missing or unknown in 100.0% of the events, in training in 0.0%",
		"attribute note is missing or unknown in 100.0% of the events, in training in 0.0%",
	}
	if !slices.Equal(found, want) {
		t.Errorf("status found\n%s", strings.Join(found, "\n"))
	}
	_, out, _ = sh.command("status", "--brokers", sh.addr)
	for _, line := range []string{"unknown attribute: plann, 300 values: did you mean \"plan\"?\n", "unknown attribute: note·[2J, 300 values\n"} {
		if strings.Count(out, line) != 1 {
			t.Errorf("status does not print once %q:\n%s", line, out)
		}
	}
	report := filepath.Join(t.TempDir(), "report.html")
	sh.gvbll("report", "--brokers", sh.addr, "--out", report)
	html, err := os.ReadFile(report)
	must(t, err)
	for what, text := range map[string]string{"page": page, "report": string(html)} {
		if !regexp.MustCompile(`balance</th>\s*<td[^>]*>300</td>\s*<td[^>]*>0.0</td>\s*<td[^>]*>0.0</td>\s*<td[^>]*>3\.\d\d</td>`).MatchString(text) {
			t.Errorf("the %s does not say that the mean of an attribute moved", what)
		}
	}
}
