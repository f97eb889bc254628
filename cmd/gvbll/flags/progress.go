package flags

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Progress shows the progress of a long task: a bar on a terminal, otherwise a line for
// each tenth.
type Progress struct {
	w     io.Writer
	what  string
	total int
	bar   *progressbar.ProgressBar
	shown int // tenths printed
}

// NewProgress returns the progress of a task of so many parts.
func NewProgress(w io.Writer, what string, total int) *Progress {
	p := &Progress{w: w, what: what, total: max(total, 1)}
	if IsTerminal(w) {
		p.bar = progressbar.NewOptions(p.total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

// Set shows that n of total are done, with a note.
func (p *Progress) Set(n int, note string) {
	if p.bar != nil {
		p.bar.Describe(p.what + " " + note)
		_ = p.bar.Set(n)
		return
	}
	if tenth := n * 10 / p.total; tenth > p.shown {
		p.shown = tenth
		fmt.Fprintf(p.w, "%s %3d%% %s\n", p.what, n*100/p.total, note)
	}
}

// IsTerminal reports whether a writer is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
