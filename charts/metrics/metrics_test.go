package metrics_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestObserve: the counters have the outcome's sums, by head and by confidence bin, and
// all metrics follow Prometheus' naming conventions.
func TestObserve(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.Observe(&event.Outcome{
		Predictions: []event.Prediction{{Total: .5, Aleatoric: .4, Epistemic: .1}, {Total: .5, Aleatoric: .5}},
		Refused:     []event.Refusal{{Reason: event.NonFinite}},
		Labelled:    []event.Labelled{{Delay: 2500}, {}},
		Heads: []event.Head{{Name: "online", Clipped: 3, Step: .25, Version: 1, Scores: []event.Score{
			{Confidence: .95, Correct: true, LogLoss: .1, Brier: .01}, {Confidence: 1, LogLoss: 3, Brier: 2},
		}}},
		Figures: counted(map[*figure.Figure]int{event.Arrivals: 2, event.EdgesAdded: 5, event.SelfLoops: 1, event.LabelsJoined: 2}),
	})
	const want = `
# HELP gvbll_calibration_confidence_total Sum of the confidences of labelled predictions by bin of confidence.
# TYPE gvbll_calibration_confidence_total counter
gvbll_calibration_confidence_total{bin="0.00",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.05",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.10",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.15",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.20",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.25",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.30",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.35",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.40",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.45",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.50",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.55",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.60",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.65",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.70",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.75",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.80",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.85",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.90",head="online",serving="true"} 0
gvbll_calibration_confidence_total{bin="0.95",head="online",serving="true"} 1.95
# HELP gvbll_correct_labels_total Scored labels that the head had predicted.
# TYPE gvbll_correct_labels_total counter
gvbll_correct_labels_total{head="online",serving="true"} 1
# HELP gvbll_edges_dropped_total Edges that were not added: named before, from a node to itself, or dropped while waiting for their other node.
# TYPE gvbll_edges_dropped_total counter
gvbll_edges_dropped_total{reason="duplicate"} 0
gvbll_edges_dropped_total{reason="expired"} 0
gvbll_edges_dropped_total{reason="self-loop"} 1
# HELP gvbll_log_loss_nats_total Sum of the log losses (negative log-likelihoods) of scored labels.
# TYPE gvbll_log_loss_nats_total counter
gvbll_log_loss_nats_total{head="online",serving="true"} 3.1
# HELP gvbll_predictions_total Predictions served.
# TYPE gvbll_predictions_total counter
gvbll_predictions_total 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"gvbll_calibration_confidence_total", "gvbll_correct_labels_total", "gvbll_edges_dropped_total", "gvbll_log_loss_nats_total", "gvbll_predictions_total"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestEveryReasonHasASeries: every reason for a refusal has a series from the start.
// Otherwise a rate would miss the first event, with which its series begins.
func TestEveryReasonHasASeries(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.New(reg)
	n, err := testutil.GatherAndCount(reg, "gvbll_refused_events_total")
	if err != nil || n != len(event.Reasons()) {
		t.Errorf("%d series (error %v), want one for each of %d reasons", n, err, len(event.Reasons()))
	}
}

// TestCountersGiveECE: the ECE computed from the counters, as PromQL does, is that of the
// predictions.
func TestCountersGiveECE(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := metrics.New(reg)
	var out event.Outcome
	var confidences []float64
	var correct []bool
	for i := range 500 {
		c := .2 + .79*float64(i*i%500)/500
		ok := i%3 != 0
		confidences, correct = append(confidences, c), append(correct, ok)
		out.Labelled = append(out.Labelled, event.Labelled{})
		if i == 0 {
			out.Heads = []event.Head{{Name: "online"}}
		}
		out.Heads[0].Scores = append(out.Heads[0].Scores, event.Score{Confidence: c, Correct: ok})
	}
	m.Observe(&out)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]float64)
	for _, f := range families {
		for _, s := range f.Metric {
			for _, l := range s.Label {
				if l.GetName() == "bin" {
					sums[f.GetName()+l.GetValue()] = s.Counter.GetValue()
				}
			}
		}
	}
	const bins = calibration.BinCount
	ece := 0.0
	for b := range bins {
		ece += math.Abs(sums[fmt.Sprintf("gvbll_calibration_correct_total%.2f", float64(b)/bins)] - sums[fmt.Sprintf("gvbll_calibration_confidence_total%.2f", float64(b)/bins)])
	}
	var gaps [bins]float64
	for i, c := range confidences {
		b := min(int(c*bins), bins-1)
		gaps[b] += c
		if correct[i] {
			gaps[b]--
		}
	}
	want := 0.0
	for _, gap := range gaps {
		want += math.Abs(gap) / 500
	}
	if got := ece / 500; math.Abs(got-want) > 1e-9 {
		t.Errorf("the counters give an ECE of %v, want %v", got, want)
	}
}

// TestShowPosterior checks the gauges of a 2 × 2 posterior that moved one weight
// against values computed by hand.
func TestShowPosterior(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.ShowPosterior("online",
		&posterior.Gaussian{Dim: 2, Classes: 2, Mean: []float64{1, 0, 0, 4}, Precision: []float64{2, 1, 4, 1}},
		&posterior.Gaussian{Dim: 2, Classes: 2, Mean: []float64{1, 0, 3, 0}, Precision: []float64{2, 1, 4, 1}},
	)
	const want = `
# HELP gvbll_posterior_anchor_distance Euclidean distance of the posterior mean from the trained one.
# TYPE gvbll_posterior_anchor_distance gauge
gvbll_posterior_anchor_distance{head="online"} 5
# HELP gvbll_posterior_anchor_kl_nats KL divergence of the posterior from the trained one.
# TYPE gvbll_posterior_anchor_kl_nats gauge
gvbll_posterior_anchor_kl_nats{head="online"} 26
# HELP gvbll_posterior_entries Number of weights of the posterior: embedding dimensions times classes.
# TYPE gvbll_posterior_entries gauge
gvbll_posterior_entries{head="online"} 4
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"gvbll_posterior_anchor_distance", "gvbll_posterior_anchor_kl_nats", "gvbll_posterior_entries"); err != nil {
		t.Error(err)
	}
}

// TestSlices: every label is counted in one slice of each kind.
func TestSlices(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.Observe(&event.Outcome{
		Labelled: []event.Labelled{
			{Predicted: "a"},
			{Predicted: "a", Degree: 1, Fresh: 1},
			{Predicted: "b", Degree: 4, Fresh: 2},
			{Predicted: "b", Degree: 1000, Fresh: 501},
		},
		Heads: []event.Head{{Name: "online", Version: 1, Scores: []event.Score{
			{Confidence: .5, Correct: true, LogLoss: .7}, {Confidence: .75}, {Confidence: .5}, {Confidence: 1, Correct: true},
		}}},
	})
	const want = `
# HELP gvbll_slice_confidence_total Sum of the confidences of labelled predictions of the serving head by slice of the graph.
# TYPE gvbll_slice_confidence_total counter
gvbll_slice_confidence_total{slice="degree",value="0"} 0.5
gvbll_slice_confidence_total{slice="degree",value="1-3"} 0.75
gvbll_slice_confidence_total{slice="degree",value="16+"} 1
gvbll_slice_confidence_total{slice="degree",value="4-15"} 0.5
gvbll_slice_confidence_total{slice="neighbourhood",value="fresh"} 1.75
gvbll_slice_confidence_total{slice="neighbourhood",value="none"} 0.5
gvbll_slice_confidence_total{slice="neighbourhood",value="old"} 0.5
gvbll_slice_confidence_total{slice="predicted",value="a"} 1.25
gvbll_slice_confidence_total{slice="predicted",value="b"} 1.5
# HELP gvbll_slice_correct_total Correct predictions of the serving head by slice of the graph.
# TYPE gvbll_slice_correct_total counter
gvbll_slice_correct_total{slice="degree",value="0"} 1
gvbll_slice_correct_total{slice="degree",value="1-3"} 0
gvbll_slice_correct_total{slice="degree",value="16+"} 1
gvbll_slice_correct_total{slice="degree",value="4-15"} 0
gvbll_slice_correct_total{slice="neighbourhood",value="fresh"} 1
gvbll_slice_correct_total{slice="neighbourhood",value="none"} 1
gvbll_slice_correct_total{slice="neighbourhood",value="old"} 0
gvbll_slice_correct_total{slice="predicted",value="a"} 1
gvbll_slice_correct_total{slice="predicted",value="b"} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "gvbll_slice_confidence_total", "gvbll_slice_correct_total"); err != nil {
		t.Error(err)
	}
}

// TestManyClasses: a model of a thousand classes has 65 series by class, of which the
// last covers all other classes.
func TestManyClasses(t *testing.T) {
	for _, each := range []int{1000, 7, 1} {
		t.Run(fmt.Sprint(each, " a window"), func(t *testing.T) { manyClasses(t, each) })
	}
}

func manyClasses(t *testing.T, each int) {
	const classes = 1000
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	names := make([]string, classes)
	var out event.Outcome
	for c := range names {
		names[c] = fmt.Sprint("class ", c)
		out.Predictions = append(out.Predictions, event.Prediction{Class: names[c], ClassIndex: int32(c)})
		if len(out.Predictions) == each || c == classes-1 {
			m.Observe(&out)
			out.Predictions = nil
		}
	}
	if n, err := testutil.GatherAndCount(reg, "gvbll_predicted_classes_total"); err != nil || n != 65 {
		t.Errorf("there are %d series (error %v), want 65", n, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, s := range f.Metric {
			for _, l := range s.Label {
				if got := s.Counter.GetValue(); l.GetValue() == "(other)" && f.GetName() == "gvbll_predicted_classes_total" && got != classes-64 {
					t.Errorf("%v predictions of other classes, want %d", got, classes-64)
				}
			}
		}
	}
}

// TestOneClass: the scores of a class that PromQL computes from the counters are those of the bins. The class that is acted on and the
// two rarest have bins, from the first window on, and a standby has none.
func TestOneClass(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.Watches([]string{"review"})
	meta := model.Meta{Classes: []string{"ok", "fraud", "review", "spam"}, Training: model.Training{Labels: []int{900, 10, 80, 10}}}
	m.ShowModels(&model.Model{Meta: meta}, nil)
	counts := func(class string) map[string]map[string]float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		by := make(map[string]map[string]float64)
		for _, f := range families {
			name, found := strings.CutPrefix(f.GetName(), "gvbll_class_")
			for _, s := range f.Metric {
				labels := make(map[string]string)
				for _, l := range s.Label {
					labels[l.GetName()] = l.GetValue()
				}
				if found && labels["class"] == class {
					if by[name] == nil {
						by[name] = make(map[string]float64)
					}
					by[name][labels["bin"]] = s.Counter.GetValue()
					by[name+" next of "+labels["bin"]] = map[string]float64{labels["next"]: 1}
				}
			}
		}
		return by
	}
	if n := len(counts("fraud")); n != 0 {
		t.Fatalf("a standby has %d series of a class", n)
	}
	m.Observe(&event.Outcome{})
	for class, want := range map[string]int{"ok": 0, "fraud": calibration.OddsBins, "spam": calibration.OddsBins, "review": calibration.OddsBins} {
		if n := len(counts(class)["rows_from_total"]); n != want {
			t.Errorf("%s has %d bins before the first label, want %d", class, n, want)
		}
	}
	var want calibration.Odds
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		out := &event.Outcome{Watched: []int32{0, 1}, Heads: []event.Head{{Name: "pool"}}}
		for range 20 {
			p := float32(rng.Float64() * rng.Float64())
			l := event.Labelled{Watched: [event.MaxWatched]float32{1 - p, p}}
			if rng.Float32() < p {
				l.Class = 1
			}
			want.Add(float64(p), l.Class == 1, 1)
			out.Labelled = append(out.Labelled, l)
			out.Heads[0].Scores = append(out.Heads[0].Scores, event.Score{})
		}
		m.Observe(out)
	}
	got := counts("fraud")
	var auc, ap, positives, rows float64
	for bin, from := range got["positives_from_total"] {
		next := ""
		for edge := range got["rows_from_total next of "+bin] {
			next = edge
		}
		k, n := from-got["positives_from_total"][next], got["rows_from_total"][bin]-got["rows_from_total"][next]
		ap += k * (from - k/2 + .5) / max(got["rows_from_total"][bin]-.529*n+.029*k+.5, 1e-9)
		auc += (n - k) * (from - .471*k)
		positives, rows = positives+k, rows+n
	}
	if got["rows_total"][""] != rows || got["positives_total"][""] != positives {
		t.Errorf("%v rows and %v of the class, and bins have %v and %v", got["rows_total"], got["positives_total"], rows, positives)
	}
	auc, ap = auc/positives/(rows-positives), ap/positives
	if wantAUC, wantAP, _ := want.Ranking(); math.Abs(auc-wantAUC) > 1e-9 || math.Abs(ap-wantAP) > 1e-9 {
		t.Errorf("AUC %v and average precision %v, want %v and %v", auc, ap, wantAUC, wantAP)
	}
}

// TestGainSquares: the gain of a label is the log loss of the model as trained less that of what was served for its node, and its squares
// add up.
func TestGainSquares(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.Observe(&event.Outcome{
		Labelled: []event.Labelled{{By: 0}, {By: 1}, {By: 0}},
		Heads: []event.Head{
			{Name: "pool", Scores: []event.Score{{LogLoss: 1}, {LogLoss: 9}, {LogLoss: 3}}},
			{Name: "static", Scores: []event.Score{{LogLoss: 3}, {LogLoss: 7}, {LogLoss: 2}}},
		},
	})
	const want = `# HELP gvbll_log_loss_gain_squares_total Sum of the squares of the gains of labels: log loss of the model as trained less that of what was served.
# TYPE gvbll_log_loss_gain_squares_total counter
gvbll_log_loss_gain_squares_total 5
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "gvbll_log_loss_gain_squares_total"); err != nil {
		t.Error(err)
	}
}

// counted returns the figures of a window in which so many of each were counted.
func counted(of map[*figure.Figure]int) (w figure.Window) {
	for f, n := range of {
		w.Count(f, n)
	}
	return w
}
