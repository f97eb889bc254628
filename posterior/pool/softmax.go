package pool

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
)

// softmaxScratch computes softmaxes of many rows and holds the memory for it.
// Logits are shifted by the largest of their row before they are exponentiated,
// so nothing overflows.
type softmaxScratch struct {
	rows        []float64 // a copy of the logits, rows × stride
	offset      []float64 // of each class, added to what softmax is given; nil for none
	most, total []float64 // of each row: the largest logit, and Σ e^(logit - largest)
}

// exponentials replaces the logits of rows, n × stride, by e^(logit - most), and sets
// most and total. The first classes numbers of a row are logits; the others become 0.
func (s *softmaxScratch) exponentials(rows []float64, n, classes, stride int) {
	s.most, s.total = kernel.Resize(s.most, n), kernel.Resize(s.total, n)
	if classes < stride {
		for i := range n {
			for c := classes; c < stride; c++ {
				rows[i*stride+c] = math.Inf(-1)
			}
		}
	}
	double.RowExponentials(rows, s.most, s.total)
}

// softmax replaces rows of logits, len(labels) × stride, by their softmax and
// returns the log loss -Σ_i log p_i[y_i]. Logits are those given and the offset. Numbers beyond the classes become 0.
func (s *softmaxScratch) softmax(a []float64, classes, stride int, labels []int32) (loss float64) {
	for i, y := range labels {
		for c, o := range s.offset {
			a[i*stride+c] += o
		}
		loss -= a[i*stride+int(y)]
	}
	s.exponentials(a, len(labels), classes, stride)
	for i, total := range s.total {
		by := 1 / total
		row := a[i*stride : (i+1)*stride]
		for c := range row {
			row[c] *= by
		}
	}
	for _, most := range s.most {
		loss += most
	}
	double.Logarithms(s.total)
	for _, log := range s.total {
		loss += log
	}
	return loss
}

// logSoftmax replaces rows of logits, rows × classes, by their log softmax.
func (s *softmaxScratch) logSoftmax(a []float64, classes int) {
	n, stride := len(a)/classes, strideOf(classes)
	s.rows = kernel.Resize(s.rows, n*stride)
	for i := range n {
		copy(s.rows[i*stride:], a[i*classes:(i+1)*classes])
	}
	s.exponentials(s.rows, n, classes, stride)
	double.Logarithms(s.total)
	for i, log := range s.total {
		by, row := s.most[i]+log, a[i*classes:(i+1)*classes]
		for c := range row {
			row[c] -= by
		}
	}
}
