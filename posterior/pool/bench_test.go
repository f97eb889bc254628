package pool

import (
	"math/rand/v2"
	"testing"
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

// densePool returns a pool of the default heads for dense features and a batch, with the
// sizes of the generated graph that drifts. The pool is trained on the batch.
func densePool(b *testing.B) (*Pool, Batch) {
	s := Shape{Classes: 40, Features: 128, Embedding: 64}
	rng := rand.New(rand.NewPCG(1, 2))
	pool, err := New(Default(Traits{Density: 1}), s, randomPrior(rng, s))
	if err != nil {
		b.Fatal(err)
	}
	batch := randomBatch(rng, 57, s, true)
	pool.Train(batch)
	batch.LogProbs = make([]float32, batch.N*pool.LogProbsPerRow())
	return pool, batch
}

// BenchmarkDense measures a row in a pool of the default heads for dense features, in
// batches of 57 rows as in the generated graph that drifts.
func BenchmarkDense(b *testing.B) {
	pool, batch := densePool(b)
	for b.Loop() {
		pool.Predict(batch.Rows, batch.LogProbs)
		pool.Learn(batch)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*batch.N), "µs/node")
}
