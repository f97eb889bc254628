package posterior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Variational is the Bayesian last layer while it is trained (Section II-B):
// the variational posterior q(W) by its mean and log-variance, and the
// temperature of eq:lik. Loss gives value and gradients; an optimiser moves
// Params by Grads.
//
// A Variational holds scratch memory: it must not be used by two goroutines at
// once.
type Variational struct {
	Dim, Classes int
	// Samples is S of eq:mc_ell, positive; NewVariational sets 10.
	Samples int

	params, grads struct {
		mean, logVar []float64 // Dim × Classes
		temperature  Temperature
		b2           []float64 // of the temperature: one entry
	}

	// Scratch: matrices d_e × C …
	variance []float64 // Σ = exp(logVar)
	// … and vectors of one row: over classes …
	logit, sd       []float64 // moments of the logits
	dLogit, dSD     []float64 // gradients with respect to them
	noise, exponent []float64 // of one sample
	// … and over hidden units.
	hidden, dHidden []float64
}

// NewVariational returns a layer for embeddings of dimension dim. tempHidden is
// the width of the temperature's hidden layer, 0 for the constant τ = 1.
//
// M starts at N(0, .1²): logits near 0 that yet pass a gradient to the encoder.
// log Σ starts at -4 (standard deviation .14): little noise while M is found
// and the KL weight is 0. The temperature starts within a few thousandths of 1.
func NewVariational(dim, classes, tempHidden int, seed uint64) *Variational {
	if dim <= 0 || classes <= 0 || tempHidden < 0 {
		panic(fmt.Sprintf("posterior: last layer of %d × %d with a temperature of %d hidden units", dim, classes, tempHidden))
	}
	v := &Variational{
		Dim: dim, Classes: classes, Samples: 10,
		variance: make([]float64, dim*classes),
		logit:    make([]float64, classes), sd: make([]float64, classes),
		dLogit: make([]float64, classes), dSD: make([]float64, classes),
		noise: make([]float64, classes), exponent: make([]float64, classes),
		hidden: make([]float64, tempHidden), dHidden: make([]float64, tempHidden),
	}
	p, g := &v.params, &v.grads
	p.mean, p.logVar = make([]float64, dim*classes), make([]float64, dim*classes)
	g.mean, g.logVar = make([]float64, dim*classes), make([]float64, dim*classes)
	p.temperature, g.temperature = newTemperature(dim, tempHidden), newTemperature(dim, tempHidden)
	p.b2, g.b2 = make([]float64, 1), make([]float64, 1)

	rng := rand.New(rand.NewPCG(seed, 0x76626c6c))
	for i := range p.mean {
		p.mean[i] = 0.1 * rng.NormFloat64()
		p.logVar[i] = -4
	}
	t := &p.temperature
	for i := range t.W1 {
		t.W1[i] = rng.NormFloat64() * math.Sqrt(2/float64(dim)) // He et al. 2015
	}
	for i := range t.W2 {
		t.W2[i] = 0.001 * rng.NormFloat64()
	}
	p.b2[0] = math.Log(math.E - 1) // softplus⁻¹(1)
	return v
}

func newTemperature(dim, hidden int) Temperature {
	return Temperature{
		Dim: dim, Hidden: hidden,
		W1: make([]float64, dim*hidden), B1: make([]float64, hidden), W2: make([]float64, hidden),
	}
}

// Params returns the parameters, to be moved in place: M and log Σ, then the
// temperature's W1, B1, W2 and B2 unless τ is constant.
func (v *Variational) Params() [][]float64 {
	p := &v.params
	return v.ordered(p.mean, p.logVar, &p.temperature, p.b2)
}

// Grads returns the gradients of the last Loss, in the order of Params.
func (v *Variational) Grads() [][]float64 {
	g := &v.grads
	return v.ordered(g.mean, g.logVar, &g.temperature, g.b2)
}

func (v *Variational) ordered(mean, logVar []float64, t *Temperature, b2 []float64) [][]float64 {
	all := [][]float64{mean, logVar}
	if t.Hidden > 0 {
		all = append(all, t.W1, t.B1, t.W2, b2)
	}
	return all
}

// Posterior returns copies of q(W) and of the temperature, nil for τ = 1: what
// Phase 1 leaves.
func (v *Variational) Posterior() (Gaussian, *Temperature) {
	p := &v.params
	q := Gaussian{Dim: v.Dim, Classes: v.Classes, Mean: slices.Clone(p.mean), Precision: make([]float64, len(p.logVar))}
	for i, l := range p.logVar {
		q.Precision[i] = exp(-l)
	}
	if p.temperature.Hidden == 0 {
		return q, nil
	}
	t := p.temperature
	t.W1, t.B1, t.W2, t.B2 = slices.Clone(t.W1), slices.Clone(t.B1), slices.Clone(t.W2), p.b2[0]
	return q, &t
}

// KLWeight returns α_KL of epoch 0 ≤ epoch < epochs: 0 for the first third,
// then a straight line to 1 at the last epoch.
func KLWeight(epoch, epochs int) float64 {
	start, last := float64(epochs)/3, float64(epochs-1)
	if e := float64(epoch); e > start {
		return min((e-start)/(last-start), 1)
	}
	return 0
}

// Loss is the negative ELBO and its parts.
type Loss struct {
	Total   float64 // eq:elbo: -ELL + α_KL/N · KL, nats per row
	ELL     float64 // eq:mc_ell: mean expected log-likelihood
	KL      float64 // D_KL(q ‖ N(0, I)) of all weights, with its ½ and constants
	Correct int     // rows whose most probable class at M is the label
}

// Loss returns the loss of eq:elbo over N labelled rows, z N × d_e, with KL
// weight alpha. It sets Grads and writes the gradient with respect to z to dz,
// N × d_e.
//
// Weights are sampled where they meet the row (local reparametrisation,
// Kingma, Salimans & Welling 2015): the C logits of a row are independent
// normals under q, so C draws from rng stand for d_e·C, with less variance in
// the gradient. Samples go in pairs ±ε.
func (v *Variational) Loss(z []float64, labels []int32, alpha float64, rng *rand.Rand, dz []float64) Loss {
	n, d, classes := len(labels), v.Dim, v.Classes
	if n == 0 || len(z) != n*d || len(dz) != n*d || v.Samples <= 0 {
		panic(fmt.Sprintf("posterior: loss of %d labels, %d numbers in z and %d in dz, dimension %d, %d samples", n, len(z), len(dz), d, v.Samples))
	}
	for i, l := range v.params.logVar {
		v.variance[i] = exp(l)
	}
	g := &v.grads
	for _, grad := range [...][]float64{g.mean, g.logVar, g.temperature.W1, g.temperature.B1, g.temperature.W2, g.b2} {
		clear(grad)
	}
	var (
		loss   Loss
		weight = 1 / (float64(n) * float64(v.Samples))
	)
	for i, y := range labels {
		row, dRow := z[i*d:(i+1)*d], dz[i*d:(i+1)*d]
		h, tau := v.tau(row)
		v.moments(row, 1/tau)
		if top(v.logit) == int(y) {
			loss.Correct++
		}
		loss.ELL += v.expect(int(y), weight, rng)

		// With a = m/τ + ε√s/τ, τ ∂a/∂τ = -a.
		var dTau float64
		for c := range classes {
			dTau -= float64(v.dLogit[c]*v.logit[c]) + float64(v.dSD[c]*v.sd[c])
		}
		v.backward(row, 1/tau, dRow)
		if v.params.temperature.Hidden > 0 && tau > TauFloor {
			v.backwardTau(row, dTau/tau*sigmoid(h), dRow)
		}
	}
	// So far g.logVar is the gradient with respect to Σ: ∂Σ/∂logΣ = Σ.
	kl := alpha / float64(n)
	for i, m := range v.params.mean {
		s, l := v.variance[i], v.params.logVar[i]
		loss.KL += 0.5 * (s + float64(m*m) - l - 1)
		g.mean[i] += float64(kl * m)
		g.logVar[i] = float64(g.logVar[i]*s) + float64(0.5*kl*(s-1))
	}
	loss.Total = float64(kl*loss.KL) - loss.ELL
	return loss
}

// tau returns h(z) and τ of one row, and leaves the hidden units in v.hidden.
func (v *Variational) tau(z []float64) (h, tau float64) {
	t := &v.params.temperature
	if t.Hidden == 0 {
		return 0, 1
	}
	copy(v.hidden, t.B1)
	for j, x := range z {
		addScaled(v.hidden, x, t.W1[j*t.Hidden:])
	}
	h = v.params.b2[0]
	for k, x := range v.hidden {
		if x > 0 {
			h += float64(x * t.W2[k])
		}
	}
	return h, max(softplus(h), TauFloor)
}

// moments leaves mean and standard deviation of one row's logits in v.logit
// and v.sd.
func (v *Variational) moments(z []float64, inv float64) {
	classes := v.Classes
	logit, variance := v.logit[:classes], v.sd[:classes]
	clear(logit)
	clear(variance)
	for j, x := range z {
		x2 := x * x
		m, s := v.params.mean[j*classes:(j+1)*classes], v.variance[j*classes:(j+1)*classes]
		for c := range logit {
			logit[c] += float64(x * m[c])
			variance[c] += float64(x2 * s[c])
		}
	}
	for c := range logit {
		logit[c] *= inv
		variance[c] = math.Sqrt(variance[c]) * inv
	}
}

// expect returns one row's share of the ELL, Σ_s weight · log softmax(a_s)_y,
// and leaves the gradient of its negative with respect to v.logit and v.sd in
// v.dLogit and v.dSD.
func (v *Variational) expect(y int, weight float64, rng *rand.Rand) (ell float64) {
	classes := v.Classes
	logit, sd, dLogit, dSD := v.logit[:classes], v.sd[:classes], v.dLogit[:classes], v.dSD[:classes]
	noise, exponent := v.noise[:classes], v.exponent[:classes]
	clear(dLogit)
	clear(dSD)
	// The logarithm is taken of many normalisers' product: each is 1 to C.
	product := 1.0
	for s := range v.Samples {
		if s%2 == 0 {
			for c := range noise {
				noise[c] = rng.NormFloat64()
			}
		} else {
			for c := range noise {
				noise[c] = -noise[c]
			}
		}
		most := math.Inf(-1)
		for c, e := range noise {
			a := logit[c] + float64(sd[c]*e)
			exponent[c] = a
			if a > most {
				most = a
			}
		}
		ell += exponent[y] - most
		var sum float64
		for c, a := range exponent {
			e := exp(a - most)
			exponent[c] = e
			sum += e
		}
		if product *= sum; product > 1e200 {
			ell -= math.Log(product)
			product = 1
		}
		inv := 1 / sum
		for c, e := range exponent {
			p := e * inv
			dLogit[c] += p
			dSD[c] += float64(p * noise[c])
		}
		dSD[y] -= noise[y]
	}
	ell -= math.Log(product)
	dLogit[y] -= float64(v.Samples)
	for c := range dLogit {
		dLogit[c] *= weight
		dSD[c] *= weight
	}
	return ell * weight
}

// backward takes v.dLogit and v.dSD to the gradients with respect to M, Σ and
// one row of z, which it sets.
func (v *Variational) backward(z []float64, inv float64, dz []float64) {
	classes := v.Classes
	dm, ds := v.dLogit[:classes], v.dSD[:classes]
	for c, sd := range v.sd {
		// √s at s = 0, the zero embedding, has no derivative: it is taken as 0.
		if sd > 0 {
			ds[c] *= 0.5 / sd * inv * inv
		} else {
			ds[c] = 0
		}
		dm[c] *= inv
	}
	for j, x := range z {
		lo, hi := j*classes, (j+1)*classes
		m, s := v.params.mean[lo:hi], v.variance[lo:hi]
		gm, gs := v.grads.mean[lo:hi], v.grads.logVar[lo:hi]
		x2 := x * x
		var byMean, byVariance float64
		for c, u := range dm {
			w := ds[c]
			byMean += float64(m[c] * u)
			byVariance += float64(s[c] * w)
			gm[c] += float64(x * u)
			gs[c] += float64(x2 * w)
		}
		dz[j] = byMean + float64(2*x*byVariance)
	}
}

// backwardTau takes the gradient with respect to h(z) to those of the
// temperature's parameters, and adds to one row's dz.
func (v *Variational) backwardTau(z []float64, dh float64, dz []float64) {
	t, g := &v.params.temperature, &v.grads.temperature
	v.grads.b2[0] += dh
	for k, x := range v.hidden {
		v.dHidden[k] = 0
		if x > 0 {
			g.W2[k] += float64(dh * x)
			u := dh * t.W2[k]
			v.dHidden[k] = u
			g.B1[k] += u
		}
	}
	for j, x := range z {
		lo, hi := j*t.Hidden, (j+1)*t.Hidden
		w, gw := t.W1[lo:hi], g.W1[lo:hi]
		var sum float64
		for k, u := range v.dHidden {
			sum += float64(w[k] * u)
			gw[k] += float64(x * u)
		}
		dz[j] += sum
	}
}

// top returns the index of the largest entry, the lowest of equal ones.
func top(a []float64) (best int) {
	for c, x := range a {
		if x > a[best] {
			best = c
		}
	}
	return best
}
