package look_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestTailSaysWhy: a line says in words what moved the prediction, and nothing that would move a terminal's cursor.
func TestTailSaysWhy(t *testing.T) {
	p := event.Prediction{Node: event.ID{Str: "t1"}, Class: "fraud"}
	tail := func() string {
		var b strings.Builder
		if err := look.PrintTail(&b, &p); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(b.String(), "\n") {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("a line of more than 80 columns: %q", line)
			}
		}
		return strings.ReplaceAll(b.String(), "\n    ", " ")
	}
	if got := tail(); strings.Contains(got, "why") {
		t.Errorf("without reasons: %s", got)
	}
	p.Reasons = &event.Causes{Class: "fraud", List: []event.Cause{
		{What: event.OfKey, Name: "card", Value: "7", Labelled: 3, OfClass: 2, By: 2.4},
		{What: event.OfAttribute, Name: "amount", Along: []string{"cents"}, Value: "912", Usual: "12", By: 1.9},
		{What: event.OfNeighbour, Node: event.ID{Num: 17}, Labelled: 1, OfClass: 1, By: .8},
		{What: event.OfNeighbour, Node: event.ID{Str: "n"}, Labelled: 1, By: -.25},
		{What: event.OfLabels, By: -.04},
		{What: event.OfAttribute, Name: "note", Value: "a\x1b[2J"},
	}}
	const want = "  why fraud: card 7: 2 of 3 are fraud: +2.4; amount 912 and cents (usually 12): +1.9; neighbour 17 (fraud): +0.8; " +
		"neighbour n (not fraud): -0.2; labels around: -0.04; note a"
	got := tail()
	if !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("%q, want %q in it", got, want)
	}
}
