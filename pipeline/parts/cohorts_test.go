package parts_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// fraud is a model of payments, of which one in a hundred is a fraud, with a category that training knew three values of.
func fraud() *model.Model {
	country := attributes.Attribute{Name: "country", Kind: attributes.Category, Values: []string{"AT", "DE", "FR"}}
	return &model.Model{Meta: model.Meta{
		Classes: []string{"ok", "fraud"}, Training: model.Training{Labels: []int{990, 10}},
		Schema: &attributes.Schema{Attributes: []attributes.Attribute{country}},
	}}
}

// valuesOf returns the values by which the scores of these nodes are told apart, one window for all of them.
func valuesOf(t *testing.T, text string, nodes ...event.Node) []string {
	t.Helper()
	by, err := parts.ParseBy(text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parts.NewCohorts(by, by.Classes, fraud(), nil)
	if err != nil {
		t.Fatal(err)
	}
	entered, out := &serve.Entered{}, &event.Outcome{}
	entered.Arrivals = slices.Grow(entered.Arrivals, len(nodes))[:len(nodes)]
	for i := range nodes {
		entered.Arrivals[i].Node, entered.Arrivals[i].Slot = &nodes[i], int32(i)
	}
	o := c.Observer()
	o.Served(entered)
	for i := range nodes {
		o.Matched(int32(i), 0)
		out.Labelled = append(out.Labelled, event.Labelled{})
	}
	out.Heads = []event.Head{{Scores: make([]event.Score, len(nodes))}}
	o.Scored(out)
	return out.Cohorts.Values
}

// TestValuesOfCohorts: a text, a truth value and a whole number are values, a gap is one, too, and all else is of others. The first values
// that come have a cohort, of a category those alone that training knew. What comes is bounded: names are cut and whole.
func TestValuesOfCohorts(t *testing.T) {
	of := func(name string, a event.Attribute) event.Node {
		a.Name = name
		return event.Node{Named: []event.Attribute{{Name: "amount", Kind: event.Number, Number: 12}, a}}
	}
	text := func(s string) event.Attribute { return event.Attribute{Kind: event.Text, Text: s} }
	number := func(x float64) event.Attribute { return event.Attribute{Kind: event.Number, Number: x} }
	for _, c := range []struct {
		by   string
		node event.Node
		want string
	}{
		{"country", of("country", text("FR ")), "FR"},
		{"country", of("country", text("Frankreich")), "(others)"},
		{"country", of("country", event.Attribute{Kind: event.Gap}), "(none)"},
		{"country", of("land", text("FR")), "(none)"},
		{"shop", of("shop", text("null")), "(none)"},
		{"shop", of("shop", text(strings.Repeat("ä", 100))), strings.Repeat("ä", 32)},
		{"shop", of("shop", text("a\xffb\nc")), "ab c"},
		{"shop", of("shop", number(7)), "7"},
		{"shop", of("shop", number(7.5)), "(others)"},
		{"shop", of("shop", number(1e12)), "(others)"},
		{"shop", of("shop", event.Attribute{Kind: event.Bool, Number: 1}), "true"},
		{"shop", of("shop", event.Attribute{Kind: event.Numbers, Numbers: []float32{1}}), "(others)"},
		{"id:", event.Node{ID: event.ID{Str: "acme:17:3"}}, "acme"},
		{"id:", event.Node{ID: event.ID{Str: ":17"}}, "(none)"},
		{"id:", event.Node{ID: event.ID{Num: 17}}, "(none)"},
	} {
		if got := valuesOf(t, c.by, c.node); got[0] != c.want {
			t.Errorf("%+v is %q by %s, want %q", c.node, got, c.by, c.want)
		}
	}
	var many []event.Node
	for i := range 100_000 {
		many = append(many, of("shop", text(fmt.Sprint("shop-", i%50_000))))
	}
	got := valuesOf(t, "shop,values=2", many...)
	if !slices.Equal(got[:3], []string{"shop-0", "shop-1", "(others)"}) || got[50_001] != "shop-1" || got[99_999] != "(others)" {
		t.Errorf("of 50,000 values the first are %q, and then %q", got[:3], got[50_001])
	}
}

// TestUnknownBy: an attribute that the model lacks is said, with the one that was meant if one is near.
func TestUnknownBy(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "id:": "", "country,values=5": "", "class=fraud": "",
		"contry":          "; did you mean \"country\"?",
		"country,country": "--by \"country,country\" is no attribute of the model",
		"tenant":          "--by \"tenant\" is no attribute of the model: nodes without one are (none)",
	} {
		by, err := parts.ParseBy(text)
		if got := by.Unknown(fraud()); err != nil || !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("--by %s: %q, %v, want %q", text, got, err, want)
		}
	}
	if got := (parts.By{Attribute: "country"}).Unknown(&model.Model{}); got == "" {
		t.Error("nothing is said where the model has features without names")
	}
}

// TestParseBy: an attribute may have commas; classes and the number of values stand behind it, or alone.
func TestParseBy(t *testing.T) {
	for text, want := range map[string]parts.By{
		"country":                            {Attribute: "country", Values: 10},
		"id:,values=20":                      {Attribute: "id:", Values: 20},
		"city, zip,class=fraud,class=review": {Attribute: "city, zip", Values: 10, Classes: []string{"fraud", "review"}},
		"class=fraud":                        {Values: 10, Classes: []string{"fraud"}},
	} {
		if got, err := parts.ParseBy(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %+v (%v), want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"values=3", "country,values=0", "country,values=21", "country,values=x", "country,", ",values=3",
		"a" + strings.Repeat(",class=b", 6),
	} {
		if got, err := parts.ParseBy(text); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
	if _, err := parts.NewCohorts(parts.By{}, []string{"theft"}, fraud(), nil); err == nil || !strings.Contains(err.Error(), "theft") {
		t.Errorf("a class that the model lacks: %v", err)
	}
}

// TestCohorts: the scores by cohort are those of their labels, they add up to the scores of what was served, and a restart
// from a checkpoint keeps them, and the values of the nodes whose label is still to come.
func TestCohorts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	cfg := pipeline.Config{
		Samples: 4, Act: "class=" + m.Classes[1] + ",cost=2:1", By: "id:,values=2", Coverage: pipeline.Coverage{Target: .8},
	}
	e, without := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 4, Act: cfg.Act, Coverage: cfg.Coverage})
	stream := pipelinetest.NewRandomStream(rng, m)
	tenant := func(id *event.ID) { // some ids get one
		if id.Str != "" {
			id.Str = []string{"a:", "b:", "c:"}[len(id.Str)%3] + id.Str
		}
	}
	var want pipeline.Cohorts
	others := 0
	for n := range 80 {
		if n == 40 {
			var err error
			if e, _, err = pipelinetest.Restore(m, cfg, pipelinetest.SnapshotOf(t, e, nil)); err != nil {
				t.Fatal(err)
			}
		}
		w := stream.Window()
		for i := range w.Nodes {
			x := &w.Nodes[i]
			tenant(&x.ID)
			for k := range x.Neighbours {
				tenant(&x.Neighbours[k])
			}
		}
		for i := range w.Labels {
			tenant(&w.Labels[i].Node)
		}
		out := e.Step(w)
		if same := without.Step(w); same.Chain != out.Chain {
			t.Fatalf("window %d: what is served depends on --by", n)
		}
		others += out.Figures.Int(figureNamed(t, "cohort_others"))
		for i, l := range out.Labelled {
			value := "(none)"
			if before, _, found := strings.Cut(l.Node.Str, ":"); found {
				value = before
			}
			if got := out.Cohorts.Values[i]; got != value && got != serve.OtherCohorts {
				t.Errorf("node %s is of cohort %q", l.Node, got)
			}
		}
		want.Merge(serve.CohortsOf(out))
	}
	got := e.Cohorts()
	if !reflect.DeepEqual(got, want) || len(got.List) != 3 || others == 0 {
		t.Fatalf("%d cohorts since window 0, want %d:\n%+v\n%+v", len(got.List), len(want.List), got, want)
	}
	var all serve.Cohort
	for _, c := range got.List {
		all.Merge(&c.Tally)
		all.Sets, all.Missed = all.Sets+c.Sets, all.Missed+c.Missed
		if c.Value == serve.OtherCohorts && c.Labels != others {
			t.Errorf("%d labels of others, %d counted", c.Labels, others)
		}
		if c.Odds.From(0).Rows != float64(c.Labels) || c.Sets != c.Labels || c.Held > c.Sets {
			t.Errorf("cohort %s has %v rows, %d sets and %d labels", c.Value, c.Odds.From(0).Rows, c.Sets, c.Labels)
		}
	}
	served := e.Summaries()[0].Total()
	if all.Labels != served.Labels || all.Labels < 50 || all.Missed == 0 {
		t.Errorf("cohorts have %d labels, want %d", all.Labels, served.Labels)
	}
}

// figureNamed returns the figure of a key.
func figureNamed(t *testing.T, key string) *figure.Figure {
	t.Helper()
	all := figure.All()
	return all[slices.IndexFunc(all, func(f *figure.Figure) bool { return f.Key() == key })]
}
