// Package posterior is the Bayesian last layer: a diagonal Gaussian over the
// weights of a softmax classifier on embeddings. It trains it (Variational),
// predicts with it (MAP, Predictive) and updates it online as labels come
// (Collect, Apply), and it wraps what serves as a pool of Heads.
//
// Section, proposition and algorithm numbers are those of the paper "Online
// Bayesian Node Classification on Inductive Graphs under Distribution Shift";
// eq:elbo and the like are the labels of equations in its LaTeX source.
//
// Matrices are flat and row-major: a d_e × C matrix has entry (j, c), embedding
// dimension j and class c, at j*C+c. Shape misuse panics.
//
// The same inputs give the same bits on every machine: every sum runs in one
// fixed order, the products of matrices and the exponential are fused on every
// machine (math.FMA is, in software if need be) and nothing else is on any (the
// explicit float64 conversions forbid it), and exponentials come from this
// package, because math.Exp is fused where the processor can. The
// inner loops are in AVX-512, AVX2 and plain Go, which agree to the bit; the
// environment variable GVBLL_KERNEL (avx512, avx2 or go) holds the package to
// less than the processor can.
//
// Numbers that come in as rows must be finite: one that is not would spoil the
// posterior for good.
package posterior
