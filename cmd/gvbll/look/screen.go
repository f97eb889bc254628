package look

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// Screen repaints lines of a terminal in place. Output from before stays above them,
// and later output comes below.
type Screen struct {
	w     io.Writer
	size  func() (width, height int)
	shown int  // number of lines painted last
	plain bool // without colours
}

// NewScreen returns nil if w is not a terminal that can be painted on.
func NewScreen(w io.Writer, p flags.Process) *Screen {
	if !flags.IsTerminal(w) || p.Variable("TERM") == "dumb" {
		return nil
	}
	f := w.(*os.File)
	return &Screen{w: w, plain: p.Variable("NO_COLOR") != "", size: func() (int, int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 1 || height < 1 {
			return 80, 24
		}
		return width, height
	}}
}

// Line is a line of text in one style.
type Line struct {
	Text  string
	Style Style
}

// Style is an SGR parameter (ECMA-48).
type Style int

const (
	Usual Style = 0
	Bold  Style = 1
	Faint Style = 2
)

// Paint replaces the lines it painted before, and cuts what does not fit.
func (s *Screen) Paint(lines []Line) error {
	width, height := s.size()
	lines = lines[:min(len(lines), max(height-1, 1))]
	var b strings.Builder
	if s.shown > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", min(s.shown, max(height-1, 1)))
	}
	for _, l := range lines {
		text := cut(l.Text, width)
		if l.Style != Usual && !s.plain {
			text = fmt.Sprintf("\x1b[%dm%s\x1b[0m", l.Style, text)
		}
		b.WriteString("\r" + text + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.shown = len(lines)
	_, err := io.WriteString(s.w, b.String())
	return err
}

// cut shortens a text to the given number of columns.
func cut(s string, width int) string {
	if uniseg.StringWidth(s) <= width {
		return s
	}
	var b strings.Builder
	used := 1 // the ellipsis
	for state := -1; len(s) > 0; {
		var cluster string
		var w int
		cluster, s, w, state = uniseg.FirstGraphemeClusterInString(s, state)
		if used += w; used > width {
			break
		}
		b.WriteString(cluster)
	}
	return b.String() + "…"
}

// shown returns a text from outside without characters that could move the cursor of
// a terminal or change its colours.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

// column pads or cuts a text to the given number of columns.
func column(s string, width int) string {
	s = cut(shown(s), width)
	return s + strings.Repeat(" ", max(width-uniseg.StringWidth(s), 0))
}

// Bar draws a share as a bar of the given width.
func Bar(share float64, width int) string {
	full := min(max(int(share*float64(width)+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// Spark draws the last values that fit into the width, scaled from lo to hi.
func Spark(values []float64, lo, hi float64, width int) string {
	const marks = "▁▂▃▄▅▆▇█"
	steps := []rune(marks)
	var b strings.Builder
	for _, v := range values[max(len(values)-width, 0):] {
		at := 0
		if hi > lo {
			at = min(max(int((v-lo)/(hi-lo)*float64(len(steps))), 0), len(steps)-1)
		}
		b.WriteRune(steps[at])
	}
	return b.String()
}
