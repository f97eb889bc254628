package shards

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/posterior/conformal"
	"github.com/gvbll/gvbll/posterior/pool"
)

// This file has what shards and the trainer of a graph send each other, as values and as
// bytes. Bytes are little-endian. They may come from outside: what is decoded takes memory
// in proportion to its bytes, whatever these are.

// Rows are the labels that a shard joined in a window to predictions of its own: with what
// was served, and what the heads learn of them.
type Rows struct {
	Joined   int // labels that all shards joined in the window
	labelled []event.Labelled
	sets     []serve.JoinedSet      // aligned with labelled; none without Config.Coverage
	arrived  int                    // predictions of all shards in the window
	imputed  []conformal.Imputation // of this shard's predictions; none without Config.Coverage
	part     pool.Part              // aligned with labelled; LogProbs as [shardHeads] has them
}

// Heads are what shards need to predict of the heads' state, after the batch of a window.
type Heads struct {
	Window int64
	Hash   event.Hash // of the whole state, see [event.Outcome.Posterior]
	State  []byte     // of the heads that the model has; none if there was no batch, only new thresholds
	// Thresholds are those of sets, none without Config.Coverage.
	Thresholds []float64
}

// AppendPart appends a part of embeddings, see [Shard.Part].
func AppendPart(b []byte, part []float32) []byte { return safetensors.Append(b, part...) }

// DecodePart decodes what AppendPart appended, in the memory of room. [Shard.Serve] checks
// its length.
func DecodePart(b []byte, room []float32) ([]float32, error) {
	if len(b)%4 != 0 {
		return nil, fmt.Errorf("a part of embeddings of %d bytes, want a multiple of 4", len(b))
	}
	if cap(room) < len(b)/4 {
		room = make([]float32, len(b)/4)
	}
	room = room[:len(b)/4]
	safetensors.Fill(room, b)
	return room, nil
}

// AppendHeads appends heads without their window: the hash, the number of thresholds, these,
// and the state.
func AppendHeads(b []byte, h *Heads) []byte {
	b = binary.AppendUvarint(append(b, h.Hash[:]...), uint64(len(h.Thresholds)))
	return append(safetensors.Append(b, h.Thresholds...), h.State...)
}

// DecodeHeads decodes what AppendHeads appended, for a window. It keeps b.
func DecodeHeads(b []byte, window int64) (*Heads, error) {
	h := &Heads{Window: window}
	d := store.Reader{Rest: b}
	copy(h.Hash[:], d.Next(uint64(len(h.Hash))))
	n := d.Uint()
	if d.Bad || n > uint64(len(d.Rest))/8 {
		return nil, fmt.Errorf("heads of %d bytes, which are too few", len(b))
	}
	h.Thresholds = make([]float64, n)
	safetensors.Fill(h.Thresholds, d.Next(8*n))
	h.State = d.Rest
	return h, nil
}

// AppendRows appends rows: the number of labels joined by all shards, of predictions by all, of
// labels by this one, for each of these its entry, and then what the heads learn, see
// [pool.Layout]. Of an entry, integers are varints. With sets an entry ends in the label's, and
// the imputed scores come after the entries.
func (s *Shard) AppendRows(b []byte) []byte {
	r := s.Rows()
	b = binary.AppendUvarint(b, uint64(r.Joined))
	b = binary.AppendUvarint(b, uint64(r.arrived))
	b = binary.AppendUvarint(b, uint64(len(r.labelled)))
	for i := range r.labelled {
		l := &r.labelled[i]
		b = store.AppendString(b, l.Node.Str)
		for _, x := range [...]int64{l.Node.Num, l.Served, l.Time, l.Delay, int64(l.Degree), int64(l.Fresh)} {
			b = binary.AppendVarint(b, x)
		}
		b = append(b, uint8(l.By))
		if len(r.sets) > 0 {
			b = appendSet(b, r.sets[i])
		}
	}
	if len(s.sets) > 0 {
		b = appendImputed(b, r.imputed)
	}
	return s.heads.Layout().AppendPart(b, &r.part)
}

// minEntry is the least number of bytes of an entry of rows.
const minEntry = 8

// DecodeRows decodes what [Shard.AppendRows] appended. The rows share no memory with b.
func (l *Trainer) DecodeRows(b []byte) (*Rows, error) {
	d := store.Reader{Rest: b}
	r := &Rows{}
	joined, arrived, n := d.Uint(), d.Uint(), d.Uint()
	if d.Bad || max(joined, arrived) > math.MaxInt32 || n > joined || n > uint64(len(d.Rest))/minEntry {
		return nil, fmt.Errorf("rows of labels: %d of %d in %d bytes", n, joined, len(b))
	}
	r.Joined, r.arrived = int(joined), int(arrived)
	r.labelled = make([]event.Labelled, n)
	for i := range r.labelled {
		x := &r.labelled[i]
		x.Node = event.ID{Str: d.String(), Num: d.Int()}
		x.Served, x.Time, x.Delay = d.Int(), d.Int(), d.Int()
		degree, fresh, by := d.Int(), d.Int(), d.Next(1)
		if d.Bad || x.Served < 0 || degree < 0 || degree > math.MaxInt32 || fresh < 0 || fresh > degree || int(by[0]) >= len(l.heads.Heads()) {
			return nil, fmt.Errorf("rows of labels: entry %d of %d is damaged", i, n)
		}
		x.Degree, x.Fresh, x.By = int(degree), int(fresh), int(by[0])
		if len(l.sets) > 0 {
			r.sets = append(r.sets, l.sets[0].read(&d))
		}
	}
	for _, x := range l.sets {
		r.imputed = x.readImputed(&d)
	}
	if d.Bad {
		return nil, fmt.Errorf("rows of labels: a set or an imputed score is damaged")
	}
	var err error
	if r.part, d.Rest, err = l.heads.Layout().ReadPart(d.Rest); err != nil {
		return nil, fmt.Errorf("rows of labels: %w", err)
	}
	if len(d.Rest) > 0 || r.part.N != int(n) {
		return nil, fmt.Errorf("rows of labels: %d entries, a batch of %d, and %d bytes more", n, r.part.N, len(d.Rest))
	}
	for _, x := range r.part.LogProbs {
		if !l.heads.Valid(x) {
			return nil, fmt.Errorf("rows of labels: an output of %v", x)
		}
	}
	for i := range r.labelled {
		r.labelled[i].Class = r.part.Labels[i]
	}
	return r, nil
}
