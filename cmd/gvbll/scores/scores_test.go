package scores

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/ledger"
)

// TestLedgerScores: the scores of a window of three labels, by hand. The second node was
// served by the second head.
func TestLedgerScores(t *testing.T) {
	out := &event.Outcome{
		Predictions: []event.Prediction{{ClassIndex: 1}, {ClassIndex: 1}},
		Labelled: []event.Labelled{
			{Class: 0, By: 0, Degree: 0, Delay: 500, Watched: [event.MaxWatched]float32{.25}},
			{Class: 1, By: 1, Degree: 2, Watched: [event.MaxWatched]float32{.75}},
			{Class: 1, By: 0, Act: new(bool), Degree: 3, Delay: 900, Watched: [event.MaxWatched]float32{.25}},
		},
		Watched:   []int32{1},
		Cohorts:   &event.Cohorts{By: "country", Class: "blue", Values: []string{"FR", "(none)", "FR"}},
		Coverage:  &event.Coverage{Labels: []event.Covered{{Held: true}, {}, {Held: true}}},
		AsTrained: []int32{0, 2},
		Heads: []event.Head{
			{Name: "online", Scores: []event.Score{
				{Class: 0, Confidence: 0.75, Correct: true, LogLoss: 0.25, Brier: 0.125},
				{Class: 0, Confidence: 1, LogLoss: 8, Brier: 2},
				{Class: 0, Confidence: 0.5, LogLoss: 1, Brier: 0.5},
			}},
			{Name: "static", Scores: []event.Score{
				{Class: 1, Confidence: 1, LogLoss: 4, Brier: 1},
				{Class: 1, Confidence: 0.75, Correct: true, LogLoss: 0.5, Brier: 0.25},
				{Class: 1, Confidence: 1, Correct: true},
			}},
		},
	}
	want := &ledger.Scores{
		Served: ledger.Tally{Labels: 3, Correct: 2, LogLoss: 1.75, Brier: 0.875, Confidence: 2},
		Bins:   []ledger.Bin{{Bin: 10, Count: 1, Confidence: 0.5}, {Bin: 15, Count: 2, Correct: 2, Confidence: 1.5}},
		Heads: []ledger.Group{
			{Name: "online", Tally: ledger.Tally{Labels: 3, Correct: 1, LogLoss: 9.25, Brier: 2.625, Confidence: 2.25}},
			{Name: "static", Tally: ledger.Tally{Labels: 3, Correct: 2, LogLoss: 4.5, Brier: 1.25, Confidence: 2.75}},
		},
		Degrees: []ledger.Group{
			{Name: "0", Tally: ledger.Tally{Labels: 1, Correct: 1, LogLoss: 0.25, Brier: 0.125, Confidence: 0.75}},
			{Name: "1-3", Tally: ledger.Tally{Labels: 2, Correct: 1, LogLoss: 1.5, Brier: 0.75, Confidence: 1.25}},
		},
		Classes: []ledger.Group{
			{Name: "red", Tally: ledger.Tally{Labels: 1, Correct: 1, LogLoss: 0.25, Brier: 0.125, Confidence: 0.75}, Predicted: 2},
			{Name: "blue", Tally: ledger.Tally{Labels: 2, Correct: 1, LogLoss: 1.5, Brier: 0.75, Confidence: 1.25}, Predicted: 1, Arrived: 2},
		},
		Trained: []ledger.Trained{{Class: "red", Labels: 0.75}, {Class: "blue", Arrivals: 2, Labels: 2.25}},

		Odds: []ledger.Odds{{Class: "blue", Bins: []ledger.OddsBin{{24, 2, 1, .5}, {31, 1, 1, .75}}}},
		Cohorts: &ledger.Cohorts{By: "country", Class: "blue", List: []ledger.Cohort{
			{
				Group: ledger.Group{Name: "FR", Tally: ledger.Tally{Labels: 2, Correct: 1, LogLoss: 1.25, Brier: 0.625, Confidence: 1.25}},
				Bins:  []ledger.Bin{{Bin: 10, Count: 1, Confidence: 0.5}, {Bin: 15, Count: 1, Correct: 1, Confidence: 0.75}},
				Odds:  []ledger.OddsBin{{24, 2, 1, .5}}, Sets: 2, Held: 2, Missed: 1,
			},
			{
				Group: ledger.Group{Name: "(none)", Tally: ledger.Tally{Labels: 1, Correct: 1, LogLoss: 0.5, Brier: 0.25, Confidence: 0.75}},
				Bins:  []ledger.Bin{{Bin: 15, Count: 1, Correct: 1, Confidence: 0.75}}, Odds: []ledger.OddsBin{{31, 1, 1, .75}}, Sets: 1,
			},
		}},
		Delay: 900, Delayed: 2,
	}
	m := &model.Model{Meta: model.Meta{Classes: []string{"red", "blue"}, Training: model.Training{Labels: []int{10, 30}}}}
	got := Of(out, m, "")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	// Two such windows add up to what both had, and what is computed of the sums is that of their labels.
	var p page.Period
	r := &ledger.Record{Predictions: 2, Labels: 3, Reasons: map[event.Reason]int{event.OrphanLabel: 1}, Scores: got}
	AddWindow(&p, r)
	AddWindow(&p, r)
	AddWindow(&p, &ledger.Record{Predictions: 1}) // without labels
	if p.Predictions != 5 || p.Labels != 6 || p.Served.Labels != 6 || p.Refused["orphan-label"] != 2 || p.Delay() != 900*time.Millisecond {
		t.Errorf("three windows add up to %+v", p)
	}
	if by := page.CohortsOf(p.Cohorts); len(by) != 2 || by[0].Value != "FR" || by[0].Labels != 4 || len(by[0].Scores) != 0 ||
		p.Cohorts.List[0].Missed != 2 || p.Cohorts.List[0].Odds.From(0).Rows != 4 {
		t.Errorf("the cohorts of both windows are %+v", by)
	}
	served := p.Served.Means()
	if math.Abs(served.Acc-2./3) > 1e-9 || math.Abs(served.NLL-1.75/3) > 1e-9 || math.Abs(served.Brier-.875/3) > 1e-9 {
		t.Errorf("what was served has %+v, want accuracy 2/3, NLL 0.58 and Brier 0.29", served)
	}
	for _, g := range []struct {
		list      []page.Group
		name      string
		labels    int
		predicted int
	}{{p.Heads, "static", 6, 0}, {p.Degrees, "1-3", 4, 0}, {p.Classes, "red", 2, 4}, {p.Classes, "blue", 4, 2}} {
		i := slices.IndexFunc(g.list, func(x page.Group) bool { return x.Name == g.name })
		if i < 0 || g.list[i].Labels != g.labels || g.list[i].Predicted.Labels != g.predicted {
			t.Errorf("%s of both windows is %+v, want %d labels and %d predictions", g.name, g.list, g.labels, g.predicted)
			continue
		}
		if g.name != "blue" {
			continue
		}
		if auc, _, ok := g.list[i].Odds.Ranking(); !ok || math.Abs(auc-.7645) > 1e-6 {
			t.Errorf("the ranks of class blue have AUC %v, want 1/2 for the label above, and half of the .529 that a bin hides", auc)
		}
	}
}
