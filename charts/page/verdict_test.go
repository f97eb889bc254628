package page_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// classes returns groups with so many labels, of as many arrivals that the model as trained predicts so, and of labels as they would be as
// in training.
func classes(of ...[3]float64) (list []page.Group) {
	for i, n := range of {
		list = append(list, page.Group{
			Name: string(rune('a' + i)), Tally: calibration.Tally{Labels: int(n[0])}, AsTrained: int(n[1]), Trained: n[2],
		})
	}
	return list
}

// scored returns a tally of n labels, each predicted with the given confidence, so many of them right.
func scored(n, right int, confidence float64) (t calibration.Tally) {
	for i := range n {
		t.Add(&calibration.Score{Confidence: confidence, Correct: i < right})
	}
	return t
}

// TestVerdict: a graph is calibrated only where that can be known, by the bounds of the rules.
func TestVerdict(t *testing.T) {
	good := scored(1000, 800, .8)
	for name, c := range map[string]struct {
		p      page.Period
		told   bool
		silent time.Duration
		want   string
	}{
		"all is well":                     {page.Period{Served: good}, false, 0, "calibrated"},
		"199 labels":                      {page.Period{Served: scored(199, 159, .8)}, false, 0, "too few labels"},
		"right less often than it says":   {page.Period{Served: scored(1000, 600, .8)}, false, 0, "16.7 points off"},
		"the same of 49 labels":           {page.Period{Served: scored(49, 10, .8)}, false, 0, "too few labels"},
		"labels stopped":                  {page.Period{Served: good}, false, 12 * time.Minute, "labels stopped"},
		"one class of ten":                {page.Period{Served: good, Classes: classes([3]float64{1000, 20, 100}, [3]float64{0, 80, 900})}, false, 0, "labels of one class"},
		"one class, and rates are known":  {page.Period{Served: good, Classes: classes([3]float64{1000, 20, 100}, [3]float64{0, 80, 900})}, true, 0, "labels of one class"},
		"most of one, and rates known":    {page.Period{Served: good, Classes: classes([3]float64{900, 20, 100}, [3]float64{100, 80, 900})}, true, 0, "calibrated"},
		"most of one":                     {page.Period{Served: good, Classes: classes([3]float64{900, 20, 100}, [3]float64{100, 80, 900})}, false, 0, "labels of one class"},
		"one class of ten, 49 labels":     {page.Period{Served: good, Classes: classes([3]float64{49, 20, 5}, [3]float64{0, 80, 44})}, false, 0, "calibrated"},
		"a model that does not say":       {page.Period{Served: good, Classes: classes([3]float64{1000, 20, 0}, [3]float64{0, 80, 0})}, false, 0, "labels of one class"},
		"a ledger of 1.0.0":               {page.Period{Served: good, Classes: classes([3]float64{1000, 0, 0}, [3]float64{0, 0, 0})}, false, 0, "calibrated"},
		"1 in 400":                        {page.Period{Served: good, Classes: classes([3]float64{1000, 999, 998}, [3]float64{0, 1, 2})}, false, 0, "calibrated"},
		"the stream changed":              {page.Period{Served: good, Classes: classes([3]float64{900, 60, 100}, [3]float64{100, 40, 900})}, false, 0, "calibrated"},
		"a model as trained of no use":    {page.Period{Served: good, Classes: classes([3]float64{200, 100, 100}, [3]float64{800, 0, 900})}, false, 0, "calibrated"},
		"no label":                        {page.Period{}, false, 0, "too few labels"},
		"frauds were ranked better":       {page.Period{Served: good, Classes: []page.Group{fraud(100, .9, .65)}}, false, 0, "a class is worse"},
		"frauds were, of 19":              {page.Period{Served: good, Classes: []page.Group{fraud(19, .9, .65)}}, false, 0, "calibrated"},
		"frauds are ranked as the others": {page.Period{Served: good, Classes: []page.Group{fraud(100, .9, .9)}}, false, 0, "calibrated"},
	} {
		if got := c.p.Verdict(&page.Period{Classes: []page.Group{fraud(100, .9, .9)}}, c.told, c.silent); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// fraud returns a class with so many labels, a share of them found among the most probable: of these a share is of the class.
func fraud(labels int, found, precision float64) page.Group {
	g := page.Group{Name: "fraud", Odds: &calibration.Odds{}}
	above := int(found * precision * float64(labels))
	for i := range labels {
		g.Odds.Add(map[bool]float64{true: .7, false: .001}[i < above], true, 1)
	}
	for i := range 10000 {
		g.Odds.Add(map[bool]float64{true: .7, false: .001}[i < labels], false, 1)
	}
	return g
}

// TestVerdictIsTheRules: the bounds of the verdict are those of the rules.
func TestVerdictIsTheRules(t *testing.T) {
	b, err := os.ReadFile("../gvbll/rules/gvbll.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, bound := range []string{
		"graph:gvbll_labels_apart:ratio1h > 0.5 and", "(graph_class:gvbll_labelled_classes:ratio1h) > 0.98", "gvbll_labelled_classes_total[1h])) >= 50)",
		"clamp_min(2 * max_over_time(graph:gvbll_label_silence:ended[2d]), 600)", "graph:gvbll_served_labels:increase1h >= 50",
		"unless graph:gvbll_served_labels:increase1h > 200", "< 0.95 * graph_class:gvbll_auc:ratio1d offset 1d",
		"- 3 * sqrt(graph_class:gvbll_auc:error1d", "graph_class:gvbll_class_labels:increase1d >= 20",
	} {
		if !strings.Contains(string(b), bound) {
			t.Errorf("no rule has %q, and the verdict of page and status has", bound)
		}
	}
}

// TestRhythm: labels have stopped when none came for twice as long as ever, and for ten minutes, while nodes were predicted.
func TestRhythm(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var minutes, halves, none page.Rhythm
	for m := range 121 {
		at := begin.Add(time.Duration(m) * time.Minute)
		minutes.Add(at, 20, 10)
		halves.Add(at, 20, map[bool]int{true: 1}[m%30 == 0])
		none.Add(at, 20, 0)
	}
	end := begin.Add(2 * time.Hour)
	if got := minutes.Silent(end.Add(time.Hour)); got != 0 {
		t.Errorf("silent for %v while nothing is predicted, want 0", got)
	}
	for _, r := range []*page.Rhythm{&minutes, &halves, &none} {
		r.Add(end.Add(time.Second), 20, 0)
	}
	for _, c := range []struct {
		r     *page.Rhythm
		after time.Duration
		want  time.Duration
	}{
		{&minutes, 10 * time.Minute, 0},
		{&minutes, 12 * time.Minute, 12 * time.Minute},
		{&halves, time.Hour, 0},
		{&halves, 61 * time.Minute, 61 * time.Minute},
		{&none, 9 * time.Hour, 0},
	} {
		if got := c.r.Silent(end.Add(c.after)); got != c.want {
			t.Errorf("silent for %v after %v, want %v", got, c.after, c.want)
		}
	}
	if !none.Last().IsZero() || minutes.Last() != end {
		t.Errorf("the last labels came at %v and %v, want never and %v", none.Last(), minutes.Last(), end)
	}
}
