package table

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestScaleCostsNothing: numbers without a schema may be on any scale. What the pool serves is as good on their cubes,
// exponentials and logarithms as on themselves, of a small graph and of basketball players.
func TestScaleCostsNothing(t *testing.T) {
	sets := []*dataset.Dataset{easy()}
	if path := filepath.Join("..", "..", "..", "..", "shared", "datasets", "nba"); !testing.Short() {
		if _, err := os.Stat(path); err == nil {
			nba, err := dataset.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, nba)
		}
	}
	scales := []struct {
		name string
		of   func(above, x float64) float64 // above is x less the least of its column
	}{
		{"x", func(_, x float64) float64 { return x }},
		{"x³", func(_, x float64) float64 { return x * x * x }},
		{"exp", func(_, x float64) float64 { return math.Exp(x) }},
		{"ln", func(above, _ float64) float64 { return math.Log(above + .02) }},
	}
	for _, d := range sets {
		plan := Plan{
			Protocols: []string{strict}, Seeds: []uint64{1, 2, 3}, Systems: []string{"pool"}, Settings: DefaultSettings(), Parallel: 2,
		}
		for _, s := range scales {
			other := *d
			other.Name, other.Features = s.name, onScale(d, s.of)
			plan.Sources = append(plan.Sources, Of(&other, dataset.Cut{}))
		}
		found := make(map[string]row)
		for _, r := range Summarise(run(t, plan)) {
			found[r.Dataset] = r
		}
		for _, s := range scales {
			nll, auc := found[s.name].NLL.Mean-found["x"].NLL.Mean, found["x"].AUC.Mean-found[s.name].AUC.Mean
			t.Logf("%s, %s: costs %.4f nats and %.4f of the AUC", d.Name, s.name, nll, auc)
			if nll > .01 || auc > .01 {
				t.Errorf("%s, %s: costs %.4f nats and %.4f of the AUC, want at most .01", d.Name, s.name, nll, auc)
			}
		}
	}
}

// onScale returns the features of d on another scale.
func onScale(d *dataset.Dataset, of func(above, x float64) float64) (x []gnn.Vector) {
	least := make([]float32, d.Dim)
	for _, v := range d.Features {
		for j, value := range v.Dense {
			least[j] = min(least[j], value)
		}
	}
	for _, v := range d.Features {
		other := make([]float32, d.Dim)
		for j, value := range v.Dense {
			other[j] = float32(of(float64(value-least[j]), float64(value)))
		}
		x = append(x, gnn.Vector{Dense: other})
	}
	return x
}
