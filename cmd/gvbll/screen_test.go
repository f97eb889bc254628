package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/service"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// TestDemoView: the view shows the progress of the stream, how often what served and the model as
// trained were right by step, and how often by confidence.
func TestDemoView(t *testing.T) {
	d := &demoShow{total: 4, scores: []pipeline.Summary{{Head: "online"}, {Head: "static"}}}
	for i := range 3 {
		d.arrivals += 1000
		d.record(&event.Outcome{Labelled: make([]event.Labelled, 2), Heads: []event.Head{
			{Scores: []event.Score{{Confidence: .95, Correct: true}, {Confidence: .95, Correct: true}}},
			{Scores: []event.Score{{Confidence: .95, Correct: i < 2}, {Confidence: .5, Correct: i < 1}}},
		}}, 10)
	}
	var text strings.Builder
	for _, l := range d.view(80) {
		text.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	const want = `step 3 of 4  ███████████████░░░░░  75 %  3,000 predicted, 0 labels

what serves was right for     100 %  ███
the model as trained, for      50 %  █▅▁

    said  what serves was right               the model as trained (│: as said)
90-100 %  ██████████████████│ 100 %       6   █████████████░░░░░│  67 %       3
`
	if got := text.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "\n50- 60 %                                      ██████░░░│░░░░░░░░░  33 %       3\n") {
		t.Errorf("the view is\n%swant\n%s", got, want)
	}
}

// TestDemoEnding: a model that was as good at the end as at the beginning did not sink, and where few
// predictions are sure, the next less sure ones count.
func TestDemoEnding(t *testing.T) {
	s := demoSummary{Labels: 500, Arrivals: 500, Static: demoScores{Stream: calibration.Means{Acc: .6}}}
	s.Right.Static = fifths{First: .62, Last: .57}
	s.Reliability.Served[19] = calibration.Bin{Count: 19, Correct: 19, SumConfidence: 18}
	s.Reliability.Served[16] = calibration.Bin{Count: 21, Correct: 13, SumConfidence: 17}
	var text strings.Builder
	for _, l := range s.ending(80) {
		text.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	for _, want := range []string{"was right for 60 %, at the end for 57 %.", "Of the 40 predictions that it called 80 % sure or more, 80 % were right."} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the demo ends with\n%swant %q", &text, want)
		}
	}
}

// TestPageStays: after the demo the page stays for ten minutes while nobody has it open.
func TestPageStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		awaitReader(t.Context(), flags.Process{In: strings.NewReader("\n")}, new(service.Web))
		if stayed := time.Since(began); stayed != 10*time.Minute {
			t.Errorf("the page stayed for %v", stayed)
		}
	})
}
