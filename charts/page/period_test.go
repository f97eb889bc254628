package page

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestMerge: the sums of two periods are those of both.
func TestMerge(t *testing.T) {
	a := Period{
		Predictions: 3, Labels: 2, Served: calibration.Tally{Labels: 2},
		Heads: []Group{{Name: "pool", Tally: calibration.Tally{Labels: 2, Correct: 1, LogLoss: 1}}}, Delays: []Delay{{time.Second, 2}},
	}
	a.Refuse("empty", 1)
	b := Period{
		Predictions: 4, Revisions: 1, Labels: 1, Served: calibration.Tally{Labels: 1, Correct: 1},
		Heads: []Group{{Name: "static", Tally: calibration.Tally{Labels: 1}}, {Name: "pool", Tally: calibration.Tally{Labels: 1, Correct: 1, LogLoss: 0.5}}}, Delays: []Delay{{time.Minute, 1}},
	}
	b.Refuse("too-large", 1)
	b.Refuse("empty", 2)
	b.Refuse("bad-id", 3)
	a.merge(&b)
	want := Period{
		Predictions: 7, Revisions: 1, Labels: 3, Served: calibration.Tally{Labels: 3, Correct: 1},
		Heads:   []Group{{Name: "pool", Tally: calibration.Tally{Labels: 3, Correct: 2, LogLoss: 1.5}}, {Name: "static", Tally: calibration.Tally{Labels: 1}}},
		Refused: map[string]int{"bad-id": 3, "empty": 3, "too-large": 1}, Delays: []Delay{{time.Second, 2}, {time.Minute, 1}},
	}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if a.Head("pool").Means().Acc != 2./3 || a.Head("pool").Means().NLL != 0.5 || a.Head("none") != nil {
		t.Errorf("the heads are %+v", a.Heads)
	}
}

// TestDelay: each median counts for its labels.
func TestDelay(t *testing.T) {
	for _, c := range []struct {
		delays []Delay
		want   time.Duration
	}{
		{nil, 0},
		{[]Delay{{7, 1}}, 7},
		{[]Delay{{9, 1}, {7, 2}}, 7},
		{[]Delay{{7, 2}, {9, 3}, {8, 1}}, 8},
		{[]Delay{{7, 2}, {9, 4}, {8, 1}}, 9},
	} {
		if got := (&Period{Delays: c.delays}).Delay(); got != c.want {
			t.Errorf("the delay of %v is %d, want %d", c.delays, got, c.want)
		}
	}
}

// TestManyDelays: however many windows a period has, it keeps a bounded number of delays,
// and their median.
func TestManyDelays(t *testing.T) {
	var p Period
	for i := range 25 * maxDelays {
		p.AddDelays(Delay{time.Duration(i*7919%(25*maxDelays)) * time.Millisecond, 1})
	}
	if got := p.Delay(); len(p.Delays) > maxDelays || got < 48*time.Second || got > 52*time.Second {
		t.Errorf("%d delays with the median %v, want at most %d and about 50 s", len(p.Delays), got, maxDelays)
	}
}

// TestClassesOfPeriods: the counts of a class in two periods add up, without changing either, and the table has
// its scores; those of a class that is not watched are Undefined.
func TestClassesOfPeriods(t *testing.T) {
	period := func() Period {
		var odds calibration.Odds
		odds.Add(.9, true, 1)
		odds.Add(.6, false, 1)
		odds.Add(.1, false, 1)
		return Period{Classes: []Group{{Name: "fraud", Tally: calibration.Tally{Labels: 1}, Odds: &odds}, {Name: "ok", Tally: calibration.Tally{Labels: 2}}}}
	}
	a, b := period(), period()
	var whole Period
	whole.merge(&a)
	whole.merge(&b)
	if got := whole.Classes[0].Odds.From(0); got.Rows != 6 || got.Labels != 2 || a.Classes[0].Odds.From(0).Rows != 3 {
		t.Errorf("%+v together, %+v alone", got, a.Classes[0].Odds.From(0))
	}
	var shown table
	for i := range whole.Classes {
		shown.addClass(whole.Classes, i)
	}
	values := func(row int) (list []string) {
		for _, c := range shown.Rows[row].Cells[5:] {
			list = append(list, c.Value)
		}
		return list
	}
	if diff := cmp.Diff([][]string{{"1.0000", "1.0000"}, {Undefined, Undefined}}, [][]string{values(0), values(1)}); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestOddsOfTwo: the commoner of two classes has the other's counts, the other way round; one of three, and one whose
// probabilities do not belong to the other's, its own.
func TestOddsOfTwo(t *testing.T) {
	var fraud, ok, third calibration.Odds
	for i := range 1000 {
		p := 0.001 * float64(i%20)
		fraud.Add(p, i%100 == 19, 1)
		ok.Add(1-p, i%100 != 19, 1)
	}
	two := []Group{{Name: "ok", Odds: &ok}, {Name: "fraud", Odds: &fraud}, {Name: "not watched"}}
	auc, _, _ := OddsOf(two, 0).Ranking()
	if want, _, _ := fraud.Ranking(); math.Abs(auc-want) > 1e-12 || OddsOf(two, 1) != &fraud || OddsOf(two, 2) != nil {
		t.Errorf("AUC %v and %v, want both the same", auc, want)
	}
	three := append(slices.Clone(two), Group{Name: "third", Odds: &third})
	if OddsOf(three, 0) != &ok {
		t.Error("of three classes one has not its own counts")
	}
	ok.Add(0.9, true, 1)
	if OddsOf(two, 0) != &ok {
		t.Error("counts of different labels are taken for those of two classes")
	}
}

// TestCostOfShifts: an attribute that is missing in 40 % of the labels and in 10 % of training, where a label without it costs a nat more,
// raised the mean loss by .3 nats; of 49 such labels nothing is said. The most costly one is the first row.
func TestCostOfShifts(t *testing.T) {
	all := calibration.Tally{Labels: 1000, LogLoss: 600*0.5 + 400*1.5}
	list := []Attribute{
		{Name: "plan", Rows: 10, Odd: 49, OddLoss: 500},
		{Name: "amount", Rows: 10, Odd: 100, OddLoss: 90, OddTrained: .1},
		{Name: "age", Rows: 10, Odd: 400, OddLoss: 600, OddTrained: .1},
	}
	if nats, ok := list[2].Cost(&all); !ok || math.Abs(nats-.3) > 1e-12 {
		t.Errorf("it cost %v, %t, want .3", nats, ok)
	}
	var rows []string
	p := Period{Attributes: list, Cohorts: pipeline.Cohorts{By: "country", List: []serve.Cohort{{Tally: all}}}}
	for _, r := range p.attributeTable().Rows {
		rows = append(rows, r.Name+" "+r.Cells[4].Value)
	}
	if want := []string{"age +0.3000", "amount +0.0000", "plan –"}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %q, want %q", rows, want)
	}
	p.Cohorts = pipeline.Cohorts{}
	if t2 := p.attributeTable(); len(t2.Columns) != 5 || t2.Rows[0].Name != "plan" {
		t.Errorf("without labels it is %+v", t2)
	}
}
