package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/posterior"
)

// joint is softmax regression on the embedding and the labels around a node
// together,
//
//	p(y = c) = softmax(φᵀM)_c,  φ_v = [z_v/τ_v ; dampen(n_v) ; dampen(q_v) ; 1],
//
// where dampen(n) = n/√max(1, Σn). An encoder's embedding and the neighbours' labels
// share much of their information; a joint regression does not count it twice, as a
// product of two heads would.
//
// The prior of the weights on z is N(M*, 1/(Share·T*)), a weakened training
// posterior; Share is small because with labels at hand less depends on z. That of
// the others is N(0, Variance). A batch is one softmaxFit from M0 = M and
// T0 = λ^share T + (1-λ^share) T_prior: only the precision is forgotten, so an
// estimate stays until labels contradict it.
type joint struct {
	jointConfig
	shape   Shape
	stride  int
	version uint64

	mean, precision []float64 // columns × stride
	prior           []float64 // T_prior

	phi *denseMatrix
	fit softmaxFit
}

func newJoint(cfg jointConfig, shape Shape, prior *posterior.Gaussian) *joint {
	j := &joint{jointConfig: cfg, shape: shape, stride: strideOf(shape.Classes)}
	columns := shape.Embedding + 2*shape.Classes + 1
	j.phi = newDenseMatrix(columns)
	j.fit = softmaxFit{classes: shape.Classes, stride: j.stride}
	for _, x := range []*[]float64{&j.mean, &j.precision, &j.prior} {
		*x = make([]float64, columns*j.stride)
	}
	for i := range j.prior {
		j.prior[i] = 1 / j.Variance
	}
	for k := range shape.Embedding {
		for c := range shape.Classes {
			j.mean[k*j.stride+c] = prior.Mean[k*shape.Classes+c]
			j.prior[k*j.stride+c] = j.Share * prior.Precision[k*shape.Classes+c]
		}
	}
	copy(j.precision, j.prior)
	return j
}

// designMatrix returns Φ of rows. It is valid until the next call.
func (j *joint) designMatrix(rows *Rows) *denseMatrix {
	z, classes := j.shape.Embedding, j.shape.Classes
	j.phi.reset(rows.N)
	for i := range rows.N {
		row := j.phi.row(i)
		by := 1 / rows.Embedded.Tau[i]
		for k, x := range rows.Embedded.Z[i*z : (i+1)*z] {
			row[k] = float64(x) * by
		}
		dampen(row[z:z+classes], rows.Labelled[i*classes:(i+1)*classes])
		dampen(row[z+classes:z+2*classes], rows.Second[i*classes:(i+1)*classes])
		row[z+2*classes] = 1
	}
	return j.phi
}

// dampen writes n/√max(1, Σn) to dst: k equal labels count as √k, because the labels
// of neighbours are not independent of each other.
func dampen(dst []float64, n []float32) {
	var total float64
	for k, x := range n {
		dst[k] = float64(x)
		total += float64(x)
	}
	if total <= 1 {
		return
	}
	by := 1 / math.Sqrt(total)
	for k := range dst {
		dst[k] *= by
	}
}

func (j *joint) predict(rows *Rows, logp []float64) {
	phi := j.designMatrix(rows)
	j.fit.probs = kernel.Resize(j.fit.probs, rows.N*j.stride)
	phi.logits(j.fit.probs, j.mean, j.stride)
	for i := range rows.N {
		row := logp[i*j.shape.Classes : (i+1)*j.shape.Classes]
		copy(row, j.fit.probs[i*j.stride:])
	}
}

// train does nothing: the encoder was fitted to the training rows, so their
// embeddings separate classes better than those of later rows, and no labels were
// known around them.
func (j *joint) train(*Batch) {}

func (j *joint) learn(b *Batch, share float64) posterior.Report {
	phi := j.designMatrix(&b.Rows)
	phi.setAbsolute()
	j.fit.resize(b.N, len(phi.column))
	copy(j.fit.m, j.mean)
	keep := 1.0
	if j.Lambda < 1 {
		keep = double.Exp(double.Log(j.Lambda) * share)
	}
	for i, t := range j.precision {
		j.fit.t[i] = float64(keep*t) + float64((1-keep)*j.prior[i])
	}
	j.fit.fit(phi, b.Labels, j.Passes)
	copy(j.mean, j.fit.m)
	copy(j.precision, j.fit.t)
	j.version++
	return posterior.Report{}
}

// takeOver takes over the weights on labels and the bias. Their precision keeps a share,
// since they were learned beside the weights on another embedding; the rest becomes the
// prior's.
func (j *joint) takeOver(from classifier, keep float64) {
	old := from.(*joint)
	z, c, labels := j.shape.Embedding, j.shape.Classes, old.shape.Classes
	take := func(to, at int) { // a column of Φ
		to, at = to*j.stride, at*old.stride
		copy(j.mean[to:to+labels], old.mean[at:])
		for k := range labels {
			j.precision[to+k] = float64(keep*old.precision[at+k]) + float64((1-keep)*j.prior[to+k])
		}
	}
	for k := range labels {
		take(z+k, old.shape.Embedding+k)
		take(z+c+k, old.shape.Embedding+labels+k)
	}
	take(z+2*c, old.shape.Embedding+2*labels)
}

func (j *joint) appendState(s *writer) {
	s.uint(j.version)
	for k := range j.phi.column {
		s.floats(j.means(k))
		s.floats(j.precision[k*j.stride : k*j.stride+j.shape.Classes])
	}
}

func (j *joint) appendChange(s *writer) { j.appendState(s) }

func (j *joint) readState(r *reader) {
	j.version = r.uint()
	for k := range j.phi.column {
		r.floats(j.means(k))
		r.positives(j.precision[k*j.stride:k*j.stride+j.shape.Classes], "a precision")
	}
}

func (j *joint) appendPredictive(s *writer, _ bool) {
	for k := range j.phi.column {
		s.floats(j.means(k))
	}
}

func (j *joint) readPredictive(r *reader, _ bool) {
	for k := range j.phi.column {
		r.floats(j.means(k))
	}
}

// means returns the means of column k.
func (j *joint) means(k int) []float64 { return j.mean[k*j.stride : k*j.stride+j.shape.Classes] }
