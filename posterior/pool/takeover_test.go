package pool

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
	"github.com/gvbll/gvbll/posterior"
)

// successor returns a pool for another encoder, of a wider embedding, and with more classes
// than the small shape.
func successor(t *testing.T, cfg Config, more int) (*Pool, Shape) {
	t.Helper()
	shape := small
	shape.Embedding += 3
	shape.Classes += more
	p, err := New(cfg, shape, randomPrior(rand.New(rand.NewPCG(11, 12)), shape))
	if err != nil {
		t.Fatal(err)
	}
	return p, shape
}

// TestTakeOver: after it has taken over from a pool with another encoder, a pool's heads
// that do not read embeddings predict as the other's do, and its paper's heads as before.
// The weights have the other's posterior to the power keep, times the prior to the rest.
func TestTakeOver(t *testing.T) {
	const keep = 0.25
	for _, dense := range []bool{false, true} {
		cfg := everything(dense)
		old := newPool(t, cfg)
		live(old, dense, 0, 8)
		p, shape := successor(t, cfg, 0)
		before, _ := successor(t, cfg, 0)
		if err := p.TakeOver(old, keep); err != nil {
			t.Fatal(err)
		}
		rows := randomBatch(rand.New(rand.NewPCG(3, 4)), 9, shape, dense).Rows
		oldRows := rows
		oldRows.Embedded = randomBatch(rand.New(rand.NewPCG(3, 4)), 9, small, dense).Embedded
		got, was, want := predictions(p, rows), predictions(before, rows), predictions(old, oldRows)
		for k, h := range cfg.Heads {
			at := (1 + k) * shape.Classes
			for i := range rows.N {
				of := func(all []float32) []float32 { return all[i*p.LogProbsPerRow()+at:][:shape.Classes] }
				switch {
				case h.Static != nil || h.Online != nil:
					if !slices.Equal(of(got), of(was)) {
						t.Errorf("head %s, row %d: %v after taking over, %v before", h.Name, i, of(got), of(was))
					}
				case !slices.Equal(of(got), of(want)):
					t.Errorf("head %s, row %d: %v, the other pool's gives %v", h.Name, i, of(got), of(want))
				}
			}
		}
		for j, w := range p.weights {
			wantWeights(t, w, old.weights[j], keep)
		}
		for e, l := range p.mixture.score {
			kerneltest.WantClose(t, "L", []float64{l}, []float64{keep * old.mixture.score[e]}, 1e-12)
		}
		if p.Version() != 0 || p.scores[0] != (score{}) {
			t.Errorf("version %d and scores %v, want none: the pool has learned no batch", p.Version(), p.scores[0])
		}
	}
}

// wantWeights compares precision and mean with κQ + (1-κ)Q_prior and the solution of its
// normal equations, computed plainly.
func wantWeights(t *testing.T, got, from *weights, keep float64) {
	t.Helper()
	n := len(from.theta)
	upper := func(q []float64, i, j int) float64 { return q[min(i, j)*n+max(i, j)] }
	for i := range n {
		var left, right float64 // row i of Qθ, of the result and as it should be
		for j := range n {
			q := keep * upper(from.precision, i, j)
			right += q * from.theta[j]
			if i == j {
				q += (1 - keep) * from.diagonal[i]
				right += (1 - keep) * from.diagonal[i] * from.prior[i]
			}
			kerneltest.WantClose(t, "precision", []float64{upper(got.precision, i, j)}, []float64{q}, 1e-12)
			left += q * got.theta[j]
		}
		kerneltest.WantClose(t, "Qθ", []float64{left}, []float64{right}, 1e-9)
	}
}

// predictions returns the log probabilities of rows.
func predictions(p *Pool, rows Rows) []float32 {
	logp := make([]float32, rows.N*p.LogProbsPerRow())
	p.Predict(rows, logp)
	return logp
}

// TestTakeOverMoreClasses: a pool with two classes more takes over what is known of the
// first ones: among these, the wide heads and naive Bayes predict as the other pool's do.
// All probabilities are finite, and the pool learns the new classes.
func TestTakeOverMoreClasses(t *testing.T) {
	for _, dense := range []bool{false, true} {
		cfg := everything(dense)
		old := newPool(t, cfg)
		live(old, dense, 0, 8)
		p, shape := successor(t, cfg, 2)
		if err := p.TakeOver(old, 0.5); err != nil {
			t.Fatal(err)
		}
		b := randomBatch(rand.New(rand.NewPCG(3, 4)), 9, shape, dense)
		oldRows := b.Rows
		few := randomBatch(rand.New(rand.NewPCG(3, 4)), 9, small, dense)
		oldRows.Embedded, oldRows.Labelled, oldRows.Second, oldRows.Kinds = few.Embedded, few.Labelled, few.Second, few.Kinds
		// No neighbour is of a new class.
		for _, counts := range [][2][]float32{{b.Rows.Labelled, few.Labelled}, {b.Rows.Second, few.Second}, {b.Rows.Kinds, few.Kinds}} {
			for i := range len(counts[0]) / shape.Classes {
				row := counts[0][i*shape.Classes : (i+1)*shape.Classes]
				clear(row)
				copy(row, counts[1][i*small.Classes:(i+1)*small.Classes])
			}
		}
		got, want := predictions(p, b.Rows), predictions(old, oldRows)
		for k, h := range cfg.Heads {
			if h.Wide == nil && h.Bayes == nil || h.Wide != nil && h.Wide.Interactions > 0 { // of other columns
				continue
			}
			for i := range b.N {
				x := got[i*p.LogProbsPerRow()+(1+k)*shape.Classes:][:small.Classes]
				y := want[i*old.LogProbsPerRow()+(1+k)*small.Classes:][:small.Classes]
				for c := range small.Classes {
					kerneltest.WantClose(t, h.Name, []float64{float64(x[c] - x[0])}, []float64{float64(y[c] - y[0])}, 1e-4)
				}
			}
		}
		b.LogProbs = got
		p.Learn(b)
		logProbs := predictions(p, b.Rows)
		for i := range b.N * len(p.Names()) {
			for _, x := range p.of(logProbs, i%b.N, i/b.N) {
				if !(x <= 0 && x > -1e4) {
					t.Fatalf("dense %t: a log probability is %v", dense, x)
				}
			}
		}
	}
}

// TestTakeOverRefuses: a pool with other heads, other features or more classes is refused.
func TestTakeOverRefuses(t *testing.T) {
	p := newPool(t, everything(true))
	other := everything(true)
	other.Batch++
	larger, _ := successor(t, everything(true), 1)
	shape := small
	shape.Features++
	wider, err := New(everything(true), shape, &posterior.Gaussian{Dim: shape.Embedding, Classes: shape.Classes, Mean: p.prior.Mean, Precision: p.prior.Precision})
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]*Pool{"other constants": newPool(t, other), "more classes": larger, "more features": wider} {
		if err := p.TakeOver(from, 0.5); err == nil {
			t.Errorf("%s: taken over, want an error", name)
		}
	}
}
