package look

import (
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/scores"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics/ledger"
)

// unevenClasses are of 400 labels: frauds are a fifth of arrivals, and three quarters of the predictions of labelled nodes.
var unevenClasses = []page.Group{
	{Name: "ok", Predicted: calibration.Tally{Labels: 100}, Arrived: 8000}, {Name: "fraud", Predicted: calibration.Tally{Labels: 300}, Arrived: 2000},
}

// TestFindings: what is wrong with a graph, at the bounds of the alerts and beyond them.
func TestFindings(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	waiting := func(events int64) []partitionLag { return []partitionLag{{"g.nodes", 0, events}} }
	good := calibration.Means{Acc: 0.9, NLL: 0.3, ECE: 0.02}
	known := slices.Clone(unseen)
	uneven := unevenClasses
	classesOf := func(a, b page.Group) []page.Group { // all labels are of a
		a.Name, a.Labels, b.Name = "a", 200, "b"
		return []page.Group{a, b}
	}
	ranked := func(p float64) []page.Group { // frauds have this probability, others a half
		var odds calibration.Odds
		for i := range 200 {
			if i < 50 {
				odds.Add(p, true, 1)
			} else {
				odds.Add(.5, false, 1)
			}
		}
		return []page.Group{{Name: "fraud", Odds: &odds}}
	}
	for name, c := range map[string]struct {
		change func(*Status)
		want   string // the alert, "" for none
	}{
		"nothing":                        {func(*Status) {}, ""},
		"no owner":                       {func(s *Status) { s.Owner = nil }, "GvbllNoOwner"},
		"a missing topic":                {func(s *Status) { s.evidence.missing = []string{"g.nodes"} }, "GvbllNoOwner"},
		"no worker starts":               {func(s *Status) { s.evidence.refuses = "cut" }, "GvbllNoOwner"},
		"too few replicas":               {func(s *Status) { s.evidence.tooFew = "one" }, "GvbllNoBroker"},
		"inputs are withheld":            {func(s *Status) { s.evidence.withheld = "by one" }, "GvbllInputWithheld"},
		"a quiet graph":                  {func(s *Status) { s.Committed = ago(time.Hour) }, ""},
		"commits are late":               {func(s *Status) { s.Committed, s.Lag = ago(5*time.Minute), waiting(1) }, ""},
		"commits stopped":                {func(s *Status) { s.Committed, s.Lag = ago(301*time.Second), waiting(1) }, "GvbllCommitsStopped"},
		"nothing was ever committed":     {func(s *Status) { s.Committed, s.Lag = nil, waiting(1) }, ""},
		"a backlog of 10 minutes":        {func(s *Status) { s.evidence.pace, s.Lag = 2.5, waiting(1500) }, ""},
		"a backlog of more":              {func(s *Status) { s.evidence.pace, s.Lag = 2.5, waiting(1501) }, "GvbllLagGrowing"},
		"a slow graph with few events":   {func(s *Status) { s.evidence.pace, s.Lag = 0.1, waiting(100) }, "GvbllLagGrowing"},
		"a graph of which no pace known": {func(s *Status) { s.Lag = waiting(5000) }, ""},
		"20 refused":                     {func(s *Status) { s.Last.Refused = map[string]int{"empty": 20} }, ""},
		"more refused":                   {func(s *Status) { s.Last.Refused = map[string]int{"empty": 20, "bad-id": 1} }, "GvbllDeadLettersRising"},
		"one in a hundred refused":       {func(s *Status) { s.Last.Refused, s.Last.Predictions = map[string]int{"empty": 21}, 1879 }, ""},
		"labels stopped":                 {func(s *Status) { s.evidence.silent = 11 * time.Minute }, "GvbllLabelsStopped"},
		"labels never came":              {func(s *Status) { s.Last.Labels, s.Before.Labels = 0, 0 }, ""},
		"labels of one class":            {func(s *Status) { s.Last.of.Classes = classesOf(page.Group{AsTrained: 49}, page.Group{AsTrained: 51}) }, "GvbllLabelsApart"},
		"labels of half the classes":     {func(s *Status) { s.Last.of.Classes = classesOf(page.Group{AsTrained: 50}, page.Group{AsTrained: 50}) }, ""},
		"frauds are ranked worse":        {func(s *Status) { s.Before.of.Classes, s.Last.of.Classes = ranked(.9), ranked(.1) }, "GvbllClassWorse, GvbllClassWorse"},
		"a calibration error":            {func(s *Status) { s.Last.ECE = 0.101 }, "GvbllCalibrationOff"},
		"a calibration error of 199":     {func(s *Status) { s.Last.ECE, s.Last.Labels = 0.101, 199 }, ""},
		"one that 200 give by chance":    {func(s *Status) { s.Last.ECE, s.Last.Chance = 0.12, 0.137 }, ""},
		"accuracy fell":                  {func(s *Status) { s.Last.Acc = 0.78 }, "GvbllAccuracyFalling"},
		"accuracy fell a little":         {func(s *Status) { s.Last.Acc, s.Last.Labels, s.Before.Labels = 0.86, 5000, 5000 }, ""},
		"accuracy fell by chance":        {func(s *Status) { s.Last.Acc = 0.84 }, ""},
		"accuracy fell, of many":         {func(s *Status) { s.Last.Acc, s.Last.Labels, s.Before.Labels = 0.84, 5000, 5000 }, "GvbllAccuracyFalling"},
		"accuracy fell from that of 199": {func(s *Status) { s.Last.Acc, s.Before.Labels = 0.5, 199 }, ""},
		"windows of an hour":             {func(s *Status) { s.Committed, s.Lag, s.evidence.apart = ago(64*time.Minute), waiting(900), time.Hour }, ""},
		"windows of an hour stopped":     {func(s *Status) { s.Committed, s.Lag, s.evidence.apart = ago(66*time.Minute), waiting(900), time.Hour }, "GvbllCommitsStopped"},
		"20 labels of unknown classes":   {func(s *Status) { s.Last.Refused = map[string]int{"unknown-class": 20} }, ""},
		"more labels of unknown classes": {func(s *Status) { s.Last.Refused, s.Last.Predictions = map[string]int{"unknown-class": 21}, 9000 }, "GvbllUnknownClass"},
		"as many gaps as in training": {func(s *Status) {
			s.Last.of.Attributes = []page.Attribute{{Name: "age", Rows: 1000, Missing: 500, Trained: 400, Sum: 900}}
		}, ""},
		"more gaps than in training": {func(s *Status) {
			s.Last.of.Attributes = []page.Attribute{{Name: "age", Rows: 1000, Missing: 501, Trained: 400}}
		}, "GvbllAttributeShifted"},
		"more gaps of few rows": {func(s *Status) { s.Last.of.Attributes = []page.Attribute{{Name: "age", Rows: 199, Missing: 199}} }, ""},
		"a mean that moved":     {func(s *Status) { s.Last.of.Attributes = []page.Attribute{{Name: "age", Rows: 1000, Sum: -1001}} }, "GvbllAttributeShifted"},
		"a clock of --keep in time": {func(s *Status) {
			s.Last.Figures = figure.Kept{event.KeepWatermark.Key(): float64(now.Add(299*time.Second).UnixMilli()) / 1000}
		}, ""},
		"a clock of --keep ahead": {func(s *Status) {
			s.Last.Figures = figure.Kept{event.KeepWatermark.Key(): float64(now.Add(301*time.Second).UnixMilli()) / 1000}
		}, "GvbllKeepAhead"},
		"drift": {func(s *Status) { s.evidence.drift = "adwin" }, "GvbllDriftFound"},
		"100 of 200 edges wait": {func(s *Status) {
			s.evidence.unmet, s.evidence.edges = []ledger.Unmet{{What: "edges", Waiting: 100}}, 100
		}, ""},
		"101 of 201 edges wait": {func(s *Status) {
			s.evidence.unmet, s.evidence.edges = []ledger.Unmet{{What: "edges", Waiting: 101}}, 100
		}, "GvbllIdsDiffer"},
		"400 of 800 labels wait":          {func(s *Status) { s.evidence.unmet = []ledger.Unmet{{What: "labels", Waiting: 400}} }, ""},
		"401 of 801 labels wait":          {func(s *Status) { s.evidence.unmet = []ledger.Unmet{{What: "labels", Waiting: 401}} }, "GvbllIdsDiffer"},
		"half the labels at odd times":    {func(s *Status) { s.Last.Figures = figure.Kept{"labels_mistimed": 100} }, ""},
		"most labels at odd times":        {func(s *Status) { s.Last.Figures = figure.Kept{"labels_mistimed": 101} }, "GvbllLabelTimesOff"},
		"uneven labels":                   {func(s *Status) { s.Last.of.Classes = uneven }, "GvbllLabelsUneven"},
		"uneven labels, few of them":      {func(s *Status) { s.Last.of.Classes, s.Last.Labels = uneven, 199 }, ""},
		"the model as trained serves":     {func(s *Status) { s.evidence.fallback = true }, "GvbllFallback"},
		"predictions were lost":           {func(s *Status) { s.evidence.lost = "9 of 10 predictions are gone" }, "GvbllTopicAtRisk"},
		"worse than the model as trained": {func(s *Status) { s.Last.StaticNLL = 0.24 }, "GvbllOnlineWorse"},
	} {
		s := Status{
			Owner: &Member{}, Committed: ago(time.Second), Lag: waiting(0), at: now,
			Last:   statusPeriod{Seconds: 3600, Predictions: 1000, Labels: 200, Means: good},
			Before: statusPeriod{Seconds: 3600, Predictions: 1000, Labels: 200, Means: good},
		}
		c.change(&s)
		known = append(known, strings.Split(c.want, ", ")...)
		var got []string
		for _, f := range s.findings() {
			got = append(got, f.Alert)
		}
		if diff := cmp.Diff(c.want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s, -want +got\n%s", name, diff)
		}
	}
	s := Status{Last: statusPeriod{of: page.Period{Attributes: []page.Attribute{{Name: "amount", Rows: 1000, Missing: 1000}}}}}
	s.Last.Unknown = []spelling.Unknown{{Name: "other", Values: 2000}, {Name: "Amount", Values: 1000, Meant: "amount"}}
	if got := s.findings(); !slices.ContainsFunc(got, func(f Finding) bool {
		return f.What == `attribute amount is missing or unknown in 100.0% of the events, in training in 0.0%: "Amount" came instead`
	}) {
		t.Errorf("a name in other capitals is found as %v", got)
	}
	s = Status{evidence: evidence{unmet: []ledger.Unmet{{What: "edges", Waiting: 300, Node: `"7"`, Otherwise: true}}, edges: 100}}
	if got := s.findings(); !slices.ContainsFunc(got, func(f Finding) bool {
		return f.What == `75% of the edges wait for a node that has not come, 300 of them, such as for "7", which the graph has as a number: ids are numbers here and texts there`
	}) {
		t.Errorf("edges that wait for texts are found as %v", got)
	}
	rules, err := os.ReadFile("../../../charts/gvbll/rules/gvbll.yml")
	must(t, err)
	for _, alert := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !slices.Contains(known, alert[1]) {
			t.Errorf("%s is neither found nor named as one that only metrics tell", alert[1])
		}
	}
}

// TestUnevenness: of the predictions of labelled nodes some classes have more than of all, by hand, and
// no more than by chance if labels come for any node alike.
func TestUnevenness(t *testing.T) {
	uneven, often := unevenness(unevenClasses)
	if want := 0.75 - 0.2 - 0.02; math.Abs(uneven-want) > 1e-12 || often != "fraud" {
		t.Errorf("%v of %q, want %v of fraud", uneven, often, want)
	}
	if uneven, _ := unevenness([]page.Group{{Name: "ok", Predicted: calibration.Tally{Labels: 100}}}); uneven != 0 {
		t.Errorf("%v where no arrivals were counted, want 0", uneven)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		classes := make([]page.Group, 40)
		for range 5000 {
			c := int(float64(len(classes)) * math.Pow(rng.Float64(), 2))
			if classes[c].Arrived++; rng.IntN(25) == 0 {
				classes[c].Predicted.Labels++
			}
		}
		if uneven, _ := unevenness(classes); uneven > muchUneven {
			t.Errorf("%.3f by chance, of 200 labels and 40 classes", uneven)
		}
	}
}

// TestPace: a graph that has run for twenty seconds of the hour, and then waits for a takeover
// of ten, has seconds of work before it.
func TestPace(t *testing.T) {
	began := time.Unix(1_800_000_000, 0)
	var p pace
	if p.most() != 0 {
		t.Errorf("without windows the pace is %v", p.most())
	}
	for i := range 20 {
		p.add(&ledger.Record{Window: int64(i), Stepped: began.Add(time.Duration(i) * time.Second), Ranges: []ledger.Range{{From: 5, To: 205}, {From: 0, To: int64(10 * i)}}})
	}
	s := Status{at: began.Add(30 * time.Second), evidence: evidence{pace: p.most()}, Lag: []partitionLag{{"g.nodes", 0, 3450}}}
	if s.evidence.pace != 345 || s.backlog() != 10*time.Second {
		t.Errorf("a pace of %v a second and a backlog of %v, want 345 and 10 s", s.evidence.pace, s.backlog())
	}
}

// TestRoughly: durations to two digits or so.
func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 340 * time.Millisecond: "300ms", 70 * time.Second: "1m10s", 72 * time.Second: "1m12s", 60 * time.Second: "1m", 754 * time.Second: "13m",
		time.Hour: "1h", 70 * time.Minute: "1h10m", 95 * time.Minute: "1h35m", 26*time.Hour + time.Second: "26h",
		48*time.Hour - time.Second: "48h", 1440 * time.Hour: "60d", 1439*time.Hour + 59*time.Minute: "60d",
		60 * time.Hour: "2.5d", 4000*24*time.Hour + time.Hour: "4000d",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestMajority: the status compares how often what serves is right with the most frequent class of the
// labels, and says so if it is no better, but not of few labels.
func TestMajority(t *testing.T) {
	of := func(labels, correct, good int) *statusPeriod {
		p := shorten(&page.Period{
			Labels: labels, Served: calibration.Tally{Labels: labels, Correct: correct},
			Classes: []page.Group{{Name: "fraud", Tally: calibration.Tally{Labels: labels - good}}, {Name: "good", Tally: calibration.Tally{Labels: good}}},
		}, time.Hour)
		return &p
	}
	for _, c := range []struct {
		period *statusPeriod
		note   string
	}{
		{of(1000, 951, 950), ""},
		{of(1000, 950, 950), "what serves is right no more often than always saying good would be"},
		{of(199, 10, 180), ""},
		{of(0, 0, 0), ""},
	} {
		if c.note != "" { // what ranks a rare class well is better than that, whatever its accuracy
			ranks := *c.period
			ranks.Classes = []ranked{{Class: "fraud", AUC: .922}}
			if got := ranks.noBetter(); got != "" {
				t.Errorf("with an AUC of .922: %q, want nothing", got)
			}
		}
		if got := c.period.noBetter(); got != c.note {
			t.Errorf("of %d labels, %.3f right: %q, want %q", c.period.Labels, c.period.Acc, got, c.note)
		}
	}
	if got := of(1000, 951, 950).usual(); got != "good 0.9500" {
		t.Errorf("the most frequent class is %s", got)
	}
	s := Status{Last: *of(1000, 940, 950), Before: *of(0, 0, 0)}
	var out strings.Builder
	must(t, s.Print(&out))
	for _, want := range []string{" most frequent class  good 0.9500       –", "      by chance up to       ", "\n\nwhat serves is right no more often"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the status has no %q:\n%s", want, &out)
		}
	}
}

// TestStatusOfClasses: the counts of windows add up to the scores of a class, the rarest first, and
// there are none of a class without labels.
func TestStatusOfClasses(t *testing.T) {
	var p page.Period
	for range 25 {
		scores.AddWindow(&p, &ledger.Record{Labels: 4, Scores: &ledger.Scores{
			Served:  ledger.Tally{Labels: 4, Correct: 3},
			Classes: []ledger.Group{{Name: "ok", Tally: ledger.Tally{Labels: 3, Correct: 3}}, {Name: "fraud", Tally: ledger.Tally{Labels: 1}}},
			Odds: []ledger.Odds{
				{Class: "ok", Bins: []ledger.OddsBin{{20, 1, 0, .1}, {38, 3, 3, 2.9}}},
				{Class: "fraud", Bins: []ledger.OddsBin{{18, 2, 0, .1}, {30, 2, 1, 1.3}}},
				{Class: "never", Bins: []ledger.OddsBin{{2, 4, 0, .001}}},
			},
			Cohorts: &ledger.Cohorts{By: "country", Class: "fraud", List: []ledger.Cohort{
				{
					Group: ledger.Group{Name: "FR", Tally: ledger.Tally{Labels: 3, Correct: 2}}, Odds: []ledger.OddsBin{{18, 1, 0, .1}, {30, 2, 1, 1.3}},
					Missed: 1,
				},
				{Group: ledger.Group{Name: "(others)", Tally: ledger.Tally{Labels: 1, Correct: 1}}, Odds: []ledger.OddsBin{{18, 1, 0, .1}}},
			}},
		}})
	}
	s := shorten(&p, time.Hour)
	if len(s.Classes) != 2 || s.Classes[0].Class != "fraud" || s.Classes[0].Labels != 25 || s.Classes[1].AUC != 1 || s.Majority.Class != "ok" {
		t.Fatalf("%+v and %+v", s.Classes, s.Majority)
	}
	if fraud := s.Classes[0]; fraud.AUC < .8 || fraud.AUC == 1 || fraud.AveragePrecision < .5 || fraud.ECE < .04 {
		t.Errorf("%+v", fraud)
	}
	var out strings.Builder
	must(t, (&Status{Last: s, Before: shorten(&page.Period{}, time.Hour)}).Print(&out))
	for _, want := range []string{`AUC of fraud +0\.8\d+ +–\n`, `(?m)^ +by country labels +acc. +NLL +ECE chance +AUC caught\n`, `(?m)^ +FR +75 +0\.6667 .* 0\.7\d+ 0\.0000\n`, `(?m)^ +\(others\) +25 +– .* –\n`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("the status has no %s:\n%s", want, &out)
		}
	}
	if by := s.By; by.Attribute != "country" || by.Class != "fraud" || len(by.Values[1].Scores) != 0 || len(by.Values[0].Scores) != 6 {
		t.Errorf("by country it is %+v", by)
	}

	// Of 49 labels no score is shown.
	p.Served.Labels = 49
	few, text := shorten(&p, time.Hour), strings.Builder{}
	few.Labels, few.By = 49, nil
	must(t, (&Status{Last: few, Before: few}).Print(&text))
	for _, name := range []string{"accuracy", "most frequent class", "NLL", "ECE", "by chance up to", "AUC of fraud", "average precision of it"} {
		if !regexp.MustCompile("(?m)^ *" + name + " +– +–").MatchString(text.String()) {
			t.Errorf("%s is shown of 49 labels:\n%s", name, &text)
		}
	}
}
