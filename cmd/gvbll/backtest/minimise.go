package backtest

import "math"

// The limits of minimise are scikit-learn's: the largest entry of the gradient, and a number of
// iterations.
const (
	leastGradient  = 1e-4
	mostIterations = 100
)

// remembered is the number of steps whose curvature is remembered.
const remembered = 10

// minimise returns the minimum of a convex function, by L-BFGS (Liu and Nocedal 1989) from the given point. at returns the
// function, and sets its gradient. A step is halved until the function falls; where none does, the best so far is returned.
func minimise(from []float64, at func(w, grad []float64) float64) []float64 {
	type step struct {
		s, y []float64
		rho  float64
	}
	var steps []step
	w, g := append([]float64(nil), from...), make([]float64, len(from))
	next, slope, d := make([]float64, len(w)), make([]float64, len(w)), make([]float64, len(w))
	loss := at(w, g)
	for range mostIterations {
		if largest(g) <= leastGradient {
			break
		}
		for i, x := range g {
			d[i] = -x
		}
		alpha := make([]float64, len(steps))
		for i := len(steps) - 1; i >= 0; i-- {
			alpha[i] = steps[i].rho * dot(steps[i].s, d)
			addScaled(d, -alpha[i], steps[i].y)
		}
		if n := len(steps); n > 0 {
			scale(1/(steps[n-1].rho*dot(steps[n-1].y, steps[n-1].y)), d)
		} else {
			scale(1/max(1, math.Sqrt(dot(g, g))), d)
		}
		for i, x := range steps {
			addScaled(d, alpha[i]-x.rho*dot(x.y, d), x.s)
		}
		fall, fell := dot(g, d), false
		for length := 1.0; length > 1e-10 && !fell; length /= 2 {
			copy(next, w)
			addScaled(next, length, d)
			if there := at(next, slope); there <= loss+1e-4*length*fall {
				loss, fell = there, true
			}
		}
		if !fell {
			break
		}
		x := step{s: make([]float64, len(w)), y: make([]float64, len(w))}
		for i := range w {
			x.s[i], x.y[i] = next[i]-w[i], slope[i]-g[i]
		}
		if curved := dot(x.s, x.y); curved > 0 {
			x.rho = 1 / curved
			steps = append(steps, x)
			steps = steps[max(len(steps)-remembered, 0):]
		}
		w, next, g, slope = next, w, slope, g
	}
	return w
}

func largest(a []float64) (most float64) {
	for _, x := range a {
		most = max(most, math.Abs(x))
	}
	return most
}

func dot(a, b []float64) (sum float64) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

func sum(a []float64) (sum float64) {
	for _, x := range a {
		sum += x
	}
	return sum
}

func scale(by float64, a []float64) {
	for i := range a {
		a[i] *= by
	}
}

func addScaled(dst []float64, by float64, a []float64) {
	for i, x := range a {
		dst[i] += by * x
	}
}

// softmax turns logits into probabilities. It uses math.Exp2, which has the same bits on every amd64
// machine; math.Exp has not.
func softmax(a []float64) {
	top := a[argmax(a)]
	for c, x := range a {
		a[c] = math.Exp2((x - top) * math.Log2E)
	}
	scale(1/sum(a), a)
}

// argmax returns the lowest index of the largest entry.
func argmax(a []float64) (best int) {
	for c, x := range a {
		if x > a[best] {
			best = c
		}
	}
	return best
}
