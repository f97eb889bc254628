package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// TestCohorts: labels are counted by the value that their node has, and by what acting brought; a score of fewer than 50 has no series. With
// the most values that there can be, and others, it is ten series for each. Without --by there are none.
func TestCohorts(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	yes, no := true, false
	out := &event.Outcome{
		Labelled: []event.Labelled{{Class: 1, Act: &yes}, {Class: 1, Act: &no}, {Class: 0, Act: &yes}},
		Heads:    []event.Head{{Name: "online", Scores: []event.Score{{Correct: true, LogLoss: .5}, {LogLoss: 2}, {Correct: true, LogLoss: .25}}}},
		Coverage: &event.Coverage{Labels: []event.Covered{{Held: true}, {}, {Held: true}}},
		Watched:  []int32{1},
	}
	sets, acts := out.Coverage, []event.Prediction{{Act: &no, Set: &event.Set{}}}
	m.Observe(out)
	if n, err := testutil.GatherAndCount(reg, "gvbll_cohort_labels_total", "gvbll_cohort_score"); n != 0 || err != nil {
		t.Errorf("%d series (%v) without --by", n, err)
	}
	out.Cohorts = &event.Cohorts{By: "country", Known: []string{"DE"}, Values: []string{"FR", "FR", "AT"}}
	out.Coverage = nil
	m.Observe(out)
	if n, err := testutil.GatherAndCount(reg, "gvbll_cohort_acted_labels_total", "gvbll_cohort_set_covered_total"); n != 0 || err != nil {
		t.Errorf("%d series (%v) of acts and sets without --act and --coverage", n, err)
	}
	reg = prometheus.NewPedanticRegistry()
	m = metrics.New(reg)
	out.Coverage, out.Predictions = sets, acts
	m.Observe(out)
	var scores pipeline.Cohorts
	scores.Merge(serve.CohortsOf(out))
	m.ShowCohorts(scores)
	const want = `
# HELP gvbll_cohort_acted_labels_total Those among them by what acting brought (--act): caught, vain or missed.
# TYPE gvbll_cohort_acted_labels_total counter
gvbll_cohort_acted_labels_total{by="country",result="caught",value="(others)"} 0
gvbll_cohort_acted_labels_total{by="country",result="caught",value="AT"} 0
gvbll_cohort_acted_labels_total{by="country",result="caught",value="DE"} 0
gvbll_cohort_acted_labels_total{by="country",result="caught",value="FR"} 1
gvbll_cohort_acted_labels_total{by="country",result="missed",value="(others)"} 0
gvbll_cohort_acted_labels_total{by="country",result="missed",value="AT"} 0
gvbll_cohort_acted_labels_total{by="country",result="missed",value="DE"} 0
gvbll_cohort_acted_labels_total{by="country",result="missed",value="FR"} 1
gvbll_cohort_acted_labels_total{by="country",result="vain",value="(others)"} 0
gvbll_cohort_acted_labels_total{by="country",result="vain",value="AT"} 1
gvbll_cohort_acted_labels_total{by="country",result="vain",value="DE"} 0
gvbll_cohort_acted_labels_total{by="country",result="vain",value="FR"} 0
# HELP gvbll_cohort_correct_total Those among them whose node was predicted right.
# TYPE gvbll_cohort_correct_total counter
gvbll_cohort_correct_total{by="country",value="(others)"} 0
gvbll_cohort_correct_total{by="country",value="AT"} 1
gvbll_cohort_correct_total{by="country",value="DE"} 0
gvbll_cohort_correct_total{by="country",value="FR"} 1
# HELP gvbll_cohort_log_loss_nats_total Sum of the log losses of these labels.
# TYPE gvbll_cohort_log_loss_nats_total counter
gvbll_cohort_log_loss_nats_total{by="country",value="(others)"} 0
gvbll_cohort_log_loss_nats_total{by="country",value="AT"} 0.25
gvbll_cohort_log_loss_nats_total{by="country",value="DE"} 0
gvbll_cohort_log_loss_nats_total{by="country",value="FR"} 2.5
# HELP gvbll_cohort_set_covered_total Those among them that were in the set of classes served (--coverage).
# TYPE gvbll_cohort_set_covered_total counter
gvbll_cohort_set_covered_total{by="country",value="(others)"} 0
gvbll_cohort_set_covered_total{by="country",value="AT"} 1
gvbll_cohort_set_covered_total{by="country",value="DE"} 0
gvbll_cohort_set_covered_total{by="country",value="FR"} 1
`
	names := []string{
		"gvbll_cohort_acted_labels_total", "gvbll_cohort_correct_total", "gvbll_cohort_log_loss_nats_total", "gvbll_cohort_set_covered_total",
		"gvbll_cohort_score", "gvbll_cohort_labels_total",
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names[:5]...); err != nil {
		t.Error(err)
	}

	reg = prometheus.NewPedanticRegistry()
	m, scores = metrics.New(reg), pipeline.Cohorts{}
	for i := range 21 * 60 {
		value := fmt.Sprint(i % 21)
		if value == "20" {
			value = serve.OtherCohorts
		}
		out.Cohorts.Values, out.Cohorts.Known = []string{value, value, value}, nil
		m.Observe(out)
		scores.Merge(serve.CohortsOf(out))
	}
	m.ShowCohorts(scores)
	if n, err := testutil.GatherAndCount(reg, names...); n != 21*10 || err != nil {
		t.Errorf("%d series (%v), want %d", n, err, 21*10)
	}
}
