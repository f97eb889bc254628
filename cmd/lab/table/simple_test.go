package table

import (
	"math"
	"slices"
	"testing"
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
