package conformal

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestThresholdByHand: the threshold is the ⌈(n+1)(1-α)⌉-th smallest of n scores, and
// infinite if there are too few.
func TestThresholdByHand(t *testing.T) {
	scores := []float64{.9, .1, .5, .3, .7, .2, .4, .6, .8}
	for _, c := range []struct{ alpha, want float64 }{
		{0.1, .9},
		{0.2, .8},
		{0.5, .5},
		{0.3, .7},
		{0.25, .8},
		{0.09, math.Inf(1)},
		{0, math.Inf(1)},
		{1, math.Inf(-1)},
	} {
		if got := threshold(scores, c.alpha); got != c.want {
			t.Errorf("alpha %v: threshold %v, want %v", c.alpha, got, c.want)
		}
	}
	if got := threshold(nil, 0.1); !math.IsInf(got, 1) {
		t.Errorf("threshold %v of no scores, want +Inf", got)
	}
}

// threshold returns the split conformal threshold of scores.
func threshold(scores []float64, alpha float64) float64 {
	sorted := slices.Clone(scores)
	slices.Sort(sorted)
	return quantile(alpha, sorted, nil)
}

// calibrate adds the scores of labelled rows that were not served: levels do not change.
func (p *Predictor) calibrate(rows Rows, labels []int32) {
	for i, y := range labels {
		c := &p.cells[p.index(int(y))]
		c.push(&p.cfg, score(p.row(rows, i)[y]))
		c.setThreshold()
	}
}

// TestSet: a set has the classes that were added, in ascending order, and Coverage counts
// rows, labels held and sizes.
func TestSet(t *testing.T) {
	s := make(set, 2)
	for _, c := range []int{0, 63, 64, 99} {
		s.add(c)
	}
	if got := s.Append([]int32{7}); !slices.Equal(got, []int32{7, 0, 63, 64, 99}) || s.size() != 4 || !s.has(64) || s.has(65) {
		t.Errorf("set after 7: %v, want [7 0 63 64 99]", got)
	}
	a, b := Coverage{Rows: 1}, Coverage{}
	b.Add(s, 63)
	a.Merge(b)
	if a != (Coverage{Rows: 2, Covered: 1, Classes: 4}) || a.Rate() != 0.5 || a.MeanSize() != 2 || (Coverage{}).Rate() != 0 {
		t.Errorf("coverage %+v, rate %v, mean size %v, want 1 of 2 rows and 4 classes", a, a.Rate(), a.MeanSize())
	}
}

// hardSecond draws rows of two classes; the second is hard to predict.
func hardSecond(rng *rand.Rand, n int) (rows Rows, labels []int32) {
	for i := range n {
		y := int32(rng.IntN(2))
		p := .8 + .2*rng.Float64()
		if y == 1 {
			p = rng.Float64()
		}
		rows.Probs = append(rows.Probs, p, 1-p)
		rows.ID = append(rows.ID, uint64(i))
		labels = append(labels, y)
	}
	return rows, labels
}

// TestCoverageWithin: with a threshold for each class, each of them has the stated coverage.
// One threshold for all covers an easy class more and a hard one less.
func TestCoverageWithin(t *testing.T) {
	for _, perClass := range []bool{false, true} {
		cfg := DefaultConfig(2)
		cfg.PerClass = perClass
		rng := rand.New(rand.NewPCG(1, 2))
		p := New(cfg)
		p.calibrate(hardSecond(rng, 4000))
		p.Learn(Rows{}, nil, nil)
		rows, labels := hardSecond(rng, 4000)
		var by [2]Coverage
		for i, set := range p.Sets(rows) {
			by[labels[i]].Add(set, labels[i])
		}
		if within := math.Abs(by[0].Rate()-.9) < .04 && math.Abs(by[1].Rate()-.9) < .04; within != perClass {
			t.Errorf("per class %v: coverage of the classes %.3f and %.3f, want both near .9: %v", perClass, by[0].Rate(), by[1].Rate(), perClass)
		}
	}
}

// TestFloors: where one class in fifty is hard, one threshold at .9 leaves it uncovered and some sets empty. With floors no set
// is empty, each class is covered at .85 or more, and no more classes are in the sets than that takes.
func TestFloors(t *testing.T) {
	for _, floor := range []float64{0, 0.15} {
		cfg := DefaultConfig(2)
		cfg.Floor = floor
		p, rng := New(cfg), rand.New(rand.NewPCG(1, 2))
		var by [2]Coverage
		empty := 0
		for range 20000 {
			y, prob := int32(0), 0.9+0.1*rng.Float64()
			if rng.IntN(50) == 0 {
				y, prob = 1, 0.7+0.3*rng.Float64()
			}
			rows, labels := Rows{Probs: []float64{prob, 1 - prob}}, []int32{y}
			set := p.Sets(rows)[0]
			covered := by[y].Add(set, y)
			if set.size() == 0 {
				empty++
			}
			p.Learn(rows, labels, []bool{covered})
		}
		size := (by[0].MeanSize()*float64(by[0].Rows) + by[1].MeanSize()*float64(by[1].Rows)) / 20000
		if floor == 0 && (by[1].Rate() > 0.1 || empty == 0) {
			t.Errorf("one threshold covers the rare class at %.2f, with %d empty sets: the test proves nothing", by[1].Rate(), empty)
		}
		if floor > 0 && (by[0].Rate() < 0.999 || by[1].Rate() < 0.8 || empty > 0 || size > 1.7) {
			t.Errorf("floors cover the classes at %.2f and %.2f, with %d empty sets of %.2f classes", by[0].Rate(), by[1].Rate(), empty, size)
		}
	}
}

// TestUnknownClassIsInEverySet: with a threshold for each class, a class without labels is
// in every set, since nothing is known of its scores.
func TestUnknownClassIsInEverySet(t *testing.T) {
	cfg := DefaultConfig(3)
	cfg.PerClass = true
	p := New(cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	rows, labels := hardSecond(rng, 200)
	var wide Rows
	for i := range labels {
		wide.Probs = append(wide.Probs, rows.Probs[2*i], rows.Probs[2*i+1], 0)
	}
	p.Learn(wide, labels, nil)
	for _, set := range p.Sets(wide) {
		if !set.has(2) {
			t.Fatal("a set lacks the class without labels")
		}
	}
}

// TestUniforms: the numbers that draw imputed classes are a function of the id of a row, and
// are uniform over ids.
func TestUniforms(t *testing.T) {
	p := New(DefaultConfig(2))
	var bins [10]int
	for id := range uint64(20000) {
		bins[int(10*p.draw(id))]++
	}
	for b, n := range bins {
		if n < 1800 || n > 2200 {
			t.Errorf("%d of 20000 numbers in tenth %d, want about 2000", n, b)
		}
	}
}

// TestServedMissesRaiseTheThreshold: the level follows whether the served sets held the
// labels, not whether the current threshold would have, and stays within its bounds.
func TestServedMissesRaiseTheThreshold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	cfg := DefaultConfig(2)
	hit, missed := New(cfg), New(cfg)
	cal, labels := hardSecond(rng, 1000)
	hit.calibrate(cal, labels)
	missed.calibrate(cal, labels)
	rows, labels := hardSecond(rng, 300)
	held := slices.Repeat([]bool{true}, 300)
	hit.Learn(rows, labels, held)
	missed.Learn(rows, labels, make([]bool, 300))
	if a, b := hit.cells[0].threshold, missed.cells[0].threshold; !(a < b) || math.IsInf(b, 0) || math.IsInf(a, 0) {
		t.Errorf("threshold %v after hits and %v after misses, want finite ones, the second larger", a, b)
	}
	if l := missed.cells[0].level; l != cfg.Alpha/3 {
		t.Errorf("level %v after misses, want its lower bound %v", l, cfg.Alpha/3)
	}
}

// configs are configurations with one threshold, with many, and with floors.
func configs() (all []Config) {
	for _, perClass := range []bool{false, true} {
		cfg := DefaultConfig(2)
		cfg.PerClass, cfg.Window = perClass, 50
		all = append(all, cfg)
	}
	floor := DefaultConfig(2)
	floor.Floor, floor.Window = 0.15, 50
	return append(all, floor)
}

// TestStateResumes: a predictor whose state is saved and restored after every batch gives
// the same sets and states as one that runs through. Damaged states are errors.
func TestStateResumes(t *testing.T) {
	for _, cfg := range configs() {
		rng := rand.New(rand.NewPCG(3, 4))
		whole, carried := New(cfg), New(cfg)
		for i := range 60 {
			rows, labels := hardSecond(rng, rng.IntN(8))
			if i == 5 {
				whole.calibrate(rows, labels)
				carried.calibrate(rows, labels)
			}
			a, b := whole.Sets(rows), carried.Sets(rows)
			for r := range a {
				if !slices.Equal(a[r], b[r]) {
					t.Fatalf("%+v, batch %d, row %d: sets differ", cfg, i, r)
				}
			}
			whole.Learn(rows, labels, nil)
			carried.Learn(rows, labels, nil)
			state := whole.AppendState(nil)
			if !bytes.Equal(state, carried.AppendState(nil)) {
				t.Fatalf("%+v, batch %d: states differ", cfg, i)
			}
			for _, bad := range [][]byte{nil, state[:len(state)-8], state[:len(state)-1], append(bytes.Clone(state), 0)} {
				if carried.SetState(bad) == nil {
					t.Fatalf("SetState accepts %d bytes, want %d", len(bad), len(state))
				}
			}
			carried = New(cfg)
			if err := carried.SetState(state); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBatchesAddUp: learning rows in one batch or one by one gives the same state.
func TestBatchesAddUp(t *testing.T) {
	for _, cfg := range configs() {
		rng := rand.New(rand.NewPCG(3, 4))
		rows, labels := hardSecond(rng, 200)
		whole, parts := New(cfg), New(cfg)
		whole.Learn(rows, labels, nil)
		for i := range labels {
			parts.Learn(Rows{rows.Probs[2*i : 2*i+2], rows.ID[i : i+1], nil}, labels[i:i+1], nil)
		}
		if !bytes.Equal(whole.AppendState(nil), parts.AppendState(nil)) {
			t.Errorf("%+v: states differ", cfg)
		}
	}
}

// FuzzSetState: SetState does not panic. A predictor that accepts a state saves the same
// bytes and can go on.
func FuzzSetState(f *testing.F) {
	for _, cfg := range configs() {
		p := New(cfg)
		rows, labels := hardSecond(rand.New(rand.NewPCG(1, 1)), 20)
		p.Learn(rows, labels, nil)
		f.Add(p.AppendState(nil))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for _, cfg := range configs() {
			p := New(cfg)
			if p.SetState(state) != nil {
				continue
			}
			if !bytes.Equal(p.AppendState(nil), state) {
				t.Error("an accepted state is saved as other bytes")
			}
			rows, labels := hardSecond(rand.New(rand.NewPCG(1, 1)), 60)
			p.Learn(rows, labels, nil)
			p.Sets(rows)
		}
	})
}

// TestAbstain: the first limit that a prediction exceeds gives the reason: the size of the
// set, then confidence.
func TestAbstain(t *testing.T) {
	none, one, three := set{0}, set{1}, set{7}
	l := Limits{MinConfidence: 0.5, MaxSize: 2}
	for _, c := range []struct {
		limits     Limits
		confidence float64
		set        set
		want       string
	}{
		{l, 0.9, one, ""},
		{l, 0.4, one, lowConfidence},
		{l, 0.4, three, largeSet},
		{l, 0.4, none, emptySet},
		{l, 0.4, nil, lowConfidence},
		{Limits{}, 0, none, ""},
	} {
		if got := c.limits.Abstain(c.confidence, c.set); got != c.want {
			t.Errorf("%+v: reason %q, want %q", c, got, c.want)
		}
	}
}

// TestConfigErrors: the error for an invalid configuration names the field.
func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		word   string
		change func(*Config)
	}{
		{"classes 1", func(c *Config) { c.Classes = 1 }},
		{"alpha NaN", func(c *Config) { c.Alpha = math.NaN() }},
		{"window 20", func(c *Config) { c.Window = 20 }},
		{"product", func(c *Config) { c.PerClass, c.Classes = true, 1000*maxScores }},
		{"product", func(c *Config) { c.Window = 1000 * maxScores }},
		{"rate", func(c *Config) { c.Rate = 0 }},
	} {
		cfg := DefaultConfig(10)
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("error %v, want one with %q", err, c.word)
		}
	}
	if err := DefaultConfig(2).Validate(); err != nil {
		t.Error(err)
	}
}

// TestMisusePanics: invalid configurations, shapes and labels panic.
func TestMisusePanics(t *testing.T) {
	imputing := DefaultConfig(2)
	imputing.Impute = 1
	for name, f := range map[string]func(){
		"config":   func() { New(Config{}) },
		"shape":    func() { New(DefaultConfig(2)).Sets(Rows{Probs: make([]float64, 3)}) },
		"labels":   func() { New(DefaultConfig(2)).Learn(Rows{Probs: make([]float64, 2)}, nil, nil) },
		"label":    func() { New(DefaultConfig(2)).Learn(Rows{Probs: make([]float64, 2)}, []int32{2}, nil) },
		"identity": func() { New(imputing).Impute(Rows{Probs: make([]float64, 2)}) },
		"covered":  func() { New(DefaultConfig(2)).Learn(Rows{Probs: make([]float64, 2)}, []int32{1}, []bool{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// BenchmarkPredictor serves and learns a batch of the size of the drifting graph's.
func BenchmarkPredictor(b *testing.B) {
	const n, classes = 57, 40
	rng := rand.New(rand.NewPCG(1, 2))
	var rows Rows
	labels := make([]int32, n)
	for i := range n {
		var total float64
		row := make([]float64, classes)
		for c := range row {
			row[c] = rng.ExpFloat64()
			total += row[c]
		}
		for c := range row {
			row[c] /= total
		}
		rows.Probs = append(rows.Probs, row...)
		rows.ID = append(rows.ID, uint64(i))
		labels[i] = int32(rng.IntN(classes))
	}
	p := New(DefaultConfig(classes))
	for b.Loop() {
		p.Sets(rows)
		p.Learn(rows, labels, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/row")
}
