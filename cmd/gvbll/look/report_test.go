package look

import (
	"testing"
	"time"
)

// TestPeriods: a time is divided into at most 48 periods of a usual length, without gaps.
func TestPeriods(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for length, want := range map[time.Duration]int{
		time.Millisecond: 1, 48 * time.Second: 48, time.Hour: 12, 49 * time.Second: 10, 24 * time.Hour: 48, 25 * time.Hour: 25, 48 * 24 * time.Hour: 48, 1000 * 24 * time.Hour: 32,
	} {
		list := periods(from, from.Add(length))
		if len(list) != want || !list[0].From.Equal(from) || !list[len(list)-1].To.Equal(from.Add(length)) {
			t.Errorf("%v: %d periods from %v to %v, want %d", length, len(list), list[0].From, list[len(list)-1].To, want)
		}
		for i := range list[1:] {
			if !list[i].To.Equal(list[i+1].From) {
				t.Errorf("%v: period %d ends at %v, and the next begins at %v", length, i, list[i].To, list[i+1].From)
			}
		}
	}
}
