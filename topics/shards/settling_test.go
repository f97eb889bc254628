package shards

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSettling: a worker that has begun starts no task while others still join, up to a session
// long. Later elections count at once.
func TestSettling(t *testing.T) {
	for _, c := range []struct {
		name    string
		every   time.Duration // between elections
		n       int
		settled time.Duration // after the first
	}{
		{"alone", 0, 1, 2 * time.Second},
		{"five within 4 s", time.Second, 5, 6 * time.Second},
		{"one after the other without end", time.Second, 100, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &runner{cfg: &Config{}}
				s := r.newSettling()
				time.Sleep(time.Minute) // the group may take its time
				began := time.Now()
				for i := range c.n {
					if i > 0 {
						select {
						case <-s.timer.C:
							s.over = true
						case <-time.After(c.every):
						}
					}
					if s.over {
						break
					}
					s.note()
				}
				if !s.over {
					<-s.timer.C
				}
				if took := time.Since(began); took != c.settled {
					t.Errorf("it has settled after %v, want %v", took, c.settled)
				}
			})
		})
	}
}
