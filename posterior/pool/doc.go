// Package pool classifies nodes by several heads and pools their probabilities
// with weights that are learned online. The heads see different things: a node's
// embedding, its features, its neighbours' features and its neighbours' labels.
// The package holds no graph: the caller supplies what the heads read as [Rows].
//
// # Data
//
// There are C classes. Row v of n has
//
//	z_v, τ_v  embedding, d_e numbers, and temperature
//	x_v       features, d numbers, dense or sparse
//	s_v       sum of the features of v's neighbours
//	n_v[k]    number of neighbours whose label is known to be k; one without a label may
//	          count for a part of each class, such as half of what was served for it
//	n_v by kind of edge and by direction, with weights, if edges have kinds
//	q_v[k]    labels two steps away: Σ_{u∈N(v)} (n_u[k] - what v counts for there)/deg u
//
// A [Batch] adds labels y_v, and the log probabilities that were served.
//
// # Heads
//
// A head is a likelihood, a prior and a rule by which a batch of labels updates
// it. Of the past a batch keeps λ^share, where share = min(1, n/Batch) of n
// labels: many small batches forget as much as one full one.
//
// A label may be corrected after it was learned. Then bayes and vote take it from their counts,
// and all heads learn the corrected one as one more row, as the node is now. What was served for
// the node is gone: products and mixture learn from its first label alone.
//
//	static, online  softmax(zᵀM/τ), diagonal Gaussian. Prior: the training
//	                posterior. Update: none; Algorithm 1 of the paper (paper.go)
//	wide            softmax(φᵀM), φ one or more of the blocks x, s/deg, n and q
//	                dampened, n/Σn, q/Σq, n by kind of edge, log(1+deg)/4 and 1, and perhaps
//	                interactions of these. Prior: N(0, v). Update: softmaxFit; the
//	                precision forgets towards the prior's. A head may learn rows
//	                again as they are now (wide.go, blocks.go, interactions.go)
//	bayes           multinomial naive Bayes on x, uniform over classes. Prior: α
//	                on every count. Update: counts; nothing is forgotten (bayes.go)
//	label           p(c) ∝ Π_k (H_ck/Σ_k' H_ck')^e_k, e = n_v, or scaled. Prior:
//	                H = 1. Update: counts; nothing is forgotten (label.go)
//	vote            p(c) = (n_v[c] + π_c)/(Σ n_v + 1), π the classes' shares among
//	                all labels. Update: counts; nothing is forgotten (label.go)
//
//	fitted          p(c) ∝ π_c e^(φᵀW)_c at the optimum of a reservoir of labelled rows as they
//	                are now, with an L2 term. Products weigh it where there are two classes (fitted.go)
//
// # Products
//
// A product pools the heads' probabilities with a bias for each class, a log-linear
// pool: with a_k(c) = max(log p_k(c), floor),
//
//	p(c) = softmax_c(Σ_k w_k a_k(c) + b_c).
//
// Weights w and biases b have a Gaussian posterior with full covariance. It is
// fitted to the heads' probabilities before they learn from the batch's labels, so
// that weights reward prediction and not fit: those that were served or, of the
// first product, those that the heads would serve now for the same rows, as late
// labels would else weigh heads of long ago (ADR 17). It forgets towards its
// prior (weights.go). Shadow heads learn and are scored without being
// part of the pool.
//
// # Mixture
//
// There are two products. One has biases, which follow the shares of the classes;
// the other has none, which is better where labels come so late that the shares
// they show have passed. What is served is a mixture of both products and of every
// head, and of the geometric mean of the first product and the fitted head,
//
//	p(c) = Σ_e ω_e p_e(c),  ω_e ∝ π_e exp(η L_e),
//
// where L_e is the discounted log likelihood of what e served (mixture.go). Its
// loss is bounded by that of each of them.
//
// # Determinism
//
// The same calls give the same bits on every amd64 machine: sums run in one order,
// products are rounded before they are added (except in the matrix products and
// exponentials of package posterior, which fuse on every machine), and exponentials
// and logarithms come from package posterior. Rows must be finite and fit the
// pool's [Shape]; misuse of shapes panics.
//
// # Files
//
//	pool.go          Pool: predict, train, learn, state
//	config.go        Config and the constants of every head, Default
//	rows.go          Rows, Features, Batch: the caller's input
//	mixture.go       the mixture of products and heads
//	weights.go       a product; opinions.go: the heads' probabilities that it reads
//	paper.go, wide.go, bayes.go, label.go, fitted.go           the heads
//	newton.go, ascent.go, reservoir.go, phi.go                 what fits a fitted head, its rows
//	blocks.go, standardizer.go, interactions.go                what is in a row of a wide head
//	softmaxfit.go    softmax regression with a diagonal Gaussian prior
//	designmatrix.go  the dense and sparse matrices that it fits
//	softmax.go, cholesky.go                                    numerics
//	score.go, state.go                                         scores, state as bytes
//
// Sources: log-linear pools, Genest & Zidek 1986; stacking, Yao et al. 2018; dynamic
// model averaging, Raftery, Kárný & Ettler 2010; mixtures of experts with log loss,
// Vovk 1990, Cesa-Bianchi & Lugosi 2006;
// separable majorisers, De Pierro 1995 and Erdogan & Fessler 1999; forgetting by
// power priors, Ibrahim & Chen 2000.
package pool
