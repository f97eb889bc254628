package dataset

import (
	"math"
	"slices"
	"testing"
)

// TestFeaturesDrift: the mean features of a class move between training and the end of the
// stream by more the stronger the drift, and without drift by sampling noise only.
func TestFeaturesDrift(t *testing.T) {
	moved := make(map[string]float64)
	for _, kind := range []string{"none", "moderate", "strong", "abrupt"} {
		c, err := DriftPreset(kind)
		if err != nil {
			t.Fatal(err)
		}
		c.Classes, c.Drift.Late = 8, 0
		// Crossing nodes have the features of another class. Their share must not change.
		c.Drift.Hom, c.Drift.HomJump = 0, 0
		d, s, err := Drift(c)
		if err != nil {
			t.Fatal(err)
		}
		early, n := classMeans(d, s.Train[len(s.Train)*3/4:])
		late, m := classMeans(d, slices.Concat(s.Steps[60:]...))
		classes := 0.0
		for k := range early {
			if n[k] < 50 || m[k] < 50 {
				continue // the mean of few nodes is mostly noise
			}
			classes++
			square := 0.0
			for j := range early[k] {
				square += (late[k][j] - early[k][j]) * (late[k][j] - early[k][j])
			}
			moved[kind] += math.Sqrt(square)
		}
		if classes < 3 {
			t.Fatalf("%s: %v classes with enough nodes, want 3", kind, classes)
		}
		moved[kind] /= classes
	}
	t.Logf("distance between a class's means, on average: %v", moved)
	if moved["moderate"] < 1.2*moved["none"] || moved["strong"] < 1.5*moved["moderate"] || moved["abrupt"] < 2*moved["none"] {
		t.Errorf("distance between a class's means: %v", moved)
	}
}

// classMeans returns the mean features and the number of the given nodes, by class.
func classMeans(d *Dataset, nodes []int32) (means [][]float64, count []int) {
	means, count = make([][]float64, len(d.Classes)), make([]int, len(d.Classes))
	for k := range means {
		means[k] = make([]float64, d.Dim)
	}
	for _, v := range nodes {
		count[d.Labels[v]]++
	}
	for _, v := range nodes {
		y := d.Labels[v]
		for j, x := range d.Features[v].Dense {
			means[y][j] += float64(x) / float64(count[y])
		}
	}
	return means, count
}
