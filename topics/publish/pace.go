package publish

import "time"

// pace says when a transaction ends, so that its windows are committed an interval after the first of them was cut: earlier by
// what the broker takes to commit, by its latest answers: their mean, and twice the mean deviation, as TCP waits (RFC 6298).
type pace struct {
	interval       time.Duration
	mean, deviates time.Duration // what a commit takes, and how far one is from that: each of about the latest four
}

// left is how long a transaction stays open, if its first window was cut that long ago: half an interval at least, however slow the
// broker is, or there would be more and more transactions the slower it gets.
func (p *pace) left(ago time.Duration) time.Duration {
	return p.interval - min(p.mean+2*p.deviates, p.interval/2) - ago
}

// took notes what a commit has taken.
func (p *pace) took(d time.Duration) {
	p.deviates += ((d - p.mean).Abs() - p.deviates) / 4
	p.mean += (d - p.mean) / 4
}
