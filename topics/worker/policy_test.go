package worker

import (
	"testing"
	"time"
)

func TestCountOrLinger(t *testing.T) {
	p := CountOrLinger{Count: 3, Linger: time.Second}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"nothing is waiting", Buffered{}, Cut{}},
		{"the first waits", Buffered{Nodes: 1, Waited: 300 * time.Millisecond}, Cut{Within: 700 * time.Millisecond}},
		{"it has waited long enough", Buffered{Nodes: 1, Waited: time.Second}, Cut{Nodes: 1, Cause: "linger"}},
		{"enough nodes", Buffered{Nodes: 5, Labels: 1}, Cut{Nodes: 3, Labels: 1, Cause: "count"}},
		{"enough labels", Buffered{Labels: 4}, Cut{Labels: 3, Cause: "count"}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestSchedule(t *testing.T) {
	p := Schedule{Windows: []Size{{Nodes: 2}, {Labels: 1}}}
	for _, c := range []struct {
		name string
		b    Buffered
		want Cut
	}{
		{"not all of the step is here", Buffered{Nodes: 1, Labels: 9}, Cut{}},
		{"what comes early waits", Buffered{Nodes: 5, Labels: 9}, Cut{Nodes: 2, Cause: "schedule"}},
		{"then the labels", Buffered{Window: 1, Nodes: 3, Labels: 9}, Cut{Labels: 1, Cause: "schedule"}},
		{"after the end, nothing", Buffered{Window: 2, Nodes: 3, Labels: 8}, Cut{}},
	} {
		if got := p.Cut(c.b); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	p.Then = CountOrLinger{Count: 1}
	if got := p.Cut(Buffered{Window: 2, Nodes: 3}); got.Cause != "count" {
		t.Errorf("after the end, with another policy: %+v", got)
	}
}
