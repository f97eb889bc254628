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
	Accuracy       float64
	NLL            float64
	Brier          float64
	ECEWidth       map[string]float64 `json:"ece_width"`
	MCEWidth       map[string]float64 `json:"mce_width"`
	ECEMass        map[string]float64 `json:"ece_mass"`
	AURC           float64
	MeanConfidence float64 `json:"mean_confidence"`
	Entropy        float64
}

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

func wantClose(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tol*max(1, math.Abs(want))) {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

func compare(t *testing.T, probs []float64, classes int, labels []int32, want measures) {
	t.Helper()
	const tol = 1e-6
	s := Measure(probs, classes, labels, 10)
	wantClose(t, "accuracy", s.Acc, want.Accuracy, tol)
	wantClose(t, "NLL", s.NLL, want.NLL, tol)
	wantClose(t, "Brier", s.Brier, want.Brier, tol)
	wantClose(t, "ECE", s.ECE, want.ECEMass["10"], tol)
	wantClose(t, "entropy", Entropy(probs, classes), want.Entropy, tol)
	conf, ok := Confidences(probs, classes, labels)
	wantClose(t, "mean confidence", MeanConfidence(conf), want.MeanConfidence, tol)
	wantClose(t, "AURC", AURC(conf, ok), want.AURC, tol)
	for k, ece := range want.ECEMass {
		bins, _ := strconv.Atoi(k)
		wantClose(t, "ECE of equal mass, bins "+k, ECEMass(conf, ok, bins), ece, tol)
	}
	for k := range want.ECEWidth {
		bins, _ := strconv.Atoi(k)
		ece, mce := ECEWidth(conf, ok, bins)
		wantClose(t, "ECE of equal width, bins "+k, ece, want.ECEWidth[k], tol)
		wantClose(t, "MCE, bins "+k, mce, want.MCEWidth[k], tol)
	}
	if ece, has := want.ECEWidth[strconv.Itoa(BinCount)]; has {
		var b Bins
		for i, c := range conf {
			b.Add(c, ok[i])
		}
		wantClose(t, "ECE of Bins", b.ECE(), ece, tol)
	}
}

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

func TestTiesGoToTheLowestClass(t *testing.T) {
	if class, conf := Top([]float64{0.2, 0.4, 0.4}); class != 1 || conf != 0.4 {
		t.Errorf("class %d of confidence %v", class, conf)
	}
}

func TestLogLossIsFinite(t *testing.T) {
	wantClose(t, "log loss", LogLoss([]float64{1, 0}, 1), 12*math.Ln10, 1e-12)
	wantClose(t, "log loss", LogLoss([]float64{1, 0}, 0), 0, 0)
	wantClose(t, "Brier", Brier([]float64{1, 0}, 1), 2, 0)
}

func TestLogLosses(t *testing.T) {
	row := []float64{0, 1e-300, 1e-12, 0.1, 0.25, 0.3, 0.5, 0.9, 0.99, 1, 1}
	got := slices.Clone(row)
	LogLosses(got)
	for i, x := range got {
		wantClose(t, "log loss", x, LogLoss(row, int32(i)), 0)
		wantClose(t, "log loss", x, -math.Log(max(row[i], 1e-12)), 1e-14)
	}
}

// numpy.array_split of five sorted rows in three: two, two and one.
func TestECEMassByHand(t *testing.T) {
	conf := []float64{0.9, 0.5, 0.7, 0.6, 0.8}
	ok := []bool{true, false, false, true, true}
	want := (math.Abs(1-(0.5+0.6)) + math.Abs(1-(0.7+0.8)) + math.Abs(1-0.9)) / 5
	wantClose(t, "ECE", ECEMass(conf, ok, 3), want, 1e-15)
	wantClose(t, "ECE of a bin a row", ECEMass(conf, ok, 100), (0.5+0.4+0.7+0.2+0.1)/5, 1e-15)
}

func TestECEMassTakesTiesByIndex(t *testing.T) {
	conf := []float64{0.5, 0.5, 0.5, 0.5}
	wantClose(t, "ECE", ECEMass(conf, []bool{true, true, false, false}, 2), 0.5, 0)
	wantClose(t, "ECE", ECEMass(conf, []bool{true, false, true, false}, 2), 0, 0)
	wantClose(t, "AURC", AURC(conf, []bool{true, true, false, false}), (1.0/3+2.0/4)/4, 1e-15)
}

func TestBinEdges(t *testing.T) {
	for _, c := range []struct {
		conf float64
		bin  int
	}{
		{0, 0}, {-0.1, 0}, {math.NaN(), 0}, {0.05, 1}, {0.5, 10}, {0.999, 19}, {1, 19}, {1 + 1e-9, 19}, {math.Inf(1), 19},
	} {
		if got := width(c.conf, BinCount); got != c.bin {
			t.Errorf("bin of %v is %d, want %d", c.conf, got, c.bin)
		}
	}
}

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
	ece, _ := ECEWidth(conf, ok, BinCount)
	wantClose(t, "ECE", whole.ECE(), ece, 1e-15)
	wantClose(t, "merged ECE", parts[0].ECE(), ece, 1e-12)
}

func TestNothingGivesZeros(t *testing.T) {
	if s := Measure(nil, 3, nil, 10); s != (Scores{}) {
		t.Errorf("%+v", s)
	}
	ece, mce := ECEWidth(nil, nil, 10)
	var b Bins
	for _, x := range []float64{ece, mce, b.ECE(), AURC(nil, nil), Entropy(nil, 3), MeanConfidence(nil)} {
		if x != 0 {
			t.Errorf("%v", x)
		}
	}
}

func TestMisusePanics(t *testing.T) {
	for name, f := range map[string]func(){
		"probabilities": func() { Measure(make([]float64, 5), 2, make([]int32, 2), 10) },
		"classes":       func() { Entropy(nil, 0) },
		"label":         func() { Measure(make([]float64, 4), 2, []int32{0, 2}, 10) },
		"bins":          func() { ECEMass(nil, nil, 0) },
		"answers":       func() { AURC([]float64{1}, nil) },
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

func BenchmarkMeasure(b *testing.B) {
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
		Measure(probs, classes, labels, 10)
	}
}

// Confidences of float32 are put in the same order as any others.
func TestAscending(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	var s sorter
	for _, n := range []int{1, 2, few, few + 1, 200, 700} {
		for _, other := range []float64{0.5, 0.1, 1e-300, -0.25, math.Copysign(0, -1), math.NaN(), math.Inf(1)} {
			conf := make([]float64, n)
			for i := range conf {
				conf[i] = float64(float32(rng.IntN(50)) / 50)
			}
			conf[rng.IntN(len(conf))] = other
			if got, want := s.ascending(conf), sorted(conf, cmp.Compare[float64]); !slices.Equal(got, want) {
				t.Errorf("%d with %v: %v, want %v", n, other, got, want)
			}
		}
	}
	if got := s.ascending(nil); len(got) > 0 {
		t.Errorf("%v of none", got)
	}
}
