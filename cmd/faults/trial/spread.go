package trial

import (
	"context"
	"fmt"
	"strings"
)

// Spreads is the result of [Spread].
type Spreads struct {
	Shards    int   `json:"shards"`
	Processes []int `json:"processes"` // of each run
	Nodes     int   `json:"nodes"`     // predicted in each
	verdict         // runs that have published something else than the first are unequal
}

// Spread runs the stream of [Crash] on a graph of shards whose tasks 1, 2, 4 and 8 processes share. All runs must publish the same bytes, and an audit of each must agree.
func Spread(ctx context.Context, s *Setup) (found *Spreads, err error) {
	defer catch(&err)
	if s.Shards == 0 {
		fail("spread needs --shards")
	}
	m := s.newMatrix()
	found = &Spreads{Shards: s.Shards, Processes: []int{1, 2, 4, 8}}
	var first *published
	for _, n := range found.Processes {
		got, _ := m.run(ctx, fmt.Sprintf("spread-%d", n), plan{workers: n})
		wrong := append(got.faults, m.found.Wrong...)
		m.found.Wrong = nil
		if first == nil {
			first, found.Nodes = got, len(got.predictions)
		} else if d := first.difference(got, 0); d != "" {
			wrong = append(wrong, d)
		}
		if len(wrong) > 0 {
			found.Unequal++
			found.Wrong = append(found.Wrong, fmt.Sprintf("%d processes: %s", n, strings.Join(wrong, "; ")))
		}
		s.Report(fmt.Sprintf("%d processes: %d predictions %v", n, len(got.predictions), wrong))
	}
	return found, nil
}
