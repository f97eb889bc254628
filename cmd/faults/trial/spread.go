package trial

import (
	"context"
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Spreads is the result of [Spread].
type Spreads struct {
	Shards    int      `json:"shards"`
	Processes []int    `json:"processes"` // of each run
	Nodes     int      `json:"nodes"`     // predicted in each
	Wrong     []string `json:"wrong,omitempty"`
}

// Err returns an error if a run has published something else than the first.
func (s *Spreads) Err() error {
	if len(s.Wrong) > 0 {
		return errBroken
	}
	return nil
}

// String returns one line of counts.
func (s *Spreads) String() string {
	return fmt.Sprintf("spread: %d shards on %v processes, %d nodes each: %d runs with other bytes, windows or dead letters than the first", s.Shards, s.Processes, s.Nodes, len(s.Wrong))
}

// Spread runs the stream of [Crash] on a graph of shards whose tasks so many processes share, for
// each of the numbers. All runs must publish the same bytes, and an audit of each must agree.
func Spread(ctx context.Context, s *Setup, seed uint64, processes []int, report func(string)) (*Spreads, error) {
	client, err := kafka.Dial(ctx, kafka.Config{Brokers: s.Brokers})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	m := s.newMatrix(client, seed)
	found := &Spreads{Shards: s.Shards, Processes: processes}
	var first *published
	for _, n := range processes {
		got, _, err := m.run(ctx, fmt.Sprintf("spread-%d", n), plan{workers: n})
		if err != nil {
			return nil, fmt.Errorf("%d processes: %w", n, err)
		}
		wrong := append(got.faults, m.found.Faults...)
		m.found.Faults = nil
		if first == nil {
			first, found.Nodes = got, len(got.predictions)
		} else if d := first.difference(got, 0); d != "" {
			wrong = append(wrong, d)
		}
		if len(wrong) > 0 {
			found.Wrong = append(found.Wrong, fmt.Sprintf("%d processes: %s", n, strings.Join(wrong, "; ")))
		}
		report(fmt.Sprintf("%d processes: %d predictions %v", n, len(got.predictions), wrong))
	}
	return found, nil
}
