package posterior

import "math"

// drawn is what draw finds of a block of rows, of which each is a lane.
type drawn struct {
	average []float64          // Σ p over samples, C × lanes, p the softmax of a sample's logits a
	total   []float64          // Σ e^(a - max a), samples × lanes
	dot     [blockRows]float64 // Σ p·(a - max a) over classes and samples
	scratch []float32
}

// A chunk of samples is summed in float32, and the chunks in float64.
const chunkSamples = 64

// draw takes samples of logits from their means and variances, C × lanes, with
// standard normals, samples × C.
//
// The samples are in float32: the moments are in float64, and what is left of a
// logit below the lane's most probable class is small where it counts, so that a
// probability is off by 1e-6 of itself. From 16 samples it is off by .003 anyway.
func (d *drawn) draw(mean, variance []float64, normals []float32, classes, lanes int) {
	d.average = resize(d.average, classes*lanes)
	d.total = resize(d.total, len(normals)/classes*lanes)
	clear(d.average)
	clear(d.dot[:])
	all := d.total
	for len(normals) > 0 {
		n := min(chunkSamples*classes, len(normals))
		averages(d, mean, variance, normals[:n], classes, lanes)
		normals, d.total = normals[n:], d.total[n/classes*lanes:]
	}
	d.total = all
}

// Bounds that keep float32 from running over, and from numbers below the least
// normal, which are slow.
const (
	farthest = 1e30 // of a mean logit below the largest
	widest   = 1e38 // of a variance
	least    = 80   // of a sampled logit below the largest: e^-80 stands for all beyond
)

// averages adds one chunk of samples to average and dot, and sets total.
func averagesPlain(d *drawn, mean, variance []float64, normals []float32, classes, lanes int) {
	d.scratch = resize(d.scratch, 4*classes)
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
			d.total[i/classes*lanes+l] = float64(total)
		}
		d.dot[l] += float64(dots)
		for c, x := range sum {
			d.average[c*lanes+l] += float64(x)
		}
	}
}

// expSingle is e^x for x from -80 to 0, error below 1 ulp of float32, in plain
// multiplications and additions: e^r ≈ 1 + r + r²·q(r), q by minimax, with r
// within ln 2 / 2.
func expSingle(x float32) float32 {
	const (
		round  = 0x1.8p23 // see exp
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
