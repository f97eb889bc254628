package publish

import (
	"testing"
	"time"
)

// TestPace: windows are committed an interval after the first of them was cut, by what the broker's answers took, and a broker that
// takes longer than the interval does not have more than twice the transactions.
func TestPace(t *testing.T) {
	const interval = 100 * time.Millisecond
	for _, ending := range []time.Duration{0, 12 * time.Millisecond, 50 * time.Millisecond, time.Second, time.Hour} {
		p := pace{interval: interval}
		if left := p.left(0); left != interval {
			t.Errorf("before any answer, a transaction stays open for %v, want %v", left, interval)
		}
		for range 100 {
			p.took(ending)
		}
		want := max(interval-ending, interval/2)
		if left := p.left(30 * time.Millisecond); (left - want + 30*time.Millisecond).Abs() > time.Microsecond {
			t.Errorf("where a commit takes %v, a window that was cut 30ms ago waits for %v more, want %v", ending, left, want-30*time.Millisecond)
		}
		for range 40 { // the broker is quick again
			p.took(0)
		}
		if left := p.left(0); left < interval-time.Millisecond && ending < time.Minute {
			t.Errorf("a broker that took %v once is still waited for: %v", ending, left)
		}
	}
	p := pace{interval: interval}
	for i := range 100 {
		p.took(time.Duration(10+10*(i%2)) * time.Millisecond) // 15 ms, and 5 ms from that: nearly all end within 25
	}
	if left := p.left(0); left < 70*time.Millisecond || left > 80*time.Millisecond {
		t.Errorf("where a commit takes 10 or 20ms, a transaction stays open for %v, want about 75ms", left)
	}
	if p := (pace{mean: time.Second}); p.left(0) != 0 {
		t.Errorf("without an interval a transaction stays open for %v", p.left(0))
	}
}
