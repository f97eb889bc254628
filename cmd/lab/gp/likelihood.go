package gp

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"
	"gonum.org/v1/gonum/stat/distuv"
	"gonum.org/v1/gonum/stat/samplemv"
)

// softmax is the likelihood p(y|f) = exp f_y / Σ_c exp f_c under independent
// normal f_c. It holds scratch memory.
type softmax struct {
	samples  int
	sd       []float64
	noise    []float64 // of one sample
	exponent []float64
}

func newSoftmax(classes, samples int) *softmax {
	return &softmax{samples: samples, sd: make([]float64, classes), noise: make([]float64, classes), exponent: make([]float64, classes)}
}

// sample sets exponent to e^(f - most) for the logits f = mean + sd·noise, and returns its
// sum and most, the largest logit.
func (l *softmax) sample(mean, noise []float64) (sum, most float64) {
	sd, exponent := l.sd[:len(mean)], l.exponent[:len(mean)]
	most = math.Inf(-1)
	for c, e := range noise {
		f := mean[c] + float64(sd[c]*e)
		exponent[c] = f
		most = max(most, f)
	}
	for c, f := range exponent {
		e := exp(f - most)
		exponent[c] = e
		sum += e
	}
	return sum, most
}

// spread sets sd from variances.
func (l *softmax) spread(variance []float64) {
	for c, v := range variance {
		l.sd[c] = math.Sqrt(v)
	}
}

// expect returns weight · E log p(y|f), by Monte Carlo on the C marginals (local
// reparametrisation: Kingma, Salimans & Welling 2015) in pairs ±ε of samples. It sets
// dMean and dVariance to the gradient of its negative.
func (l *softmax) expect(mean, variance []float64, y int, weight float64, rng *rand.Rand, dMean, dVariance []float64) (ell float64) {
	l.spread(variance)
	clear(dMean)
	clear(dVariance)
	for s := range l.samples {
		for c := range l.noise {
			if s%2 == 0 {
				l.noise[c] = rng.NormFloat64()
			} else {
				l.noise[c] = -l.noise[c]
			}
		}
		sum, most := l.sample(mean, l.noise)
		ell += mean[y] + float64(l.sd[y]*l.noise[y]) - most - math.Log(sum)
		inv := 1 / sum
		for c, e := range l.exponent {
			p := e * inv
			dMean[c] += p
			dVariance[c] += float64(p * l.noise[c])
		}
		dVariance[y] -= l.noise[y]
	}
	dMean[y] -= float64(l.samples)
	each := weight / float64(l.samples)
	for c, sd := range l.sd {
		dMean[c] *= each
		dVariance[c] *= each / (2 * sd)
	}
	return ell * each
}

// average writes E p(·|f) to probs, the mean over the given normals, samples × C.
func (l *softmax) average(mean, variance, normals, probs []float64) {
	l.spread(variance)
	clear(probs)
	classes := len(mean)
	for s := 0; s < len(normals); s += classes {
		sum, _ := l.sample(mean, normals[s:s+classes])
		addScaled(probs, 1/sum, l.exponent)
	}
	scale := float64(classes) / float64(len(normals))
	for c := range probs {
		probs[c] *= scale
	}
}

// normals returns 2·pairs samples of classes standard normals: a Latin hypercube (McKay,
// Beckman & Conover 1979), scaled to variance 1, and its negative.
func normals(pairs, classes int) []float64 {
	src := rand.NewPCG(uint64(pairs), uint64(classes))
	half := mat.NewDense(pairs, classes, nil)
	samplemv.LatinHypercube{Q: distmv.NewUnitUniform(classes, src), Src: src}.Sample(half)
	half.Apply(func(_, _ int, u float64) float64 { return distuv.UnitNormal.Quantile(u) }, half)
	for c := range classes {
		column := half.ColView(c)
		scale := math.Sqrt(float64(pairs) / mat.Dot(column, column))
		for s := range pairs {
			half.Set(s, c, scale*half.At(s, c))
		}
	}
	set := slices.Clone(half.RawMatrix().Data)
	for _, x := range half.RawMatrix().Data {
		set = append(set, -x)
	}
	return set
}

// top returns the index of the largest entry, the lowest of equal entries.
func top(a []float64) (best int) {
	for c, x := range a {
		if x > a[best] {
			best = c
		}
	}
	return best
}
