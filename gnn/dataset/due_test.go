package dataset

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
)

// daily returns nodes of ten days, one a day from 2026-03-01 on, all labelled but the last.
func daily() *Dataset {
	d := &Dataset{Name: "daily", Dim: 1, Features: make([]gnn.Vector, 10), Classes: []string{"a", "b"}}
	for v := range 10 {
		d.Labels, d.Time = append(d.Labels, int32(v%2)), append(d.Time, float64(1_772_323_200_000+v*86_400_000))
	}
	d.Labels[9] = Unlabelled
	return d
}

// TestLabelsThatHaveCome: with labels two days late, those that train by a date are the ones whose label has come by then. The
// others are in the graph before the stream, and their labels come in it: before the first step that begins later, by the end, or after it.
func TestLabelsThatHaveCome(t *testing.T) {
	d := daily()
	until, err := d.ParseTime("2026-03-06")
	if err != nil || until != d.Time[5] {
		t.Fatalf("2026-03-06 is %v (%v), want %v", until, err, d.Time[5])
	}
	if err := d.DelayLabels(2 * 86_400_000); err != nil || !math.IsNaN(d.LabelTime[9]) {
		t.Fatalf("label times %v (%v), want NaN for the one without a label", d.LabelTime, err)
	}
	s, err := d.Cut(Cut{Until: &until, Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := Stream{Train: []int32{0, 1, 2, 3}, Warmup: []int32{4}, Steps: [][]int32{{5, 6, 7}, {8, 9}}, Ordered: true, How: "before 2026-03-06T00:00:00Z, 2 steps"}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("cut, -want +got:\n%s", diff)
	}
	// Node 8 begins the second step on the 9th: the labels of 4 (7th), 5 (8th) and 6 (9th) are there, that of 7 comes on the
	// 10th, as the last node does, and that of 8 on the 11th.
	if diff := cmp.Diff([][]int32{{0, 1, 2, 3}, {4, 5, 6}, {7}, {8}}, d.Due(s, 0)); diff != "" {
		t.Errorf("due, -want +got:\n%s", diff)
	}
	d.LabelTime = nil
	if diff := cmp.Diff([][]int32{{0, 1, 2, 3, 4}, nil, {5, 6, 7}, {8}}, d.Due(s, 1)); diff != "" {
		t.Errorf("due a step late, -want +got:\n%s", diff)
	}
	share, err := d.Cut(Cut{Share: .5, Steps: 2})
	if err != nil || len(share.Train) != 4 {
		t.Fatalf("%v (%v), want half of the 9 labels", share, err)
	}
	d.LabelTime = slices.Repeat([]float64{Never}, 10)
	if _, err := d.Cut(Cut{Share: .5}); err == nil || !strings.Contains(err.Error(), "all come after 2026-03-04T00:00:00Z") {
		t.Errorf("labels that never come: error %v", err)
	}
}

// TestUnitOfTimes: a date is read in the unit of the nodes' times, and a delay is, too. Where they have none, both are refused.
func TestUnitOfTimes(t *testing.T) {
	for _, unit := range []struct {
		name string
		ms   float64
	}{{"ms", 1}, {"s", 1000}, {"days", 86_400_000}} {
		d := daily()
		for v := range d.Time {
			d.Time[v] /= unit.ms
		}
		if at, err := d.ParseTime("2026-03-02T00:00:00Z"); err != nil || at != d.Time[1] || d.FormatTime(at) != "2026-03-02T00:00:00Z" {
			t.Errorf("%s: %v is %s (%v), want %v", unit.name, at, d.FormatTime(at), err, d.Time[1])
		}
		if err := d.DelayLabels(86_400_000); err != nil || d.LabelTime[3] != d.Time[4] {
			t.Errorf("%s: a day late is %v (%v), want %v", unit.name, d.LabelTime[3], err, d.Time[4])
		}
	}
	years := timed()
	if at, err := years.ParseTime("5.5"); err != nil || at != 5.5 || years.FormatTime(at) != "5.5" {
		t.Errorf("5.5 is %v (%v)", at, err)
	}
	if _, err := years.ParseTime("2026-03-02"); err == nil || !strings.Contains(err.Error(), "is a date, and times go from 2 to 6") {
		t.Errorf("a date among other numbers: error %v", err)
	}
	if years.DelayLabels(1) == nil {
		t.Error("a delay in a unit that nobody knows is taken")
	}
	years.Time = nil
	if _, err := years.ParseTime("5"); err == nil {
		t.Error("a time of nodes without times is taken")
	}
}
