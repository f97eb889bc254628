// Package gnn encodes the nodes of a growing graph: it maps a node v with
// features x_v in a graph G to an embedding z_v = g(x_v, G) (the paper,
// Section II-A), with the weights of a frozen graph neural network: a [SAGE],
// [GCN], [GAT] or [GIN].
//
// There are two ways to the same embeddings. [Encoder.Encode] takes a whole
// graph and encodes all of it; it is short, and the definition that the other
// is tested against. [Graph] grows by nodes and edges, a window of them at a time
// with [Graph.Arrive], and keeps such sums that encoding an arrival costs what the
// arrival brings, whatever the size of the graph. Only GCN has no such sums and
// looks at the neighbours' neighbours.
//
// Numbers are float32. The same calls give the same bits on every machine:
// each output's sum runs in one stated order, and no product is fused with an
// addition.
package gnn
