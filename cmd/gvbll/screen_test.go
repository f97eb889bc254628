package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestDemoView: the view shows the progress of the stream, and both heads with the curves
// of their NLL on one scale.
func TestDemoView(t *testing.T) {
	d := &demoShow{total: 4, bins: 10, scores: []pipeline.Summary{{Head: "online"}, {Head: "static"}}}
	for i := range 3 {
		d.step++
		d.record(&event.Outcome{Labelled: make([]event.Labelled, 1), Heads: []event.Head{
			{Scores: []event.Score{{LogLoss: 1}}}, {Scores: []event.Score{{LogLoss: float64(1 + i)}}},
		}})
	}
	lines := d.view()
	if len(lines) != 4 || !strings.HasPrefix(lines[0].Text, "step 3 of 4  ██████████████████░░░░░░  75%") ||
		!strings.HasSuffix(lines[2].Text, "  ▁▁▁") || !strings.HasSuffix(lines[3].Text, "  ▁▅█") {
		t.Errorf("the view is %v", fmt.Sprint(lines))
	}
}
