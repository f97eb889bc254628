package posterior

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Head is one classifier of the pool, over what was served.
type Head interface {
	// Name tells the head apart from the others of its pool.
	Name() string
	// Classes returns C.
	Classes() int
	// Predict writes the MAP class probabilities of every row to probs, n × C.
	Predict(rows Rows, probs []float64)
	// Learn takes one batch of labelled rows as served. A head that never
	// learns returns the zero Report, as does a batch without rows, which
	// changes nothing.
	Learn(rows Rows, labels []int32) Report
	// Version returns the number of updates taken.
	Version() uint64
	// AppendState appends canonical bytes of the whole state to b, for hashes
	// and checkpoints.
	AppendState(b []byte) []byte
	// SetState is the inverse of AppendState. On an error the state is as it
	// was.
	SetState(b []byte) error
}

var (
	_ Head = (*Online)(nil)
	_ Head = (*Static)(nil)
)

// Online is GVBLL-Online: the posterior that Algorithm 1 updates with every
// batch of labels.
type Online struct {
	cfg     Config
	anchor  Gaussian // (M*, Σ*), never written
	q       Gaussian
	version uint64

	statistics Statistics
	evidence   evidence
}

// NewOnline returns a head that starts at the training posterior prior and is
// anchored to it. A prior or cfg that does not validate panics.
func NewOnline(prior Gaussian, cfg Config) *Online {
	if err := errors.Join(prior.Validate(), cfg.Validate()); err != nil {
		panic(err)
	}
	return &Online{
		cfg:    cfg,
		anchor: prior.Clone(),
		q:      prior.Clone(),
		statistics: Statistics{
			Dim: prior.Dim, Classes: prior.Classes,
			Gradient:  make([]float64, len(prior.Mean)),
			Precision: make([]float64, len(prior.Mean)),
		},
	}
}

// Name returns "online".
func (o *Online) Name() string { return "online" }

// Classes returns C.
func (o *Online) Classes() int { return o.q.Classes }

// Posterior returns the posterior in force. It is the head's own: it must not
// be written, and changes with Learn and SetState.
func (o *Online) Posterior() *Gaussian { return &o.q }

// Predict is MAP at the posterior in force.
func (o *Online) Predict(rows Rows, probs []float64) { MAP(&o.q, rows, probs) }

// Learn takes one step of Algorithm 1. Unlike Apply, it does nothing for a
// batch without rows: only labels make the posterior forget.
func (o *Online) Learn(rows Rows, labels []int32) Report {
	if len(labels) == 0 && rows.Len() == 0 {
		return Report{}
	}
	s := &o.statistics
	s.Rows = 0
	clear(s.Gradient)
	clear(s.Precision)
	s.collect(&o.q, rows, labels, o.cfg.Gradient, &o.evidence)
	o.version++
	return ApplyTo(&o.q, &o.q, &o.anchor, *s, o.cfg)
}

// Version returns the number of updates taken.
func (o *Online) Version() uint64 { return o.version }

// AppendState appends version, d_e and C as 64-bit integers, then M and T as
// the bits of float64s, all little-endian. The anchor is not state: it comes
// with the model.
func (o *Online) AppendState(b []byte) []byte {
	b = slices.Grow(b, stateHeader+16*len(o.q.Mean))
	b = binary.LittleEndian.AppendUint64(b, o.version)
	b = binary.LittleEndian.AppendUint64(b, uint64(o.q.Dim))
	b = binary.LittleEndian.AppendUint64(b, uint64(o.q.Classes))
	for _, moments := range [...][]float64{o.q.Mean, o.q.Precision} {
		for _, x := range moments {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}

const stateHeader = 3 * 8

// SetState reads what AppendState wrote. It refuses a state of another shape,
// of another length, or with moments that are no posterior's.
func (o *Online) SetState(b []byte) error {
	if want := stateHeader + 16*len(o.q.Mean); len(b) != want {
		return fmt.Errorf("posterior: state of %d bytes, a head of %d × %d has %d", len(b), o.q.Dim, o.q.Classes, want)
	}
	word := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	if dim, classes := word(1), word(2); dim != uint64(o.q.Dim) || classes != uint64(o.q.Classes) {
		return fmt.Errorf("posterior: state of shape %d × %d, the head has %d × %d", dim, classes, o.q.Dim, o.q.Classes)
	}
	next := o.q.Clone()
	for i := range next.Mean {
		next.Mean[i] = math.Float64frombits(word(3 + i))
		next.Precision[i] = math.Float64frombits(word(3 + len(next.Mean) + i))
	}
	if err := next.check(); err != nil {
		return err
	}
	o.q, o.version = next, word(0)
	return nil
}

// Static is GVBLL-Static: the training posterior, never updated. All it knows
// comes with the model, so its state is empty.
type Static struct{ q Gaussian }

// NewStatic returns a head that stays at prior. A prior that does not validate
// panics.
func NewStatic(prior Gaussian) *Static {
	if err := prior.Validate(); err != nil {
		panic(err)
	}
	return &Static{q: prior.Clone()}
}

// Name returns "static".
func (s *Static) Name() string { return "static" }

// Classes returns C.
func (s *Static) Classes() int { return s.q.Classes }

// Posterior returns the training posterior. It is the head's own: it must not be
// written.
func (s *Static) Posterior() *Gaussian { return &s.q }

// Predict is MAP at the training posterior.
func (s *Static) Predict(rows Rows, probs []float64) { MAP(&s.q, rows, probs) }

// Learn does nothing.
func (s *Static) Learn(Rows, []int32) Report { return Report{} }

// Version returns 0.
func (s *Static) Version() uint64 { return 0 }

// AppendState appends nothing.
func (s *Static) AppendState(b []byte) []byte { return b }

// SetState accepts the empty state alone.
func (s *Static) SetState(b []byte) error {
	if len(b) != 0 {
		return fmt.Errorf("posterior: state of %d bytes for a static head, which has none", len(b))
	}
	return nil
}
