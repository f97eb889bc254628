package pool

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/posterior/internal/words"
)

// rareRows returns n rows of eight numbers, of which two say how likely class 1 is: some two in a hundred.
func rareRows(rng *rand.Rand, n int) (b Batch) {
	b.N = n
	for range n {
		logit := -5.0
		for j := range 8 {
			x := rng.NormFloat64()
			b.X.Dense = append(b.X.Dense, float32(x))
			if j < 2 {
				logit += 1.5 * x
			}
		}
		y := int32(0)
		if rng.Float64() < 1/(1+math.Exp(-logit)) {
			y = 1
		}
		b.Labels = append(b.Labels, y)
	}
	return b
}

var rareShape = Shape{Classes: 2, Features: 8}

// distance returns how far a head is from the optimum of the rows that it keeps, as the largest entry of the gradient of
// its objective, by row.
func (f *fitted) distance() (most float64) {
	k, stride := f.weights.serving(), f.weights.stride
	g := make([]float64, f.weights.columns*stride)
	for j := range f.weights.columns {
		for c, w := range f.weights.of(j, k) {
			g[j*stride+c] = w / f.weights.inverse(k)
		}
	}
	var n float64
	for class := range f.rows.rows {
		weight := f.rows.weight(class)
		for i := range f.rows.rows[class] {
			r := &f.rows.rows[class][i]
			n += weight
			p := f.at.logits(f.weights, &r.phi, k, 1, nil)
			f.at.softmax(f.classes, 1)
			p[class]--
			column, value := r.Entries()
			for e, j := range column {
				for c := range f.classes {
					g[int(j)*stride+c] += weight * value[e] * p[c]
				}
			}
		}
	}
	for _, x := range g {
		most = max(most, math.Abs(x))
	}
	return most / n
}

// TestFittedStaysAtItsOptimum: after training, and after each batch of a stream of which most rows cannot be kept, a head is
// near the optimum of the rows that it has, also where one class is rare and rows are replaced by others.
func TestFittedStaysAtItsOptimum(t *testing.T) {
	staysAtItsOptimum(t, Standard, []float64{10, 1, .1}, 1e-4) // Newton's method
	staysAtItsOptimum(t, Unit, []float64{10, 1}, 1e-2)         // dual ascent, which is slower
}

func staysAtItsOptimum(t *testing.T, scale scale, strengths []float64, trained float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := Fitted{
		Blocks: []Block{OwnFeatures, constant}, Scale: scale, Strengths: strengths,
		Rows: 512, Work: 20000, Replay: 4, TrainingPasses: 60,
	}
	f := newFitted(cfg, rareShape)
	training := rareRows(rng, 1500)
	f.train(&training)
	if d := f.distance(); d > trained {
		t.Errorf("%s: after training the gradient is %v", scale, d)
	}
	nodes := int32(0)
	for step := range 30 {
		b := rareRows(rng, 50)
		for range b.N {
			b.Nodes = append(b.Nodes, nodes)
			nodes++
		}
		for i := range 4 * b.N { // the training nodes come by their numbers, and change
			at := (4*b.N*step + i) % training.N
			b.Replay.X.Dense = append(b.Replay.X.Dense, training.X.Dense[8*at:8*at+8]...)
			b.ReplayLabels, b.ReplayNodes = append(b.ReplayLabels, training.Labels[at]), append(b.ReplayNodes, 100000+int32(at))
			b.Replay.N++
		}
		f.learn(&b, 1)
		if d := f.distance(); d > .02 {
			t.Errorf("%s, step %d: the gradient is %v", scale, step, d)
		}
		spent := 0
		if dual, is := f.solver.(*ascent); is {
			spent = dual.spent
		}
		if n := f.rows.count(); n != 512 || spent > 20000*b.N+1000 {
			t.Fatalf("step %d: %d rows, %d multiply-adds", step, n, spent)
		}
	}
	if len(f.rows.rows[1]) != int(f.rows.seen[1]) || f.rows.weight(1) != 1 || f.rows.weight(0) < 3 {
		t.Errorf("%d rows of %v of the rare class, each counts as %v; a row of the other as %v",
			len(f.rows.rows[1]), f.rows.seen[1], f.rows.weight(1), f.rows.weight(0))
	}
}

// TestFittedKeepsTermsAndRows: whatever comes, goes and changes, the weights of dual ascent are the sum of the rows' own terms, a label that is
// withdrawn takes its row away, one that is corrected moves it, and a number that another node has now leaves the row where it is.
func TestFittedKeepsTermsAndRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	f := newFitted(Fitted{Blocks: []Block{OwnFeatures, constant}, Scale: Unit, Strengths: []float64{10, 1}, Rows: 60, Work: 5000, Replay: 4, TrainingPasses: 10}, rareShape)
	training := rareRows(rng, 30)
	f.train(&training)
	learn := func(nodes, taken []int32, was []int32) {
		b := rareRows(rng, len(nodes))
		b.Nodes, b.TakenNodes, b.TakenLabels = nodes, taken, was
		b.Replay, b.ReplayNodes, b.ReplayLabels = training.Rows, make([]int32, training.N), training.Labels
		for i := range b.ReplayNodes {
			b.ReplayNodes[i] = 1000 + int32(i)
		}
		f.learn(&b, 1)
		for k := range f.weights.n {
			sum := make([]float64, f.weights.columns*f.weights.stride)
			for class, list := range f.rows.rows {
				for i := range list {
					r := &list[i]
					if at, known := f.rows.at[r.key]; r.key >= 0 && (!known || at != (place{class, i})) {
						t.Fatalf("row %d of class %d has the number %d, which is at %v", i, class, r.key, at)
					}
					column, value := r.Entries()
					for e, j := range column {
						for c := range 2 {
							y := 0.0
							if c == class {
								y = 1
							}
							sum[int(j)*f.weights.stride+c] += f.weights.inverse(k) * r.weight * value[e] * (y - r.said[2*k+c])
						}
					}
				}
			}
			for j := range f.weights.columns {
				for c, w := range f.weights.of(j, k) {
					if sum := sum[j*f.weights.stride+c]; math.Abs(w-sum) > 1e-9 {
						t.Fatalf("a weight is %v, its terms are %v", w, sum)
					}
				}
			}
		}
	}
	learn([]int32{1, 2, 3}, nil, nil)
	if n := f.rows.count(); n != 33 || f.rows.labels != 33 || len(f.rows.at) != 33 {
		t.Errorf("%d rows of %v labels, %d with numbers", n, f.rows.labels, len(f.rows.at))
	}
	learn(nil, []int32{2}, []int32{int32(f.rows.at[2].class)})
	if _, has := f.rows.at[2]; has || f.rows.count() != 32 || f.rows.labels != 32 {
		t.Errorf("%d rows of %v labels after one was withdrawn", f.rows.count(), f.rows.labels)
	}
	learn([]int32{1}, nil, nil) // another node has the number now
	if f.rows.count() != 33 {
		t.Errorf("%d rows after a number came again", f.rows.count())
	}
	for step := range int32(40) {
		learn([]int32{10 + 2*step, 11 + 2*step}, nil, nil)
	}
	if f.rows.count() != 60 {
		t.Errorf("%d rows, want 60", f.rows.count())
	}
}

// TestFittedStateIsChecked: a state that is cut off or has another byte is refused, or is one that learns on.
func TestFittedStateIsChecked(t *testing.T) {
	stateIsChecked(t, Standard)
	stateIsChecked(t, Unit)
}

func stateIsChecked(t *testing.T, scale scale) {
	cfg := Fitted{Blocks: []Block{OwnFeatures, constant}, Scale: scale, Strengths: []float64{10, 1}, Rows: 60, Work: 5000, TrainingPasses: 10}
	rng := rand.New(rand.NewPCG(5, 6))
	f := newFitted(cfg, rareShape)
	training, more := rareRows(rng, 30), rareRows(rng, 5)
	f.train(&training)
	var whole words.Stream
	f.state(&whole)
	same := newFitted(cfg, rareShape)
	same.state(&words.Stream{B: whole.B, Reads: true})
	f.learn(&more, 1)
	same.learn(&more, 1)
	var a, b words.Stream
	f.state(&a)
	same.state(&b)
	if !bytes.Equal(a.B, b.B) {
		t.Error("a restored head learns other weights")
	}
	for at := 0; at < len(whole.B); at += 5 {
		for _, broken := range [][]byte{whole.B[:at], append(append(slices.Clone(whole.B[:at]), 0xff), whole.B[at+1:]...)} {
			other := newFitted(cfg, rareShape)
			r := &words.Stream{B: broken, Reads: true}
			if other.state(r); r.Err == nil && len(r.B) == 0 {
				other.learn(&more, 1)
			}
		}
	}
}

// TestFewLabelsPayForPasses: what training cost is owed by no label of the stream, also where a factor costs as much as a hundred
// labels pay; and where labels are few, each pays for more.
func TestFewLabelsPayForPasses(t *testing.T) {
	const features = 150
	passes := func(few float64) (trained, streamed uint64) {
		rng := rand.New(rand.NewPCG(8, 9))
		rows := func(n int) (b Batch) {
			b.N = n
			for range n {
				y := rng.IntN(2)
				for range features {
					b.X.Dense = append(b.X.Dense, float32(rng.NormFloat64()+.2*float64(y)))
				}
				b.Labels = append(b.Labels, int32(y))
			}
			return b
		}
		f := newFitted(Fitted{
			Blocks: []Block{OwnFeatures, constant}, Scale: Standard, Strengths: []float64{100, 10}, Rows: 512, Work: 49152, Few: few,
			TrainingPasses: 60,
		}, Shape{Classes: 2, Features: features})
		training := rows(60)
		f.train(&training)
		trained = f.solver.(*newton).passes
		for range 10 {
			b := rows(6)
			f.learn(&b, 1)
		}
		return trained, f.solver.(*newton).passes
	}
	trained, streamed := passes(0)
	if streamed <= trained {
		t.Errorf("%d passes in training, and 60 labels of the stream pay for none", trained)
	}
	if _, more := passes(1000); more < streamed+4 {
		t.Errorf("%d passes where few labels pay for more, %d where they do not", more, streamed)
	}
}

// TestLifts: of a row around which no label is known, a fitted head reads what it reads where they are those of the training rows on
// average.
func TestLifts(t *testing.T) {
	cfg := Fitted{
		Blocks: []Block{labelLifts, secondLifts}, Scale: Standard, Strengths: []float64{1}, Rows: 16, TrainingPasses: 3,
	}
	f := newFitted(cfg, Shape{Classes: 3, Features: 1})
	f.train(&Batch{
		Rows:   Rows{N: 4, Labelled: make([]float32, 12), Second: make([]float32, 12)},
		Labels: []int32{0, 0, 1, 2},
	})
	rows := Rows{N: 3, Labelled: []float32{0, 0, 0, 4, 2, 2, 0, 0, 3}, Second: []float32{0, 0, 0, 0, 0, 0, 0, 1, 0}}
	for i, want := range [][]float64{{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {-.5, -.25, .75, -.5, .75, -.25}} {
		f.phi.load(&rows, i)
		got := make([]float64, 6)
		column, value := f.phi.row.Entries()
		for e, j := range column {
			got[j] = value[e]
		}
		if !slices.Equal(got, want) {
			t.Errorf("row %d: %v, want %v", i, got, want)
		}
	}
}
