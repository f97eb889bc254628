package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows the progress of a long task: a bar on a terminal, otherwise a line for
// each tenth.
type progress struct {
	w     io.Writer
	what  string
	total int
	bar   *progressbar.ProgressBar
	shown int // tenths printed
}

func newProgress(w io.Writer, what string, total int) *progress {
	p := &progress{w: w, what: what, total: max(total, 1)}
	if isTerminal(w) {
		p.bar = progressbar.NewOptions(p.total,
			progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(what), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true),
			progressbar.OptionThrottle(50*time.Millisecond), progressbar.OptionClearOnFinish())
	}
	return p
}

// set shows that n of total are done, with a note.
func (p *progress) set(n int, note string) {
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
