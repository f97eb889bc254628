package flags

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Progress shows the progress of a long task: on a terminal in one line, which is gone at the
// end, and otherwise in a line for each tenth.
type Progress struct {
	w            io.Writer
	what         string
	total        int
	width        func() int // of the terminal; nil without one
	began, drawn time.Time
	shown        int // tenths printed
}

// NewProgress returns the progress of a task of so many parts.
func NewProgress(w io.Writer, what string, total int) *Progress {
	p := &Progress{w: w, what: what, total: max(total, 1), began: time.Now()}
	if IsTerminal(w) {
		p.width = func() int {
			width, _ := TerminalSize(w)
			return width
		}
	}
	return p
}

// betweenDrawings is long enough that drawing costs nothing, and short enough to look live.
const betweenDrawings = 50 * time.Millisecond

// Set shows that n of total are done, with a note.
func (p *Progress) Set(n int, note string) {
	percent := min(n*100/p.total, 100)
	switch {
	case p.width == nil:
		if percent/10 > p.shown {
			p.shown = percent / 10
			fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("%s %3d%% %s", p.what, percent, note), " "))
		}
	case n >= p.total:
		fmt.Fprint(p.w, "\r\x1b[K")
	case time.Since(p.drawn) >= betweenDrawings:
		p.drawn = time.Now()
		left := ""
		if n > 0 {
			rest := time.Duration(float64(time.Since(p.began)) * float64(p.total-n) / float64(n))
			left = ", " + ShortDuration(rest.Round(time.Second)) + " left"
		}
		line := []rune(fmt.Sprintf("%s %3d%%%s  %s", p.what, percent, left, note))
		fmt.Fprintf(p.w, "\r\x1b[K%s", string(line[:min(len(line), max(p.width()-1, 0))]))
	}
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalSize returns the columns and lines of a terminal, 80 and 24 if they cannot be told.
func TerminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	return 80, 24
}
