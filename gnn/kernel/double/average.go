package double

import (
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/level"
)

// Drawn is the result of draw for a block of rows, each a lane.
type Drawn struct {
	Average []float64          // Σ_samples p, C × lanes; p is the softmax of a sample's logits a
	Total   []float64          // Σ_c e^(a_c - max a), samples × lanes
	Dot     [BlockRows]float64 // Σ_samples Σ_c p_c (a_c - max a)
	scratch []float32
}

// chunkSamples is the number of samples summed in float32. The sums of these chunks
// are added in float64, so the rounding error does not grow with the number of
// samples.
const chunkSamples = 64

// Draw samples logits mean + √variance·normal, for means and variances C × lanes and
// standard normals samples × C.
//
// Samples are float32. The largest mean of a lane is subtracted in float64 before, so
// the logits that matter are small, and a probability has a relative error of 1e-6;
// the sampling error of 16 samples is .003.
func (d *Drawn) Draw(mean, variance []float64, normals []float32, classes, lanes int) {
	d.Average = kernel.Resize(d.Average, classes*lanes)
	d.Total = kernel.Resize(d.Total, len(normals)/classes*lanes)
	clear(d.Average)
	clear(d.Dot[:])
	all := d.Total
	for len(normals) > 0 {
		n := min(chunkSamples*classes, len(normals))
		d.add(mean, variance, normals[:n], classes, lanes)
		normals, d.Total = normals[n:], d.Total[n/classes*lanes:]
	}
	d.Total = all
}

// Bounds that keep float32 from overflowing, and from subnormal numbers, which are
// slow. Anything beyond counts as the bound.
const (
	farthest = 1e30 // distance of a mean logit from the largest
	widest   = 1e38 // variance
	least    = 80   // distance of a sampled logit from the largest; e^-80 ≈ 2e-35
)

// add adds one chunk of samples to Average and Dot, and sets Total.
func (d *Drawn) add(mean, variance []float64, normals []float32, classes, lanes int) {
	if level.Active != level.Plain {
		d.scratch = kernel.Resize(d.scratch, (4*classes+2)*16)
		samples := len(normals) / classes
		for l := 0; l < lanes; {
			do, width := averages8, 8
			if level.Active == level.AVX512 && l+16 <= lanes {
				do, width = averages16, 16
			}
			do(&d.Average[l], &d.Total[l], &d.Dot[l], &mean[l], &variance[l], &normals[0], &d.scratch[0], samples, classes, lanes)
			l += width
		}
		return
	}
	d.scratch = kernel.Resize(d.scratch, 4*classes)
	s := d.scratch
	logit, sd, e, sum := s[:classes], s[classes:2*classes], s[2*classes:3*classes], s[3*classes:]
	for l := range lanes {
		top := math.Inf(-1)
		for c := range classes {
			if x := mean[c*lanes+l]; x > top {
				top = x
			}
		}
		for c := range classes {
			x, v := mean[c*lanes+l]-top, variance[c*lanes+l]
			if !(x > -farthest) {
				x = -farthest
			}
			if !(v < widest) {
				v = widest
			}
			logit[c], sd[c] = float32(x), float32(math.Sqrt(float64(float32(v))))
		}
		clear(sum)
		var dots float32
		for i := 0; i < len(normals); i += classes {
			most := float32(math.Inf(-1))
			for c, noise := range normals[i : i+classes] {
				e[c] = float32(noise*sd[c]) + logit[c]
				if e[c] > most {
					most = e[c]
				}
			}
			var total, dot float32
			for c, x := range e {
				x -= most
				if !(x > -least) {
					x = -least
				}
				y := expSingle(x)
				e[c] = y
				total += y
				dot += float32(y * x)
			}
			inverse := 1 / total
			dots += float32(dot * inverse)
			for c, y := range e {
				sum[c] += float32(y * inverse)
			}
			d.Total[i/classes*lanes+l] = float64(total)
		}
		d.Dot[l] += float64(dots)
		for c, x := range sum {
			d.Average[c*lanes+l] += float64(x)
		}
	}
}

// expSingle returns e^x for x in [-80, 0] with an error below 1 ulp of float32, in
// operations that are not fused: with x = k ln 2 + r, |r| ≤ ln 2 / 2, it is 2^k e^r and
// e^r ≈ 1 + r + r²·q(r), q a minimax polynomial.
func expSingle(x float32) float32 {
	const (
		round  = 0x1.8p23 // see Exp
		ln2Hi  = 0x1.63p-1
		ln2Low = -2.12194440e-4
	)
	shifted := float32(x*math.Log2E) + round
	k := shifted - round
	r := x - float32(k*ln2Hi) - float32(k*ln2Low)
	q := 0.49999994 + float32(r*(0.166665196+float32(r*(0.0416683927+float32(r*(0.00836878084+float32(r*0.00138144672)))))))
	y := 1 + (r + float32(q*float32(r*r)))
	return math.Float32frombits(math.Float32bits(y) + math.Float32bits(shifted)<<23)
}
