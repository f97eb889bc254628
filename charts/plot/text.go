package plot

import (
	"strings"
	"unicode"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// maxText is the number of characters after which any text is cut.
const maxText = 160

// clean returns a text that can be drawn and is valid in XML: characters that
// cannot be printed become spaces, and runs of spaces one space.
func clean(s string) string {
	s = s[:min(len(s), 8*maxText)]
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > maxText {
		s = string(runes[:maxText-1]) + "…"
	}
	return s
}

// fit cuts a text that is wider than width, and ends it with an ellipsis.
func fit(sty text.Style, s string, width vg.Length) string {
	runes := []rune(s)
	for n := len(runes) - 1; n >= 0 && sty.Width(s) > width; n-- {
		s = string(runes[:n]) + "…"
	}
	return s
}
