package model

import (
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/train"
)

// weighed returns the encoder of a graph whose edges are of the kinds: a GCN hears the weights of
// one kind.
func weighed(e gnn.Encoder, kinds gnn.EdgeKinds) gnn.Encoder {
	if c, ok := e.(*gnn.GCN); ok && kinds != nil {
		return c.Weighed()
	}
	return e
}

// checkKinds returns an error if the encoder does not take the kinds of d's edges. A trained
// one without kinds does: it hears all edges alike.
func (c Config) checkKinds(d Data) error {
	switch means := gnn.MeansOf(c.Frozen); {
	case d.Kinds == nil && means == 0:
		return nil
	case c.kind() == gnn.KindGCN && d.Kinds.Means() > 1:
		return errors.New("--encoder gcn: the edges are of several kinds, or directed, and gcn hears the weights of " +
			"one undirected kind: give --encoder graphsage, or leave out the columns kind and directed")
	case means > 0:
		return d.Kinds.Check(means)
	case c.Frozen != nil:
		return nil
	case c.kind() != gnn.KindSAGE && c.kind() != gnn.KindGCN:
		return fmt.Errorf("--encoder %s: the edges have kinds or weights, which graphsage hears: give --encoder "+
			"graphsage, or leave out the columns kind, weight and directed", c.kind())
	}
	return d.Kinds.Check(d.Kinds.Means())
}

// encode returns the embeddings of all nodes.
func encode(e gnn.Encoder, d *train.Data) []float32 {
	if gnn.MeansOf(e) > 0 {
		return e.(gnn.KindsEncoder).EncodeKinds(d.X, d.Src, d.Dst, d.Mean, d.Weight)
	}
	return e.Encode(d.X, d.Src, d.Dst)
}

// loadKinds checks that the kinds of edges are those of the encoder.
func (m *Model) loadKinds() error {
	m.Encoder = weighed(m.Encoder, m.Kinds)
	switch means := gnn.MeansOf(m.Encoder); {
	case means > 0:
		return m.Kinds.Check(means)
	case len(m.Kinds) > 0:
		return errors.New("kinds of edges, and an encoder that does not tell them apart")
	}
	return nil
}
