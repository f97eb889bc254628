package dataset

import (
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/gvbll/gvbll/gnn/attributes"
)

// TestPayments: a payment names older nodes only, its own card, merchant and device among
// them; one in so many is a fraud, which is known 20 to 60 days later; with a strong drift
// frauds pay less and less. What is saved is read again as it was.
func TestPayments(t *testing.T) {
	c := PaymentsConfig{Payments: 20_000, Seed: 1, OneIn: 30, Drift: 1}
	d, known, err := Payments(c)
	if err != nil {
		t.Fatal(err)
	}
	frauds, own := 0, make([]int, len(d.Labels))
	var early, late []float64 // amounts of frauds, in training and in the last month
	for v, y := range d.Labels {
		days := (float64(known[v]) - d.Time[v]) / day
		switch {
		case d.Context[v] != (y == Unlabelled):
			t.Fatalf("node %d: context %t, label %d", v, d.Context[v], y)
		case y == 0 && math.Abs(days-mostLate) > 1e-6, y == 1 && !(days >= leastLate-1e-6 && days <= mostLate):
			t.Fatalf("the label %d of node %d is known after %v days", y, v, days)
		case y == 1:
			frauds++
			amount, _ := strconv.ParseFloat(d.Table[0].Texts[v], 64)
			if at := (d.Time[v] - paymentsBegin) / day; at < trainDays {
				early = append(early, amount)
			} else if at > paymentDays-30 {
				late = append(late, amount)
			}
		}
		if v > 0 && d.Time[v] < d.Time[v-1] {
			t.Fatalf("node %d comes before node %d", v, v-1)
		}
	}
	if frauds < 550 || frauds > 780 {
		t.Errorf("%d frauds in %d payments, want one in %d", frauds, c.Payments, c.OneIn)
	}
	if a, b := middle(early), middle(late); !(b < a/2) {
		t.Errorf("the median fraud is of %v in training and of %v at the end, want less than half", a, b)
	}
	for e, ends := range d.Edges {
		if ends[1] >= ends[0] || d.Marks[e].Weight <= 0 || d.Marks[e].Weight > 1 {
			t.Fatalf("the edge %v of weight %v", ends, d.Marks[e].Weight)
		}
		if d.Context[ends[1]] {
			own[ends[0]]++
		}
	}
	for v, n := range own {
		if !d.Context[v] && n != 3 {
			t.Fatalf("payment %d has %d of card, merchant and device", v, n)
		}
	}
	dir := t.TempDir()
	if err := d.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(d.Table, again.Table, sameColumn) || !slices.Equal(d.Edges, again.Edges) || !slices.Equal(d.Marks, again.Marks) || !slices.Equal(d.Labels, again.Labels) {
		t.Error("what was saved is read as something else")
	}
}

func sameColumn(a, b attributes.Column) bool {
	return a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Texts, b.Texts)
}

func middle(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }
