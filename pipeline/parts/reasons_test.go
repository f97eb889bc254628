package parts_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestParseReasoning: what --reasons reads, and what it says of anything else.
func TestParseReasoning(t *testing.T) {
	for text, want := range map[string]parts.Reasoning{
		"": {}, "3": {Most: 3}, "1,acted": {Most: 1, Acted: true}, "3,fraud>.2": {Most: 3, Class: "fraud", Than: .2},
		"64,a,b<0.5": {Most: 64, Class: "a,b", Below: true, Than: .5},
	} {
		if got, err := parts.ParseReasoning(text); err != nil || got != want {
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
	for _, text := range []string{
		"0", "65", "999999999999", "-1", "x", "3,", "3,fraud", "3,fraud>", "3,fraud>2", "3,fraud>1.2.3", "3,>.2", "3,acted,acted",
	} {
		if got, err := parts.ParseReasoning(text); err == nil || !strings.Contains(err.Error(), "such as 3,acted") || got != (parts.Reasoning{}) {
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
	m := pipelinetest.SmallModel(t)
	for _, c := range []struct {
		cfg  pipeline.Config
		want string
	}{
		{pipeline.Config{Reasons: "3,acted"}, "add --act"},
		{pipeline.Config{Reasons: "3,green>.2"}, `give one of ["red" "blue"]`},
		{pipeline.Config{Reasons: "no"}, "reasons \"no\""},
	} {
		if _, err := pipeline.New(m, c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v", c.cfg, err)
		}
	}
}

// row is a row of a generated table, and what made its class.
type row struct {
	node  event.Node
	class string
	cause string
}

// usual draws the values of payments by attribute.
var usual = map[string]func(rng *rand.Rand) string{
	"amount":   func(rng *rand.Rand) string { return fmt.Sprintf("%.2f", math.Exp(2.5+.7*rng.NormFloat64())) },
	"hour":     func(rng *rand.Rand) string { return fmt.Sprint(6 + rng.IntN(16)) },
	"country":  func(rng *rand.Rand) string { return []string{"DE", "FR", "IT", "ES"}[rng.IntN(4)] },
	"channel":  func(rng *rand.Rand) string { return []string{"web", "pos", "app"}[rng.IntN(3)] },
	"age":      func(rng *rand.Rand) string { return fmt.Sprint(18 + rng.IntN(60)) },
	"distance": func(rng *rand.Rand) string { return fmt.Sprintf("%.1f", 5*rng.ExpFloat64()) },
}

// names are those of attributes in the order of the table.
var names = []string{"age", "amount", "channel", "country", "distance", "hour"}

// causes make a payment a fraud, each alone.
var causes = map[string]func(rng *rand.Rand) string{
	"amount":   func(rng *rand.Rand) string { return fmt.Sprintf("%.2f", 300+900*rng.Float64()) },
	"country":  func(*rand.Rand) string { return "XX" },
	"distance": func(rng *rand.Rand) string { return fmt.Sprintf("%.1f", 200+800*rng.Float64()) },
}

// table draws payments, of which a fraud has one of the causes. A copy of each attribute that may be one
// is there if copied is set, in another unit.
func table(rng *rand.Rand, n int, copied bool) (rows []row) {
	for i := range n {
		values := map[string]string{}
		for _, name := range names {
			values[name] = usual[name](rng)
		}
		r := row{class: "ok", node: event.Node{Origin: &event.Origin{}, ID: event.ID{Num: int64(i)}, Time: int64(i + 1)}}
		if rng.IntN(8) == 0 {
			r.class, r.cause = "fraud", []string{"amount", "country", "distance"}[rng.IntN(3)]
			values[r.cause] = causes[r.cause](rng)
		}
		for _, name := range names {
			r.node.Named = append(r.node.Named, event.Attribute{Name: name, Kind: event.Text, Text: values[name]})
			if copied && causes[name] != nil {
				text := "c" + values[name]
				var v float64
				if _, err := fmt.Sscan(values[name], &v); err == nil {
					text = fmt.Sprint(v*100 + 7)
				}
				r.node.Named = append(r.node.Named, event.Attribute{Name: name + " again", Kind: event.Text, Text: text})
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// tableModel trains on rows.
func tableModel(t testing.TB, rows []row) *model.Model {
	t.Helper()
	d := model.Data{Name: "payments", Classes: []string{"ok", "fraud"}, Ordered: true}
	columns := make([]attributes.Column, len(rows[0].node.Named))
	var places []int32
	for i, r := range rows {
		for j, a := range r.node.Named {
			columns[j].Name, columns[j].Texts = a.Name, append(columns[j].Texts, a.Text)
		}
		places = append(places, int32(i))
		d.Labels = append(d.Labels, int32(slices.Index(d.Classes, r.class)))
	}
	err := attributes.Infer(columns)
	if err == nil {
		d.Schema, err = attributes.Learn(columns, nil, places)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Dim = d.Schema.Width()
	e := attributes.NewEncoder(d.Schema)
	for _, i := range places {
		x, err := attributes.EncodeRow(e, columns, nil, int(i))
		if err != nil {
			t.Fatal(err)
		}
		d.X = append(d.X, x)
	}
	m, err := holdout.Train(t.Context(), d, model.Config{Hidden: []int{16}, Embedding: 8, Epochs: 60, Samples: 4, Pool: true, Seed: 1}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestCauseIsFirst: of the frauds that are found, the cause is the first reason of at least 95 %, also where the table has
// a copy of every column that may be one. The copy is named beside it.
func TestCauseIsFirst(t *testing.T) {
	for _, copied := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(51, 1))
		m := tableModel(t, table(rng, 1500, copied))
		e := pipelinetest.NewEngine(t, m, pipeline.Config{Reasons: "3,fraud>0.5"})
		found, first := 0, 0
		rows := table(rng, 2000, copied)
		for chunk := range slices.Chunk(rows, 100) {
			w := &event.Window{Number: e.Next()}
			for _, r := range chunk {
				w.Nodes = append(w.Nodes, r.node)
				w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: r.node.ID, Class: r.class})
			}
			for i, p := range e.Step(w).Predictions {
				if (p.Reasons != nil) != (p.Probabilities[1] > .5) {
					t.Fatalf("a probability of %v has reasons %+v", p.Probabilities[1], p.Reasons)
				}
				if p.Reasons == nil || chunk[i].class != "fraud" {
					continue
				}
				found++
				c := p.Reasons.List[0]
				if c.Name == chunk[i].cause && c.By > 0 && slices.Equal(c.Along, []string{chunk[i].cause + " again"}[:min(len(c.Along), 1)]) {
					first++
				}
				if copied && causes[c.Name] != nil && len(c.Along) != 1 {
					t.Fatalf("%+v: its copy is not beside it", c)
				}
			}
		}
		t.Logf("with a copy: %t: of %d frauds found, the cause is first of %d (%.1f %%)", copied, found, first, 100*float64(first)/float64(found))
		if found < 150 || 100*first < 95*found {
			t.Errorf("with a copy: %t: the cause is first of %d of %d frauds", copied, first, found)
		}
	}
}

// TestReasonsAreWhatIf: a reason moves the log odds by as much as the page's what-if says that the event without it would,
// for attributes, keys and neighbours.
func TestReasonsAreWhatIf(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 2))
	rows := table(rng, 700, false)
	plain := tableModel(t, rows)
	m := *plain
	schema := *plain.Schema
	schema.Keys = keys.Declared{"channel": {Link: &keys.Link{Last: 2, Kind: "channel"}}}
	m.Schema = &schema
	cfg := pipeline.Config{Reasons: "64"}
	e, behind := pipelinetest.NewEngine(t, &m, cfg), pipelinetest.NewEngine(t, &m, pipeline.Config{})
	compared := map[string]int{}
	stream := table(rng, 150, false)
	for i, r := range stream {
		for range min(i, 6) {
			// One of another channel, since the key has an edge to those of the same.
			if other := stream[rng.IntN(i)].node; other.Named[2].Text != r.node.Named[2].Text {
				r.node.Neighbours = append(r.node.Neighbours, other.ID)
			}
		}
		w := &event.Window{Number: e.Next(), Nodes: []event.Node{r.node}}
		if i >= 20 {
			w.Labels = []event.Label{{Origin: &event.Origin{}, Node: event.ID{Num: int64(i - 20)}, Class: rows[i].class}}
		}
		p := e.Step(w).Predictions[0]
		class := int(p.ClassIndex)
		full := oddsOf(t, behind, r.node, class)
		for _, c := range p.Reasons.List {
			less := r.node
			switch c.What {
			case event.OfLabels:
				continue
			case event.OfNeighbour:
				less.Neighbours = slices.DeleteFunc(slices.Clone(less.Neighbours), func(id event.ID) bool { return id == c.Node })
				if len(less.Neighbours) == len(r.node.Neighbours) {
					t.Fatalf("%+v is no neighbour that the event names", c)
				}
			default:
				less.Named = slices.DeleteFunc(slices.Clone(less.Named), func(a event.Attribute) bool { return a.Name == c.Name })
			}
			compared[c.What]++
			if want := full - oddsOf(t, behind, less, class); math.Abs(want-float64(c.By)) > 1e-3*(1+math.Abs(want)) {
				t.Errorf("node %d: %+v, without it the log odds fall by %v", i, c, want)
			}
		}
		behind.Step(w)
	}
	if compared[event.OfAttribute] < 300 || compared[event.OfKey] < 50 || compared[event.OfNeighbour] < 50 {
		t.Errorf("compared %v: too few", compared)
	}
}

func oddsOf(t *testing.T, e *pipelinetest.Engine, node event.Node, class int) float64 {
	t.Helper()
	s, _, reason, detail := e.Suppose(&node)
	if s == nil {
		t.Fatal(reason, detail)
	}
	others := 0.0
	for k, q := range s.Probabilities {
		if k != class {
			others += float64(q)
		}
	}
	return math.Log(float64(s.Probabilities[class]) / others)
}

// TestReasonsChangeNothingElse: with reasons an engine serves and learns the same bits, for every encoder and the paper's head as for the
// pool; and a restored one gives the same reasons, which are in its chain.
func TestReasonsChangeNothingElse(t *testing.T) {
	for _, kind := range pipelinetest.Kinds {
		for _, head := range []string{pipeline.HeadPaper, pipeline.HeadPool} {
			rng := rand.New(rand.NewPCG(51, 3))
			m := pipelinetest.ModelOf(t, rng, kind, 2)
			if head == pipeline.HeadPool {
				pipelinetest.AddPool(t, m, kind == gnn.KindSAGE)
			}
			cfg := pipeline.Config{Head: head, Reasons: "3", Local: pipeline.Local{Unwatched: true}}
			plain := pipelinetest.NewEngine(t, m, pipeline.Config{Head: head, Local: cfg.Local})
			e, often := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
			l := pipelinetest.NewRandomStream(rng, m)
			reasons := 0
			for range 40 {
				w := l.Window()
				want, got, again := plain.Step(w), e.Step(w), often.Step(w)
				if diff := cmp.Diff(got, again); diff != "" {
					t.Fatalf("%s %s, window %d: restored, reasons differ\n%s", kind, head, w.Number, diff)
				}
				for i := range got.Predictions {
					r := got.Predictions[i].Reasons
					if r == nil || !slices.IsSortedFunc(r.List, func(a, b event.Cause) int {
						return -cmpAbs(a.By, b.By)
					}) {
						t.Fatalf("%s %s: reasons %+v", kind, head, r)
					}
					reasons += len(r.List)
					got.Predictions[i].Reasons = nil
				}
				if reasons > 0 && want.Chain == got.Chain {
					t.Fatalf("%s %s: the chain does not have the reasons", kind, head)
				}
				got.Chain, got.Figures = want.Chain, want.Figures
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("%s %s, window %d (-without reasons +with)\n%s", kind, head, w.Number, diff)
				}
				b := pipelinetest.SnapshotOf(t, often, nil)
				var err error
				if often, _, err = pipelinetest.Restore(m, cfg, b); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(pipelinetest.SnapshotOf(t, often, nil), b) {
					t.Fatalf("%s %s, window %d: the restored engine is saved as other bytes", kind, head, w.Number)
				}
			}
			if reasons < 100 {
				t.Errorf("%s %s: %d reasons are too few", kind, head, reasons)
			}
		}
	}
}

func cmpAbs(a, b float32) int {
	switch x, y := max(a, -a), max(b, -b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
