package pool

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// TestMixtureIsItsFormula compares what a pool serves with the mixture of its own heads'
// and products' served probabilities, by shares that are computed from all labels so far.
func TestMixtureIsItsFormula(t *testing.T) {
	for _, dense := range []bool{false, true} {
		cfg := everything(dense)
		cfg.Mixture.Rate, cfg.Mixture.Lambda = .3, .9
		p := newPool(t, cfg)
		names := p.Names()
		var experts []int // their numbers among the names
		for _, name := range []string{productName, flatProductName} {
			experts = append(experts, slices.Index(names, name))
		}
		for k, h := range cfg.Heads {
			if h.isMember() {
				experts = append(experts, 1+k)
			}
		}
		experts = append(experts, slices.Index(names, "fitted"), slices.Index(names, halfName))
		scores := make([]float64, len(experts))
		for step := range 12 {
			b := randomBatch(rand.New(rand.NewPCG(7, uint64(step))), 1+step*4%17, small, dense)
			b.LogProbs = make([]float32, b.N*p.LogProbsPerRow())
			p.Predict(b.Rows, b.LogProbs)
			of := func(i, number int) []float32 { return p.of(b.LogProbs, i, number) }
			logits := make([]float64, len(experts))
			for e := range experts {
				prior := cfg.Mixture.Heads / float64(len(experts)-4)
				switch {
				case e < 2:
					prior = (1 - cfg.Mixture.Heads - cfg.Mixture.Fitted - cfg.Mixture.Half) / 2
				case e == len(experts)-2:
					prior = cfg.Mixture.Fitted
				case e == len(experts)-1:
					prior = cfg.Mixture.Half
				}
				logits[e] = math.Log(prior) + cfg.Mixture.Rate*scores[e]
			}
			shares := plainSoftmax(logits)
			for i := range b.N {
				half := make([]float64, small.Classes)
				for c := range half {
					half[c] = .5 * float64(of(i, slices.Index(names, productName))[c]+of(i, slices.Index(names, "fitted"))[c])
				}
				for c, p := range plainSoftmax(half) {
					kerneltest.WantClose(t, "half", []float64{math.Exp(float64(of(i, slices.Index(names, halfName))[c]))}, []float64{p}, 1e-6)
				}
				for c := range small.Classes {
					want := 0.0
					for e, number := range experts {
						want += shares[e] * math.Exp(float64(of(i, number)[c]))
					}
					kerneltest.WantClose(t, "p", []float64{math.Exp(float64(of(i, 0)[c]))}, []float64{want}, 1e-6)
				}
			}
			for e, number := range experts {
				want := 0.0 // of all experts that are this head
				for f, other := range experts {
					if other == number {
						want += shares[f]
					}
				}
				kerneltest.WantClose(t, "share", []float64{p.Shares()[number-1]}, []float64{want}, 1e-9)
				for i, y := range b.Labels {
					scores[e] += float64(of(i, number)[y])
				}
				scores[e] *= math.Pow(cfg.Mixture.Lambda, min(1, float64(b.N)/cfg.Batch))
			}
			p.Learn(b)
		}
		// The weights are those of the products and of the heads by themselves.
		weights, bias := p.Weights()
		shares := p.Shares()
		// Half of what is between a product and the fitted head is that product.
		products := []float64{shares[len(cfg.Heads)] + shares[len(cfg.Heads)+2]/2, shares[len(cfg.Heads)+1]}
		for m, k := range p.members {
			want := shares[k]
			if k == p.fitted {
				want += shares[len(cfg.Heads)+2] / 2
			}
			for j, w := range p.weights {
				want += products[j] * w.theta[m]
			}
			kerneltest.WantClose(t, "weight", weights[k:k+1], []float64{want}, 1e-12)
		}
		for c := range bias {
			kerneltest.WantClose(t, "bias", bias[c:c+1], []float64{products[0] * p.weights[0].theta[len(p.members)+c]}, 1e-12)
		}
	}
}

// TestMixtureRegret: with labels that come at once, the mixture's loss exceeds that of every
// expert, and that of the expert that was best of late at each time, by the stated bound at
// most, whatever they say: here each is right for a while, and some are certain and wrong.
func TestMixtureRegret(t *testing.T) {
	const members, classes, rows = 6, 3, 3000
	for _, c := range []struct{ rate, lambda float64 }{{1, 1}, {1, .99}, {.2, .99}, {.5, .9}} {
		cfg := mixtureConfig{Heads: .02, Rate: c.rate, Lambda: c.lambda}
		m := newMixture(cfg, nil, members, classes, false)
		rng := rand.New(rand.NewPCG(1, 2))
		var loss, tracked float64
		losses, late := make([]float64, products+members), make([]float64, products+members)
		for i := range rows {
			y := rng.IntN(classes)
			said := make([][]float32, products+members)
			for e := range said {
				right := .2 + .1*rng.Float64()
				if i/400%len(said) == e {
					right = .95
				} else if rng.IntN(50) == 0 {
					right = 1e-12
				}
				for c := range classes {
					x := (1 - right) / (classes - 1)
					if c == y {
						x = right
					}
					said[e] = append(said[e], float32(math.Log(x)))
				}
			}
			at := func(_, e int) []float32 { return said[e] }
			got := make([]float32, classes)
			m.predict(1, at, func(int) []float32 { return got })
			loss -= float64(got[y])
			for e := range said {
				losses[e] -= float64(said[e][y])
				late[e] = c.lambda*late[e] - float64(said[e][y])
			}
			if i+1 < rows {
				tracked += (1 - c.lambda) * slices.Min(late)
			} else {
				tracked += slices.Min(late)
			}
			m.learn([]int32{int32(y)}, 1, nil, at, nil)
		}
		each := (1 + (1-c.lambda)*(rows-1)) / c.rate
		for e, l := range losses {
			if bound := -each * m.logPrior[e]; loss-l > bound {
				t.Errorf("η %v, λ %v: expert %d has a loss of %.1f, the mixture %.1f, want at most %.1f more", c.rate, c.lambda, e, l, loss, bound)
			}
		}
		if bound := each * math.Log(members/.02); loss-tracked > bound {
			t.Errorf("η %v, λ %v: the best experts of late have a loss of %.1f, the mixture %.1f, want at most %.1f more", c.rate, c.lambda, tracked, loss, bound)
		}
	}
}

// TestAnew: from late labels the first product learns as if their rows had been served just before, and the second what was served; the
// mixture counts what was served the less, the more was learned since. Of labels that come at once nothing is another.
func TestAnew(t *testing.T) {
	for _, dense := range []bool{false, true} {
		cfg := everything(dense)
		cfg.Weights.Rows = 3 // of five
		asServed, mixed := cfg, *cfg.Mixture
		mixed.Anew = false
		asServed.Mixture = &mixed
		late, atOnce, before := newPool(t, cfg), newPool(t, asServed), newPool(t, asServed)
		for _, p := range []*Pool{late, atOnce, before} {
			live(p, dense, 0, 3)
		}
		kerneltest.WantClose(t, "scores of labels that come at once", late.mixture.score, before.mixture.score, 0)
		score := slices.Clone(late.mixture.score)
		for _, p := range []*Pool{late, atOnce, before} {
			var batches [3]Batch
			for i := range batches {
				batches[i] = randomBatch(rand.New(rand.NewPCG(8, uint64(i))), 5, small, dense) // half of a full one
				batches[i].LogProbs = predictions(p, batches[i].Rows)
			}
			for i, b := range batches {
				switch p {
				case late:
					for e := range score {
						for row, y := range b.Labels {
							score[e] += float64(p.experts(b.LogProbs)(row, e)[y]) * math.Pow(mixed.Lambda, .5*float64(i))
						}
						score[e] *= math.Pow(mixed.Lambda, .5)
					}
				case atOnce:
					b.LogProbs = predictions(p, b.Rows)
				}
				p.Learn(b)
			}
		}
		kerneltest.WantClose(t, "scores", late.mixture.score, score, 1e-5)
		for j, want := range []*Pool{atOnce, before} {
			if got := late.weights[j].theta; !slices.Equal(got, want.weights[j].theta) {
				t.Errorf("dense %v: weights %v of product %d, want %v", dense, got, j, want.weights[j].theta)
			}
		}
		if slices.Equal(before.weights[0].theta, atOnce.weights[0].theta) {
			t.Errorf("dense %v: what is served early weighs the same, so this test says nothing", dense)
		}
	}
}
