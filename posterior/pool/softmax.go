package pool

import (
	"math"

	"github.com/gvbll/gvbll/posterior"
)

// softmax replaces rows of logits by their softmax and returns -Σ log p[y] over
// them. Rows have stride numbers, of which those beyond the classes become 0.
// Sums are of four sums, of every fourth class each.
func softmax(a []float64, classes, stride int, labels []int32) (loss float64) {
	for i, y := range labels {
		row := a[i*stride : (i+1)*stride]
		loss -= below(row[:classes])[y]
		for c := classes; c < stride; c++ {
			row[c] = math.Inf(-1)
		}
	}
	posterior.Exponentials(a)
	for i := range labels {
		row := a[i*stride : (i+1)*stride]
		total := sum(row[:classes])
		by := 1 / total
		for c := range row {
			row[c] *= by
		}
		loss += posterior.Log(total)
	}
	return loss
}

// logSoftmax replaces rows of logits by the logarithms of their softmax. scratch
// is as long, to work in.
func logSoftmax(a []float64, classes int, scratch []float64) {
	for at := 0; at < len(a); at += classes {
		below(a[at : at+classes])
	}
	copy(scratch, a)
	posterior.Exponentials(scratch)
	for at := 0; at < len(a); at += classes {
		by := posterior.Log(sum(scratch[at : at+classes]))
		for c := range a[at : at+classes] {
			a[at+c] -= by
		}
	}
}

// below takes the largest logit from all, which it returns.
func below(a []float64) []float64 {
	most := math.Inf(-1)
	for _, x := range a {
		if x > most {
			most = x
		}
	}
	for c := range a {
		a[c] -= most
	}
	return a
}

// sum is the sum of four sums, of every fourth number each.
func sum(x []float64) (total float64) {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		a := (*[4]float64)(x[i:])
		s0 += a[0]
		s1 += a[1]
		s2 += a[2]
		s3 += a[3]
	}
	total = (s0 + s1) + (s2 + s3)
	for ; i < len(x); i++ {
		total += x[i]
	}
	return total
}
