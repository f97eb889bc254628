package table

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// logistic is multinomial logistic regression on everything that is around a node,
// refitted after each step on all nodes with a label, in the graph as it is then: what a
// user would write with scikit-learn. A node's channels are its features, the mean of its
// neighbours', the class shares among its neighbours' labels, the mean of its neighbours'
// such shares (its own label is not counted), and the logarithm of 1 + its degree.
//
// A fit of each strength of the L2 term is kept. The one that serves is chosen by
// cross-validation on the labels that are known before the stream, and then by what each
// would have served: the log likelihood of all labels that came.
type logistic struct {
	*surroundings
	ctx          context.Context
	dim, classes int
	weights      [][]float64         // columns × classes, by strength
	best         int                 // index of the strength that serves
	score        []float64           // log likelihood of what each strength would have served
	waiting      map[int32][]float64 // log likelihood that each would have served, by node whose label has not come
	around       []float64           // nodes × classes: labels of each node's neighbours, counted
	mean         []float64           // of features: 0 between calls
	one, two     []float64           // storage of row
}

// columns is the number of channels: the last is a constant.
func (l *logistic) columns() int { return 2*l.dim + 2*l.classes + 2 }

func newLogistic(tr *trainer, stream *replay, protocol string) (*logistic, error) {
	classes := len(tr.data.Classes)
	l := &logistic{
		surroundings: newSurroundings(stream, protocol), ctx: tr.ctx, dim: tr.data.Dim, classes: classes,
		around: make([]float64, len(stream.x)*classes), mean: make([]float64, tr.data.Dim),
		one: make([]float64, classes), two: make([]float64, classes),
		score: make([]float64, len(strengths)), waiting: make(map[int32][]float64),
	}
	for range strengths {
		l.weights = append(l.weights, make([]float64, l.columns()*classes))
	}
	var err error
	if l.best, err = l.crossValidated(tr.settings.Folds, tr.seed); err != nil {
		return nil, err
	}
	return l, l.refit()
}

func (l *logistic) predict(t int, probs []float64) {
	lo, hi := l.stream.span(t)
	l.arrive(lo, hi)
	x := l.design(l.stream.targets(t))
	p := make([]float64, len(probs))
	for k, w := range l.weights {
		x.probabilities(w, l.classes, p)
		for v := lo; v < hi; v++ {
			if y, comes := l.stream.comes(v); comes {
				at := math.Log(max(p[(v-lo)*l.classes+int(y)], math.SmallestNonzeroFloat64))
				l.waiting[int32(v)] = append(l.waiting[int32(v)], at)
			}
		}
		if k == l.best {
			copy(probs, p)
		}
	}
}

func (l *logistic) learn(nodes []int32) {
	l.reveal(nodes)
	for _, v := range nodes {
		for k, at := range l.waiting[v] {
			l.score[k] += at
		}
		delete(l.waiting, v)
	}
	if slices.Max(l.score) < 0 {
		l.best = argmax(l.score)
	}
	l.refit() // fails only if the run was cancelled
}

// refit fits all strengths to all labels, each from the weights that it has.
func (l *logistic) refit() error {
	x, labels := l.labelled()
	for k, strength := range strengths {
		w, failed := l.fit(x, labels, strength, l.weights[k])
		if failed != nil {
			return failed
		}
		l.weights[k] = w
	}
	return nil
}

// labelled returns the rows of all nodes with a label, and their labels.
func (l *logistic) labelled() (*rows, []int32) {
	labels := make([]int32, len(l.revealed))
	for i, v := range l.revealed {
		labels[i] = l.label[v]
	}
	return l.design(l.revealed), labels
}

// rows is a matrix: row i has value[start[i]:start[i+1]] in the columns of the same
// entries of index.
type rows struct {
	start []int
	index []int32
	value []float64
}

func (x *rows) len() int { return len(x.start) - 1 }

func (x *rows) add(column int, value float64) {
	if value != 0 {
		x.index, x.value = append(x.index, int32(column)), append(x.value, value)
	}
}

// some returns the rows in the given order.
func (x *rows) some(list []int) *rows {
	part := &rows{start: []int{0}}
	for _, i := range list {
		lo, hi := x.start[i], x.start[i+1]
		part.index, part.value = append(part.index, x.index[lo:hi]...), append(part.value, x.value[lo:hi]...)
		part.start = append(part.start, len(part.index))
	}
	return part
}

// probabilities computes softmax(x·w) into dst, rows × classes.
func (x *rows) probabilities(w []float64, classes int, dst []float64) {
	for i := range x.len() {
		a := dst[i*classes : (i+1)*classes]
		clear(a)
		for e := x.start[i]; e < x.start[i+1]; e++ {
			j := int(x.index[e]) * classes
			floats.AddScaled(a, x.value[e], w[j:j+classes])
		}
		softmax(a)
	}
}

// design returns the channels of nodes as they are now.
func (l *logistic) design(nodes []int32) *rows {
	clear(l.around)
	for v, y := range l.label {
		if y != dataset.Unlabelled {
			for _, u := range l.near[v] {
				l.around[int(u)*l.classes+int(y)]++
			}
		}
	}
	x := &rows{start: []int{0}}
	for _, v := range nodes {
		l.row(x, v)
		x.start = append(x.start, len(x.index))
	}
	return x
}

// row appends the channels of a node.
func (l *logistic) row(x *rows, v int32) {
	own := l.stream.x[v]
	for j, value := range own.Dense {
		x.add(j, float64(value))
	}
	for k, j := range own.Index {
		x.add(int(j), float64(own.Value[k]))
	}

	each := 1 / float64(max(len(l.near[v]), 1))
	begin := len(x.index)
	for _, u := range l.near[v] {
		for j, value := range l.stream.x[u].Dense {
			l.mean[j] += float64(each * float64(value))
		}
		for k, j := range l.stream.x[u].Index {
			if l.mean[j] == 0 {
				x.add(l.dim+int(j), 1) // its value follows
			}
			l.mean[j] += float64(each * float64(l.stream.x[u].Value[k]))
		}
	}
	if own.Dense != nil {
		for j, value := range l.mean {
			x.add(l.dim+j, value)
		}
		clear(l.mean)
	} else {
		for e := begin; e < len(x.index); e++ {
			j := int(x.index[e]) - l.dim
			x.value[e], l.mean[j] = l.mean[j], 0
		}
	}

	at := 2 * l.dim
	copy(l.one, l.around[int(v)*l.classes:])
	if total := floats.Sum(l.one); total > 0 {
		floats.Scale(1/total, l.one)
	}
	clear(l.two)
	for _, u := range l.near[v] {
		n := l.around[int(u)*l.classes : (int(u)+1)*l.classes]
		total := floats.Sum(n)
		if y := l.label[v]; y != dataset.Unlabelled {
			n[y]--
			total--
		}
		if total > 0 {
			floats.AddScaled(l.two, 1/total, n)
		}
		if y := l.label[v]; y != dataset.Unlabelled {
			n[y]++
		}
	}
	if total := floats.Sum(l.two); total > 0 {
		floats.Scale(1/total, l.two)
	}
	for c := range l.one {
		x.add(at+c, l.one[c])
		x.add(at+l.classes+c, l.two[c])
	}
	at += 2 * l.classes
	x.add(at, math.Log1p(float64(len(l.near[v]))))
	x.add(at+1, 1)
}

// The optimizer's limits are scikit-learn's: the largest entry of the gradient of the mean
// loss, and a number of iterations.
const (
	leastGradient  = 1e-4
	mostIterations = 100
)

// fit returns the weights that minimise the mean cross-entropy plus strength/(2n)·‖W‖²,
// without the constant's, by L-BFGS from the given ones.
func (l *logistic) fit(x *rows, labels []int32, strength float64, from []float64) ([]float64, error) {
	n := float64(x.len())
	p, at, grad := make([]float64, x.len()*l.classes), []float64(nil), make([]float64, len(from))
	decayed := len(from) - l.classes
	loss := 0.0
	evaluate := func(w []float64) { // sets loss and grad
		if floats.Same(at, w) {
			return
		}
		at = append(at[:0], w...)
		x.probabilities(w, l.classes, p)
		clear(grad)
		floats.AddScaled(grad[:decayed], strength/n, w[:decayed])
		loss = strength / n / 2 * floats.Dot(w[:decayed], w[:decayed])
		for i, y := range labels {
			r := p[i*l.classes : (i+1)*l.classes]
			loss -= math.Log(max(r[y], math.SmallestNonzeroFloat64)) / n
			r[y]--
			for e := x.start[i]; e < x.start[i+1]; e++ {
				j := int(x.index[e]) * l.classes
				floats.AddScaled(grad[j:j+l.classes], x.value[e]/n, r)
			}
		}
	}
	problem := optimize.Problem{
		Func:   func(w []float64) float64 { evaluate(w); return loss },
		Grad:   func(g, w []float64) { evaluate(w); copy(g, grad) },
		Status: func() (optimize.Status, error) { return optimize.NotTerminated, context.Cause(l.ctx) },
	}
	limits := &optimize.Settings{GradientThreshold: leastGradient, MajorIterations: mostIterations, Converger: optimize.NeverTerminate{}}
	found, err := optimize.Minimize(problem, from, limits, &optimize.LBFGS{})
	if cause := context.Cause(l.ctx); cause != nil {
		return nil, cause
	}
	if found == nil {
		return nil, fmt.Errorf("logistic regression: %w", err)
	}
	return found.X, nil // the best so far, also where a line search could not improve it
}

// strengths are those that cross-validation chooses from: from the strongest, so that each
// fit starts from a simpler one's weights.
var strengths = []float64{100, 10, 1, .1, .01}

// crossValidated returns the index of the strength with the best log likelihood of labels that were
// left out, in folds drawn from seed. With more than manyNodes labels one fold is enough.
func (l *logistic) crossValidated(folds int, seed uint64) (best int, err error) {
	x, labels := l.labelled()
	order := rand.New(rand.NewPCG(seed, 0x6c6f67)).Perm(len(labels))
	folds = min(folds, len(labels))
	if folds < 2 {
		return 0, nil
	}
	tried := folds
	if len(labels) > manyNodes {
		tried = 1
	}
	score := make([]float64, len(strengths))
	for f := range tried {
		var in, out []int
		var known, held []int32
		for i, r := range order {
			if i%folds == f {
				out, held = append(out, r), append(held, labels[r])
			} else {
				in, known = append(in, r), append(known, labels[r])
			}
		}
		fitted, left := x.some(in), x.some(out)
		w, p := make([]float64, l.columns()*l.classes), make([]float64, len(out)*l.classes)
		for k, strength := range strengths {
			if w, err = l.fit(fitted, known, strength, w); err != nil {
				return 0, err
			}
			left.probabilities(w, l.classes, p)
			for i, y := range held {
				score[k] += math.Log(max(p[i*l.classes+int(y)], math.SmallestNonzeroFloat64))
			}
		}
	}
	return argmax(score), nil
}
