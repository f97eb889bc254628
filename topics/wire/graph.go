package wire

import (
	"github.com/gvbll/gvbll/pipeline/event"
)

// A graph that is classified as a whole: its nodes, a list of features each, and its edges,
// pairs of places in that list.

// graph returns the graph of an event, a new one if it has none yet.
func graph(n *event.Node) *event.Graph {
	if n.Graph == nil {
		n.Graph = &event.Graph{}
	}
	return n.Graph
}

func rows(v value, limits Limits) ([][]float32, error) {
	n, list, err := v.list(1, limits.MaxNeighbours, event.TooLarge)
	if err != nil {
		return nil, err
	}
	rows := make([][]float32, n)
	for i := range rows {
		if rows[i], err = list.item().numbers(limits); err == nil && rows[i] == nil {
			err = refusef(event.PartialFeatures, "node %d is null", i)
		}
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// pairs reads a list of pairs, or a binary block of little-endian uint32, two for each.
func pairs(v value, limits Limits) (ends []uint32, err error) {
	if v.kind() == aBlock {
		limits.MaxFeatures = 2 * limits.MaxNeighbours
		return v.indices(limits)
	}
	n, list, err := v.list(1, limits.MaxNeighbours, event.TooLarge)
	if err != nil {
		return nil, err
	}
	ends = make([]uint32, 0, 2*n)
	for i := range n {
		pair, err := list.item().indices(limits)
		if err == nil && len(pair) != 2 {
			err = refusef(event.BadFeatures, "edge %d has %d ends", i, len(pair))
		}
		if err != nil {
			return nil, err
		}
		ends = append(ends, pair...)
	}
	return ends, nil
}

// checkGraph enforces the invariants of event.Graph.
func checkGraph(n *event.Node, limits Limits) error {
	g := n.Graph
	switch {
	case n.Dense != nil || n.Index != nil || n.Value != nil || n.Named != nil || len(n.Neighbours) > 0 || n.Context:
		return refusef(event.BadFeatures, "a graph with nodes of its own has no features, neighbours and context")
	case len(g.Nodes) == 0:
		return refusef(event.BadFeatures, "a graph without nodes")
	case len(g.Ends)%2 != 0:
		return refusef(event.BadFeatures, "%d ends of edges", len(g.Ends))
	}
	for i, x := range g.Nodes {
		if len(x) != len(g.Nodes[0]) {
			return refusef(event.BadFeatures, "node %d has %d features, and node 0 has %d", i, len(x), len(g.Nodes[0]))
		}
		if err := checkNumbers(x, limits); err != nil {
			return err
		}
	}
	for i, v := range g.Ends {
		if int64(v) >= int64(len(g.Nodes)) {
			return refusef(event.BadFeatures, "edge %d has the end %d, and the graph has nodes 0 to %d", i/2, v, len(g.Nodes)-1)
		}
	}
	return nil
}

func (o *output) graph(g *event.Graph) {
	o.key("nodes")
	o.to.EncodeArrayLen(len(g.Nodes))
	for _, x := range g.Nodes {
		o.singles(x)
	}
	o.key("edges")
	o.indices(g.Ends)
}
