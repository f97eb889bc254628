package pool

// Score adds up how well predictions were, scored before their labels were
// learned from.
type Score struct {
	Rows    int64
	Correct int64   // ties go to the lowest class
	LogLoss float64 // Σ -log p[y], nats
}

func (s *Score) add(logp []float32, y int) {
	s.Rows++
	if first(logp, y) {
		s.Correct++
	}
	s.LogLoss -= float64(logp[y])
}

// first tells whether entry y is the largest, and no one before it as large. It
// counts those ahead, for a search by branches would guess wrong all the time.
func first(logp []float32, y int) bool {
	ahead := 0
	for _, x := range logp[:y] {
		if x >= logp[y] {
			ahead++
		}
	}
	for _, x := range logp[y+1:] {
		if x > logp[y] {
			ahead++
		}
	}
	return ahead == 0
}

func (s *Score) appendState(b *state) {
	b.uint(uint64(s.Rows))
	b.uint(uint64(s.Correct))
	b.float(s.LogLoss)
}

func (s *Score) readState(r *reader) {
	s.Rows, s.Correct, s.LogLoss = int64(r.uint()), int64(r.uint()), r.float()
	r.want(s.Rows >= 0 && s.Correct >= 0 && s.Correct <= s.Rows, "%d right of %d", s.Correct, s.Rows)
}

// Scores returns the score so far of the pool and of each head, in the order of
// Names.
func (p *Pool) Scores() []Score { return append([]Score(nil), p.scores...) }

// Regret returns how much more log loss the pool has had than the head that in
// hindsight is the best of its members, in nats over all rows; less than 0 where
// the pool is better.
func (p *Pool) Regret() float64 {
	best := p.scores[1+p.members[0]].LogLoss
	for _, k := range p.members {
		best = min(best, p.scores[1+k].LogLoss)
	}
	return p.scores[0].LogLoss - best
}
