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
	"github.com/gvbll/gvbll/pipeline/model"
)

// TestShowPool: a pool has gauges for its heads, the parts of its mixture, biases, regret and compatibility. Those
// by class are bounded: 64 biases, and no compatibility of more than 16 classes.
func TestShowPool(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.ShowPool(&pipeline.Pooled{
		Heads: []string{"online", "labels"}, Weights: []float64{.5, -.25}, Bias: []float64{1, -1}, Regret: -3,
		Parts: []string{"online", "labels", "product"}, Shares: []float64{.25, 0, .75},
	}, []string{"a", "b"})
	const want = `
# HELP gvbll_pool_bias Bias of a class in the pool's logits; classes beyond the first 64 are left out.
# TYPE gvbll_pool_bias gauge
gvbll_pool_bias{class="a"} 1
gvbll_pool_bias{class="b"} -1
# HELP gvbll_pool_regret_nats Log loss of the pool over all labels, less that of its best head in hindsight.
# TYPE gvbll_pool_regret_nats gauge
gvbll_pool_regret_nats{head="pool"} -3
# HELP gvbll_pool_share Share of a head, or of a product of all heads, in the mixture that the pool serves.
# TYPE gvbll_pool_share gauge
gvbll_pool_share{head="labels"} 0
gvbll_pool_share{head="online"} 0.25
gvbll_pool_share{head="product"} 0.75
# HELP gvbll_pool_weight Weight of a head in the pool that serves; 0 for heads that are only scored.
# TYPE gvbll_pool_weight gauge
gvbll_pool_weight{head="labels"} -0.25
gvbll_pool_weight{head="online"} 0.5
`
	names := []string{"gvbll_pool_bias", "gvbll_pool_regret_nats", "gvbll_pool_share", "gvbll_pool_weight"}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}

	reg = prometheus.NewPedanticRegistry()
	m = metrics.New(reg)
	many := &pipeline.Pooled{Bias: make([]float64, 70)}
	var classes []string
	for c := range 70 {
		classes = append(classes, fmt.Sprint(c))
	}
	m.ShowPool(many, classes)
	if n, err := testutil.GatherAndCount(reg, "gvbll_pool_bias"); err != nil || n != 64 {
		t.Errorf("%d series (%v), want 64", n, err)
	}
}

// TestServing: of each label, the series with serving="true" have the score of the head
// that served its node: through a fallback to the model as trained and back, and after a
// promotion from a pool to the paper's heads. The gauges name the head that serves now.
func TestServing(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	window := func(servedBy int, heads []string, by ...int) {
		out := &event.Outcome{ServedBy: servedBy}
		for _, b := range by {
			out.Labelled = append(out.Labelled, event.Labelled{By: b})
		}
		var sums []pipeline.Summary
		for k, name := range heads {
			head := event.Head{Name: name}
			for range by {
				head.Scores = append(head.Scores, event.Score{Confidence: .55, Correct: k == 0, LogLoss: float64(1 + k)})
			}
			out.Heads, sums = append(out.Heads, head), append(sums, pipeline.Summary{Head: name})
		}
		m.Observe(out)
		m.Show(out, sums)
	}
	pool, paper := []string{"pool", "online", "static"}, []string{"online", "static"}

	m.ShowModels(&model.Model{ID: "a"}, &model.Model{ID: "b"})
	window(0, pool, 0, 0)
	m.ShowPool(&pipeline.Pooled{Heads: []string{"labels"}, Weights: []float64{1}}, nil)
	m.ShowModels(&model.Model{ID: "b"}, &model.Model{ID: "a"}) // promoted
	window(0, paper, 0)
	window(1, paper, 0, 1) // the model as trained serves, and one label is of a node served before
	window(0, paper, 1)

	const want = `
# HELP gvbll_correct_labels_total Scored labels that the head had predicted.
# TYPE gvbll_correct_labels_total counter
gvbll_correct_labels_total{head="online",serving="false"} 2
gvbll_correct_labels_total{head="online",serving="true"} 2
gvbll_correct_labels_total{head="pool",serving="true"} 2
gvbll_correct_labels_total{head="static",serving="false"} 0
gvbll_correct_labels_total{head="static",serving="true"} 0
# HELP gvbll_log_loss_nats_total Sum of the log losses (negative log-likelihoods) of scored labels.
# TYPE gvbll_log_loss_nats_total counter
gvbll_log_loss_nats_total{head="online",serving="false"} 6
gvbll_log_loss_nats_total{head="online",serving="true"} 2
gvbll_log_loss_nats_total{head="pool",serving="true"} 2
gvbll_log_loss_nats_total{head="static",serving="false"} 10
gvbll_log_loss_nats_total{head="static",serving="true"} 4
# HELP gvbll_prequential_labels Number of labels in the prequential scores.
# TYPE gvbll_prequential_labels gauge
gvbll_prequential_labels{head="online",serving="true"} 0
gvbll_prequential_labels{head="static",serving="false"} 0
# HELP gvbll_scored_labels_total Labels that a head's predictions were scored against, where it served (serving is true) and where another head did. Of a corrected label, the first.
# TYPE gvbll_scored_labels_total counter
gvbll_scored_labels_total{head="online",serving="false"} 4
gvbll_scored_labels_total{head="online",serving="true"} 2
gvbll_scored_labels_total{head="pool",serving="true"} 2
gvbll_scored_labels_total{head="static",serving="false"} 4
gvbll_scored_labels_total{head="static",serving="true"} 2
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
		"gvbll_correct_labels_total", "gvbll_log_loss_nats_total", "gvbll_prequential_labels", "gvbll_scored_labels_total", "gvbll_pool_weight"); err != nil {
		t.Error(err)
	}
}
