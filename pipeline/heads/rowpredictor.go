package heads

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel/double"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// rowPredictor predicts nodes with a pool. It has scratch memory of its own, so that several predict
// at once, while neither the graph nor the heads change.
type rowPredictor struct {
	pool    *pool.Pool
	around  *neighbourhood.Reader
	classes int
	kinds   int // means by which labels around a node are counted, see pool.Rows

	rows pool.Rows // of the nodes that are predicted
	logp []float32 // their log probabilities
	// Of uncertainty:
	weights         []float64 // of the heads
	allWeights      float64   // the sum of those that are positive
	mix, logs, each []float64
}

// chunk is the number of arrivals predicted at once: the working memory fits a cache.
const chunk = 128

// gather writes what the heads read around nodes, without their embeddings.
func (t *rowPredictor) gather(rows *pool.Rows, nodes []int32) {
	t.around.Reset(rows)
	for _, v := range nodes {
		t.around.Append(rows, v)
	}
}

// predictRows predicts rows: it writes their outputs and uncertainties, and what they will count for
// at their neighbours, see [neighbourhood.Reader.AppendPart].
func (t *rowPredictor) predictRows(rows *pool.Rows, outputs []float32, split []posterior.Uncertainty, parts []byte) {
	width, part := t.width(), t.around.PartBytes()
	t.weigh()
	t.predict(rows, outputs)
	for i := range rows.N {
		split[i] = t.uncertainty(outputs[i*width:])
		t.around.AppendPart(parts[i*part:i*part], t.each[:t.classes])
	}
}

// predictNodes predicts nodes, on the graphs that the views describe.
func (t *rowPredictor) predictNodes(views []View, embedded posterior.Rows, outputs []float32) {
	t.around.Reset(&t.rows)
	whole := 0 // the latest view of a node as it is
	for i, v := range views {
		if v.asItIs() {
			whole = i
		}
		switch {
		case v.Node == none:
			t.around.AppendArrival(&t.rows, *v.Features, v.Neighbours, v.Weighed)
		case i > whole && v.seesAll() && v.Node == views[whole].Node && views[whole].asItIs():
			t.around.AppendLike(&t.rows, whole, *v.Features)
		default:
			t.around.AppendTrial(&t.rows, v.Node, v.Features, v.Without, v.Unlabelled)
		}
	}
	t.rows.Embedded = embedded
	t.predict(&t.rows, outputs)
}

// width is the number of outputs of a node.
func (t *rowPredictor) width() int { return t.pool.LogProbsPerRow() + (2+t.kinds)*t.classes }

// predict writes the outputs of rows.
func (t *rowPredictor) predict(rows *pool.Rows, outputs []float32) {
	c, logps := t.classes, t.pool.LogProbsPerRow()
	t.logp = kernel.Room(t.logp, rows.N*logps)
	t.pool.Predict(*rows, t.logp)
	for i := range rows.N {
		row := outputs[i*t.width() : (i+1)*t.width()]
		copy(row, t.logp[i*logps:(i+1)*logps])
		clear(row[logps:])
		if len(rows.Labelled) > 0 {
			copy(row[logps:], rows.Labelled[i*c:(i+1)*c])
		}
		if len(rows.Second) > 0 {
			copy(row[logps+c:], rows.Second[i*c:(i+1)*c])
		}
		if n := t.kinds * c; n > 0 {
			copy(row[logps+2*c:], rows.Kinds[i*n:(i+1)*n])
		}
	}
}

// weigh sets the weights for uncertainty.
func (t *rowPredictor) weigh() {
	t.weights, t.allWeights = t.pool.AppendWeights(t.weights[:0]), 0
	for _, w := range t.weights {
		t.allWeights += max(w, 0)
	}
}

// uncertainty splits the uncertainty of a row: its total is the entropy of what is
// served, and its epistemic part is the share that the heads' disagreement has in
// the entropy of their mixture,
//
//	[H(Σ_k w_k p_k) - Σ_k w_k H(p_k)] / H(Σ_k w_k p_k),
//
// the Jensen-Shannon divergence over that entropy, with the pool's weights where
// they are positive. It leaves in each the probabilities of the pool and of the heads;
// weigh must have been called since the pool last learned.
func (t *rowPredictor) uncertainty(outputs []float32) posterior.Uncertainty {
	c := t.classes
	t.mix, t.logs, t.each = kernel.Room(t.mix, c), kernel.Room(t.logs, c), kernel.Room(t.each, (1+len(t.weights))*c)
	clear(t.mix)
	double.Raise(t.each, outputs[:len(t.each)], math.Inf(-1))
	double.Exponentials(t.each)
	var within float64 // Σ w_k H(p_k)
	for k, w := range t.weights {
		if w <= 0 {
			continue
		}
		share, at := w/t.allWeights, (1+k)*c
		var entropy float64
		for i, x := range outputs[at : at+c] {
			q := t.each[at+i]
			t.mix[i] += float64(share * q)
			entropy += surprise(q, float64(x))
		}
		within += float64(share * entropy)
	}
	copy(t.logs, t.mix)
	double.Logarithms(t.logs)
	var mixed, total float64
	for i, q := range t.mix {
		mixed += surprise(q, t.logs[i])
		total += surprise(t.each[i], float64(outputs[i]))
	}
	u := posterior.Uncertainty{Total: max(total, 0)}
	if mixed > 0 {
		u.Epistemic = u.Total * min(max(1-within/mixed, 0), 1)
	}
	u.Aleatoric = u.Total - u.Epistemic
	return u
}

// surprise returns a class's term of the entropy, -q log q, given its probability and
// the logarithm. It is 0 for a probability of 0, whose logarithm may be infinite.
func surprise(q, logq float64) float64 {
	if q == 0 {
		return 0
	}
	return float64(-q * logq)
}
