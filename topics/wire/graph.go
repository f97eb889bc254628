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

// rows reads a list of lists of numbers.
func (in *input) rows(limits Limits) ([][]float32, error) {
	count, _, err := in.cursor.list(0, limits.MaxNeighbours, event.TooLarge)
	if err != nil {
		return nil, err
	}
	rows := make([][]float32, count)
	for i := range rows {
		if rows[i], err = in.numbers(limits); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// pairs reads a list of pairs, or a binary block of little-endian uint32, two for each.
func (in *input) pairs(limits Limits) ([]uint32, error) {
	if in.cursor.next() == aBlock {
		flat := limits
		flat.MaxFeatures = 2 * limits.MaxNeighbours
		return in.indices(flat)
	}
	count, _, err := in.cursor.list(0, limits.MaxNeighbours, event.TooLarge)
	if err != nil {
		return nil, err
	}
	ends := make([]uint32, 0, 2*count)
	for i := range count {
		pair, err := in.indices(limits)
		if err != nil {
			return nil, err
		}
		if ends, err = appendPair(ends, pair, i); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

func appendPair(ends, pair []uint32, i int) ([]uint32, error) {
	if len(pair) != 2 {
		return nil, refusef(event.BadFeatures, "edge %d has %d ends", i, len(pair))
	}
	return append(ends, pair...), nil
}

func (f field) rows(limits Limits) (rows [][]float32, err error) {
	err = f.items(limits, event.TooLarge, func(count int) { rows = make([][]float32, count) }, func(i int, item field) (err error) {
		if rows[i], err = item.numbers(limits); err == nil && rows[i] == nil {
			err = refusef(event.PartialFeatures, "node %d is null", i)
		}
		return err
	})
	return rows, err
}

func (f field) pairs(limits Limits) (ends []uint32, err error) {
	err = f.items(limits, event.TooLarge, func(count int) { ends = make([]uint32, 0, 2*count) }, func(i int, item field) error {
		pair, err := item.indices(limits)
		if err == nil {
			ends, err = appendPair(ends, pair, i)
		}
		return err
	})
	return ends, err
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

// graph appends the fields of a graph.
func (o *output) graph(g *event.Graph) {
	o.key("nodes")
	o.to.EncodeArrayLen(len(g.Nodes))
	for _, x := range g.Nodes {
		o.singles(x)
	}
	o.key("edges")
	o.indices(g.Ends)
}
