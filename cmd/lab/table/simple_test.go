package table

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestSimple: on the easy graph the baselines without an encoder are far better than
// chance under all protocols.
func TestSimple(t *testing.T) {
	for _, r := range run(t, Plan{Protocols: protocols, Sources: []Source{easySource()}, Systems: simple, Seeds: []uint64{1, 2}, Settings: quick(), Parallel: 2}) {
		if r.Mean.Acc < .65 || r.Stream.NLL > .8 {
			t.Errorf("%s, %s: accuracy %.3f and NLL %.3f, want at least .65 and at most .8", r.Protocol, r.System, r.Mean.Acc, r.Stream.NLL)
		}
	}
}

// TestSimpleLearnsAfterwards: what a step's nodes are predicted to be depends on no label
// of that step or a later one, and on some label before it.
func TestSimpleLearnsAfterwards(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	last := len(stream.steps) - 1
	predictions := func(name string, flipped int) []float64 {
		other := *stream
		other.kept = memo{}
		other.labels = slices.Clone(stream.labels)
		lo, hi := stream.span(flipped)
		for v := lo; v < hi; v++ {
			other.labels[v] = (other.labels[v] + 1) % 3
		}
		sys, err := newSystem(name, tr, &other, strict)
		if err != nil {
			t.Fatal(err)
		}
		var probs []float64
		for step := range stream.steps {
			probs = make([]float64, 3*len(stream.stepLabels(step)))
			sys.predict(step, probs)
			if step < last {
				sys.learn(other.targets(step))
			}
		}
		return probs
	}
	for _, name := range simple {
		own, before := predictions(name, last), predictions(name, last-1)
		if sys := predictions(name, last); !slices.Equal(own, sys) {
			t.Errorf("%s: the same stream gives other probabilities", name)
		}
		if slices.Equal(own, before) {
			t.Errorf("%s: the labels of step %d change nothing at step %d", name, last-1, last)
		}
	}
}

// TestLogistic: the channels are those of a plain recomputation from matrices, and the
// weights are at the minimum: in each column the residuals cancel the L2 term.
func TestLogistic(t *testing.T) {
	const step = 4
	for _, protocol := range protocols {
		tr, stream := ready(t, easySource(), quick(), 1)
		l, err := newLogistic(tr, stream, protocol)
		if err != nil {
			t.Fatal(err)
		}
		for s := range step {
			l.predict(s, make([]float64, 3*len(stream.stepLabels(s))))
			l.learn(stream.targets(s))
		}
		x, labels := l.labelled()
		n := stream.steps[step-1]
		if protocol != strict {
			n = stream.steps[len(stream.steps)-1]
		}
		want := channels(stream, n, l.label[:n.nodes], l.classes)
		weights := l.weights[l.best]
		residuals := mat.NewDense(l.columns(), l.classes, nil)
		p := make([]float64, x.len()*l.classes)
		x.probabilities(weights, l.classes, p)
		for i, v := range l.revealed {
			row := make([]float64, l.columns())
			for e := x.start[i]; e < x.start[i+1]; e++ {
				row[x.index[e]] += x.value[e]
			}
			for j, value := range row {
				if math.Abs(value-want.At(int(v), j)) > 1e-6 {
					t.Fatalf("%s: channel %d of node %d is %v, want %v", protocol, j, v, value, want.At(int(v), j))
				}
				for c := range l.classes {
					r := p[i*l.classes+c]
					if int(labels[i]) == c {
						r--
					}
					residuals.Set(j, c, residuals.At(j, c)+r*value/float64(x.len()))
				}
			}
		}
		for j := range l.columns() - 1 {
			for c := range l.classes {
				if g := residuals.At(j, c) + strengths[l.best]/float64(x.len())*weights[j*l.classes+c]; math.Abs(g) > leastGradient {
					t.Errorf("%s: gradient of weight %d of class %d is %v, want 0 within %v", protocol, j, c, g, leastGradient)
				}
			}
		}
	}
}

// channels computes the logistic regression's channels of all nodes from the adjacency
// matrix of a graph.
func channels(s *replay, n extent, label []int32, classes int) *mat.Dense {
	dim := len(s.x[0].Dense)
	adjacent, features, known := mat.NewDense(n.nodes, n.nodes, nil), mat.NewDense(n.nodes, dim, nil), mat.NewDense(n.nodes, classes, nil)
	for e := range n.edges {
		adjacent.Set(int(s.dst[e]), int(s.src[e]), 1)
	}
	for v := range n.nodes {
		for j, value := range s.x[v].Dense {
			features.Set(v, j, float64(value))
		}
		if y := label[v]; y != dataset.Unlabelled {
			known.Set(v, int(y), 1)
		}
	}
	all := mat.NewDense(n.nodes, 2*dim+2*classes+2, nil)
	var mean, one mat.Dense
	mean.Mul(adjacent, features)
	one.Mul(adjacent, known)
	for v := range n.nodes {
		degree := mat.Sum(adjacent.RowView(v))
		for j := range dim {
			all.Set(v, j, features.At(v, j))
			all.Set(v, dim+j, mean.At(v, j)/max(degree, 1))
		}
		two := make([]float64, classes)
		for u := range n.nodes {
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

// TestOnlineLogistic: after some steps the weights are those of one plain step of gradient
// descent for each label, in the order in which labels came.
func TestOnlineLogistic(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	o := newOnlineLogistic(tr, stream)
	o.learn(stream.targets(0))
	o.learn(stream.targets(1))
	if o.rate < .03 || o.rate > 3 {
		t.Errorf("rate %v, want one inside the list: standardised features", o.rate)
	}
	dim := len(stream.x[0].Dense)
	w := mat.NewDense(dim+1, 3, nil)
	for v := range stream.steps[1].nodes {
		x := mat.NewVecDense(dim+1, nil)
		x.SetVec(dim, 1)
		for j, value := range stream.x[v].Dense {
			x.SetVec(j, float64(value))
		}
		var a mat.VecDense
		a.MulVec(w.T(), x)
		p := slices.Clone(a.RawVector().Data)
		sum := math.Exp(p[0]) + math.Exp(p[1]) + math.Exp(p[2])
		for c := range p {
			p[c] = math.Exp(p[c]) / sum
		}
		p[stream.labels[v]]--
		w.RankOne(w, -o.rate, x, mat.NewVecDense(3, p))
	}
	for i, got := range o.weights {
		if want := w.At(i/3, i%3); math.Abs(got-want) > 1e-9 {
			t.Fatalf("weight %d is %v, want %v", i, got, want)
		}
	}
}

// TestPropagation: at nodes without a label the function is the mean of its neighbours'
// values and the class shares; at others it is their label.
func TestPropagation(t *testing.T) {
	const step = 3
	for _, protocol := range protocols {
		tr, stream := ready(t, easySource(), quick(), 1)
		p := newPropagation(tr, stream, protocol)
		for s := range step {
			p.predict(s, make([]float64, 3*len(stream.stepLabels(s))))
			p.learn(stream.targets(s))
		}
		probs := make([]float64, 3*len(stream.stepLabels(step)))
		p.predict(step, probs)
		g := stream.known(step, protocol)
		lo, hi := stream.span(step)
		sum, degree := make([]float64, 3*len(g.X)), make([]float64, len(g.X))
		for e, v := range g.Dst {
			degree[v]++
			for c := range 3 {
				sum[3*int(v)+c] += p.f[3*int(g.Src[e])+c]
			}
		}
		counts := []float64{1, 1, 1}
		for _, y := range stream.labels[:lo] {
			counts[y]++
		}
		for v := range g.X {
			for c := range 3 {
				want := (sum[3*v+c] + counts[c]/float64(lo+3)) / (degree[v] + 1)
				if v < lo {
					want = 0
					if int(stream.labels[v]) == c {
						want = 1
					}
				}
				if math.Abs(p.f[3*v+c]-want) > 1e-5 {
					t.Fatalf("%s: value of node %d for class %d is %v, want %v", protocol, v, c, p.f[3*v+c], want)
				}
			}
		}
		if !slices.Equal(probs, p.f[3*lo:3*hi]) {
			t.Errorf("%s: probabilities are not the function's values", protocol)
		}
	}
}
