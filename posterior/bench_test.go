package posterior

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// arxiv returns a posterior and a labelled batch with the sizes of the paper's ogbn-arxiv
// stream.
func arxiv() (Gaussian, Rows, []int32) {
	rng := rand.New(rand.NewPCG(1, 2))
	q := randomGaussian(rng, 64, 40)
	rows, labels := randomRows(rng, 500, 64, 40)
	return q, rows, labels
}

func BenchmarkMAP(b *testing.B) {
	q, rows, labels := arxiv()
	probs := make([]float64, len(labels)*q.Classes)
	b.ReportAllocs()
	for b.Loop() {
		MAP(&q, rows, probs)
	}
}

func BenchmarkPredictive(b *testing.B) {
	q, rows, labels := arxiv()
	for _, samples := range []int{16, 64} {
		b.Run(fmt.Sprintf("samples=%d", samples), func(b *testing.B) {
			p, split := NewPredictive(q.Classes, samples), make([]Uncertainty, len(labels))
			b.ReportAllocs()
			for b.Loop() {
				p.Predict(&q, rows, nil, split)
			}
		})
	}
}

// BenchmarkLearn measures the update of the online head by one batch.
func BenchmarkLearn(b *testing.B) {
	q, rows, labels := arxiv()
	head := NewOnline(q, DefaultConfig())
	b.ReportAllocs()
	for b.Loop() {
		head.Learn(rows, labels)
	}
}

// BenchmarkLoss measures the loss and gradients of one epoch: for a graph of Cora's size,
// with and without a learned temperature, and for rows with as many classes as ogbn-arxiv.
func BenchmarkLoss(b *testing.B) {
	for _, c := range []struct{ n, dim, classes, hidden int }{{2708, 32, 7, 16}, {2708, 32, 7, 0}, {500, 64, 40, 16}} {
		b.Run(fmt.Sprintf("n=%d/d=%d/C=%d/hidden=%d", c.n, c.dim, c.classes, c.hidden), func(b *testing.B) {
			v := NewVariational(c.dim, c.classes, c.hidden, 1)
			rng := rand.New(rand.NewPCG(1, 2))
			z, dz, labels := make([]float64, c.n*c.dim), make([]float64, c.n*c.dim), make([]int32, c.n)
			for i := range z {
				z[i] = rng.NormFloat64()
			}
			for i := range labels {
				labels[i] = int32(rng.IntN(c.classes))
			}
			b.ReportAllocs()
			for b.Loop() {
				v.Loss(z, labels, 1, rng, dz)
			}
		})
	}
}
