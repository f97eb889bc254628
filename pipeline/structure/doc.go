// Package structure holds what enters a graph: its nodes and edges, their ids and labels, and
// the edges that wait for a node. [Nodes.Enter] applies a window to it and encodes the arrivals.
//
// Nothing here depends on what is predicted or learned, and nothing is imported that predicts
// or learns. Of predictions it is known only which nodes wait for a label (pending), and that
// is a function of the windows too. So windows may enter before earlier ones are served.
//
//	nodes.go                    Nodes, which holds the parts below
//	follower.go                 who follows the graph's changes
//	numbers.go                  what is stored by node number; nodeindex.go, ids.go: numbers by id, and ids by number
//	arrive.go, depart.go        nodes come and go; expiry.go: by their age
//	named.go, kept.go           what an event's features become; passing.go: for a graph
//	edges.go, waitingedges.go   edges come and go, or wait for their nodes; marks.go: their kinds
//	suppose.go                  what a node would be that arrived now
//	nodestate.go                the declaration of the state in snapshots
package structure
