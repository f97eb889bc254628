package table

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestFitTemperature: the fitted temperature is near the one that the labels were drawn
// at, and minimises the NLL. If the NLL has no minimum, the result is a bound.
func TestFitTemperature(t *testing.T) {
	const n, classes = 4000, 4
	for _, truth := range []float64{.5, 1, 2.5} {
		rng := rand.New(rand.NewPCG(5, 6))
		logits, labels := make([]float64, n*classes), make([]int32, n)
		for i := range labels {
			a, p := logits[i*classes:(i+1)*classes], make([]float64, classes)
			for c := range a {
				a[c] = 3 * rng.NormFloat64()
				p[c] = a[c] / truth
			}
			backtest.Softmax(p)
			u := rng.Float64()
			for c := range p {
				if u -= p[c]; u < 0 {
					labels[i] = int32(c)
					break
				}
			}
		}
		nll := func(temperature float64) float64 {
			p := make([]float64, len(logits))
			for i := range p {
				p[i] = logits[i] / temperature
			}
			for lo := 0; lo < len(p); lo += classes {
				backtest.Softmax(p[lo : lo+classes])
			}
			return new(calibration.Prequential).AddWindow(calibration.ScoreRows(p, classes, labels), 1).NLL
		}
		got := fitTemperature(logits, classes, labels)
		if math.Abs(got/truth-1) > .08 {
			t.Errorf("got temperature %v, want about %v, at which the labels were drawn", got, truth)
		}
		if best := nll(got); best > nll(got*1.001) || best > nll(got/1.001) {
			t.Errorf("temperature %v does not minimise the NLL", got)
		}
	}
	sure := []float64{1, 0, 0, 1}
	if got := fitTemperature(sure, 2, []int32{0, 1}); got != leastTemperature {
		t.Errorf("logits that are always right: got temperature %v, want %v", got, leastTemperature)
	}
	if got := fitTemperature(sure, 2, []int32{1, 0}); got != mostTemperature {
		t.Errorf("logits that are always wrong: got temperature %v, want %v", got, mostTemperature)
	}
	if got := fitTemperature(make([]float64, 4), 2, []int32{1, 0}); got != mostTemperature {
		t.Errorf("logits without information: got temperature %v, want %v", got, mostTemperature)
	}
}

// TestScaled: the scaled probabilities are softmax(a/T), and the predicted classes are
// GraphSAGE's.
func TestScaled(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	scaled, err := newScaled(tr, stream, strict)
	if err != nil {
		t.Fatal(err)
	}
	plain := scaled.standalone
	n := len(stream.stepLabels(0))
	p, q := make([]float64, n*3), make([]float64, n*3)
	plain.predict(0, p)
	scaled.predict(0, q)
	for i := range n {
		a, b := p[3*i:3*i+3], q[3*i:3*i+3]
		if floats.MaxIdx(a) != floats.MaxIdx(b) {
			t.Errorf("node %d: got class %d, want GraphSAGE's %d", i, floats.MaxIdx(b), floats.MaxIdx(a))
		}
		if got, want := math.Log(b[0]/b[1])*scaled.temperature, math.Log(a[0]/a[1]); math.Abs(got-want) > 1e-9 {
			t.Errorf("node %d: log odds times T are %v, want GraphSAGE's %v", i, got, want)
		}
	}
}

// TestScaledOnWarmup: where nodes warm up, T minimises the NLL of the trained GraphSAGE on
// their labels, each node in the graph as it is before the stream.
func TestScaledOnWarmup(t *testing.T) {
	cfg, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes, cfg.Classes, cfg.Dim, cfg.Steps = 400, 5, 12, 9
	tr, stream := ready(t, Drifting(cfg), quick(), 1)
	scaled, err := newScaled(tr, stream, strict)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tr.classifier(member{kind: gnn.KindSAGE})
	if err != nil {
		t.Fatal(err)
	}
	g := gnn.NewGraph(c)
	g.Add(stream.x[:stream.context.nodes])
	for v, links := range stream.links[:stream.context.nodes] {
		g.LinkAll(int32(v), links)
	}
	var warm []int32
	for v := stream.train; v < stream.context.nodes; v++ {
		warm = append(warm, int32(v))
	}
	if len(warm) < 50 {
		t.Fatalf("%d nodes warm up, want at least 50", len(warm))
	}
	a := make([]float32, len(warm)*5)
	g.Embed(warm, a)
	nll := func(temperature float64) float64 {
		p := make([]float64, len(a))
		probabilities(a, 5, temperature, p)
		return new(calibration.Prequential).AddWindow(calibration.ScoreRows(p, 5, stream.labels[stream.train:stream.context.nodes]), 1).NLL
	}
	if best := nll(scaled.temperature); best > nll(scaled.temperature*1.01) || best > nll(scaled.temperature/1.01) {
		t.Errorf("temperature %v does not minimise the NLL of the warm-up", scaled.temperature)
	}
}
