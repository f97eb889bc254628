package model

import (
	"errors"

	"github.com/gvbll/gvbll/gnn"
)

// A model of graphs reads each graph out to one vector. That is the features of a node without
// neighbours, whose embedding it is too: from there on everything is as for a node.

// NodeEncoder returns the encoder of nodes: in a model of graphs, of those within a graph.
func (m *Model) NodeEncoder() gnn.Encoder {
	if m.Readout != nil {
		return m.Readout.Encoder
	}
	return m.Encoder
}

// readGraphs makes m, whose encoder and normalisation are those of nodes, a model of graphs.
func (m *Model) readGraphs() (err error) {
	if m.Schema != nil || m.Kinds != nil {
		return errors.New("a model of graphs: features by name and kinds of edges are those of nodes")
	}
	r := &gnn.Readout{Encoder: m.Encoder, Normalizer: m.Normalizer, Size: m.GraphSize}
	if err := r.Check(); err != nil {
		return err
	}
	m.Readout, m.Normalizer = r, &gnn.Normalizer{Kind: gnn.NormalizeNone}
	m.Encoder, err = gnn.NewIdentity(r.Out())
	return err
}

// ReadOut returns d, whose graphs are to be classified, as data of nodes without neighbours.
func (m *Model) ReadOut(d Data) Data {
	z, width := m.Readout.Encode(d.Graphs), m.Readout.Out()
	d.X, d.Dim, d.Graphs = make([]gnn.Vector, d.Graphs.Len()), width, nil
	for i := range d.X {
		d.X[i].Dense = z[i*width:][:width]
	}
	return d
}
