package posterior

import (
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/posterior/internal/words"
)

// Head is a Bayesian last layer in service: a diagonal Gaussian posterior over
// the weights of a softmax classifier on embeddings, which may learn from labels
// as they come. The two implementations are the paper's: [Online] and that of [NewStatic].
type Head interface {
	// Name returns the name by which metrics and files know the head.
	Name() string
	// Posterior returns the current posterior. It belongs to the head: the caller
	// must not write it, and Learn and SetState change it.
	Posterior() *Gaussian
	// Predict writes the class probabilities of every row at the posterior mean
	// to probs, n × C; see [MAP].
	Predict(rows Rows, probs []float64)
	// Learn updates the posterior with one batch of labelled rows, as they were
	// when they were served. A batch without rows changes nothing and returns the
	// zero Report, as does a head that never learns.
	Learn(rows Rows, labels []int32) Report
	// Version returns the number of updates so far.
	Version() uint64
	// AppendState appends the whole state to b as canonical bytes, for hashes and
	// checkpoints.
	AppendState(b []byte) []byte
	// SetState reads what AppendState wrote. On an error the state is as it was.
	SetState(b []byte) error
}

var (
	_ Head = (*Online)(nil)
	_ Head = (*static)(nil)
)

// Online is GVBLL-Online: Algorithm 1 updates the posterior with every batch of
// labels.
type Online struct {
	cfg     Config
	anchor  Gaussian // training posterior (M*, Σ*), never written
	q       Gaussian // current posterior (M, Σ), of the same shape
	version uint64   // updates so far

	unused Gaussian // memory for the next SetState; empty before the first

	// Scratch memory of Learn.

	statistics statistics
	evidence   evidence
}

// NewOnline returns a head that starts at the training posterior prior and is
// anchored to it. It panics if prior or cfg does not validate.
func NewOnline(prior Gaussian, cfg Config) *Online {
	if err := errors.Join(prior.Validate(), cfg.Validate()); err != nil {
		panic(err)
	}
	return &Online{
		cfg:        cfg,
		anchor:     prior.Clone(),
		q:          prior.Clone(),
		statistics: newStatistics(prior.Dim, prior.Classes),
	}
}

// Name returns "online".
func (o *Online) Name() string { return "online" }

// Posterior returns the current posterior, see [Head].
func (o *Online) Posterior() *Gaussian { return &o.q }

// Predict predicts at the current posterior mean, see [MAP].
func (o *Online) Predict(rows Rows, probs []float64) { MAP(&o.q, rows, probs) }

// Learn is one step of Algorithm 1, with the statistics of the batch taken at the
// current posterior mean. Only labels make the posterior forget, in proportion to their
// number up to a full batch (see [Config]): a batch without rows does nothing.
func (o *Online) Learn(rows Rows, labels []int32) Report {
	if len(labels) == 0 && rows.Len() == 0 {
		return Report{}
	}
	o.statistics.reset()
	o.statistics.add(&o.q, rows, labels, o.cfg.Gradient, &o.evidence)
	o.version++
	return update(&o.q, &o.q, &o.anchor, &o.statistics, o.cfg.of(len(labels)))
}

// Version returns the number of updates so far.
func (o *Online) Version() uint64 { return o.version }

// AppendState appends version, d_e and C, and then M and T, d_e × C each. The anchor is not part of the
// state: it comes with the model.
func (o *Online) AppendState(b []byte) []byte {
	return words.Append(b, func(s *words.Stream) { state(s, &o.version, &o.q) })
}

// SetState reads what AppendState wrote. It refuses a state of another shape or
// length, and one whose moments are not finite or whose precisions are negative.
func (o *Online) SetState(b []byte) error {
	if o.unused.Mean == nil {
		o.unused = o.q.Clone()
	}
	next, version := o.unused, uint64(0)
	if err := words.Read(b, func(s *words.Stream) { state(s, &version, &next) }); err != nil {
		return err
	}
	o.q, o.unused, o.version = next, o.q, version
	return nil
}

// state declares an online head's posterior of a given shape, and its version.
func state(s *words.Stream, version *uint64, q *Gaussian) {
	s.Uint(version)
	for _, n := range []int{q.Dim, q.Classes} {
		got := uint64(n)
		s.Uint(&got)
		s.Check(got == uint64(n), "it has %d as its dimension or classes, the head has %d", got, n)
	}
	for _, moments := range [...][]float64{q.Mean, q.Precision} {
		for i := range moments {
			s.Number(&moments[i])
		}
	}
	if s.Reads && s.Err == nil {
		s.Err = q.check()
	}
}

// static is GVBLL-Static: the training posterior, never updated. It comes with the
// model, so the state is empty.
type static struct{ q Gaussian }

// NewStatic returns a head that stays at the training posterior prior. It panics
// if prior does not validate.
func NewStatic(prior Gaussian) *static {
	if err := prior.Validate(); err != nil {
		panic(err)
	}
	return &static{q: prior.Clone()}
}

// Name returns "static".
func (s *static) Name() string { return "static" }

// Posterior returns the training posterior, see [Head].
func (s *static) Posterior() *Gaussian { return &s.q }

// Predict predicts at the mean of the training posterior, see [MAP].
func (s *static) Predict(rows Rows, probs []float64) { MAP(&s.q, rows, probs) }

// Learn does nothing.
func (s *static) Learn(Rows, []int32) Report { return Report{} }

// Version returns 0.
func (s *static) Version() uint64 { return 0 }

// AppendState appends nothing.
func (s *static) AppendState(b []byte) []byte { return b }

// SetState accepts only the empty state.
func (s *static) SetState(b []byte) error {
	if len(b) != 0 {
		return fmt.Errorf("posterior: state of %d bytes for a static head, which has none", len(b))
	}
	return nil
}
