package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// joint is a last layer on the embedding and the labels around a node together,
//
//	φ_v = [z_v/τ_v ; n_v/√max(1, Σn_v) ; q_v/√max(1, Σq_v) ; 1],
//
// so that what one part says already is not counted again for the other. It
// starts at the training posterior for the first part, M = M* and T = share·T*,
// and at M = 0, T = 1/v for the others. A batch leaves what softmaxFit finds, from
// M0 = M and T0 = λT + (1-λ)T at the start: what is forgotten is how sure it was,
// not what it knew.
type joint struct {
	Joint
	shape   Shape
	stride  int
	version uint64

	mean, precision []float64 // columns × stride
	least           []float64 // T at the start

	phi *denseMatrix
	fit softmaxFit
}

func newJoint(cfg Joint, shape Shape, prior *posterior.Gaussian) *joint {
	j := &joint{Joint: cfg, shape: shape, stride: strideOf(shape.Classes)}
	columns := shape.Embedding + 2*shape.Classes + 1
	j.phi = newDenseMatrix(columns)
	j.fit = softmaxFit{classes: shape.Classes, stride: j.stride}
	for _, x := range []*[]float64{&j.mean, &j.precision, &j.least} {
		*x = make([]float64, columns*j.stride)
	}
	for i := range j.least {
		j.least[i] = 1 / j.Variance
	}
	for k := range shape.Embedding {
		for c := range shape.Classes {
			j.mean[k*j.stride+c] = prior.Mean[k*shape.Classes+c]
			j.least[k*j.stride+c] = j.Share * prior.Precision[k*shape.Classes+c]
		}
	}
	copy(j.precision, j.least)
	return j
}

// design makes Φ of rows.
func (j *joint) design(rows *Rows) *denseMatrix {
	z, classes := j.shape.Embedding, j.shape.Classes
	j.phi.reset(rows.N)
	for i := range rows.N {
		row := j.phi.row(i)
		by := 1 / rows.Embedded.Tau[i]
		for k, x := range rows.Embedded.Z[i*z : (i+1)*z] {
			row[k] = float64(x) * by
		}
		scaled(row[z:z+classes], rows.Labelled[i*classes:(i+1)*classes])
		scaled(row[z+classes:z+2*classes], rows.Second[i*classes:(i+1)*classes])
		row[z+2*classes] = 1
	}
	return j.phi
}

// scaled writes n/√max(1, Σn).
func scaled(dst []float64, n []float32) {
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
	phi := j.design(rows)
	j.fit.probs = resize(j.fit.probs, rows.N*j.stride)
	phi.logits(j.fit.probs, j.mean, j.stride)
	for i := range rows.N {
		row := logp[i*j.shape.Classes : (i+1)*j.shape.Classes]
		copy(row, j.fit.probs[i*j.stride:])
	}
}

// train does nothing: embeddings of the training rows are better than those to
// come, and labels around them were not known.
func (j *joint) train(*Batch) {}

func (j *joint) learn(b *Batch, share float64) posterior.Report {
	phi := j.design(&b.Rows)
	phi.measure()
	j.fit.resize(b.N, len(phi.name))
	copy(j.fit.m, j.mean)
	keep := 1.0
	if j.Lambda < 1 {
		keep = posterior.Exp(posterior.Log(j.Lambda) * share)
	}
	for i, t := range j.precision {
		j.fit.t[i] = float64(keep*t) + float64((1-keep)*j.least[i])
	}
	j.fit.run(phi, b.Labels, j.Passes)
	copy(j.mean, j.fit.m)
	copy(j.precision, j.fit.t)
	j.version++
	return posterior.Report{}
}

func (j *joint) appendState(s *state) {
	s.uint(j.version)
	for k := range j.phi.name {
		s.floats(j.mean[k*j.stride : k*j.stride+j.shape.Classes])
		s.floats(j.precision[k*j.stride : k*j.stride+j.shape.Classes])
	}
}

func (j *joint) appendChange(s *state) { j.appendState(s) }

func (j *joint) readState(r *reader) {
	j.version = r.uint()
	for k := range j.phi.name {
		r.floats(j.mean[k*j.stride : k*j.stride+j.shape.Classes])
		precision := j.precision[k*j.stride : k*j.stride+j.shape.Classes]
		r.floats(precision)
		for _, t := range precision {
			r.want(t > 0, "a precision is %v", t)
		}
	}
}
