// Package train fits a GNN encoder and the head on top of it, jointly and
// full-batch: Phase 1 of the two-phase protocol (the paper, Section II-B).
//
// With X the features, A the graph, θ the encoder's weights and φ the head's
// parameters, [Fit] minimises
//
//	L(g_θ(X, A)_train, y_train; φ) + decay/2 · |θ_decayed|²
//
// by Adam, where L is the [Head]'s loss: for the Bayesian last layer the negative
// ELBO, eq:elbo. The gradient of L with respect to the embeddings comes from the
// head; backpropagation through the layers is written out, one file per
// architecture.
//
// # Numbers
//
// The encoder is float32, the head float64. Equal data, configuration and seed
// give equal bits on every machine: no product is fused with a sum, and randomness
// comes from PCG streams that are seeded from Config.Seed, 1 for initial weights,
// 2 for dropout and 3 for the head. The exception is one in 1,700 of the head's
// initial weights, for which rand.NormFloat64 takes math.Log: between processors of
// different kinds its last bit may differ.
//
// Code is generic over float32 and float64. float32 trains, on package kernel;
// float64 runs plain loops, with which the tests check gradients by differences.
//
// # Files
//
//	config.go         Config, Data and their validation
//	fit.go            Fit: the loop over epochs
//	head.go           Head, and FitHead, which trains the head alone
//	network.go        a model's layers, bound to a graph: forward and backward
//	sage.go, gcn.go, gat.go, gin.go
//	                  an architecture each: parameters, forward, backward
//	aggregate.go      the layer of sage and gcn, and what gin shares: project, then aggregate
//	input.go          a layer's input, dense or sparse, and its products
//	neighbourhood.go  the part of the graph that the targets depend on
//	sparse.go         sparse matrices
//	dropout.go        dropout, fused with the activation; SampleDropout
//	adam.go           Adam, and the optimizer of all parameters
//	kernel.go         loops over vectors and matrices
package train
