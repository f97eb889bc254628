package posterior

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A window of the size of the paper's ogbn-arxiv batches.
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
				p.Split(&q, rows, split)
			}
		})
	}
}

// Collect and Apply, as a head does them.
func BenchmarkLearn(b *testing.B) {
	q, rows, labels := arxiv()
	head := NewOnline(q, DefaultConfig())
	b.ReportAllocs()
	for b.Loop() {
		head.Learn(rows, labels)
	}
}

// One epoch's loss and gradients over a graph of Cora's size.
func BenchmarkLoss(b *testing.B) {
	for _, c := range []struct{ dim, hidden int }{{16, 0}, {16, 16}, {64, 0}, {64, 16}} {
		b.Run(fmt.Sprintf("d=%d/hidden=%d", c.dim, c.hidden), func(b *testing.B) {
			const n, classes = 2708, 7
			v := NewVariational(c.dim, classes, c.hidden, 1)
			rng := rand.New(rand.NewPCG(1, 2))
			z, dz, labels := make([]float64, n*c.dim), make([]float64, n*c.dim), make([]int32, n)
			for i := range z {
				z[i] = rng.NormFloat64()
			}
			for i := range labels {
				labels[i] = int32(rng.IntN(classes))
			}
			b.ReportAllocs()
			for b.Loop() {
				v.Loss(z, labels, 1, rng, dz)
			}
		})
	}
}
