// Package gp is a sparse variational Gaussian-process classifier: the baseline of Table I
// that has a Gaussian process in place of the Bayesian last layer.
//
// It is the method of Hensman, Matthews & Ghahramani, "Scalable Variational Gaussian
// Process Classification" (2015), after Titsias (2009), for C classes. There are
// independent latent functions f_c with a shared kernel and a softmax likelihood,
//
//	f_c ~ GP(b_c, k),  k(x, z) = s² exp(-|x-z|²/2ℓ²),  p(y | f) = softmax(f)_y,
//
// M inducing points Z, and whitened inducing variables v_c with
//
//	f_c(Z) = b_c + Uᵀv_c,  K_zz = UᵀU,  q(v_c) = N(m_c, L_c L_cᵀ),  p(v_c) = N(0, I).
//
// Adam maximises the evidence lower bound over q, Z, and log s² and log ℓ, the latter two
// with a normal prior. The prior means b_c are not learned: they are the logarithms of
// the class frequencies, which are thus the prediction far from all rows.
//
//	gp.go          Config, Fit and Predict
//	start.go       standardisation, and inducing points to start from
//	process.go     parameters, and the marginals of q(f)
//	kernel.go      the kernel and its gradient
//	likelihood.go  the softmax likelihood, by Monte Carlo
//	elbo.go        the bound and its gradient
//	train.go       Adam
//
// Numbers are float64. The same rows, configuration and seed give the same bits, whatever
// the number of processors: every sum runs in one fixed order, and exponentials come from
// math.Exp2, which is plain Go on amd64 where math.Exp is assembly that fuses where it
// can.
package gp
