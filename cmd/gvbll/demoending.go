package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// ending says what people remember of a demo: how often what served was right, how far its
// probabilities can be believed, and how the model as trained would have done.
func (s *demoSummary) ending(width int) (lines []look.Line) {
	say := func(style look.Style, format string, args ...any) {
		lines = append(lines, look.Line{Text: fmt.Sprintf(format, args...), Style: style})
	}
	served, static := &s.Served.Stream, &s.Static.Stream
	say(look.Bold, "What serves was right for %s of the nodes, at the end for %s.", percent(served.Acc), percent(s.Right.Served.Last))
	if f := s.Right.Static; s.sank() {
		say(look.Bold, "The model as trained was right for %s: it sank from %s to %s.", percent(static.Acc),
			percent(f.First), percent(f.Last))
	} else {
		say(look.Bold, "The model as trained was right for %s, at the end for %s.", percent(static.Acc), percent(f.Last))
	}
	if b, sure := surest(&s.Reliability.Served); b.Count > 0 {
		say(look.Bold, "Of the %s predictions that it called %d %% sure or more, %s were right.",
			look.Grouped(int(b.Count)), sure, percent(right(&b)))
	}
	if s.Rare != nil {
		for _, line := range s.Rare.lines("them") {
			say(look.Bold, "%s", line)
		}
	}
	if s.Acted != nil {
		say(look.Bold, "%s", s.Acted.line())
	}
	say(look.Usual, "")
	lines = append(lines, strip(&s.Reliability.Served, &s.Reliability.Static, width)...)
	say(look.Usual, "")
	say(look.Usual, "The mean gap between said and right (ECE) is %.3f; as trained, %.3f.", served.ECE, static.ECE)
	say(look.Usual, "Perfect probabilities have up to %.3f, by chance, with %s labels.", served.Chance, look.Grouped(s.Labels))
	say(look.Usual, "")
	if s.Arrivals == s.Predictions { // or else others send events, too
		say(look.Usual, "%s nodes arrived, and each has exactly one prediction in Kafka.", look.Grouped(s.Arrivals))
	}
	say(look.Usual, "Next: 'gvbll demo --data FOLDER' with your own graph; README.md for your Kafka.")
	return lines
}

// sank reports whether the model as trained was right less often in the last fifth of the steps than
// in the first, by more than chance.
func (s *demoSummary) sank() bool {
	f, n := s.Right.Static, float64(max(s.Labels/5, 1))
	return f.First-f.Last > 2*math.Sqrt((f.First*(1-f.First)+f.Last*(1-f.Last))/n)
}

// fifths are the accuracies over the first and over the last fifth of the steps.
type fifths struct {
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

func fifthsOf(steps []calibration.Tally) fifths {
	n := (len(steps) + 4) / 5
	first, last := sum(steps[:n]), sum(steps[len(steps)-n:])
	return fifths{first.Means().Acc, last.Means().Acc}
}

// surest returns the predictions of at least so many percent, the highest tens of which there are
// enough to say how often they were right.
func surest(bins *calibration.Bins) (b calibration.Bin, percent int) {
	const enough = 20
	for i := calibration.BinCount - 2; i >= 0 && b.Count < enough; i -= 2 {
		b, percent = bins.Between(i, calibration.BinCount), 5*i
	}
	return b, percent
}

// tenth returns the predictions with a confidence from i tenths on, below the next.
func tenth(bins *calibration.Bins, i int) calibration.Bin { return bins.Between(2*i, 2*i+2) }

// right returns the share of the predictions of a bin that were right.
func right(b *calibration.Bin) float64 { return float64(b.Correct) / float64(b.Count) }

// strip draws how often predictions were right by the probability that they were given, of what
// served and of the model as trained. A mark is where the bar of a probability ends that is right.
func strip(served, static *calibration.Bins, width int) []look.Line {
	room := min(max((width-41)/2, 8), 40) // columns of a bar
	bar := func(b calibration.Bin, style look.Style) []look.Line {
		if b.Count == 0 {
			return []look.Line{{Text: strings.Repeat(" ", room+14)}}
		}
		cells := []rune(look.Bar(right(&b), room))
		cells[min(int(b.SumConfidence/float64(b.Count)*float64(room)), room-1)] = '│'
		return []look.Line{
			{Text: string(cells), Style: style},
			{Text: fmt.Sprintf(" %5s %7s", percent(right(&b)), look.Grouped(int(b.Count)))},
		}
	}
	lines := []look.Line{{Text: fmt.Sprintf("    said  %-*s   %s", room+14, "what serves was right",
		"the model as trained (│: as said)"), Style: look.Faint}}
	for i := 9; i >= 0; i-- {
		line := look.Line{Text: fmt.Sprintf("%2d-%3d %%  ", 10*i, 10*i+10)}
		line.Rest = slices.Concat(bar(tenth(served, i), look.Green), []look.Line{{Text: "   "}}, bar(tenth(static, i), look.Yellow))
		lines = append(lines, line)
	}
	return lines
}

// sum returns the sums over all steps.
func sum(steps []calibration.Tally) (all calibration.Tally) {
	for i := range steps {
		all.Merge(&steps[i])
	}
	return all
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
