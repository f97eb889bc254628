// Package shardstest has what tests of shards share: a graph in shards whose embeddings can be seen,
// and models that can be cut.
package shardstest
