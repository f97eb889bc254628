//go:build unix

package main

import (
	"context"
	"fmt"
	"html"
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
	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
)

// TestTerminal runs the demo in terminals of two sizes, and compares what
// they show: live views are painted in place, no line is torn, and nothing is left of earlier ones. After the
// demo the page stays until Enter is pressed. If GVBLL_SCREENSHOTS names a folder, it makes the pictures of
// docs/pictures there.
func TestTerminal(t *testing.T) {
	t.Parallel()
	args := append(slices.DeleteFunc(smallDemo(t), func(arg string) bool { return arg == "--json" }), "--fast")
	narrow := newTerminal(t, 80, 24, args...)
	narrow.until("until Enter")
	page := regexp.MustCompile(`http://[0-9.:]+`).FindString(strings.Join(narrow.texts(), "\n"))
	if html := get(t, page); !strings.Contains(html, "<h1") {
		t.Errorf("after the stream, %s has\n%s", page, html)
	}
	if shown := strings.Join(narrow.texts()[narrow.top:], "\n"); !strings.Contains(shown, "What serves was right for ") || narrow.look != look.Usual {
		t.Errorf("the ending does not fit on the screen:\n%s", shown)
	}
	narrow.enter()
	narrow.end()
	narrow.is("demo-80x24.screen")

	wide := newTerminal(t, 120, 40, append(args, "--exit")...)
	wide.end()
	wide.is("demo-120x40.screen")
	if os.Getenv("GVBLL_SCREENSHOTS") != "" {
		usual := newTerminal(t, 100, 40, "demo", "--fast", "--exit")
		usual.end()
		saveTerminal(t, "terminal-demo.png", "gvbll demo", usual)
	}
}

// terminal is a terminal in which a command runs: lines of glyphs, of which the last are on the screen,
// and the cursor. It knows the escape sequences that this program writes, and fails on others, on lines that
// are too long, and on views that were not painted in place.
type terminal struct {
	t             *testing.T
	cmd           *exec.Cmd
	pty           *os.File
	width, height int

	cells         [][]glyph
	top, row, col int // top is the screen's first line
	look          look.Style
	rest          []byte // read, and not complete
}

type glyph struct {
	r    rune
	look look.Style
}

// newTerminal starts a command in a terminal of the given size.
func newTerminal(t *testing.T, width, height int, args ...string) *terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	t.Cleanup(cancel)
	d := &terminal{t: t, width: width, height: height, cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	d.cmd.Env = append(os.Environ(), asProgram+"=1", "TERM=xterm-256color", "NO_COLOR=")
	var err error
	d.pty, err = pty.StartWithSize(d.cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	must(t, err)
	t.Cleanup(func() { d.pty.Close() })
	return d
}

// until reads until the terminal shows a text, or to the end for "".
func (d *terminal) until(text string) {
	d.t.Helper()
	buffer := make([]byte, 1<<12)
	for text == "" || !strings.Contains(strings.Join(d.texts(), "\n"), text) {
		n, err := d.pty.Read(buffer)
		d.rest = append(d.rest, buffer[:n]...)
		d.write()
		if err != nil && text != "" {
			d.t.Fatalf("the command ended without %q:\n%s", text, strings.Join(d.texts(), "\n"))
		} else if err != nil { // reading a terminal ends with an error when the command ends
			return
		}
	}
}

// enter presses Enter.
func (d *terminal) enter() {
	d.t.Helper()
	_, err := d.pty.Write([]byte("\r"))
	must(d.t, err)
}

// end reads to the end of the command, which must succeed.
func (d *terminal) end() {
	d.t.Helper()
	d.until("")
	if err := d.cmd.Wait(); err != nil {
		d.t.Fatalf("%v:\n%s", err, strings.Join(d.texts(), "\n"))
	}
}

// is compares all that the terminal has shown with a file, but for ports. -update writes it.
func (d *terminal) is(file string) {
	d.t.Helper()
	got := strings.Join(d.texts(), "\n") + "\n"
	got = strings.ReplaceAll(regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(got, "127.0.0.1:PORT"), "go run ./cmd/gvbll", "gvbll")
	path := filepath.Join("testdata", file)
	if *update {
		must(d.t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	must(d.t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		d.t.Errorf("a terminal of %d columns and %d lines (-want +got; go test -update writes it):\n%s", d.width, d.height, diff)
	}
}

var escape = regexp.MustCompile(`^\x1b\[([0-9]*)([A-Za-z])`)

// write shows what has been read.
func (d *terminal) write() {
	for len(d.rest) > 0 {
		if d.rest[0] == 0x1b {
			m := escape.FindSubmatch(d.rest)
			if m == nil && len(d.rest) < 8 {
				return
			} else if m == nil {
				d.t.Fatalf("unknown escape sequence %q", d.rest[:8])
			}
			n, _ := strconv.Atoi(string(m[1]))
			d.control(m[2][0], n)
			d.rest = d.rest[len(m[0]):]
			continue
		}
		if !utf8.FullRune(d.rest) {
			return
		}
		r, size := utf8.DecodeRune(d.rest)
		d.rest = d.rest[size:]
		switch {
		case r == '\r':
			d.col = 0
		case r == '\n':
			d.row++
			d.top = max(d.top, d.row-d.height+1)
		case r < ' ':
			d.t.Fatalf("unknown control character %q", r)
		case d.col == d.width:
			d.t.Fatalf("a line is longer than %d columns: %s", d.width, d.texts()[d.row])
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

// control obeys an escape sequence.
func (d *terminal) control(what byte, n int) {
	switch what {
	case 'A':
		d.row = max(d.row-max(n, 1), d.top)
	case 'J':
		d.cells = d.cells[:min(d.row, len(d.cells))]
		for _, view := range []string{"step ", "training "} { // each is in one place
			if n := strings.Count("\n"+strings.Join(d.texts(), "\n"), "\n"+view); n > 1 {
				d.t.Fatalf("%d lines begin with %q:\n%s", n, view, strings.Join(d.texts(), "\n"))
			}
		}
	case 'K': // after the last column the cursor is still on it
		if d.row < len(d.cells) {
			d.cells[d.row] = d.cells[d.row][:min(d.col, d.width-1, len(d.cells[d.row]))]
		}
	case 'm':
		d.look = look.Style(n)
	default:
		d.t.Fatalf("unknown escape sequence %c", what)
	}
}

// texts returns the text of each line.
func (d *terminal) texts() []string {
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
func saveTerminal(t *testing.T, name, command string, d *terminal) {
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
			case look.Green:
				style = "color:#7fd18b"
			case look.Yellow:
				style = "color:#d9b45b"
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
