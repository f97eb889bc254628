// Package pool classifies nodes by several heads over what a node brings (its
// embedding, its features, its neighbours' features and revealed labels) and
// pools their log probabilities with weights that are themselves a small
// Bayesian model, learned online.
//
// What is written as formulas: row v of n has features x_v, sum s_v of its
// neighbours' features, n_v[k] labelled neighbours of class k, and its
// second-order counts q_v[k]; there are C classes and K heads in the pool.
//
// The package knows no graph. It is deterministic: the same calls give the same
// bits on every amd64 machine, for sums run in one order, products are rounded
// before they are added, and exponentials come from package posterior. What
// comes in as rows must be finite and fit the pool's Shape; misuse of shapes
// panics.
//
// Sources: log-linear pools, Genest & Zidek 1986; stacking, Yao et al. 2018; the
// separable softmaxFit of the wide heads, De Pierro 1995 and Erdogan & Fessler
// 1999; forgetting by power priors, Ibrahim & Chen 2000.
package pool
