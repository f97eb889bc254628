package structure

import "github.com/gvbll/gvbll/gnn"

// Follower keeps data about the graph's nodes or edges in step with the graph. It has a function
// for each change that matters to it, and nil for others. While a window enters, they are called in
// this order:
//
//  1. Entered, for every accepted arrival and update, in canonical order;
//  2. Leaving, then Left, once each, if nodes leave;
//  3. Unlinked, once, if edges are removed from between nodes that stay;
//  4. Linked, in canonical order, for every accepted node that did not leave, and for
//     every event that adds edges.
//
// Labelled is called later, when the window's labels are joined. Vacated may be called at
// any time after the node has left. Slices are valid during the call only.
type Follower struct {
	// Entered is told that node v arrived with features x, or that x replaces its
	// features. x is as received: not normalised. If v is new, the graph does
	// not have it yet.
	Entered func(v int32, x gnn.Vector)
	// Leaving is told of nodes that are about to leave the graph. They still have their
	// edges.
	Leaving func(nodes []int32)
	// Left is told that the nodes of the last call of Leaving are out of the graph.
	Left func()
	// Unlinked is told of edges, once each, that are out of the graph.
	Unlinked func(edges [][2]int32)
	// Linked is told that the graph has the edges between v and near: the neighbours
	// that v named and the nodes that waited for v, repeated ones included, or those of
	// an event of edges. Edges to added are new; added has no repeated nodes.
	Linked func(v int32, near, added []int32)
	// Labelled is told the label of node v, which is in the graph, or none if it is
	// withdrawn. A restored snapshot tells all labels again.
	Labelled func(v, class int32)
	// Vacated is told that number v, whose node has left, is free for another node.
	Vacated func(v int32)
}

// followers are the functions of all followers, each list in the order in which these follow.
type followers struct {
	entered  []func(v int32, x gnn.Vector)
	leaving  []func(nodes []int32)
	left     []func()
	unlinked []func(edges [][2]int32)
	linked   []func(v int32, near, added []int32)
	labelled []func(v, class int32)
	vacated  []func(v int32)
}

func (l *followers) add(f Follower) {
	if f.Entered != nil {
		l.entered = append(l.entered, f.Entered)
	}
	if f.Leaving != nil {
		l.leaving = append(l.leaving, f.Leaving)
	}
	if f.Left != nil {
		l.left = append(l.left, f.Left)
	}
	if f.Unlinked != nil {
		l.unlinked = append(l.unlinked, f.Unlinked)
	}
	if f.Linked != nil {
		l.linked = append(l.linked, f.Linked)
	}
	if f.Labelled != nil {
		l.labelled = append(l.labelled, f.Labelled)
	}
	if f.Vacated != nil {
		l.vacated = append(l.vacated, f.Vacated)
	}
}
