package structure

import (
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
)

// supposed is what a node would be in the graph if it arrived now.
type supposed struct {
	Features gnn.Vector        // as received
	Near     []int32           // its neighbours, each once
	Weighed  []gnn.WeighedEdge // see [gnn.Graph.EmbedArrival]
	Unknown  []event.ID        // neighbours that it names and that are not in the graph
}

// Suppose returns what a node would be that arrived now. It is nil if the node's event would be refused, and
// why and detail say for what; or if the node is in the graph, and known is true. Nothing changes.
func (n *Nodes) Suppose(node *event.Node) (s *supposed, known bool, why event.Reason, detail string) {
	if v, known := n.Number(node.ID); !known {
		node, _ = n.keyed.Derive(node, v, false)
	}
	x, why, detail := n.inputs.try(node)
	if why != "" {
		return nil, false, why, detail
	}
	if _, known := n.Number(node.ID); known {
		return nil, true, "", ""
	}
	// A graph tells edges apart from the first arrival on that needs it.
	if n.kinds != nil && !n.kinds.apart() && !n.kinds.alike(node) {
		return nil, false, event.ImpossibleCommand, "no edge of this graph has had a weight or an unknown kind: one must arrive first"
	}
	s = &supposed{Features: x}
	seen := make(map[int32]bool)
	add := func(u int32) {
		if !seen[u] {
			seen[u] = true
			s.Near = append(s.Near, u)
		}
	}
	if of := n.waiting.queue.Get(node.ID); of != nil {
		for _, u := range of.numbers {
			add(u)
		}
		for _, id := range of.ids {
			if u, known := n.Number(id); known {
				add(u)
			}
		}
	}
	for _, id := range node.Neighbours {
		switch u, known := n.Number(id); {
		case id == node.ID:
		case known:
			add(u)
		default:
			s.Unknown = append(s.Unknown, id)
		}
	}
	s.Weighed = n.kinds.suppose(node, s.Near)
	return s, false, "", ""
}

// suppose returns what the edges of a node would be that arrived now, with the number
// that it would get in [gnm.graph.EmbedArrival], each once with the weight that counts. Its
// neighbours would be near.
func (m *marks) suppose(node *event.Node, near []int32) (edges []gnn.WeighedEdge) {
	if m == nil {
		return nil
	}
	if !m.graph.TellsApart() { // all alike, as [gnm.graph.EachWeighed] has them
		for _, u := range near {
			edges = append(edges, gnn.WeighedEdge{Source: int32(m.graph.Len()), Target: u, Weight: 1})
		}
		return edges
	}
	var all []event.Edge
	if waiting := m.waiting.Get(node.ID); waiting != nil {
		all = append(all, *waiting...)
	}
	for k := range node.Neighbours {
		all = append(all, written(node.To(k)))
	}
	number := func(id event.ID) (int32, bool) {
		if id == node.ID {
			return int32(m.graph.Len()), true
		}
		return m.numbers.index.number(id)
	}
	place := make(map[[2]int32]int, len(all))
	for _, e := range all {
		edge, heard, _ := m.heard(e.Mark)
		u, hasSource := number(e.Source)
		v, hasTarget := number(e.Target)
		if !heard || !hasSource || !hasTarget || u == v {
			continue
		}
		edge.Source, edge.Target = u, v
		end := [2]int32{u, int32(edge.AtTarget)} // of the neighbour
		if id := int32(m.graph.Len()); u == id {
			end = [2]int32{v, int32(edge.AtSource)}
		}
		if at, again := place[end]; again {
			edges[at] = edge
			continue
		}
		place[end] = len(edges)
		edges = append(edges, edge)
	}
	return edges
}
