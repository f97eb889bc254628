package table

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn"
)

// onlineLogistic is multinomial logistic regression on a node's own features that takes
// one step of stochastic gradient descent for each label, in the order in which labels
// come, as River's SoftmaxRegression does. The size of the steps is that with the best
// progressive validation on the labels that are known before the stream: each is predicted
// before it is learned.
type onlineLogistic struct {
	stream  *replay
	dim     int
	classes int
	rate    float64
	weights []float64 // (dim + 1) × classes: the last row is of the constant
	p       []float64
}

// rates are the sizes of steps to choose from.
var rates = []float64{.01, .03, .1, .3, 1, 3, 10}

func newOnlineLogistic(tr *trainer, stream *replay) *onlineLogistic {
	var best *onlineLogistic
	least := math.Inf(1)
	for _, rate := range rates {
		classes := len(tr.data.Classes)
		o := &onlineLogistic{stream: stream, dim: tr.data.Dim, classes: classes, rate: rate, p: make([]float64, classes)}
		o.weights = make([]float64, (o.dim+1)*classes)
		if loss := o.learnFrom(stream.early(0, stream.context.nodes)); loss < least || best == nil {
			best, least = o, loss
		}
	}
	return best
}

func (o *onlineLogistic) predict(t int, probs []float64) {
	lo, hi := o.stream.span(t)
	for v := lo; v < hi; v++ {
		o.at(o.stream.x[v], probs[(v-lo)*o.classes:(v-lo+1)*o.classes])
	}
}

func (o *onlineLogistic) learn(nodes []int32) { o.learnFrom(nodes) }

// at computes the class probabilities of features into p.
func (o *onlineLogistic) at(x gnn.Vector, p []float64) {
	copy(p, o.weights[o.dim*o.classes:])
	o.each(x, func(w []float64, value float64) { floats.AddScaled(p, value, w) })
	backtest.Softmax(p)
}

// each calls do for each feature of x that is not 0, with its weights.
func (o *onlineLogistic) each(x gnn.Vector, do func(w []float64, value float64)) {
	for j, value := range x.Dense {
		do(o.weights[j*o.classes:(j+1)*o.classes], float64(value))
	}
	for k, j := range x.Index {
		do(o.weights[int(j)*o.classes:(int(j)+1)*o.classes], float64(x.Value[k]))
	}
}

// learnFrom takes a step for each label of nodes, and returns the sum of their log losses
// before their steps.
func (o *onlineLogistic) learnFrom(nodes []int32) (loss float64) {
	for _, v := range nodes {
		y, comes := o.stream.comes(int(v))
		if !comes {
			continue
		}
		o.at(o.stream.x[v], o.p)
		loss -= math.Log(max(o.p[y], math.SmallestNonzeroFloat64))
		o.p[y]--
		floats.AddScaled(o.weights[o.dim*o.classes:], -o.rate, o.p)
		o.each(o.stream.x[v], func(w []float64, value float64) { floats.AddScaled(w, -o.rate*value, o.p) })
	}
	return loss
}
