package look

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestStatusSaysEachThingOnce: of a graph with all that a status can tell, healthy or not, no sentence and no figure of three
// digits comes twice, a dash is one dash, and no line is longer than 80 columns.
func TestStatusSaysEachThingOnce(t *testing.T) {
	for name, change := range map[string]func(*Status){
		"all is well": func(*Status) {},
		"no owner":    func(s *Status) { s.Owner, s.Standbys, s.Verdict = nil, nil, "no owner" },
		"nothing yet": func(s *Status) { s.Committed, s.Before = nil, statusPeriod{Seconds: 3600} },
		"labels stopped": func(s *Status) {
			at := s.at.Add(-754 * time.Minute)
			s.LastLabel, s.evidence.silent, s.Verdict = &at, 754*time.Minute, "labels stopped"
		},
		"commits stopped": func(s *Status) {
			at := s.at.Add(-653 * time.Minute)
			s.Committed, s.Lag = &at, []partitionLag{{"g.nodes", 0, 987}, {"g.labels", 0, 0}}
		},
		"events wait": func(s *Status) {
			s.Lag, s.evidence.pace = []partitionLag{{"g.nodes", 0, 9871}, {"g.nodes", 1, 4032}}, .1
		},
		"purged": func(s *Status) {
			s.Last.Seconds, s.Before.Seconds, s.evidence.purged = 1234, 0, true
		},
		"one cohort": func(s *Status) { s.Last.By.Values = s.Last.By.Values[:1]; s.Last.By.Values[0].Labels = s.Last.Labels },
	} {
		s := everything()
		change(s)
		s.Wrong, s.Unseen = s.findings(), unseen
		var b strings.Builder
		must(t, s.Print(&b))
		text := b.String()
		for _, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("%s: a line of %d columns: %s", name, utf8.RuneCountInString(line), line)
			}
			if strings.HasSuffix(line, " -") {
				t.Errorf("%s: another dash: %s", name, line)
			}
		}
		seen := make(map[string]bool)
		for _, found := range regexp.MustCompile(`\b[0-9][0-9.]*[0-9][0-9]\b`).FindAllString(text, -1) {
			if seen[found] {
				t.Errorf("%s: %s comes twice in\n%s", name, found, text)
			}
			seen[found] = true
		}
		for _, said := range regexp.MustCompile(`[;:\n]+`).Split(strings.ReplaceAll(text, "\n  ", " "), -1) {
			if said = strings.TrimSpace(said); seen[said] && len(strings.Fields(said)) > 2 {
				t.Errorf("%s: %q comes twice in\n%s", name, said, text)
			}
			seen[said] = true
		}
	}
}

// everything is the status of a graph with all features, which is well.
func everything() *Status {
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { then := at.Add(-d); return &then }
	period := func(n int) *page.Period {
		var odds calibration.Odds
		for i := range 1000 {
			odds.Add(float64(i%100)/100, i%100 > 82+7*n || i == 7*n, 1)
		}
		cohort := func(value string, labels, right int) serve.Cohort {
			return serve.Cohort{Value: value, Tally: scored(labels, right), Sets: labels, Held: right + 3, Caught: right / 9, Vain: labels / 13, Missed: right / 31}
		}
		p := &page.Period{
			Predictions: 4321 * n, Labels: 1611 * n, Served: scored(1611*n, 1487*n-100+100*n), Refused: map[string]int{"bad-id": 19 * n},
			Heads:   []page.Group{{Name: StaticHead, Tally: scored(1611*n, 1391*n)}},
			Classes: []page.Group{{Name: "fraud", Tally: scored(200*n+31, 181*n), Odds: &odds}, {Name: "good", Tally: scored(1411*n-31, 1306*n)}},
			Delays:  []page.Delay{{Median: 127 * time.Second * time.Duration(n), Labels: 9}},
			Cohorts: pipeline.Cohorts{By: "country", Class: "fraud", List: []serve.Cohort{cohort("FR", 777, 713), cohort("DE", 817, 691)}},
			Unknown: []spelling.Unknown{{Name: "amont", Values: 349, Meant: "amount"}, {Name: "x", Values: 583}},
			Figures: figure.Kept{},
		}
		for i, f := range figure.All() {
			p.Figures[f.Key()] = float64(20011 + 37*i + 5000*n)
		}
		for f, x := range map[*figure.Figure]float64{
			parts.Asked.Labels: 811, parts.Asked.Correct: 702, parts.Asked.Weight: 1503, parts.Asked.WeighedCorrect: 1391,
			parts.Asked.CorrectSquares: 2900, parts.Asked.Squares: 3100, parts.Asked.WeighedLogLoss: 377,
		} {
			p.Figures[f.Key()] = x + float64(n)
		}
		p.Figures[event.LabelsMistimed.Key()], p.Figures[event.KeepWatermark.Key()] = 0, 0
		return p
	}
	s := &Status{
		Prefix: "payments", Cell: new(int32), at: at, Model: "0123abcd4567ef89", Epoch: 3, Windows: 70123, Committed: ago(1200 * time.Millisecond),
		Owner:    &Member{Host: "worker-a.example", HTTP: "http://worker-a.example:8473", Version: "1.2.0"},
		Standbys: []Member{{Host: "worker-b.example", HTTP: "http://worker-b.example:8474", Version: "1.1.9"}},
		Shadow:   "89ab4567cdef0123", Trial: &page.Trial{Model: "89ab4567cdef0123", Loaded: true, Labels: 613, Lead: 12.5, After: 5050},
		Bases:  []base{{"base-" + strings.Repeat("0a1b2c3d4e5f6789", 5), at.Add(-47 * time.Minute)}, {"base-old", at.Add(-99 * time.Minute)}},
		Needed: []needed{{"payments.nodes", 0, 5_120_001, ago(46 * time.Hour)}, {"payments.ledger", 0, 70_007, ago(46 * time.Hour)}},
		Lag:    []partitionLag{{"payments.nodes", 0, 0}}, Last: shorten(period(1), time.Hour), Before: shorten(period(2), time.Hour),
		Verdict: "calibrated", LastLabel: ago(3900 * time.Millisecond),
	}
	s.evidence.takes = "fraud, good; numbers in labels are indices, from 0"
	s.Reasons = s.Reasons.with(&event.Prediction{Node: event.ID{Str: "pay-7"}, Reasons: &event.Causes{Class: "fraud", List: []event.Cause{
		{What: event.OfAttribute, Name: "amount", Value: "912", Usual: "12", By: 1.9},
		{What: event.OfKey, Name: "card", Value: "7", Labelled: 3, OfClass: 2, By: 2.4},
	}}})
	return s
}

// scored returns a tally of so many labels, of which some were predicted.
func scored(labels, right int) (t calibration.Tally) {
	for i := range labels {
		t.Add(&calibration.Score{Confidence: float64(right)/float64(labels) - float64(labels%97)/4000, Correct: i < right, LogLoss: .1 + float64(i%7)/9})
	}
	return t
}

// TestCellsFit: the status of cells says which worker has which, in lines of 80 columns.
func TestCellsFit(t *testing.T) {
	c := Cells{Prefix: "payments"}
	for range 5 {
		s := everything()
		s.evidence.nodes, s.Windows, s.Verdict = 4_321_098, 1_234_567, "labels of one class"
		c.Cells = append(c.Cells, s)
	}
	c.Cells[3].Standbys = nil
	c.Cells[4].Owner = nil
	c.Cells[4].Wrong = c.Cells[4].findings()
	var b strings.Builder
	must(t, c.Print(&b))
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	for _, want := range []string{
		"http://worker-a.example:8473 owns 0-3\n", "http://worker-b.example:8474 stands by for 0-2, 4\n",
		"no worker stands by for 3\n", "wrong: cell 4: 1 workers run, and none owns the graph",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, b.String())
		}
	}
}
