package model

import (
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
)

// checkKinds returns an error if the encoder does not take the kinds of d's edges. A trained
// one without kinds does: it hears all edges alike.
func (c Config) checkKinds(d Data) error {
	frozen, ok := c.Frozen.(*gnn.SAGEKinds)
	switch {
	case ok:
		return d.Kinds.Check(frozen.Means())
	case c.Frozen != nil || d.Kinds == nil:
		return nil
	case c.kind() != gnn.KindSAGE:
		return fmt.Errorf("--encoder %s: the edges have kinds or weights, which graphsage hears: give --encoder graphsage, or leave out the columns kind, weight and directed", c.kind())
	}
	return d.Kinds.Check(d.Kinds.Means())
}

// encode returns the embeddings of all nodes.
func encode(e gnn.Encoder, d *train.Data) []float32 {
	if s, ok := e.(*gnn.SAGEKinds); ok {
		return s.EncodeKinds(d.X, d.Src, d.Dst, d.Mean, d.Weight)
	}
	return e.Encode(d.X, d.Src, d.Dst)
}

// loadKinds checks that the kinds of edges are those of the encoder.
func (m *Model) loadKinds() error {
	s, ok := m.Encoder.(*gnn.SAGEKinds)
	switch {
	case ok:
		return m.Kinds.Check(s.Means())
	case len(m.Kinds) > 0:
		return errors.New("kinds of edges, and an encoder that does not tell them apart")
	}
	return nil
}
