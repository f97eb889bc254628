package look

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

// Screen repaints lines of a terminal in place. Output from before stays above them,
// and later output comes below. It can be used by several goroutines.
type Screen struct {
	w     io.Writer
	size  func() (width, height int)
	plain bool // without colours

	mu    sync.Mutex
	shown int // number of lines painted last
}

// NewScreen returns nil if w is not a terminal that can be painted on.
func NewScreen(w io.Writer, p flags.Process) *Screen {
	if !flags.IsTerminal(w) || p.Variable("TERM") == "dumb" {
		return nil
	}
	return &Screen{w: w, plain: p.Variable("NO_COLOR") != "", size: func() (int, int) { return flags.TerminalSize(w) }}
}

// Line is a line of text in one style, and what follows on it in others.
type Line struct {
	Text  string
	Style Style
	Rest  []Line
}

// String returns the text without styles.
func (l Line) String() string {
	text := l.Text
	for _, r := range l.Rest {
		text += r.String()
	}
	return text
}

// Style is an SGR parameter (ECMA-48).
type Style int

const (
	Usual  Style = 0
	Bold   Style = 1
	Faint  Style = 2
	Green  Style = 32
	Yellow Style = 33
)

// Width returns the number of columns, 80 without a terminal.
func (s *Screen) Width() int {
	if s == nil {
		return 80
	}
	width, _ := s.size()
	return width
}

// Paint replaces the lines it painted before, and cuts what does not fit.
func (s *Screen) Paint(lines []Line) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, height := s.size()
	lines = lines[:min(len(lines), max(height-1, 1))]
	b := s.above()
	for _, l := range lines {
		b = append(b, "\r\x1b[K"...) // first: after the last column the cursor is still on it
		b, _ = s.styled(b, l, width)
		b = append(b, '\n')
	}
	b = append(b, "\x1b[J"...)
	s.shown = len(lines)
	_, err := s.w.Write(b)
	return err
}

// Write prints text in place of what was painted, which comes below it when it is painted again.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := append(append(s.above(), "\r\x1b[J"...), text...)
	s.shown = 0
	_, err := s.w.Write(b)
	return len(text), err
}

// Print prints lines for good in place of what was painted.
func (s *Screen) Print(lines []Line) error {
	var b []byte
	for _, l := range lines {
		b, _ = s.styled(b, l, math.MaxInt)
		b = append(b, '\n')
	}
	_, err := s.Write(b)
	return err
}

// above moves the cursor to the first line that was painted.
func (s *Screen) above() []byte {
	if s.shown == 0 {
		return nil
	}
	_, height := s.size()
	return fmt.Appendf(nil, "\x1b[%dA", min(s.shown, max(height-1, 1)))
}

// styled appends a line that is cut to so many columns, and returns how many are left.
func (s *Screen) styled(b []byte, l Line, left int) ([]byte, int) {
	text := cut(l.Text, left)
	if l.Style != Usual && !s.plain {
		b = fmt.Appendf(b, "\x1b[%dm%s\x1b[0m", l.Style, text)
	} else {
		b = append(b, text...)
	}
	left -= uniseg.StringWidth(text)
	for _, r := range l.Rest {
		if left > 0 {
			b, left = s.styled(b, r, left)
		}
	}
	return b, left
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

// columns is the width of what is printed: that of the narrowest terminals.
const columns = 80

// fold prints a text behind a heading, in lines of 80 columns: the second and later ones are indented. A word that is longer has a line
// of its own.
func fold(w io.Writer, heading string, indent int, text string) {
	line, used := heading, uniseg.StringWidth(heading)
	for i, word := range strings.Fields(text) {
		width := uniseg.StringWidth(word)
		if i > 0 && used+1+width > columns {
			fmt.Fprintln(w, line)
			line, used = strings.Repeat(" ", indent), indent
		} else if i > 0 {
			line, used = line+" ", used+1
		}
		line, used = line+word, used+width
	}
	fmt.Fprintln(w, line)
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
