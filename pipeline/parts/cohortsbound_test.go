package parts

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/gnn/snapshot/snapshottest"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/store"
)

// TestManyCohorts: of ten thousand values the first are told apart, all others are one.
func TestManyCohorts(t *testing.T) {
	c := Cohorts{By: By{Attribute: ByID, Values: mostCohorts}}
	for i := range 500 * mostCohorts {
		at := c.cohort(&event.Node{ID: event.ID{Str: fmt.Sprintf("%d:x", i)}})
		if want := int64(i + 1); i < mostCohorts && at != want || i >= mostCohorts && at != 0 {
			t.Fatalf("value %d is cohort %d", i, at)
		}
	}
	if len(c.values) != mostCohorts {
		t.Errorf("%d values are kept", len(c.values))
	}
}

// TestStateOfManyCohorts: the largest scores that there can be are restored, and ten times as many bytes as they may have are not.
func TestStateOfManyCohorts(t *testing.T) {
	cohorts := func() *Cohorts {
		return &Cohorts{By: By{Values: mostCohorts}, kept: store.NewSlotTable[int64](2), pending: serve.NewPending(1, 1, serve.PendingConfig{})}
	}
	restored := func(state func(*snapshot.Schema)) error { return snapshottest.Copy(t, state, cohorts().state) }
	c := cohorts()
	for i := range mostCohorts {
		c.values = append(c.values, nameOf(fmt.Sprint(i)+strings.Repeat("<", mostValueSize)))
		score := serve.Cohort{Value: c.values[i]}
		for k := range score.Odds {
			score.Odds[k].Rows, score.Odds[k].Labels, score.Odds[k].Sum = math.MaxFloat64, math.MaxFloat64, math.Pi
		}
		c.scores.List = append(c.scores.List, score)
	}
	if err := restored(c.state); err != nil {
		t.Error(err)
	}
	if err := restored(func(s *snapshot.Schema) {
		long, err := json.Marshal(cohortsState{Values: []string{strings.Repeat("x", 10*mostState)}})
		if err != nil {
			t.Fatal(err)
		}
		store.DeclareRows(s, "cohorts.kept", &c.kept, c.pending.Nodes.WalkSlots(), 0, nil, 2)
		snapshot.Slice(s, "cohorts.scores", &long, len(long))
	}); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a state of ten times as many bytes: %v", err)
	}
}
