package pool

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestMergeRefuses: parts that lack a row, have one twice, or whose pairs and rows to refresh
// are not those of their rows are no batch.
func TestMergeRefuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		breaks func(a, b *Part)
	}{
		{"", func(*Part, *Part) {}},
		{"twice", func(a, _ *Part) { a.Positions[1] = 0 }},
		{"missing", func(_, b *Part) { b.Positions[0] = 9 }},
		{"missing", func(_, b *Part) { b.Positions[0] = -1 }},
		{"positions", func(a, _ *Part) { a.Positions = a.Positions[:1] }},
		{"pair of rows", func(a, _ *Part) { a.Pairs[0] = [2]int32{0, 9} }},
		{"pair of rows", func(a, _ *Part) { a.Pairs[0] = [2]int32{0, 0} }},
		{"pairs", func(a, _ *Part) { a.Pairs[0] = [2]int32{1, 2} }},
		{"to refresh", func(a, _ *Part) { a.Refreshed[0] = 1 }},
		{"to refresh", func(a, _ *Part) { a.Refreshed[1] = 0 }},
	} {
		part := func(positions ...int32) *Part {
			p := &Part{Batch: randomBatch(rand.New(rand.NewPCG(1, 2)), len(positions), small, false), Positions: positions, Refreshed: make([]int32, len(positions))}
			p.Pairs, p.Refresh, p.RefreshLabels = nil, Rows{X: Features{Start: []int{0}}, S: Features{Start: []int{0}}}, nil
			return p
		}
		a, b := part(0, 2), part(1)
		a.Pairs, a.Refreshed[1] = [][2]int32{{0, 1}}, 1
		refresh := randomBatch(rand.New(rand.NewPCG(1, 3)), 1, small, false)
		a.Refresh, a.RefreshLabels = refresh.Rows, refresh.Labels
		c.breaks(a, b)
		var merged Batch
		err := merged.Merge([]*Part{a, b})
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}
