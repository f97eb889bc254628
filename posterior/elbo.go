package posterior

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// Variational is the Bayesian last layer in training (Section II-B): the variational
// posterior q(W) by its mean and log-variance, and the temperature of eq:lik. Loss
// computes the loss and its gradients; an optimiser moves Params by Grads.
//
// A Variational holds scratch memory, so two goroutines must not use it at once.
type Variational struct {
	Dim, Classes int
	// Samples is S of eq:mc_ell, positive; NewVariational sets 10.
	Samples int
	// TemperaturePrecision is the precision of the prior of the temperature's output
	// weights, around τ = 1; NewVariational sets 1000. See temperaturePrior.
	TemperaturePrecision float64

	params, grads struct {
		mean, logVar []float64 // Dim × Classes
		temperature  Temperature
		b2           []float64 // of the temperature: one entry
	}

	// Parameters and the sums of their gradients transposed, with embedding
	// dimensions in lanes.
	paramsT, gradsT struct {
		mean, variance []float64 // C × d_e
		w1             []float64 // hidden × d_e
	}
	variance []float64 // Σ = exp(logVar), d_e × C
	at       rowsInTraining
}

// rowsInTraining is the block of rows that Loss works on. Its lanes are rows,
// blockRows of them; those beyond the rows have zero embeddings.
type rowsInTraining struct {
	rows            int
	z, square       []float64 // z and z², rows × d_e
	zT, squareT     []float64 // d_e × lanes
	hidden, dHidden []float64 // the temperature's hidden units after the relu, hidden × lanes
	tau, inverse    [double.BlockRows]float64
	slope           [2 * double.BlockRows]float64 // ∂τ/∂h; the second half is scratch
	dTau            [double.BlockRows]float64

	logit, sd   []float64 // moments of the logits, C × lanes
	dLogit, dSD []float64 // gradients with respect to these
	bits        []uint64  // random bits, 64 for two normals
	sample      sample

	// Gradients with respect to the temperature's B1 and W2, hidden × lanes, still to
	// be summed over lanes.
	b1, w2 []float64
}

// sample is one draw of a block's logits, and its mirror image.
type sample struct {
	noise        []float64 // ε, C × lanes
	plus, minus  []float64 // the logits, and the mirror image's
	sumsP, sumsM double.Sums
}

func newRowsInTraining(dim, classes, hidden int) (b rowsInTraining) {
	for _, m := range [...]*[]float64{&b.square, &b.zT, &b.squareT} {
		*m = make([]float64, dim*double.BlockRows)
	}
	for _, m := range [...]*[]float64{&b.logit, &b.sd, &b.dLogit, &b.dSD, &b.sample.noise, &b.sample.plus, &b.sample.minus} {
		*m = make([]float64, classes*double.BlockRows)
	}
	for _, m := range [...]*[]float64{&b.hidden, &b.dHidden, &b.b1, &b.w2} {
		*m = make([]float64, hidden*double.BlockRows)
	}
	b.bits = make([]uint64, len(b.sample.noise)/2)
	return b
}

// NewVariational returns a layer for embeddings of dimension dim. tempHidden is
// the width of the temperature's hidden layer, 0 for the constant τ = 1.
//
// M starts at N(0, .1²): logits are near 0 but pass a gradient to the encoder. log Σ
// starts at -4, a standard deviation of .14: little noise while M is found and the KL
// weight is 0. The temperature starts within a few thousandths of 1.
func NewVariational(dim, classes, tempHidden int, seed uint64) *Variational {
	if dim <= 0 || classes <= 0 || tempHidden < 0 {
		panic(fmt.Sprintf("posterior: last layer of %d × %d with a temperature of %d hidden units", dim, classes, tempHidden))
	}
	v := &Variational{
		Dim: dim, Classes: classes, Samples: 10, TemperaturePrecision: 1000,
		variance: make([]float64, dim*classes),
		at:       newRowsInTraining(dim, classes, tempHidden),
	}
	for _, t := range [...]*struct{ mean, variance, w1 []float64 }{&v.paramsT, &v.gradsT} {
		t.mean, t.variance, t.w1 = make([]float64, dim*classes), make([]float64, dim*classes), make([]float64, dim*tempHidden)
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
	p.b2[0] = biasOfOne
	return v
}

func newTemperature(dim, hidden int) Temperature {
	return Temperature{
		Dim: dim, Hidden: hidden,
		W1: make([]float64, dim*hidden), B1: make([]float64, hidden), W2: make([]float64, hidden),
	}
}

// Params returns the parameters for an optimiser to write: M and log Σ, then the
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

// Posterior returns copies of q(W) and of the temperature, nil for τ = 1: the result
// of Phase 1 of the paper.
func (v *Variational) Posterior() (Gaussian, *Temperature) {
	p := &v.params
	q := Gaussian{Dim: v.Dim, Classes: v.Classes, Mean: slices.Clone(p.mean), Precision: make([]float64, len(p.logVar))}
	for i, l := range p.logVar {
		q.Precision[i] = double.Exp(-l)
	}
	if p.temperature.Hidden == 0 {
		return q, nil
	}
	t := p.temperature
	t.W1, t.B1, t.W2, t.B2 = slices.Clone(t.W1), slices.Clone(t.B1), slices.Clone(t.W2), p.b2[0]
	return q, &t
}

// KLWeight returns α_KL of epoch 0 ≤ epoch < epochs: 0 for the first third, then
// linear, up to 1 at the last epoch.
func KLWeight(epoch, epochs int) float64 {
	start, last := float64(epochs)/3, float64(epochs-1)
	if e := float64(epoch); e > start {
		return min((e-start)/(last-start), 1)
	}
	return 0
}

// lossParts is the negative ELBO and its parts.
type lossParts struct {
	Total   float64 // eq:elbo: -ELL + α_KL/N · KL, nats per row
	ELL     float64 // eq:mc_ell: mean expected log-likelihood
	KL      float64 // D_KL(q ‖ N(0, I)) of all weights, with its ½ and constants
	Correct int     // rows whose most probable class at M is the label
}

// Loss returns the loss of eq:elbo over N labelled rows, z N × d_e, with KL weight
// alpha. It sets Grads and writes the gradient with respect to z to dz, N × d_e.
//
// It samples logits, not weights (local reparametrisation, Kingma, Salimans & Welling
// 2015): the C logits of a row are independent normals under q, so C draws from rng
// replace d_e·C, and the gradient has less variance. Samples come in pairs ±ε.
func (v *Variational) Loss(z []float64, labels []int32, alpha float64, rng *rand.Rand, dz []float64) lossParts {
	n, d := len(labels), v.Dim
	if n == 0 || len(z) != n*d || len(dz) != n*d || v.Samples <= 0 {
		panic(fmt.Sprintf("posterior: loss of %d labels, %d numbers in z and %d in dz, dimension %d, %d samples", n,
			len(z), len(dz), d, v.Samples))
	}
	v.begin()
	var (
		loss   lossParts
		weight = 1 / (float64(n) * float64(v.Samples))
	)
	for lo := 0; lo < n; lo += double.BlockRows {
		hi := min(lo+double.BlockRows, n)
		v.at.load(z[lo*d:hi*d], hi-lo, d)
		v.temperatures() // τ of eq:lik
		v.moments()      // the logits zᵀW/τ under eq:posterior
		loss.Correct += v.correct(labels[lo:hi])
		loss.ELL += float64(weight * v.expect(labels[lo:hi], rng)) // eq:mc_ell
		v.backward(weight, dz[lo*d:hi*d])
		if v.params.temperature.Hidden > 0 {
			v.backwardTau(weight, dz[lo*d:hi*d])
		}
	}
	v.end()
	// eq:kl. Until here g.logVar is twice the gradient with respect to Σ, and
	// ∂Σ/∂logΣ = Σ.
	g, kl := &v.grads, alpha/float64(n)
	for i, m := range v.params.mean {
		s, l := v.variance[i], v.params.logVar[i]
		loss.KL += klNormal(s, float64(m*m), l)
		g.mean[i] += float64(kl * m)
		g.logVar[i] = 0.5 * (float64(g.logVar[i]*s) + float64(kl*(s-1)))
	}
	loss.Total = float64(kl*loss.KL) - loss.ELL + v.temperaturePrior(1/float64(n))
	return loss
}

// temperaturePrior returns weight times the negative log density of the temperature's
// prior, without constants, and adds its gradient. The prior is normal in the output
// weights W2 and B2, around those that give τ = 1.
//
// The paper has no such prior. Without it, where a few dozen training rows are all
// classified correctly, τ falls until all other predictions are overconfident. A
// precision of 1000 holds τ near 1 there, and hardly matters with tens of thousands of
// rows (docs/adr/README.md, 6).
func (v *Variational) temperaturePrior(weight float64) (penalty float64) {
	t, g := &v.params.temperature, &v.grads
	weight *= v.TemperaturePrecision
	if t.Hidden == 0 {
		return 0
	}
	for k, w := range t.W2 {
		penalty += float64(0.5 * weight * w * w)
		g.temperature.W2[k] += float64(weight * w)
	}
	off := v.params.b2[0] - biasOfOne
	g.b2[0] += float64(weight * off)
	return penalty + float64(0.5*weight*off*off)
}

// biasOfOne is softplus⁻¹(1): with it, and no output weights, τ = 1.
var biasOfOne = double.Log(math.E - 1)

// begin transposes the parameters and clears the gradients.
func (v *Variational) begin() {
	for i, l := range v.params.logVar {
		v.variance[i] = double.Exp(l)
	}
	p, t := &v.paramsT, &v.params.temperature
	kernel.Transpose(p.mean, v.params.mean, v.Dim, v.Classes)
	kernel.Transpose(p.variance, v.variance, v.Dim, v.Classes)
	kernel.Transpose(p.w1, t.W1, v.Dim, t.Hidden)
	sum, g := &v.gradsT, &v.grads
	for _, grad := range [...][]float64{sum.mean, sum.variance, sum.w1, v.at.b1, v.at.w2, g.b2} {
		clear(grad)
	}
}

// end transposes the gradients back, and drops the reference to the rows.
func (v *Variational) end() {
	v.at.z = nil
	sum, g := &v.gradsT, &v.grads
	kernel.Transpose(g.mean, sum.mean, v.Classes, v.Dim)
	kernel.Transpose(g.logVar, sum.variance, v.Classes, v.Dim)
	kernel.Transpose(g.temperature.W1, sum.w1, g.temperature.Hidden, v.Dim)
	for k := range g.temperature.Hidden {
		g.temperature.B1[k] = total(v.at.b1[k*double.BlockRows : (k+1)*double.BlockRows])
		g.temperature.W2[k] = total(v.at.w2[k*double.BlockRows : (k+1)*double.BlockRows])
	}
}

// load sets the block to rows of z.
func (b *rowsInTraining) load(z []float64, rows, dim int) {
	b.rows, b.z, b.square = rows, z, b.square[:len(z)]
	double.Multiply(b.square, z, z)
	toLanes(b.zT, z, rows, dim)
	double.Multiply(b.squareT, b.zT, b.zT)
}

// temperatures sets τ, 1/τ, ∂τ/∂h and the hidden units of every row.
func (v *Variational) temperatures() {
	t, b := &v.params.temperature, &v.at
	if t.Hidden == 0 {
		for l := range double.BlockRows {
			b.tau[l], b.inverse[l] = 1, 1
		}
		return
	}
	for k, bias := range t.B1 {
		fill(b.hidden[k*double.BlockRows:(k+1)*double.BlockRows], bias)
	}
	hidden := double.Dense(b.hidden, t.Hidden, double.BlockRows)
	double.Product(hidden, double.Dense(v.paramsT.w1, t.Hidden, v.Dim), double.Dense(b.zT, v.Dim, double.BlockRows))
	for i, x := range b.hidden {
		if !(x > 0) {
			b.hidden[i] = 0
		}
	}
	// softplus(h) is log(e⁰ + e^h), and its derivative the softmax of (0, h).
	zero, h := b.slope[:double.BlockRows], b.slope[double.BlockRows:]
	clear(zero)
	fill(h, v.params.b2[0])
	double.Product(double.Dense(h, 1, double.BlockRows), double.Dense(t.W2, 1, t.Hidden), hidden)
	double.LaneExponentials(b.slope[:], double.BlockRows, &b.sample.sumsP)
	b.tau = b.sample.sumsP.Total
	double.Logarithms(b.tau[:])
	double.Multiply(b.slope[:double.BlockRows], h, b.sample.sumsP.Inverse[:])
	for l, log := range b.tau {
		b.tau[l] = max(b.sample.sumsP.Most[l]+log, tauFloor)
		b.inverse[l] = 1 / b.tau[l]
	}
}

// moments sets mean zᵀμ_c/τ and standard deviation √((z²)ᵀσ²_c)/τ of every row's
// logits.
func (v *Variational) moments() {
	b := &v.at
	clear(b.logit)
	clear(b.sd)
	double.Product(double.Dense(b.logit, v.Classes, double.BlockRows), double.Dense(v.paramsT.mean, v.Classes, v.Dim),
		double.Dense(b.zT, v.Dim, double.BlockRows))
	double.Product(double.Dense(b.sd, v.Classes, double.BlockRows), double.Dense(v.paramsT.variance, v.Classes, v.Dim),
		double.Dense(b.squareT, v.Dim, double.BlockRows))
	for i, x := range b.sd {
		b.sd[i] = math.Sqrt(x)
	}
	double.ScaleByLane(b.logit, b.inverse[:])
	double.ScaleByLane(b.sd, b.inverse[:])
}

// correct counts the rows whose label has the largest mean logit. Of equal logits the
// lowest class counts as the largest.
func (v *Variational) correct(labels []int32) (count int) {
	b := &v.at
	for l, y := range labels {
		if b.wins(l, int(y)) {
			count++
		}
	}
	return count
}

func (b *rowsInTraining) wins(lane, y int) bool {
	own := b.logit[y*double.BlockRows+lane]
	for c, i := 0, lane; i < len(b.logit); c, i = c+1, i+double.BlockRows {
		if x := b.logit[i]; !(x < own || x == own && c >= y) {
			return false
		}
	}
	return true
}

// expect returns the block's part of eq:mc_ell, Σ_v Σ_s log softmax(a_s)_y, and sets
// dLogit and dSD to the gradient of its negative.
func (v *Variational) expect(labels []int32, rng *rand.Rand) (ell float64) {
	b := &v.at
	half := len(b.bits)
	clear(b.dLogit)
	clear(b.dSD)
	var normalizer, logTotal [double.BlockRows]float64
	for s := 0; s < v.Samples; s += 2 {
		for i := range b.bits {
			b.bits[i] = rng.Uint64()
		}
		double.BoxMuller(b.sample.noise[:half], b.sample.noise[half:], b.bits)
		double.Mirror(b.sample.plus, b.sample.minus, b.logit, b.sd, b.sample.noise)
		double.LaneExponentials(b.sample.plus, double.BlockRows, &b.sample.sumsP)
		double.LaneExponentials(b.sample.minus, double.BlockRows, &b.sample.sumsM)
		if s+1 == v.Samples { // the last of an odd number has no mirror image
			fill(b.sample.sumsM.Most[:], 0)
			fill(b.sample.sumsM.Total[:], 1)
			fill(b.sample.sumsM.Inverse[:], 0)
		}
		double.Multiply(logTotal[:], b.sample.sumsP.Total[:], b.sample.sumsM.Total[:])
		double.Logarithms(logTotal[:])
		for l, log := range logTotal {
			normalizer[l] += b.sample.sumsP.Most[l] + b.sample.sumsM.Most[l] + log
		}
		double.Gather(b.dLogit, b.dSD, b.sample.plus, b.sample.minus, b.sample.sumsP.Inverse[:], b.sample.sumsM.Inverse[:], b.sample.noise)
	}
	// The label's own logit. The noise of a pair cancels.
	samples := float64(v.Samples)
	for l, y := range labels {
		i := int(y)*double.BlockRows + l
		ell += float64(samples*b.logit[i]) - normalizer[l]
		b.dLogit[i] -= samples
		if v.Samples%2 == 1 {
			ell += float64(b.sd[i] * b.sample.noise[i])
			b.dSD[i] -= b.sample.noise[i]
		}
	}
	return ell
}

// backward propagates dLogit and dSD to the gradients with respect to M, Σ and τ, to
// which it adds, and z, which it sets. It replaces dLogit by the gradient with respect
// to zᵀμ_c, and dSD by twice that with respect to (z²)ᵀσ²_c.
func (v *Variational) backward(weight float64, dz []float64) {
	b := &v.at
	clear(b.dTau[:])
	var byMean, byVariance [double.BlockRows]float64
	for l, inverse := range b.inverse {
		byMean[l] = weight * inverse
		byVariance[l] = byMean[l] * inverse
	}
	for i := 0; i < len(b.sd); i += double.BlockRows {
		logit, sd := b.logit[i:i+double.BlockRows], b.sd[i:i+double.BlockRows]
		dLogit, dSD := b.dLogit[i:i+double.BlockRows], b.dSD[i:i+double.BlockRows]
		for l, s := range sd {
			// With a = m/τ + ε√s/τ, τ ∂a/∂τ = -a.
			b.dTau[l] -= float64(dLogit[l]*logit[l]) + float64(dSD[l]*s)
			dLogit[l] *= byMean[l]
			// √s has no derivative at s = 0, the zero embedding; 0 is used there.
			if s > 0 {
				dSD[l] *= byVariance[l] / s
			} else {
				dSD[l] = 0
			}
		}
	}
	dMean, dVariance := double.Dense(b.dLogit, v.Classes, double.BlockRows).Left(b.rows),
		double.Dense(b.dSD, v.Classes, double.BlockRows).Left(b.rows)
	z, square, out := double.Dense(b.z, b.rows, v.Dim), double.Dense(b.square, b.rows, v.Dim), double.Dense(dz, b.rows, v.Dim)
	double.Product(double.Dense(v.gradsT.mean, v.Classes, v.Dim), dMean, z)
	double.Product(double.Dense(v.gradsT.variance, v.Classes, v.Dim), dVariance, square)

	clear(dz)
	double.Product(out, dVariance.T(), double.Dense(v.paramsT.variance, v.Classes, v.Dim))
	double.Multiply(dz, dz, b.z) // ∂z²/∂z = 2z; dVariance has the 2 already
	double.Product(out, dMean.T(), double.Dense(v.paramsT.mean, v.Classes, v.Dim))
}

// backwardTau propagates the gradient with respect to τ to the temperature's
// parameters and to z, adding to both.
func (v *Variational) backwardTau(weight float64, dz []float64) {
	t, b := &v.params.temperature, &v.at
	var dh [double.BlockRows]float64
	for l, tau := range b.tau[:b.rows] {
		if tau > tauFloor {
			dh[l] = float64(weight * b.dTau[l] / tau * b.slope[l])
		}
		v.grads.b2[0] += dh[l]
	}
	for k, w := range t.W2 { // the gradient passes where a hidden unit is positive
		for l, d := range dh {
			i := k*double.BlockRows + l
			b.w2[i] += float64(d * b.hidden[i])
			b.dHidden[i] = 0
			if b.hidden[i] > 0 {
				b.dHidden[i] = float64(d * w)
			}
			b.b1[i] += b.dHidden[i]
		}
	}
	dHidden := double.Dense(b.dHidden, t.Hidden, double.BlockRows).Left(b.rows)
	double.Product(double.Dense(v.gradsT.w1, t.Hidden, v.Dim), dHidden, double.Dense(b.z, b.rows, v.Dim))
	double.Product(double.Dense(dz, b.rows, v.Dim), dHidden.T(), double.Dense(v.paramsT.w1, t.Hidden, v.Dim))
}

func fill(dst []float64, x float64) {
	for i := range dst {
		dst[i] = x
	}
}

// total returns the sum of x, in ascending order.
func total(x []float64) (sum float64) {
	for _, y := range x {
		sum += y
	}
	return sum
}
