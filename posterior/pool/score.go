package pool

import "github.com/gvbll/gvbll/posterior/internal/words"

// score sums the scores of predictions, made before their labels were learned. It
// is part of the state.
type score struct {
	rows    int64
	correct int64   // rows predicted correctly; ties go to the lowest class
	logLoss float64 // Σ -log p[y], nats
}

func (s *score) add(logp []float32, y int) {
	s.rows++
	if isFirstMax(logp, y) {
		s.correct++
	}
	s.logLoss -= float64(logp[y])
}

// isFirstMax reports whether entry y is the largest, and none before it is as
// large. It counts the entries that rank above y, without branches: which class is
// the largest cannot be predicted.
func isFirstMax(logp []float32, y int) bool {
	above := 0
	for _, x := range logp[:y] {
		if x >= logp[y] {
			above++
		}
	}
	for _, x := range logp[y+1:] {
		if x > logp[y] {
			above++
		}
	}
	return above == 0
}

func (s *score) state(t *words.Stream) {
	t.Integer(&s.rows)
	t.Integer(&s.correct)
	t.Float(&s.logLoss)
	t.Check(s.rows >= 0 && s.correct >= 0 && s.correct <= s.rows, "%d of %d correct", s.correct, s.rows)
}

// Regret returns the pool's log loss less that of the best of its heads in
// hindsight, in nats over all labels. It is negative where the pool is better than
// every head.
func (p *Pool) Regret() float64 {
	best := p.scores[1+p.members[0]].logLoss
	for _, k := range p.members {
		best = min(best, p.scores[1+k].logLoss)
	}
	return p.scores[0].logLoss - best
}
