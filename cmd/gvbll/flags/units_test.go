package flags

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestSizes: a size is a whole number with a unit, printed with the largest that has no fraction. Beyond 63 bits, with a sign, a
// fraction or another unit there is none.
func TestSizes(t *testing.T) {
	for text, want := range map[string]Size{
		"0B": 0, "1B": 1, "1023B": 1023, "1KiB": 1 << 10, "1536KiB": 1536 << 10, "512MiB": 512 << 20, "3GiB": 3 << 30, "8388607TiB": 8388607 << 40,
		"9223372036854775807B": math.MaxInt64,
	} {
		got, err := parseSize(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s is %d and printed as %s (%v), want %d", text, got, got, err, want)
		}
	}
	if got, err := parseSize("2048KiB"); err != nil || got.String() != "2MiB" {
		t.Errorf("2048KiB is printed as %s (%v), want 2MiB", got, err)
	}
	for _, text := range []string{"", "7", "1.5GiB", "-1B", "1 GiB", "1GB", "8388608TiB", "9223372036854775808B", "99999999999999999999GiB", "GiB", "1gib"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d, want an error", text, got)
		}
	}
}

// TestShortDurations: the zeros at the end of a duration are left out, and nothing else.
func TestShortDurations(t *testing.T) {
	for text, want := range map[string]string{
		"0s": "0s", "90s": "1m30s", "5m": "5m", "300s": "5m", "1h": "1h", "1h0m1s": "1h0m1s", "24h": "24h", "90m": "1h30m", "10m0.5s": "10m0.5s", "1h10m": "1h10m", "20s": "20s",
	} {
		d, err := time.ParseDuration(text)
		must(t, err)
		if got := ShortDuration(d); got != want {
			t.Errorf("%s is printed as %s, want %s", text, got, want)
		}
		if again, err := time.ParseDuration(ShortDuration(d)); err != nil || again != d {
			t.Errorf("%s is printed as %s, which is read as %v (%v)", text, ShortDuration(d), again, err)
		}
	}
}

// TestProgressInLines: where there is no terminal, a task prints a line for each tenth, once, and at most 100 %.
func TestProgressInLines(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out, "training", 40)
	for n := range 45 {
		p.Set(n, "loss 1")
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10 || lines[0] != "training  10% loss 1" || lines[9] != "training 100% loss 1" {
		t.Errorf("it printed %d lines, %q to %q, want 10 from 10%% to 100%%", len(lines), lines[0], lines[len(lines)-1])
	}
	out.Reset()
	NewProgress(&out, "nothing", 0).Set(0, "")
	NewProgress(&out, "nothing", 0).Set(1, "")
	if out.String() != "nothing 100%\n" {
		t.Errorf("a task of no parts printed %q, want that it is done", out.String())
	}
}
