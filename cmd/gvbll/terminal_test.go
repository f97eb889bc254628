//go:build unix

package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/chromedp"
	"github.com/creack/pty"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
)

// TestTerminal runs the demo in a terminal and gvbll tail in another, and checks what the
// terminals show at the end: live views are painted in place, and nothing is left of
// earlier ones. If GVBLL_SCREENSHOTS names a folder, it makes the pictures of
// docs/pictures there.
func TestTerminal(t *testing.T) {
	t.Parallel()
	args := slices.DeleteFunc(smallDemo(t), func(arg string) bool { return arg == "--json" })
	dir := filepath.Join(t.TempDir(), "demo")
	demo := inTerminal(t, 100, 40, append(args, "--dir", dir)...)
	for _, want := range []string{"step 12 of 12", "100%", "mean over steps", "in hindsight", "add --keep"} {
		if n := strings.Count(strings.Join(demo.texts(), "\n"), want); n != 1 {
			t.Errorf("the terminal shows %q %d times, want once:\n%s", want, n, strings.Join(demo.texts(), "\n"))
		}
	}
	saveTerminal(t, "terminal-demo.png", "gvbll demo", demo)

	b, err := demoCmd{Dir: dir}.broker(flags.Process{}) // with the predictions of the demo
	must(t, err)
	t.Cleanup(b.Close)
	addr := b.Addr()
	tail := inTerminal(t, 80, 18, "tail", "--brokers", addr, "--no-follow")
	texts := tail.texts()
	if len(texts) != 17 || !strings.Contains(texts[0], "predictions, ") || !strings.HasPrefix(texts[1], "NODE") || !strings.Contains(texts[16], "█") {
		t.Errorf("the live table has %d lines, want 17:\n%s", len(texts), strings.Join(texts, "\n"))
	}
	saveTerminal(t, "terminal-tail.png", "gvbll tail", tail)
}

// display is what a terminal shows: lines of glyphs, and the cursor. It knows the escape
// sequences that this program writes, and fails on others.
type display struct {
	cells [][]glyph
	row   int
	col   int
	look  look.Style
}

type glyph struct {
	r    rune
	look look.Style
}

// inTerminal runs the program in a terminal of the given size to its end, and returns
// what the terminal shows then.
func inTerminal(t *testing.T, width, height int, args ...string) *display {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm-256color", "NO_COLOR=")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	must(t, err)
	defer f.Close()
	out, _ := io.ReadAll(f) // reading a terminal ends with an error when the program ends
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	d := &display{}
	d.write(t, out)
	return d
}

var escape = regexp.MustCompile(`^\x1b\[([0-9]*)([A-Za-z])`)

func (d *display) write(t *testing.T, b []byte) {
	t.Helper()
	for len(b) > 0 {
		if m := escape.FindSubmatch(b); m != nil {
			n, _ := strconv.Atoi(string(m[1]))
			switch m[2][0] {
			case 'A':
				d.row = max(d.row-max(n, 1), 0)
			case 'J':
				d.cells = d.cells[:min(d.row, len(d.cells))]
			case 'K':
				if d.row < len(d.cells) {
					d.cells[d.row] = d.cells[d.row][:min(d.col, len(d.cells[d.row]))]
				}
			case 'm':
				d.look = look.Style(n)
			default:
				t.Fatalf("unknown escape sequence %q", m[0])
			}
			b = b[len(m[0]):]
			continue
		}
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		switch {
		case r == '\r':
			d.col = 0
		case r == '\n':
			d.row++
		case r < ' ':
			t.Fatalf("unknown control character %q", r)
		default:
			for len(d.cells) <= d.row {
				d.cells = append(d.cells, nil)
			}
			for len(d.cells[d.row]) <= d.col {
				d.cells[d.row] = append(d.cells[d.row], glyph{r: ' '})
			}
			d.cells[d.row][d.col] = glyph{r, d.look}
			d.col++
		}
	}
}

// texts returns the text of each line.
func (d *display) texts() []string {
	var texts []string
	for _, line := range d.cells {
		var b strings.Builder
		for _, c := range line {
			b.WriteRune(c.r)
		}
		texts = append(texts, strings.TrimRight(b.String(), " "))
	}
	return texts
}

// saveTerminal makes a picture of a terminal, if GVBLL_SCREENSHOTS names a folder.
func saveTerminal(t *testing.T, name, command string, d *display) {
	t.Helper()
	if os.Getenv("GVBLL_SCREENSHOTS") == "" {
		return
	}
	var b strings.Builder
	b.WriteString(`<body style="margin:0;background:#1c1f26;color:#dfe3ea;width:max-content"><pre style="margin:0;padding:16px;font:14px/1.3 'DejaVu Sans Mono',monospace">`)
	fmt.Fprintf(&b, "<span style=\"color:#7fd18b\">$</span> %s\n", command)
	for _, line := range d.cells {
		for _, c := range line {
			style := ""
			switch c.look {
			case look.Bold:
				style = "font-weight:bold"
			case look.Faint:
				style = "opacity:.6"
			}
			fmt.Fprintf(&b, `<span style="%s">%s</span>`, style, html.EscapeString(string(c.r)))
		}
		b.WriteString("\n")
	}
	path := filepath.Join(t.TempDir(), "terminal.html")
	must(t, os.WriteFile(path, []byte(`<!doctype html><meta charset="utf-8">`+b.String()), 0o600))
	w := newBrowser(t)
	w.do(t, chromedp.EmulateViewport(940, 200), chromedp.Navigate("file://"+path))
	w.picture(t, name)
}
