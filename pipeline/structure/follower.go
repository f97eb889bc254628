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

// followers are all that follow a graph, in their order.
type followers []Follower
