// Package structure holds what enters a graph: its nodes and edges, their ids and labels, and
// the edges that wait for a node. [Nodes.Enter] applies a window to it and encodes the arrivals.
//
// Nothing here depends on what is predicted or learned, and nothing is imported that predicts
// or learns. Of predictions it is known only which nodes wait for a label ([Pending]), and that
// is a function of the windows too. So windows may enter before earlier ones are served.
//
//	nodes.go                    Nodes; who follows the graph's changes: Follower
//	arrive.go, depart.go        nodes come and go
//	edges.go, waitingedges.go   edges come and go, or wait for their nodes
//	nodeindex.go, ids.go        numbers by id, and ids by number
//	nodestate.go                the declaration of the state in snapshots
package structure
