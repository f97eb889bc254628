package backtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Logistic is multinomial logistic regression on everything that is around a node,
// refitted as labels come on all nodes with a label, in the graph as it is then: what a
// user would write with scikit-learn. A node's channels are its features, the mean of its
// neighbours', the class shares among its neighbours' labels, the mean of its neighbours'
// such shares (its own label is not counted), and the logarithm of 1 + its degree.
//
// A fit of each strength of the L2 term is kept. The one that serves is chosen by
// cross-validation on the labels that are known before the stream, and then by what each
// would have served: the log likelihood of all labels that came.
type Logistic struct {
	*Known
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
func (l *Logistic) columns() int { return 2*l.dim + 2*l.classes + 2 }

// NewLogistic fits what is known, cross-validated in folds drawn from seed.
func NewLogistic(ctx context.Context, known *Known, dim, classes, folds int, seed uint64) (*Logistic, error) {
	l := unfitted(ctx, known, dim, classes)
	for range strengths {
		l.weights = append(l.weights, make([]float64, l.columns()*classes))
	}
	var err error
	if l.best, err = l.crossValidated(folds, seed); err != nil {
		return nil, err
	}
	return l, l.refit()
}

// unfitted returns what has channels and no weights yet.
func unfitted(ctx context.Context, known *Known, dim, classes int) *Logistic {
	return &Logistic{
		Known: known, ctx: ctx, dim: dim, classes: classes,
		around: make([]float64, len(known.X)*classes), mean: make([]float64, dim),
		one: make([]float64, classes), two: make([]float64, classes),
		score: make([]float64, len(strengths)), waiting: make(map[int32][]float64),
	}
}

// Predict computes the probabilities of nodes into probs, n × classes. Strengths are compared by the labels, unless
// dataset.Unlabelled, once Learn has the nodes.
func (l *Logistic) Predict(nodes, labels []int32, probs []float64) {
	x := l.design(nodes)
	p := make([]float64, len(probs))
	for k, w := range l.weights {
		x.probabilities(w, l.classes, p)
		for i, v := range nodes {
			if labels[i] != dataset.Unlabelled {
				at := math.Log(max(p[i*l.classes+int(labels[i])], math.SmallestNonzeroFloat64))
				l.waiting[v] = append(l.waiting[v], at)
			}
		}
		if k == l.best {
			copy(probs, p)
		}
	}
}

// Learn learns the labels of nodes, which are revealed. It fails only if the run was cancelled.
func (l *Logistic) Learn(nodes []int32) error {
	for _, v := range nodes {
		for k, at := range l.waiting[v] {
			l.score[k] += at
		}
		delete(l.waiting, v)
	}
	if slices.Max(l.score) < 0 {
		l.best = floats.MaxIdx(l.score)
	}
	return l.refit()
}

// refit fits all strengths to all labels, each from the weights that it has.
func (l *Logistic) refit() error {
	x, labels := l.labelled()
	var all errgroup.Group
	for k, strength := range strengths {
		all.Go(func() (err error) {
			w, err := l.fit(x, labels, strength, l.weights[k])
			if err == nil {
				l.weights[k] = w
			}
			return err
		})
	}
	return all.Wait()
}

// labelled returns the rows of all nodes with a label, and their labels.
func (l *Logistic) labelled() (*rows, []int32) {
	labels := make([]int32, len(l.Revealed))
	for i, v := range l.Revealed {
		labels[i] = l.Label[v]
	}
	return l.design(l.Revealed), labels
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

// probabilities computes Softmax(x·w) into dst, rows × classes.
func (x *rows) probabilities(w []float64, classes int, dst []float64) {
	for i := range x.len() {
		a := dst[i*classes : (i+1)*classes]
		clear(a)
		for e := x.start[i]; e < x.start[i+1]; e++ {
			j := int(x.index[e]) * classes
			floats.AddScaled(a, x.value[e], w[j:j+classes])
		}
		Softmax(a)
	}
}

// design returns the channels of nodes as they are now.
func (l *Logistic) design(nodes []int32) *rows {
	clear(l.around)
	for v, y := range l.Label {
		if y != dataset.Unlabelled {
			for _, u := range l.Near[v] {
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
func (l *Logistic) row(x *rows, v int32) {
	own := l.X[v]
	for j, value := range own.Dense {
		x.add(j, float64(value))
	}
	for k, j := range own.Index {
		x.add(int(j), float64(own.Value[k]))
	}

	each := 1 / float64(max(len(l.Near[v]), 1))
	begin := len(x.index)
	for _, u := range l.Near[v] {
		for j, value := range l.X[u].Dense {
			l.mean[j] += float64(each * float64(value))
		}
		for k, j := range l.X[u].Index {
			if l.mean[j] == 0 {
				x.add(l.dim+int(j), 1) // its value follows
			}
			l.mean[j] += float64(each * float64(l.X[u].Value[k]))
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
	for _, u := range l.Near[v] {
		n := l.around[int(u)*l.classes : (int(u)+1)*l.classes]
		total := floats.Sum(n)
		if y := l.Label[v]; y != dataset.Unlabelled {
			n[y]--
			total--
		}
		if total > 0 {
			floats.AddScaled(l.two, 1/total, n)
		}
		if y := l.Label[v]; y != dataset.Unlabelled {
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
	x.add(at, math.Log1p(float64(len(l.Near[v]))))
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
func (l *Logistic) fit(x *rows, labels []int32, strength float64, from []float64) ([]float64, error) {
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
	found, err := optimize.Minimize(problem, from, limits, &optimize.LBFGS{Linesearcher: &optimize.Backtracking{}})
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
// left out, in folds drawn from seed. With more than 10,000 labels one fold is enough.
func (l *Logistic) crossValidated(folds int, seed uint64) (best int, err error) {
	x, labels := l.labelled()
	order := rand.New(rand.NewPCG(seed, 0x6c6f67)).Perm(len(labels))
	folds = min(folds, len(labels))
	if folds < 2 {
		return 0, nil
	}
	tried := folds
	if len(labels) > 10_000 {
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
	return floats.MaxIdx(score), nil
}

// Softmax turns logits into probabilities, and returns the logarithm of the sum of
// their exponentials. It uses math.Exp2, which has the same bits on every amd64
// machine; math.Exp has not.
func Softmax(a []float64) (logSum float64) {
	top, sum := floats.Max(a), 0.0
	for c, x := range a {
		a[c] = math.Exp2((x - top) * math.Log2E)
		sum += a[c]
	}
	floats.Scale(1/sum, a)
	return top + math.Log(sum)
}
