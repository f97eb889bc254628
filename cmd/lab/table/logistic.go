package table

import (
	"github.com/gvbll/gvbll/cmd/gvbll/backtest"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// logistic is [backtest.Logistic] on the graph of a protocol.
type logistic struct {
	*surroundings
	regression *backtest.Logistic
}

func newLogistic(tr *trainer, stream *replay, protocol string) (*logistic, error) {
	l := &logistic{surroundings: newSurroundings(stream, protocol)}
	var err error
	l.regression, err = backtest.NewLogistic(tr.ctx, l.Known, tr.data.Dim, len(tr.data.Classes), tr.settings.Folds, tr.seed)
	return l, err
}

func (l *logistic) predict(t int, probs []float64) {
	lo, hi := l.stream.span(t)
	l.arrive(lo, hi)
	labels := make([]int32, hi-lo)
	for v := lo; v < hi; v++ {
		labels[v-lo] = dataset.Unlabelled
		if y, comes := l.stream.comes(v); comes {
			labels[v-lo] = y
		}
	}
	l.regression.Predict(l.stream.targets(t), labels, probs)
}

func (l *logistic) learn(nodes []int32) {
	l.reveal(nodes)
	_ = l.regression.Learn(nodes) // fails only if the run was cancelled
}
