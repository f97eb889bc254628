package parts

import (
	"fmt"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestManyCohorts: of ten thousand values the first are told apart, all others are one.
func TestManyCohorts(t *testing.T) {
	c := Cohorts{By: By{Attribute: ByID, Values: mostCohorts}}
	for i := range 10_000 {
		at := c.cohort(&event.Node{ID: event.ID{Str: fmt.Sprintf("%d:x", i)}})
		if want := int64(i + 1); i < mostCohorts && at != want || i >= mostCohorts && at != 0 {
			t.Fatalf("value %d is cohort %d", i, at)
		}
	}
	if len(c.values) != mostCohorts {
		t.Errorf("%d values are kept", len(c.values))
	}
}
