package serve

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/store"
)

// Chain is the hash of everything served and learned.
type Chain struct {
	Hash   event.Hash
	buffer []byte // scratch
}

// Extend folds a window into the chain: its predictions, revisions and refusals, and
// out.Posterior, the hash of the heads' state.
func (c *Chain) Extend(out *event.Outcome) {
	b := append(c.buffer[:0], c.Hash[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(out.Window))
	for i := range out.Predictions {
		p := &out.Predictions[i]
		b = appendNode(b, p)
		b = safetensors.Append(b, p.Probabilities...)
		b = safetensors.Append(b, p.Total, p.Aleatoric, p.Epistemic)
		b = appendSet(b, p.Set)
		if p.Act != nil && *p.Act {
			b = append(b, 'a')
		}
		if p.Asked > 0 {
			b = safetensors.Append(b, p.Asked)
		}
		b = appendCauses(b, p.Reasons)
	}
	for i := range out.Revisions {
		p := &out.Revisions[i]
		b = appendNode(b, p)
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Revision))
		b = safetensors.Append(b, p.Probabilities...)
	}
	for i := range out.Refused {
		r := &out.Refused[i]
		b = append(b, r.Reason...)
		b = append(b, r.Origin.Topic...)
		b = binary.LittleEndian.AppendUint32(b, uint32(r.Origin.Partition))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Origin.Offset))
	}
	b = append(b, out.Posterior[:]...)
	c.buffer = b
	c.Hash = sha256.Sum256(b)
	out.Chain = c.Hash
}

func appendNode(b []byte, p *event.Prediction) []byte {
	b = append(b, p.Node.Str...)
	return binary.LittleEndian.AppendUint64(b, uint64(p.Node.Num))
}

// appendSet appends a prediction's set, nothing where there is none.
func appendSet(b []byte, s *event.Set) []byte {
	if s == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(s.Classes)))
	for _, name := range s.Classes {
		b = store.AppendString(b, name)
	}
	return store.AppendString(b, s.Abstain)
}

// appendCauses appends a prediction's reasons, nothing where there are none.
func appendCauses(b []byte, r *event.Causes) []byte {
	if r == nil {
		return b
	}
	b = append(store.AppendString(b, r.Class), 'r')
	for i := range r.List {
		c := &r.List[i]
		for _, text := range append([]string{c.What, c.Name, c.Value, c.Usual, c.Node.Str}, c.Along...) {
			b = store.AppendString(b, text)
		}
		for _, n := range []uint64{uint64(c.Node.Num), uint64(c.Labelled), uint64(c.OfClass)} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		b = safetensors.Append(b, c.By)
	}
	return b
}
