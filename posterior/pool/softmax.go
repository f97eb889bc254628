package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// softmaxScratch holds the memory that softmaxes take.
type softmaxScratch struct {
	rows        []float64 // rows × stride
	most, total []float64
}

// exponentials replaces rows, n × stride, of which the first numbers are logits
// and the others become 0, by e^(logit - most), and finds most and the sum.
func (s *softmaxScratch) exponentials(rows []float64, n, classes, stride int) {
	s.most, s.total = resize(s.most, n), resize(s.total, n)
	if classes < stride {
		for i := range n {
			for c := classes; c < stride; c++ {
				rows[i*stride+c] = math.Inf(-1)
			}
		}
	}
	posterior.RowExponentials(rows, s.most, s.total)
}

// probabilities replaces n rows of logits by their softmax, of stride numbers
// each, of which those beyond the classes become 0.
func (s *softmaxScratch) probabilities(a []float64, n, classes, stride int) {
	s.exponentials(a, n, classes, stride)
	for i, total := range s.total {
		by := 1 / total
		row := a[i*stride : (i+1)*stride]
		for c := range row {
			row[c] *= by
		}
	}
}

// softmax replaces rows of logits by their softmax and returns -Σ log p[y] over
// them. Rows have stride numbers, of which those beyond the classes become 0.
func (s *softmaxScratch) softmax(a []float64, classes, stride int, labels []int32) (loss float64) {
	for i, y := range labels {
		loss -= a[i*stride+int(y)]
	}
	s.probabilities(a, len(labels), classes, stride)
	for _, most := range s.most {
		loss += most
	}
	posterior.Logarithms(s.total)
	for _, log := range s.total {
		loss += log
	}
	return loss
}

// logSoftmax replaces rows of logits by the logarithms of their softmax.
func (s *softmaxScratch) logSoftmax(a []float64, classes int) {
	n, stride := len(a)/classes, strideOf(classes)
	s.rows = resize(s.rows, n*stride)
	for i := range n {
		copy(s.rows[i*stride:], a[i*classes:(i+1)*classes])
	}
	s.exponentials(s.rows, n, classes, stride)
	posterior.Logarithms(s.total)
	for i, log := range s.total {
		by, row := s.most[i]+log, a[i*classes:(i+1)*classes]
		for c := range row {
			row[c] -= by
		}
	}
}
