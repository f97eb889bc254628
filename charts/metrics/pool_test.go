package metrics_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/pipeline"
)

// TestShowPool: a pool has gauges for its heads, biases, regret and compatibility. Those
// by class are bounded: 64 biases, and no compatibility of more than 16 classes.
func TestShowPool(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg)
	m.ShowPool(&pipeline.Pooled{
		Heads: []string{"online", "labels"}, Weights: []float64{.5, -.25}, Bias: []float64{1, -1}, Regret: -3, Compatibility: []float64{.75, .25, .5, .5},
	}, []string{"a", "b"})
	const want = `
# HELP gvbll_pool_bias Bias of a class in the pool's logits; classes beyond the first 64 are left out.
# TYPE gvbll_pool_bias gauge
gvbll_pool_bias{class="a"} 1
gvbll_pool_bias{class="b"} -1
# HELP gvbll_pool_compatibility Share of each class among the labelled neighbours of the nodes of a class, as learned; only for up to 16 classes.
# TYPE gvbll_pool_compatibility gauge
gvbll_pool_compatibility{class="a",neighbour="a"} 0.75
gvbll_pool_compatibility{class="a",neighbour="b"} 0.25
gvbll_pool_compatibility{class="b",neighbour="a"} 0.5
gvbll_pool_compatibility{class="b",neighbour="b"} 0.5
# HELP gvbll_pool_regret_nats Log loss of the pool over all labels, less that of its best head in hindsight; negative where the pool is better.
# TYPE gvbll_pool_regret_nats gauge
gvbll_pool_regret_nats{head="pool"} -3
# HELP gvbll_pool_weight Weight of a head in the pool that serves; 0 for heads that are only scored.
# TYPE gvbll_pool_weight gauge
gvbll_pool_weight{head="labels"} -0.25
gvbll_pool_weight{head="online"} 0.5
`
	names := []string{"gvbll_pool_bias", "gvbll_pool_compatibility", "gvbll_pool_regret_nats", "gvbll_pool_weight"}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}

	reg = prometheus.NewPedanticRegistry()
	m = metrics.New(reg)
	many := &pipeline.Pooled{Bias: make([]float64, 70), Compatibility: make([]float64, 70*70)}
	var classes []string
	for c := range 70 {
		classes = append(classes, fmt.Sprint(c))
	}
	m.ShowPool(many, classes)
	if n, err := testutil.GatherAndCount(reg, "gvbll_pool_compatibility", "gvbll_pool_bias"); err != nil || n != 64 {
		t.Errorf("%d series (%v), want 64", n, err)
	}
}
