package pipeline_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// account is a random value for each of the names of accounts, a gap at times.
func account(rng *rand.Rand) map[string]string {
	values := map[string]string{
		"amount": fmt.Sprint(rng.NormFloat64()), "country": fmt.Sprintf("C%d", rng.IntN(6)), "new": fmt.Sprint(rng.IntN(2) == 0),
		"opened": fmt.Sprintf("2026-01-%02d", 1+rng.IntN(28)), "note": strings.Repeat("a word or two ", rng.IntN(3)), "place": fmt.Sprintf("%d %d", rng.IntN(3), rng.IntN(3)),
	}
	for name := range values {
		if rng.IntN(6) == 0 {
			values[name] = ""
		}
	}
	return values
}

var accountNames = []string{"amount", "country", "new", "opened", "note", "place"}

const accountTime = 1_770_000_000_000

// accountModel trains a model on accounts.
func accountModel(t *testing.T, rng *rand.Rand) *model.Model {
	t.Helper()
	columns := make([]attributes.Column, len(accountNames))
	for j, kind := range []attributes.Kind{attributes.Number, attributes.Category, attributes.Boolean, attributes.Time, attributes.Text, attributes.Vector} {
		columns[j] = attributes.Column{Name: accountNames[j], Kind: kind}
	}
	d := model.Data{Name: "accounts", Classes: []string{"good", "bad"}}
	var times []int64
	var rows []int32
	for v := range int32(80) {
		values := account(rng)
		for j := range columns {
			columns[j].Texts = append(columns[j].Texts, values[columns[j].Name])
		}
		times, rows = append(times, accountTime+int64(v)), append(rows, v)
		d.Labels = append(d.Labels, v%2)
	}
	var err error
	if d.Schema, err = attributes.Learn(columns, times, rows); err != nil {
		t.Fatal(err)
	}
	d.Dim = d.Schema.Width()
	e := attributes.NewEncoder(d.Schema)
	for v := range rows {
		x, err := attributes.EncodeRow(e, columns, times, v)
		if err != nil {
			t.Fatal(err)
		}
		d.X = append(d.X, x)
	}
	m, err := holdout.Train(t.Context(), d, model.Config{Hidden: []int{4}, Embedding: 4, Epochs: 2, Samples: 2, Pool: true, Seed: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPartialUpdates: an engine that gets what changed of a node has the bits of one that gets
// all of it again, whatever leaves, comes again, is refused or comes twice in a window; also
// when it is restored from a snapshot that was read while the engine went on. Histories agree,
// and what is counted of attributes is the same.
func TestPartialUpdates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	m := accountModel(t, rng)
	cfg := pipeline.Config{PartialUpdates: true, Samples: 2}
	partial, whole := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2})
	histories := make([]*pipeline.History, 3) // by the schema, of changes and of all; by name, of changes
	for i := range histories {
		c := pipeline.HistoryConfig{Features: m.Encoder.In(), Schema: m.Schema, Partial: i != 1}
		if i == 2 {
			c.Schema = nil
		}
		h, err := pipeline.NewHistory(c)
		if err != nil {
			t.Fatal(err)
		}
		histories[i] = h
	}
	known := make([]map[string]string, 20)
	for number := range int64(80) {
		changes, all := accountsWindow(rng, number, known)
		var file []byte
		s := partial.Snapshot(nil)
		file = append(file, make([]byte, s.Len())...)
		half := file[:len(file)/2]
		if number%9 == 4 {
			if _, err := io.ReadFull(s, half); err != nil {
				t.Fatal(err)
			}
		}
		x, y := partial.Step(changes), whole.Step(all)
		if x.Chain != y.Chain || len(x.Predictions) != len(y.Predictions) {
			t.Fatalf("window %d: the chains differ", number)
		}
		if d := cmp.Diff(y.Attributes, x.Attributes); d != "" {
			t.Fatalf("window %d: counted of whole events and of changes\n%s", number, d)
		}
		if number%9 == 4 {
			if _, err := io.ReadFull(s, file[len(half):]); err != nil {
				t.Fatal(err)
			}
			s.Close()
			again, _, err := restore(m, cfg, file)
			if err != nil {
				t.Fatal(err)
			}
			if again.Step(changes).Chain != y.Chain {
				t.Fatalf("window %d: the engine that was restored differs", number)
			}
			partial = again
		} else {
			s.Close()
		}
		histories[0].Step(changes)
		histories[1].Step(all)
		changes.Nodes = slices.DeleteFunc(changes.Nodes, func(n event.Node) bool { return slices.ContainsFunc(n.Named, isWrong) })
		histories[2].Step(changes) // without a schema nothing is refused
	}
	list := func(h *pipeline.History) []pipeline.Recorded {
		nodes, _ := h.Nodes(func(*pipeline.Recorded) bool { return true })
		return nodes
	}
	byChanges, byAll, byName := list(histories[0]), list(histories[1]), list(histories[2])
	if len(byAll) < 5 || len(byChanges) != len(byAll) {
		t.Fatalf("%d and %d nodes", len(byChanges), len(byAll))
	}
	for i := range byAll {
		if d := cmp.Diff(byAll[i].Features, byChanges[i].Features); d != "" {
			t.Fatalf("features of %v\n%s", byAll[i].ID, d)
		}
	}
	for _, n := range byName {
		got := make(map[string]string)
		for i := range n.Named {
			got[n.Named[i].Name] = n.Named[i].String()
		}
		if d := cmp.Diff(known[n.ID.Num], got); d != "" {
			t.Fatalf("names of %v\n%s", n.ID, d)
		}
	}
}

// accountsWindow returns a window of what changes of accounts, and one with all of their
// values. known has those of the accounts in the graph, nil for one that is not.
func accountsWindow(rng *rand.Rand, number int64, known []map[string]string) (changes, all *event.Window) {
	changes, all = &event.Window{Number: number}, &event.Window{Number: number}
	id := func() event.ID { return event.ID{Num: int64(rng.IntN(len(known)))} }
	for range 6 {
		n := event.Node{Origin: &event.Origin{}, ID: id(), Time: accountTime + number*100_000 + int64(rng.IntN(3))}
		v, w := n.ID.Num, n
		switch rng.IntN(12) {
		case 0:
			n.Departed, w.Departed, known[v] = true, true, nil
		default:
			now := account(rng)
			n.Neighbours = []event.ID{id()}
			n.Named, w.Neighbours = []event.Attribute{}, n.Neighbours
			for _, name := range accountNames {
				if known[v] != nil && rng.IntN(2) == 0 {
					now[name] = known[v][name]
				} else {
					n.Named = append(n.Named, sent(name, now[name]))
				}
				w.Named = append(w.Named, sent(name, now[name]))
			}
			known[v] = now
			if rng.IntN(6) == 0 { // another event, which is refused
				bad := n
				bad.Named = []event.Attribute{sent("amount", "7"), sent("country", "C1"), sent("new", wrong)}
				changes.Nodes, all.Nodes = append(changes.Nodes, n, bad), append(all.Nodes, w, bad)
				continue
			}
		}
		changes.Nodes, all.Nodes = append(changes.Nodes, n), append(all.Nodes, w)
	}
	for range 3 {
		l := event.Label{Origin: &event.Origin{}, Node: id(), Index: int32(rng.IntN(2))}
		changes.Labels, all.Labels = append(changes.Labels, l), append(all.Labels, l)
	}
	return changes, all
}

// wrong is no boolean.
const wrong = "perhaps"

func isWrong(a event.Attribute) bool { return a.Text == wrong }

// sent returns a value as a producer sends it.
func sent(name, text string) event.Attribute {
	if text == "" {
		return event.Attribute{Name: name}
	}
	return event.Attribute{Name: name, Kind: event.Text, Text: text}
}
