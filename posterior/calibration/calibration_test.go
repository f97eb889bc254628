package calibration

import (
	"cmp"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

type goldenCase struct {
	Probs    [][]float64
	Logits   [][]float64
	Labels   []int32
	Measures measures
	Scaling  *struct {
		Temperature float64
		After       measures `json:"measures_after"`
	} `json:"temperature_scaling"`
}

type measures struct {
	Accuracy float64
	NLL      float64
	Brier    float64
	ECEWidth map[string]float64 `json:"ece_width"`
	ECEMass  map[string]float64 `json:"ece_mass"`
}

// goldens reads the scores that Python computed. It skips the test if the file is not
// there.
func goldens(t *testing.T) (cases map[string]goldenCase) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "shared", "goldens", "calibration.json"))
		if err == nil {
			if err := json.Unmarshal(b, &cases); err != nil {
				t.Fatal(err)
			}
			return cases
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no shared/goldens/calibration.json above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// wantClose fails unless got is within tol of want, relative to 1 or to want if that is
// larger.
func wantClose(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*max(1, math.Abs(want))) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// measure returns the mean scores of rows of probabilities, with the ECE over bins of equal
// mass.
func measure(probs []float64, classes int, labels []int32, bins int) Means {
	return means(ScoreRows(probs, classes, labels), bins)
}

// compare compares all mean scores of rows of probabilities with those that Python
// computed.
func compare(t *testing.T, probs []float64, classes int, labels []int32, want measures) {
	t.Helper()
	const tol = 1e-6
	s := measure(probs, classes, labels, 10)
	wantClose(t, "accuracy", s.Acc, want.Accuracy, tol)
	wantClose(t, "NLL", s.NLL, want.NLL, tol)
	wantClose(t, "Brier", s.Brier, want.Brier, tol)
	wantClose(t, "ECE", s.ECE, want.ECEMass["10"], tol)
	scores := ScoreRows(probs, classes, labels)
	for k, ece := range want.ECEMass {
		bins, _ := strconv.Atoi(k)
		wantClose(t, "ECE of equal mass, bins "+k, equalMassECE(scores, bins), ece, tol)
	}
	var tally Tally
	for i := range scores {
		tally.Add(&scores[i])
	}
	m := tally.Means()
	wantClose(t, "accuracy of Tally", m.Acc, want.Accuracy, tol)
	wantClose(t, "NLL of Tally", m.NLL, want.NLL, tol)
	wantClose(t, "Brier of Tally", m.Brier, want.Brier, tol)
	if ece, has := want.ECEWidth[strconv.Itoa(BinCount)]; has {
		wantClose(t, "ECE of Tally", m.ECE, ece, tol)
	}
}

// TestGolden compares the scores with values computed in Python, before and after
// temperature scaling.
func TestGolden(t *testing.T) {
	for name, c := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			classes := len(c.Probs[0])
			var probs []float64
			for _, row := range c.Probs {
				probs = append(probs, row...)
			}
			compare(t, probs, classes, c.Labels, c.Measures)
			if c.Scaling == nil {
				return
			}
			probs = probs[:0]
			for _, row := range c.Logits {
				var sum float64
				for _, a := range row {
					sum += math.Exp(a / c.Scaling.Temperature)
				}
				for _, a := range row {
					probs = append(probs, math.Exp(a/c.Scaling.Temperature)/sum)
				}
			}
			compare(t, probs, classes, c.Labels, c.Scaling.After)
		})
	}
}

// TestTiesGoToTheLowestClass: of equally probable classes the lowest is predicted, so that
// a prediction does not depend on the order of computation.
func TestTiesGoToTheLowestClass(t *testing.T) {
	if class, conf := Top([]float64{0.2, 0.4, 0.4}); class != 1 || conf != 0.4 {
		t.Errorf("Top = class %d, confidence %v, want 1 and 0.4", class, conf)
	}
}

// TestLogLossIsFinite: the log loss of a label with probability 0 is that of 1e-12.
func TestLogLossIsFinite(t *testing.T) {
	scores := ScoreRows([]float64{1, 0, 1, 0}, 2, []int32{1, 0})
	wantClose(t, "log loss", scores[0].LogLoss, 12*math.Ln10, 1e-12)
	wantClose(t, "log loss", scores[1].LogLoss, 0, 0)
	wantClose(t, "Brier", scores[0].Brier, 2, 0)
}

// TestLogLosses: log losses have the bits of posterior.Log and agree with math.Log.
func TestLogLosses(t *testing.T) {
	row := []float64{0, 1e-300, 1e-12, 0.1, 0.25, 0.3, 0.5, 0.9, 0.99, 1, 1}
	got := slices.Clone(row)
	LogLosses(got)
	for i, x := range got {
		wantClose(t, "log loss", x, -double.Log(max(row[i], 1e-12)), 0)
		wantClose(t, "log loss", x, -math.Log(max(row[i], 1e-12)), 1e-14)
	}
}

// scored returns scores that have only confidences and whether they are correct.
func scored(conf []float64, ok []bool) (scores []Score) {
	for i, c := range conf {
		scores = append(scores, Score{Confidence: c, Correct: ok[i]})
	}
	return scores
}

// TestECEMassByHand: five rows in three bins of equal mass are divided as numpy.array_split
// does: two, two and one. With more bins than rows, each row has its own.
func TestECEMassByHand(t *testing.T) {
	conf := []float64{0.9, 0.5, 0.7, 0.6, 0.8}
	ok := []bool{true, false, false, true, true}
	want := (math.Abs(1-(0.5+0.6)) + math.Abs(1-(0.7+0.8)) + math.Abs(1-0.9)) / 5
	wantClose(t, "ECE", equalMassECE(scored(conf, ok), 3), want, 1e-15)
	wantClose(t, "ECE with a bin for each row", equalMassECE(scored(conf, ok), 100), (0.5+0.4+0.7+0.2+0.1)/5, 1e-15)
}

// TestECEMassTiesByIndex: rows of equal confidence are assigned to bins by their index, as
// a stable sort does.
func TestECEMassTiesByIndex(t *testing.T) {
	conf := []float64{0.5, 0.5, 0.5, 0.5}
	wantClose(t, "ECE", equalMassECE(scored(conf, []bool{true, true, false, false}), 2), 0.5, 0)
	wantClose(t, "ECE", equalMassECE(scored(conf, []bool{true, false, true, false}), 2), 0, 0)
}

// TestBinEdges: an edge belongs to the bin above it. Confidences outside [0, 1] and NaN
// count in the first or the last bin, since rounding may produce them.
func TestBinEdges(t *testing.T) {
	for _, c := range []struct {
		conf float64
		bin  int
	}{
		{0, 0}, {-0.1, 0}, {math.NaN(), 0}, {0.05, 1}, {0.5, 10}, {0.999, 19}, {1, 19}, {1 + 1e-9, 19}, {math.Inf(1), 19},
	} {
		if got := BinOf(c.conf); got != c.bin {
			t.Errorf("bin of %v is %d, want %d", c.conf, got, c.bin)
		}
	}
}

// TestBinsAddUp: the ECE over bins of equal width is that of the definition, also when the
// counts of several Bins are merged.
func TestBinsAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var whole Bins
	var parts [3]Bins
	var conf []float64
	var ok []bool
	for i := range 500 {
		c, right := rng.Float64(), rng.IntN(2) == 0
		conf, ok = append(conf, c), append(ok, right)
		whole.Add(c, right)
		parts[i%3].Add(c, right)
	}
	for i := 1; i < 3; i++ {
		parts[0].Merge(&parts[i])
	}
	ece, chance := whole.ECE()
	wantClose(t, "ECE", ece, equalWidthECE(conf, ok, BinCount), 1e-15)
	mergedECE, mergedChance := parts[0].ECE()
	wantClose(t, "merged ECE", mergedECE, ece, 1e-12)
	wantClose(t, "merged chance level", mergedChance, chance, 1e-12)
}

// equalWidthECE is the definition of the ECE over bins of equal width.
func equalWidthECE(conf []float64, ok []bool, bins int) (ece float64) {
	gap := make([]float64, bins)
	for i, c := range conf {
		b := min(int(c*float64(bins)), bins-1)
		gap[b] += c
		if ok[i] {
			gap[b]--
		}
	}
	for _, g := range gap {
		ece += math.Abs(g) / float64(len(conf))
	}
	return ece
}

// TestPrequential: means over labels weigh every label the same and means over windows
// every window with labels. A state is restored as it was saved, and damaged ones are
// errors that change nothing.
func TestPrequential(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var p Prequential
	var all Tally
	var sum Means
	windows := 0
	for size := range 12 {
		window := make([]Score, size)
		for i := range window {
			window[i] = Score{Confidence: rng.Float64(), Correct: rng.IntN(2) == 0, LogLoss: rng.Float64(), Brier: rng.Float64()}
			all.Add(&window[i])
		}
		m := p.AddWindow(window, 4)
		if size == 0 {
			continue
		}
		var tally Tally
		for i := range window {
			tally.Add(&window[i])
		}
		want := tally.Means()
		want.ECE, want.Chance = equalMassECE(window, 4), 0
		if m != want {
			t.Errorf("means of a window of %d labels %+v, want %+v", size, m, want)
		}
		windows++
		sum = Means{Acc: sum.Acc + m.Acc, NLL: sum.NLL + m.NLL, ECE: sum.ECE + m.ECE, Brier: sum.Brier + m.Brier}
	}
	if p.Total() != all || p.LabelMeans() != all.Means() {
		t.Errorf("sums over labels %+v, want %+v", p.Total(), all)
	}
	if got, want := p.WindowMeans(), sum.over(windows); got != want {
		t.Errorf("means over windows %+v, want %+v", got, want)
	}
	counts, sums := p.AppendState(nil, nil)
	var back Prequential
	if err := back.SetState(counts, sums); err != nil || back != p {
		t.Errorf("restored %+v (%v), want %+v", back, err, p)
	}
	for name, damage := range map[string]func(counts []int64, sums []float64){
		"label count too high":      func(counts []int64, _ []float64) { counts[0]++ },
		"label count too low":       func(counts []int64, _ []float64) { counts[0]-- },
		"labels without a window":   func(counts []int64, _ []float64) { counts[1] = 0 },
		"more windows than labels":  func(counts []int64, _ []float64) { counts[1] = counts[0] + 1 },
		"negative bin count":        func(counts []int64, _ []float64) { counts[2] = -1 },
		"more correct than counted": func(counts []int64, _ []float64) { counts[3] = counts[2] + 1 },
		"correct sum disagrees":     func(_ []int64, sums []float64) { sums[4]++ },
		"NaN sum":                   func(_ []int64, sums []float64) { sums[5] = math.NaN() },
		"infinite sum":              func(_ []int64, sums []float64) { sums[7] = math.Inf(1) },
		"negative sum":              func(_ []int64, sums []float64) { sums[0] = -1 },
	} {
		c, s := slices.Clone(counts), slices.Clone(sums)
		damage(c, s)
		if err := back.SetState(c, s); err == nil || back != p {
			t.Errorf("%s: error %v and state %+v, want an error and the state %+v", name, err, back, p)
		}
	}
}

// TestNothingGivesZeros: means over no scores are 0, not NaN.
func TestNothingGivesZeros(t *testing.T) {
	if m := measure(nil, 3, nil, 10); m != (Means{}) {
		t.Errorf("means of no rows %+v, want zeros", m)
	}
	var b Bins
	var tally Tally
	var p Prequential
	if ece, chance := b.ECE(); ece != 0 || chance != 0 || tally.Means() != (Means{}) || p.WindowMeans() != (Means{}) || p.LabelMeans() != (Means{}) {
		t.Errorf("empty bins have an ECE of %v, by chance up to %v, means %+v of a tally, %+v over windows, %+v over labels, want zeros", ece, chance, tally.Means(), p.WindowMeans(), p.LabelMeans())
	}
}

// TestMisusePanics: shapes that do not fit, and labels of no class, panic.
func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"probabilities": func() { measure(make([]float64, 5), 2, make([]int32, 2), 10) },
		"classes":       func() { measure(nil, 0, nil, 10) },
		"label":         func() { measure(make([]float64, 4), 2, []int32{0, 2}, 10) },
		"bins":          func() { equalMassECE(nil, 0) },
		"state":         func() { new(Prequential).SetState(nil, nil) },
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

// BenchmarkMeans scores a window of the size of the paper's ogbn-arxiv stream.
func BenchmarkMeans(b *testing.B) {
	const n, classes = 500, 40
	rng := rand.New(rand.NewPCG(1, 2))
	probs, labels := make([]float64, n*classes), make([]int32, n)
	for i := range probs {
		probs[i] = rng.Float64() / classes
	}
	for i := range labels {
		labels[i] = int32(rng.IntN(classes))
	}
	b.ReportAllocs()
	for b.Loop() {
		measure(probs, classes, labels, 10)
	}
}

// TestAscending: the fast sort of float32 confidences gives the order of the stable sort.
// Other confidences, negative and NaN ones included, are sorted the same through the slow
// path.
func TestAscending(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var s sorter
	for _, n := range []int{1, 2, 48, 200, 700} {
		for _, other := range []float64{0.5, 0.1, 1e-300, -0.25, math.Copysign(0, -1), math.NaN(), math.Inf(1)} {
			scores, want := make([]Score, n), make([]uint32, n)
			for i := range scores {
				scores[i].Confidence, want[i] = float64(float32(rng.IntN(50))/50), uint32(i)
			}
			scores[rng.IntN(n)].Confidence = other
			slices.SortStableFunc(want, func(i, j uint32) int { return cmp.Compare(scores[i].Confidence, scores[j].Confidence) })
			var got []uint32
			for _, key := range s.ascending(scores) {
				got = append(got, uint32(key))
			}
			if !slices.Equal(got, want) {
				t.Errorf("order of %d confidences with %v: %v, want %v", n, other, got, want)
			}
		}
	}
}

// TestECEBesideChance compares what could be shown of a stream, with as many labels as a step
// of the demo has, an hour or a week: the ECE with its chance level, which was chosen, and two
// ECEs without bias (docs/adr/0027-ece-and-chance.md has the table that -v prints).
//
// The chance level is what it is said to be: three deviations above the mean ECE of calibrated
// streams. Fewer than one in a hundred of them exceed it, and all miscalibrated ones do once
// labels are many. An ECE without bias has nothing that tells the two apart while labels are
// few: half of what it says of a calibrated stream is as large as of one that is off by .05.
func TestECEBesideChance(t *testing.T) {
	const trials = 400
	sharpen := func(c, by float64) float64 { // confidences whose logits are multiplied
		return 1 / (1 + math.Pow((1-c)/c, by))
	}
	for _, stream := range []struct {
		name   string
		right  func(c float64) float64 // how often a prediction of confidence c is right
		enough int                     // labels of which nearly all such streams exceed the chance level
	}{
		{"calibrated", func(c float64) float64 { return c }, 0},
		{"confident by .05 too much", func(c float64) float64 { return c - .05 }, 5000},
		{"confident by .15 too much", func(c float64) float64 { return c - .15 }, 1000},
		{"logits twice too large", func(c float64) float64 { return sharpen(c, .5) }, 1000},
		{"logits too small by a third", func(c float64) float64 { return sharpen(c, 1.5) }, 5000},
	} {
		for _, n := range []int{34, 200, 1000, 5000} {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			var eces, chances, roots, halves []float64
			above := 0
			for range trials {
				var b Bins
				for range n {
					c := .3 + .7*math.Sqrt(r.Float64())
					b.Add(c, r.Float64() < stream.right(c))
				}
				ece, chance := b.ECE()
				root, half := withoutBias(&b)
				eces, chances, roots, halves = append(eces, ece), append(chances, chance), append(roots, root), append(halves, half)
				if ece > chance {
					above++
				}
			}
			mean, deviation := meanAndDeviation(eces)
			chance, _ := meanAndDeviation(chances)
			root, rootDeviation := meanAndDeviation(roots)
			half, halfDeviation := meanAndDeviation(halves)
			t.Logf("%-27s %5d labels: ECE %.3f ± %.3f, by chance up to %.3f, above it %5.1f%%; without bias %.3f ± %.3f, or %.3f ± %.3f",
				stream.name, n, mean, deviation, chance, 100*float64(above)/trials, root, rootDeviation, half, halfDeviation)
			if stream.enough == 0 {
				if bound := mean + 3*deviation; n > 34 && math.Abs(chance-bound) > .06*bound {
					t.Errorf("%d labels have an ECE of %.4f by chance, three deviations above the mean, and the chance level is %.4f", n, bound, chance)
				}
				if above > trials/100 {
					t.Errorf("%d of %d calibrated streams of %d labels are above the chance level", above, trials, n)
				}
			} else if n >= stream.enough && above < trials*99/100 {
				t.Errorf("%s: %d of %d streams of %d labels are above the chance level, want nearly all", stream.name, above, trials, n)
			}
		}
	}
}

// withoutBias returns two estimates of the ECE of as many labels as one likes: its square less that
// of the mean by chance, and each bin's gap less what noise adds to its size (Kumar et al., 2019).
func withoutBias(b *Bins) (root, each float64) {
	ece, _ := b.ECE()
	var n, mean float64
	for i := range b {
		if b[i].Count == 0 {
			continue
		}
		g, s := math.Abs(b[i].gap()), math.Sqrt(b[i].SumConfidence*(1-b[i].SumConfidence/float64(b[i].Count)))
		n += float64(b[i].Count)
		mean += s * math.Sqrt(2/math.Pi)
		each += 2*g - s*math.Sqrt(2/math.Pi)*math.Exp(-g*g/(2*s*s)) - g*math.Erf(g/s/math.Sqrt2)
	}
	return math.Sqrt(max(ece*ece-mean/n*mean/n, 0)), max(each/n, 0)
}

func meanAndDeviation(values []float64) (mean, deviation float64) {
	mean, se := MeanAndError(values)
	return mean, se * math.Sqrt(float64(len(values)))
}

// TestBriers: rows that are summed beside each other have the bits of each by itself.
func TestBriers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for rows := range 10 {
		const classes = 7
		x := make([]float32, rows*classes)
		for i := range x {
			x[i] = rng.Float32()
		}
		got := make([]float64, rows)
		Briers(got, x, classes, 3)
		for k, score := range got {
			if want := brier(x[k*classes:(k+1)*classes], 3); score != want {
				t.Errorf("row %d of %d has %v, by itself %v", k, rows, score, want)
			}
		}
	}
}
