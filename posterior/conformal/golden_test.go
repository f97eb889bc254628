package conformal

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

type goldenFile struct {
	CalProbs   [][]float64 `json:"cal_probs"`
	CalLabels  []int32     `json:"cal_labels"`
	TestProbs  [][]float64 `json:"test_probs"`
	TestLabels []int32     `json:"test_labels"`
	Methods    map[string]struct {
		CalScores []float64 `json:"cal_scores"`
		Alpha     map[string]struct {
			Threshold float64
			Sets      []string
			Coverage  float64
			MeanSize  float64 `json:"mean_size"`
		}
	}
}

// goldens reads the sets that Python computed. It skips the test if the file is not there.
func goldens(t *testing.T) (g goldenFile) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "shared", "goldens", "conformal.json"))
		if err == nil {
			if err := json.Unmarshal(b, &g); err != nil {
				t.Fatal(err)
			}
			return g
		}
		if dir == filepath.Dir(dir) {
			t.Skip("no shared/goldens/conformal.json above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// tol is the tolerance of scores, which the file has to some places only.
const tol = 1e-9

// TestGolden compares scores, thresholds and sets with those computed in Python.
func TestGolden(t *testing.T) {
	g := goldens(t)
	want := g.Methods["lac"]
	if len(want.Alpha) == 0 {
		t.Fatal("the file has no thresholds of lac")
	}
	var scores []float64
	for i, row := range g.CalProbs {
		of := score(row[g.CalLabels[i]])
		if math.Abs(of-want.CalScores[i]) > tol {
			t.Fatalf("row %d: score %v, want %v", i, of, want.CalScores[i])
		}
		scores = append(scores, of)
	}
	for level, w := range want.Alpha {
		alpha, _ := strconv.ParseFloat(level, 64)
		limit := threshold(scores, alpha)
		if math.Abs(limit-w.Threshold) > tol {
			t.Errorf("alpha %s: threshold %v, want %v", level, limit, w.Threshold)
		}
		var seen Coverage
		for i, row := range g.TestProbs {
			set := make(set, 1)
			var got strings.Builder
			for c, p := range row {
				in := 0
				if score(p) <= limit {
					in = 1
					set.add(c)
				}
				got.WriteString(strconv.Itoa(in))
			}
			if got.String() != w.Sets[i] {
				t.Errorf("alpha %s, row %d: set %s, want %s", level, i, got.String(), w.Sets[i])
			}
			seen.Add(set, g.TestLabels[i])
		}
		if math.Abs(seen.Rate()-w.Coverage) > 1e-12 || math.Abs(seen.MeanSize()-w.MeanSize) > 1e-12 {
			t.Errorf("alpha %s: coverage %v and mean size %v, want %v and %v", level, seen.Rate(), seen.MeanSize(), w.Coverage, w.MeanSize)
		}
	}
}
