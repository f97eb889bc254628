package pool

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The predictive state of a pool is what Predict, Weights and Shares need of all that was
// learned: the means of weights, and counts, without precisions and scores. Where one process
// learns and others predict, it is sent to them.
//
// All heads but the wide ones and Bayes are small and are sent whole. Of these two a change has
// the columns that the last batch changed. Sizes with embeddings of 64, in KB:
//
//	                                   all learned  whole  change by 10 labels  by 100
//	dense, 128 features, 40 classes            194    111                  112     112
//	sparse, 1,433 words, 7 classes             954    488                  110     425
//	sparse, 10,000 words, 20 classes        18,062  9,634                  908   5,479
//
// (words at random, 18 or 50 a node and four times as many around it). A change grows with the
// words of its batch and not with the vocabulary, and is never larger than the whole by more than the
// numbers of its columns. So changes alone are sent, one for each batch: a log from which one
// is missing has lost other things, too. The whole is for checkpoints.

// predictiveFormat is the version of the layout.
const predictiveFormat = 1

// AppendPredictive appends the predictive state to b as canonical bytes.
func (p *Pool) AppendPredictive(b []byte) []byte { return p.appendPredictive(b, false) }

// AppendPredictiveChange appends what the last Learn changed of the predictive state to b as
// canonical bytes. There must have been one.
func (p *Pool) AppendPredictiveChange(b []byte) []byte { return p.appendPredictive(b, true) }

func (p *Pool) appendPredictive(b []byte, change bool) []byte {
	w := &writer{b: b}
	for _, x := range p.predictiveHeader(change) {
		w.uint(x)
	}
	w.uint(p.version)
	for _, x := range p.weights {
		w.floats(x.theta)
	}
	if p.mixture != nil {
		p.mixture.appendState(w)
	}
	for _, h := range p.heads {
		h.appendPredictive(w, change)
	}
	return w.b
}

// predictiveHeader returns the words before the version.
func (p *Pool) predictiveHeader(change bool) []uint64 {
	kind := uint64(0)
	if change {
		kind = 1
	}
	return []uint64{predictiveFormat, kind, uint64(len(p.heads)), uint64(p.shape.Classes), uint64(p.shape.Features), uint64(p.shape.Embedding)}
}

// SetPredictive reads what AppendPredictive or AppendPredictiveChange of a pool of the same
// model wrote. From there on p predicts with the same bits as that pool, and must not learn.
// A change must be the one after the state that p has. It allocates no memory in proportion to
// b. On an error the state is as it was.
func (p *Pool) SetPredictive(b []byte) error {
	if err := p.readPredictive(&reader{b: b, dry: true}); err != nil {
		return err
	}
	return p.readPredictive(&reader{b: b})
}

// readPredictive reads a predictive state, and checks it before it sets anything if r is dry.
func (p *Pool) readPredictive(r *reader) error {
	const kindAt = 1
	change := false
	for i, want := range p.predictiveHeader(false) {
		got := r.uint()
		switch {
		case r.err != nil:
			return r.err
		case i == kindAt && got <= 1:
			change = got == 1
		case got != want:
			return fmt.Errorf("pool: predictive state has %d as its format, kind, heads, classes, features or embedding, the pool has %d", got, want)
		}
	}
	version := r.uint()
	if r.dry && change && version != p.version+1 {
		return fmt.Errorf("pool: a change to version %d of its heads, which are of version %d", version, p.version)
	}
	for _, w := range p.weights {
		r.floats(w.theta)
	}
	if p.mixture != nil {
		p.mixture.readState(r)
	}
	for k, h := range p.heads {
		h.readPredictive(r, change)
		if r.err != nil {
			return fmt.Errorf("head %q: %w", p.cfg.Heads[k].Name, r.err)
		}
	}
	if r.err == nil && len(r.b) != 0 {
		return errors.New("pool: predictive state is longer than one of this pool")
	}
	if r.err == nil && !r.dry {
		p.version, p.onlyPredicts = version, true
	}
	return r.err
}

// changes writes the number of columns in the set, and then each column's number and what
// appends appends for it.
func (w *writer) changes(set *columnSet, appends func(j int)) {
	w.uint(uint64(len(set.list)))
	for _, j := range set.list {
		w.b = binary.LittleEndian.AppendUint32(w.b, uint32(j))
		appends(int(j))
	}
}

// changes reads what writer.changes wrote for a head of that many columns; reads reads what
// was appended for one.
func (r *reader) changes(columns int, reads func(j int)) {
	n := r.uint()
	r.check(n <= uint64(columns), "%d columns changed, of %d", n, columns)
	for range n {
		if len(r.b) < 4 {
			r.check(false, "too short")
		}
		if r.err != nil {
			return
		}
		j := binary.LittleEndian.Uint32(r.b)
		r.b = r.b[4:]
		if r.check(uint64(j) < uint64(columns), "column %d of %d", j, columns); r.err == nil {
			reads(int(j))
		}
	}
}
