// Package posterior is the paper's Bayesian last layer: softmax classification of
// embeddings with a diagonal Gaussian posterior over the weights.
//
// # Model
//
// A node has an embedding z of d_e numbers and a temperature τ > 0 that is a
// function of z. With weights W, d_e × C,
//
//	p(y = c | z, W) = softmax(zᵀW/τ)_c          eq:lik
//	p(W)            = Π_jc N(0, 1)               eq:prior
//	q(W)            = Π_jc N(M_jc, Σ_jc)         eq:posterior
//
// The posterior is stored as mean M and precision T = 1/Σ ([Gaussian]).
//
//   - Training maximises the ELBO, eq:elbo, with the encoder ([Variational]). Its
//     result is the training posterior (M*, Σ*).
//   - Predictions are those at the mean M ([MAP]). Their uncertainty comes from
//     samples of the logits, which are normal under q ([Predictive]).
//   - Labels update q by Proposition 1 (Algorithm 1): precisions forget by λ and gain
//     the curvature of the new labels, and M takes one clipped Newton step with the
//     diagonal curvature, anchored to M* with strength β ([Online], [Config]).
//
// Section, proposition and algorithm numbers are those of the paper "Online Bayesian
// Node Classification on Inductive Graphs under Distribution Shift"; eq:elbo and the
// like are the labels of equations in its LaTeX source.
//
// # Conventions
//
// Matrices are flat and row-major: a d_e × C matrix has entry (j, c), embedding
// dimension j and class c, at j*C+c. Misuse of shapes panics. Rows must be finite: a
// number that is not would make the posterior useless for good.
//
// # Determinism
//
// The same inputs give the same bits on every machine. Every sum runs in one fixed
// order. The inner loops, exponentials, logarithms and quantiles are those of package
// double, because those of package math and gonum are fused where the processor or the
// compiler can.
//
// # Files
//
//	gaussian.go       Gaussian, its variance, distance and KL divergence
//	temperature.go    τ of eq:lik
//	elbo.go           Variational: the ELBO and its gradients
//	predict.go        MAP and Predictive
//	update.go         Config and the update of Proposition 1
//	head.go           Head: Online and Static, and their state
//	block.go          rows as lanes of the kernels
package posterior
