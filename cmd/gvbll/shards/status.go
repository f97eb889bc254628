package shards

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/shards/cuts"
)

// Status is how the shards of a graph are doing, as Kafka has it.
type Status struct {
	// Cuts is the number of windows that were cut, and Complete of those that every shard is
	// done with. Chain is the graph's after the last complete one that a cut names.
	Cuts     int64      `json:"cuts"`
	Cut      *time.Time `json:"cut,omitempty"` // when the last was written, null before the first
	Complete int64      `json:"complete"`
	Chain    string     `json:"chain,omitempty"`
	Tasks    []Task     `json:"tasks"`
}

// Task is the sequencer with the trainer, number 0, or a shard.
type Task struct {
	Task     int           `json:"task"`
	Owner    *look.Member  `json:"owner"` // null without one
	Standbys []look.Member `json:"standbys"`
	// Windows is how many windows it is done with, and Lag how many more were cut. Task 0
	// has none.
	Windows int64 `json:"windows"`
	Lag     int64 `json:"lag"`
	// Awaited says that other shards are further, and wait for this one.
	Awaited bool `json:"awaited"`
}

// name is what people call the task.
func (t *Task) name() string { return topics.TaskName(t.Task) }

// String describes the task in one line, for 'gvbll status'.
func (t *Task) String() string {
	owner := "none"
	if t.Owner != nil {
		owner = t.Owner.String()
	}
	if t.Task > 0 {
		owner += fmt.Sprintf("  %d windows, lag %d", t.Windows, t.Lag)
	}
	for i := range t.Standbys {
		owner += "  standby " + t.Standbys[i].Where()
	}
	if t.Awaited {
		owner += "  waited for"
	}
	return owner
}

// Read reads how the shards of a graph are doing. members are its workers.
func Read(ctx context.Context, g look.Graph, members []look.Member) (*Status, error) {
	s := &Status{}
	// The shards' records are read first: the newest cut is then not behind them.
	for i := range g.Shards + 1 {
		t := Task{Task: i, Standbys: []look.Member{}}
		if i > 0 {
			newest, err := ledger.Newest(ctx, g.Client, g.Names.LedgerAt(i))
			if err != nil {
				return nil, err
			}
			if newest != nil {
				t.Windows = newest.Window + 1
			}
		}
		for j := range members {
			switch m := &members[j]; {
			case slices.Contains(m.Tasks, i):
				t.Owner = m
			case m.StandsBy(i):
				t.Standbys = append(t.Standbys, *m)
			}
		}
		s.Tasks = append(s.Tasks, t)
	}
	newest, err := cuts.NewestCut(ctx, g.Client, g.Names.LedgerAt(0))
	if err != nil {
		return nil, err
	}
	if newest != nil {
		s.Cuts, s.Cut = newest.Window+1, &newest.Written
		if newest.Done != nil {
			s.Chain = newest.Done.Chain
		}
	}
	s.Compare()
	return s, nil
}

// Compare computes who lags and who is waited for.
func (s *Status) Compare() {
	first, of := &s.Tasks[0], s.Tasks[1:]
	least := slices.MinFunc(of, func(a, b Task) int { return cmp.Compare(a.Windows, b.Windows) }).Windows
	most := slices.MaxFunc(of, func(a, b Task) int { return cmp.Compare(a.Windows, b.Windows) }).Windows
	first.Windows, s.Complete = s.Cuts, least
	for i := range of {
		t := &of[i]
		t.Lag = max(s.Cuts-t.Windows, 0)
		t.Awaited = t.Windows == least && t.Lag > 0 && (least < most || t.Owner == nil)
	}
	first.Awaited = first.Owner == nil
}

// Beside returns the status of the graph and this one as one value to be printed as JSON.
func (s *Status) Beside(g *look.Status) any {
	return struct {
		*look.Status
		Shards *Status `json:"shards"`
	}{g, s}
}

// Owners prints a line for each task, with its name and its owner.
func (s *Status) Owners(w io.Writer) {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		fmt.Fprintf(w, "%s\t%s\n", t.name(), t)
	}
}

// cutsAhead is how many windows are cut ahead of the slowest shard, at most.
const cutsAhead = 8

// Findings lists what is wrong with the tasks of a sharded graph.
func (s *Status) Findings() (found []look.Finding) {
	var unowned []string
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Owner == nil {
			unowned = append(unowned, t.name())
		} else if t.Lag > cutsAhead {
			found = append(found, look.Finding{Alert: "GvbllLagGrowing", What: fmt.Sprintf("%s is %d windows behind the cuts", t.name(), t.Lag)})
		}
	}
	switch {
	case len(unowned) == len(s.Tasks):
		found = append([]look.Finding{{Alert: "GvbllNoOwner", What: "no worker runs: start 'gvbll work'"}}, found...)
	case len(unowned) > 0:
		found = append([]look.Finding{{Alert: "GvbllShardWithoutOwner", What: "nobody owns " + strings.Join(unowned, ", ") + ", and every window waits for it: start a worker"}}, found...)
	}
	return found
}
