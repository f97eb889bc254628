package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkCora measures an arrival and its label in the pool of the default heads,
// without the heads on the embedding and without the graph.
func BenchmarkCora(b *testing.B) {
	g := readGraph(b, "cora")
	train, batches := g.split(1, .05, 30)
	type step struct {
		rows  Rows
		batch Batch
	}
	p := newPlayer(g)
	p.arrive(train)
	first := p.batch(train, p.rows(train), nil)
	p.reveal(train)
	var steps []step
	nodes := 0
	for _, batch := range batches {
		p.arrive(batch)
		rows := p.rows(batch)
		steps = append(steps, step{rows, p.batch(batch, rows, nil)})
		p.reveal(batch)
		nodes += len(batch)
	}
	for b.Loop() {
		pool, err := New(withoutEmbedding(first.N, g.classes), Shape{Classes: g.classes, Features: g.features}, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		pool.Train(first)
		b.StartTimer()
		for _, s := range steps {
			s.batch.LogProbs = make([]float32, s.rows.N*pool.LogProbsPerRow())
			pool.Predict(s.rows, s.batch.LogProbs)
			pool.Learn(s.batch)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes), "µs/node")
}

// densePool returns a pool of the default heads for dense features and a batch of n rows. The pool is trained on the
// batch.
func densePool(b *testing.B, t Traits, s Shape, n int) (*Pool, Batch) {
	rng := rand.New(rand.NewPCG(1, 2))
	pool, err := New(Default(t), s, randomPrior(rng, s))
	if err != nil {
		b.Fatal(err)
	}
	batch := randomBatch(rng, n, s, true)
	pool.Train(batch)
	batch.LogProbs = make([]float32, batch.N*pool.LogProbsPerRow())
	return pool, batch
}

// BenchmarkHeads measures a row by head of the default pool for dense features, and in the pool as a whole: many
// features and classes, as in the stream of cmd/lab/bench, and few of both. Each is the least of 50 batches of 250 rows.
func BenchmarkHeads(b *testing.B) {
	for _, s := range []Shape{{Classes: 40, Features: 128, Embedding: 64}, {Classes: 2, Features: 16, Embedding: 16}} {
		b.Run(fmt.Sprintf("%d-%d", s.Features, s.Classes), func(b *testing.B) {
			pool, batch := densePool(b, Traits{Density: 1, Negative: true, Rows: 169_000, Classes: s.Classes, Features: s.Features}, s, 250)
			logp := make([]float64, batch.N*s.Classes)
			measure := func(name string, do func()) {
				least := time.Duration(math.MaxInt64)
				for range 50 {
					began := time.Now()
					do()
					least = min(least, time.Since(began))
				}
				b.ReportMetric(float64(least.Nanoseconds())/float64(batch.N), name+"-ns")
			}
			for k, h := range pool.heads {
				measure(pool.cfg.Heads[k].Name+"-predicts", func() { h.predict(&batch.Rows, logp) })
				measure(pool.cfg.Heads[k].Name+"-learns", func() { h.learn(&batch, 1) })
			}
			measure("all-predicts", func() { pool.Predict(batch.Rows, batch.LogProbs) })
			measure("all-learns", func() { pool.Learn(batch) })
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDense measures a row in a pool of the default heads for dense features, in
// batches of 57 rows as in the generated graph that drifts.
func BenchmarkDense(b *testing.B) {
	pool, batch := densePool(b, Traits{Density: 1}, Shape{Classes: 40, Features: 128, Embedding: 64}, 57)
	for b.Loop() {
		pool.Predict(batch.Rows, batch.LogProbs)
		pool.Learn(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch.N), "µs/node")
}
