package backtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// easy returns 120 nodes of three classes that features and neighbours tell apart, of which two thirds have their label.
func easy() (k *Known, labels []int32) {
	rng := rand.New(rand.NewPCG(7, 7))
	var x []gnn.Vector
	for v := range 120 {
		row := make([]float32, 6)
		for j := range row {
			row[j] = float32(rng.NormFloat64())
		}
		row[v%3] += 2
		x, labels = append(x, gnn.Vector{Dense: row}), append(labels, int32(v%3))
	}
	k = NewKnown(x)
	for v := int32(3); v < 120; v++ {
		u := rng.Int32N(v)
		if rng.Float64() < .8 {
			u = u/3*3 + labels[v]
		}
		if u < v {
			k.Link(v, []int32{u})
		}
	}
	return k, labels
}

// TestLogistic: the channels are those of a plain recomputation from matrices, and the
// weights are at the minimum: in each column the residuals cancel the L2 term.
func TestLogistic(t *testing.T) {
	k, truth := easy()
	var first, then []int32
	for v := range int32(80) {
		if v < 40 {
			first = append(first, v)
		} else {
			then = append(then, v)
		}
	}
	for _, v := range first {
		k.Reveal(v, truth[v])
	}
	l, err := NewLogistic(t.Context(), k, 6, 3, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	probs := make([]float64, 3*len(then))
	l.Predict(then, truth[40:80], probs)
	for _, v := range then {
		k.Reveal(v, truth[v])
	}
	if err := l.Learn(then); err != nil {
		t.Fatal(err)
	}
	x, labels := l.labelled()
	want := channels(k)
	weights := l.weights[l.best]
	residuals := mat.NewDense(l.columns(), l.classes, nil)
	p := make([]float64, x.len()*l.classes)
	x.probabilities(weights, l.classes, p)
	right := 0
	for i, v := range k.Revealed {
		row := make([]float64, l.columns())
		for e := x.start[i]; e < x.start[i+1]; e++ {
			row[x.index[e]] += x.value[e]
		}
		for j, value := range row {
			if math.Abs(value-want.At(int(v), j)) > 1e-6 {
				t.Fatalf("channel %d of node %d is %v, want %v", j, v, value, want.At(int(v), j))
			}
			for c := range l.classes {
				r := p[i*l.classes+c]
				if int(labels[i]) == c {
					r--
				}
				residuals.Set(j, c, residuals.At(j, c)+r*value/float64(x.len()))
			}
		}
		if floats.MaxIdx(p[i*3:i*3+3]) == int(labels[i]) {
			right++
		}
	}
	for j := range l.columns() - 1 {
		for c := range l.classes {
			if g := residuals.At(j, c) + strengths[l.best]/float64(x.len())*weights[j*l.classes+c]; math.Abs(g) > leastGradient {
				t.Errorf("gradient of weight %d of class %d is %v, want 0 within %v", j, c, g, leastGradient)
			}
		}
	}
	if right < 70 || len(l.waiting) > 0 {
		t.Errorf("%d of 80 are right, and %d wait, want at least 70 and none", right, len(l.waiting))
	}
}

// channels computes the regression's channels of all nodes from the adjacency matrix.
func channels(k *Known) *mat.Dense {
	n, dim, classes := len(k.X), len(k.X[0].Dense), 3
	adjacent, features, known := mat.NewDense(n, n, nil), mat.NewDense(n, dim, nil), mat.NewDense(n, classes, nil)
	for v, near := range k.Near {
		for _, u := range near {
			adjacent.Set(v, int(u), 1)
		}
		for j, value := range k.X[v].Dense {
			features.Set(v, j, float64(value))
		}
		if y := k.Label[v]; y != dataset.Unlabelled {
			known.Set(v, int(y), 1)
		}
	}
	all := mat.NewDense(n, 2*dim+2*classes+2, nil)
	var mean, one mat.Dense
	mean.Mul(adjacent, features)
	one.Mul(adjacent, known)
	for v := range n {
		degree := mat.Sum(adjacent.RowView(v))
		for j := range dim {
			all.Set(v, j, features.At(v, j))
			all.Set(v, dim+j, mean.At(v, j)/max(degree, 1))
		}
		two := make([]float64, classes)
		for u := range n {
			if adjacent.At(v, u) == 0 {
				continue
			}
			others := make([]float64, classes)
			total := 0.0
			for c := range classes {
				others[c] = one.At(u, c) - known.At(v, c)
				total += others[c]
			}
			for c := range classes {
				if total > 0 {
					two[c] += others[c] / total
				}
			}
		}
		for c := range classes {
			all.Set(v, 2*dim+c, one.At(v, c)/max(mat.Sum(one.RowView(v)), 1))
			if total := two[0] + two[1] + two[2]; total > 0 {
				all.Set(v, 2*dim+classes+c, two[c]/total)
			}
		}
		all.Set(v, 2*dim+2*classes, math.Log(1+degree))
		all.Set(v, 2*dim+2*classes+1, 1)
	}
	return all
}
