package structure

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
)

// passing is what nodes are where graphs are classified: each stands for a graph, has its
// vector as features and no neighbours, and leaves when the next window enters. What was
// predicted for it waits for its label as for any node that has left. So the memory of a stream
// of graphs is that of the predictions that wait.
type passing struct {
	readout *gnn.Readout
	known   bool    // whether present is what the graph has: not so after a restart
	present []int32 // numbers of the nodes of the last window
}

// vector returns the features of the node that stands for a graph, or why the event does not
// fit the model.
func (p *passing) vector(node *event.Node) (x gnn.Vector, why event.Reason, detail string) {
	g, d := node.Graph, p.readout.Encoder.In()
	switch {
	case g == nil:
		return x, event.BadFeatures, "the model classifies graphs: give its nodes and edges"
	case len(g.Nodes[0]) != d:
		return x, event.WrongDimension, fmt.Sprintf("%d features of a node, the model has %d", len(g.Nodes[0]), d)
	}
	nodes := make([]gnn.Vector, len(g.Nodes))
	for v, x := range g.Nodes {
		nodes[v].Dense = x
	}
	graphs := gnn.NewGraphs(d)
	graphs.Add(nodes, g.Ends)
	return gnn.Vector{Dense: p.readout.Encode(graphs)}, "", ""
}

// leave has the nodes of the window before leave.
func (p *passing) leave(ids *numbers, d *departures) {
	if !p.known {
		for v := range int32(ids.len()) {
			if !ids.gone(v) {
				p.present = append(p.present, v)
			}
		}
		p.known = true
	}
	slices.Sort(p.present) // as after a restart
	for _, v := range p.present {
		d.letGo(ids.id(v), v)
	}
	p.present = p.present[:0]
}
