package spelling

import (
	"math"
	"testing"
	"time"
)

// TestDate: dates have one meaning in every spelling that is read, and others are refused.
func TestDate(t *testing.T) {
	at := time.Date(2026, 3, 1, 8, 30, 0, 0, time.UTC).UnixMilli()
	for text, want := range map[string]int64{
		"2026-03-01T08:30:00Z": at, "2026-03-01 08:30:00": at, "2026-03-01 08:30": at, "2026-03-01T08:30Z": at, " 2026-03-01T08:30:00z ": at,
		"2026-03-01 08:30:00+00": at, "2026-03-01 08:30:00 +0000": at, "2026-03-01 08:30:00 UTC": at, "2026-03-01 09:30:00+01": at,
		"2026-03-01T09:30:00+0100": at, "2026-03-01T09:30:00+01:00": at, "2026-03-01T03:00:00-05:30": at, "2026/03/01 08:30:00": at,
		"2026-03-01 08:30:00.250+00": at + 250, "2026-03-01T08:30:00,5": at + 500, "2026-03-01": at - 8.5*3600000, "2026-03-01 08:30:00.123456789Z": at + 123,
	} {
		if got, ok := Date(text); !ok || got != want {
			t.Errorf("%q is %d, %t, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "2026-13-01", "2026-03-01x", "2026-03/01", "01.03.2026", "2026-03-01 25:00", "2026-03-01 08:30:00+1", "2026-03-01 08:30+99", "2026-03-01 08:30:00+01:99", "20260301", "2026-03-01T"} {
		if got, ok := Date(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for text, want := range map[string]int64{"1774800000000.0": 1774800000000, "1774800000000": 1774800000000, "-5": -5, "1.5": 1} {
		if got, ok := Time(text, time.Millisecond); !ok || got != want {
			t.Errorf("%q is %d, %t, want %d", text, got, ok, want)
		}
	}
	for unit, n := range map[string]int64{"s": 1774800000, "us": 1774800000000000, "ns": 1774800000000000000, "days": 20541} {
		one, _ := Unit(unit)
		got, ok := millis(n, one)
		if want := int64(1774800000000); !ok || unit != "days" && got != want || Guess(n) != unit {
			t.Errorf("%d %s are %d, %t and look like %q", n, unit, got, ok, Guess(n))
		}
	}
	for _, at := range []int64{0, 1, 5000, 1774800000000, -1774800000000, math.MaxInt64, math.MinInt64} {
		if unit := Guess(at); unit != "" {
			t.Errorf("%d looks like %s", at, unit)
		}
	}
}

// TestAmounts: numbers in other forms are known as such, and what looks alike is not.
func TestAmounts(t *testing.T) {
	for _, text := range []string{"1,234.50", "1.234,50", "1 234,5", "1'234", "12 %", "12%", "€ 12.50", "12,50 €", "$1,234", "-$5", "+3,5", "USD 7", "1,234,567"} {
		if !IsAmount(text) {
			t.Errorf("%q is no amount", text)
		}
	}
	for _, text := range []string{"", "12.5", "1.2.3", "10.0.0.1", "a12", "12b", "2026-03-01", "01.02.2026", "1,23,4", "-", "%", "12-34"} {
		if IsAmount(text) {
			t.Errorf("%q is an amount", text)
		}
	}
	for _, text := range []string{"inf", "NaN", "0x1p-2", "1_000", "1e999", "", "Infinity"} {
		if v, ok := Number(text); ok {
			t.Errorf("%q is %v", text, v)
		}
	}
}

// TestName: a class or a category has one spelling.
func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"3.0": "3", "3": "3", "-1.0": "-1", "-0.0": "0", "3.10": "3.10", "03.0": "03.0", "3.0.0": "3.0.0", "TRUE": "true", "False": "false", " DE  ": "DE", "\u00a0DE": "DE", "": "", "10": "10", "x.0": "x.0", "100000000000000000000.0": "100000000000000000000.0",
	} {
		if got := Name(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := NameOf(3); got != "3" {
		t.Errorf("3 is %q", got)
	}
}
