package dataset

import (
	"math"
	"testing"
)

// TestWords compares generated words with the law: a paper has words and nothing else, as
// many as a title and an abstract have, from which naive Bayes on the training papers tells
// the classes of the stream.
func TestWords(t *testing.T) {
	c, err := DriftPreset("words-none")
	if err != nil {
		t.Fatal(err)
	}
	d, s, err := Drift(c)
	if err != nil {
		t.Fatal(err)
	}
	if d.Name != "words-none" || !d.Sparse || d.Dim != 600 {
		t.Errorf("%s of %d features, sparse %v, want words-none of 600 sparse ones", d.Name, d.Dim, d.Sparse)
	}
	words := 0
	for v, x := range d.Features {
		if err := x.Validate(d.Dim); err != nil {
			t.Fatalf("node %d: %v", v, err)
		}
		for _, value := range x.Value {
			if value != 1 {
				t.Fatalf("node %d has the value %v, want words of value 1", v, value)
			}
		}
		words += len(x.Index)
	}
	if mean := float64(words) / float64(c.Nodes); mean < 20 || mean > 40 {
		t.Errorf("%.1f words a paper, want 20 to 40", mean)
	}
	// Naive Bayes on the training papers.
	count, total := make([][]float64, c.Classes), make([]float64, c.Classes)
	shares := make([]float64, c.Classes)
	for k := range count {
		count[k] = make([]float64, d.Dim)
	}
	for _, v := range s.Train {
		y := d.Labels[v]
		shares[y]++
		for _, j := range d.Features[v].Index {
			count[y][j]++
			total[y]++
		}
	}
	right, n := 0, 0
	for _, step := range s.Steps {
		for _, v := range step {
			best, at := math.Inf(-1), int32(0)
			for k := range count {
				score := math.Log(1 + shares[k])
				for _, j := range d.Features[v].Index {
					score += math.Log((count[k][j] + 1) / (total[k] + float64(d.Dim)))
				}
				if score > best {
					best, at = score, int32(k)
				}
			}
			n++
			if at == d.Labels[v] {
				right++
			}
		}
	}
	accuracy := float64(right) / float64(n)
	if accuracy < .39 || accuracy > .49 {
		t.Errorf("naive Bayes is right for a share of %.3f, want about .44: 38 %% of the papers look like another class", accuracy)
	}
}
