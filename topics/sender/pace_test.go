package sender

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: events keep to the rate, in bursts of a twentieth of a second.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, began := newPace(100), time.Now()
		for p.sent < 250 {
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.sent += p.burst(1000)
		}
		if took := time.Since(began); p.sent != 250 || took != 2450*time.Millisecond {
			t.Errorf("%d events took %v, want 250 in 2.45 s", p.sent, took)
		}
	})
}
