package pool

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/posterior"
)

// TestJointStartsAtTheTrainingPosterior: before any label the head predicts as the
// static head, whatever the labels around a node.
func TestJointStartsAtTheTrainingPosterior(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	prior := randomPrior(rng, small)
	b := randomBatch(rng, 20, small, true)
	got, want := make([]float64, 20*small.Classes), make([]float64, 20*small.Classes)
	newJoint(jointConfig{Lambda: .99, Share: .01, Variance: 1, Passes: 3}, small, prior).predict(&b.Rows, got)
	(&paperHead{Head: posterior.NewStatic(*prior)}).predict(&b.Rows, want)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Fatalf("log probability %d is %v, want %v of the static head", i, got[i], want[i])
		}
	}
}

// TestJointLowersItsObjective: without forgetting, learning a batch lowers the negative log
// posterior and reduces no precision.
func TestJointLowersItsObjective(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	j := newJoint(jointConfig{Lambda: 1, Share: .1, Variance: 2, Passes: 6}, small, randomPrior(rng, small))
	for range 5 {
		b := randomBatch(rng, 30, small, true)
		mean, precision := append([]float64(nil), j.mean...), append([]float64(nil), j.precision...)
		objective := func(m []float64) (f float64) {
			phi := j.designMatrix(&b.Rows)
			for i, y := range b.Labels {
				logits := make([]float64, small.Classes)
				for k, x := range phi.row(i) {
					for c := range logits {
						logits[c] += x * m[k*j.stride+c]
					}
				}
				new(softmaxScratch).logSoftmax(logits, len(logits))
				f -= logits[y]
			}
			for i, t := range precision {
				f += t * (m[i] - mean[i]) * (m[i] - mean[i]) / 2
			}
			return f
		}
		before := objective(mean)
		j.learn(&b, 1)
		if after := objective(j.mean); !(after < before) {
			t.Errorf("objective %v after learning, want less than %v before", after, before)
		}
		for i, p := range precision {
			if j.precision[i] < p {
				t.Fatalf("entry %d: precision %v, want at least %v as before", i, j.precision[i], p)
			}
		}
	}
}

// TestJointForgets: forgetting moves precisions towards those of the prior, and does not
// change the mean.
func TestJointForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	j := newJoint(jointConfig{Lambda: .5, Share: .1, Variance: 2, Passes: 3}, small, randomPrior(rng, small))
	b := randomBatch(rng, 50, small, true)
	j.learn(&b, 1)
	sure := append([]float64(nil), j.precision...)
	none := Batch{Rows: Rows{Embedded: posterior.Rows{}}}
	mean := append([]float64(nil), j.mean...)
	j.learn(&none, 1)
	for i, p := range j.precision {
		if want := .5*sure[i] + .5*j.prior[i]; math.Abs(p-want) > 1e-12*want {
			t.Fatalf("precision %v, want %v", p, want)
		}
		if j.mean[i] != mean[i] {
			t.Fatal("the mean changed without a label")
		}
	}
}

// TestStateBytes: StateBytes is exactly the length of a state, with which memory is bounded
// before a pool is built.
func TestStateBytes(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p := newPool(t, everything(dense))
		live(p, dense, 0, 3)
		if got, want := len(p.AppendState(nil)), p.Config().StateBytes(small); float64(got) != want {
			t.Errorf("dense %t: a state of %d bytes, StateBytes returns %v", dense, got, want)
		}
	}
}
