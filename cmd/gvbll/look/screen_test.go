package look

import (
	"strings"
	"testing"

	"github.com/rivo/uniseg"
)

// TestColumns: a column has its width whatever text it holds, of any script, and no
// control character from a record reaches the terminal. Bars and curves have their
// length for any value.
func TestColumns(t *testing.T) {
	for _, text := range []string{"", "short", "much longer than there is room for", "日本語のラベルはとても長い", "e\u0301\u0301\u0301e\u0301", "\x1b[2J\x07bell", "a\nb\tc\r", "\u202egnp.exe"} {
		got := column(text, 10)
		if uniseg.StringWidth(got) != 10 || strings.ContainsAny(got, "\x1b\x07\n\r\t\u202e") {
			t.Errorf("the column of %q is %q, %d wide, want 10 and no control characters", text, got, uniseg.StringWidth(got))
		}
	}
	for share, want := range map[float64]string{-1: "░░░░", 0: "░░░░", .5: "██░░", 1: "████", 7: "████"} {
		if got := Bar(share, 4); got != want {
			t.Errorf("the bar of %v is %s, want %s", share, got, want)
		}
	}
	if got := Spark([]float64{9, 0, 1, 2, 8}, 0, 8, 4); got != "▁▂▃█" {
		t.Errorf("the curve is %s, want ▁▂▃█", got)
	}
	if got := Spark([]float64{3, 3}, 3, 3, 4); got != "▁▁" {
		t.Errorf("the flat curve is %s, want ▁▁", got)
	}
}

// TestPaint: each view replaces the one before, and is cut to the height and width of the
// terminal. What is printed replaces it, too, and stays.
func TestPaint(t *testing.T) {
	s, b := terminal(10, 4)
	must(t, s.Paint([]Line{{Text: "first", Style: Bold}, {Text: "a long ", Rest: []Line{{Text: "line of", Style: Green}, {Text: " text"}}}}))
	if want := "\r\x1b[K\x1b[1mfirst\x1b[0m\n\r\x1b[Ka long \x1b[32mli…\x1b[0m\n\x1b[J"; b.String() != want {
		t.Errorf("painted %q, want %q", b, want)
	}
	b.Reset()
	s.plain = true
	must(t, s.Paint([]Line{{Text: "1", Style: Bold}, {Text: "2"}, {Text: "3"}, {Text: "4"}}))
	if want := "\x1b[2A\r\x1b[K1\n\r\x1b[K2\n\r\x1b[K3\n\x1b[J"; b.String() != want {
		t.Errorf("painted %q, want %q", b, want)
	}
	b.Reset()
	must(t, s.Print([]Line{{Text: "a last line that is not cut"}}))
	must(t, s.Paint(nil))
	if want := "\x1b[3A\r\x1b[Ja last line that is not cut\n\x1b[J"; b.String() != want {
		t.Errorf("printed %q, want %q", b, want)
	}
}

// terminal returns a screen of the given size, and what it has been sent.
func terminal(width, height int) (*Screen, *strings.Builder) {
	var b strings.Builder
	return &Screen{w: &b, size: func() (int, int) { return width, height }}, &b
}
