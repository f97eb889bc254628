package worker_test

import (
	"fmt"
	"testing"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestEveryNodeIsPredictedOnce: a worker predicts every node once and refuses every bad
// record once. A second worker replays the ledger and continues where it ends, so that
// nothing is published twice.
func TestEveryNodeIsPredictedOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 100)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(100, 1)
		f.Send(100, 150)
		recovered := int64(0)
		err := f.Run(&tally{}, worker.Config{Events: replay.On(func(r replay.Recovered) { recovered = r.Windows })})
		if err != nil {
			t.Fatal(err)
		}
		if recovered == 0 {
			t.Error("the second worker replayed no windows")
		}
		f.CheckOutputs(150, 2)
	})
}

// TestSchedule: under a schedule every window has exactly the listed numbers of nodes and
// labels, whatever the timing of the fetches.
func TestSchedule(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		f.Send(0, 20)
		var sizes []intake.Size
		schedule := []intake.Size{{Nodes: 8}, {Labels: 3}, {Nodes: 13, Labels: 17}}
		err := f.Run(&tally{}, worker.Config{
			Policy: intake.Schedule{Windows: schedule},
			Events: replay.On(func(s replay.Stepped) {
				sizes = append(sizes, intake.Size{Nodes: len(s.Outcome.Predictions) + len(s.Outcome.Refused), Labels: len(s.Outcome.Labelled)})
			}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(sizes) != fmt.Sprint(schedule) {
			t.Errorf("windows of sizes %v, want %v", sizes, schedule)
		}
	})
}
