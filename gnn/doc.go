// Package gnn encodes the nodes of a growing graph: it maps a node v with
// features x_v in a graph G to an embedding z_v = g(x_v, G) in R^{d_e} (the
// paper, Section II-A), with the frozen weights of a graph neural network: a
// [SAGE], [GCN], [GAT] or [GIN]. Package train fits the weights.
//
// There are two ways to the same embeddings. [Encoder.Encode] takes a whole
// graph and encodes every node: it is short, follows the papers' equations, and
// is the oracle of the tests. [Graph] grows by windows of nodes and edges,
// ΔV_t, and keeps per node the sums that its first layer needs, so that
// encoding an arrival costs what the arrival brings, whatever the size of the
// graph. The two agree up to rounding (1e-5 in the tests).
//
// # Incremental sums
//
// The first layer of an encoder is linear up to the aggregation over
// neighbours, so the features are projected once, when a node arrives, and only
// projections are aggregated. A [Graph] keeps of node v a row of two parts:
//
//   - the self term, a function of x_v alone, at least the projection W·x_v;
//   - the aggregate of the neighbours' self terms: for [SAGE] and [GIN] their
//     sum, for [GAT] the numerators and denominators of attention. [GCN] keeps
//     none, because its weights 1/√(d_i d_j) change with every edge: it sums
//     over the neighbours when it is asked.
//
// An edge adds one message, the other end's self term, to the aggregate at
// each end, so a first-layer state costs O(h) to read whatever the degree.
// Upper layers are computed on demand, for the nodes that need them.
//
// What always holds:
//
//   - The self term is exact: it is recomputed whenever features change.
//   - The aggregate holds the neighbours' messages, added in the order of the
//     adjacency list, which is the order in which the edges came; unless the
//     node is stale. Those of a hub are added in float64 (hubs.go has the bounds
//     of errors).
//   - A node becomes stale when its features or a neighbour's are replaced, a
//     neighbour leaves, or an edge of it is removed. Nothing is ever subtracted from an aggregate. The
//     next use of a stale node's row recomputes it from the adjacency list.
//   - Hence equal calls give equal bits, and a graph from which nodes or edges
//     were removed has the bits of one that never had them.
//
// # Numbers
//
// Embeddings and weights are float32. The same calls give the same bits on
// every machine: each output's sum runs in one stated order and no product is
// fused with an addition (package kernel); exponentials come from package
// elementary. Worker goroutines ([Workers]) divide rows or columns among
// themselves and never a sum, so they cannot change a bit.
//
// # Files
//
//	graph.go        Graph: nodes, edges, features
//	arrive.go       a window of arrivals, added, linked and embedded
//	embed.go        embeddings on demand, layer by layer
//	incremental.go  what an encoder provides for Graph
//	hubs.go         sums over many neighbours
//	rows.go         the table of rows, float32 or bfloat16
//	remove.go       nodes that leave
//	unlink.go       edges that are taken away
//	trial.go        what-if embeddings
//	workers.go      goroutines that share the work of a window
//	state.go        what of a graph is saved and restored
//	encoder.go      Encoder, Load, what encoders share
//	sage.go, gcn.go, gat.go, gin.go
//	                an architecture each: definition, Encode, the incremental form
//	slice.go        one encoder cut into several narrower ones
//	statedict.go    weights by PyTorch Geometric's names
//	linear.go, project.go, activation.go
//	                linear maps, the product with features, ReLU and ELU
//	vector.go, normalize.go
//	                feature vectors and their normalisation
package gnn
