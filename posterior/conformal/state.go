package conformal

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/words"
)

// AppendState appends the whole state to b as canonical bytes, for hashes and
// checkpoints. The configuration is not part of it.
func (p *Predictor) AppendState(b []byte) []byte { return words.Append(b, p.state) }

// SetState reads what AppendState of a predictor of the same configuration wrote. On an
// error the state is as it was.
func (p *Predictor) SetState(b []byte) error {
	next := Predictor{cfg: p.cfg, cells: make([]cell, len(p.cells))}
	for i := range next.cells {
		next.cells[i] = p.empty(i)
	}
	if err := words.Read(b, next.state); err != nil {
		return err
	}
	*p = next
	return nil
}

func (p *Predictor) state(s *words.Stream) {
	s.Uint(&p.through)
	for i := range p.cells {
		if p.cells[i].state(s, &p.cfg); s.Err != nil {
			return
		}
	}
}

// state declares a threshold, the scores of its window, oldest first, and its imputed rows.
func (c *cell) state(s *words.Stream, cfg *Config) {
	s.Number(&c.threshold)
	s.Check(!math.IsNaN(c.threshold), "a threshold is %v", c.threshold)
	s.Float(&c.level)
	imputed, n := len(c.rows), len(c.window)
	s.Below(&imputed, cfg.Window+1, "imputed rows")
	s.Below(&n, cfg.Window+1, "scores")
	s.Check(imputed == 0 || cfg.Impute > 0, "%d imputed rows", imputed)
	window := append(slices.Clone(c.window[c.next:]), c.window[:c.next]...)
	if s.Reads {
		if !s.Holds(n + 2*imputed) {
			return
		}
		window = make([]float64, n)
	}
	s.Floats(window)
	for k := range imputed {
		var x imputedRow
		if !s.Reads {
			x = c.rows[k]
		}
		s.Uint(&x.id)
		if s.Float(&x.score); s.Reads {
			c.add(x)
		}
	}
	if s.Reads {
		c.window, c.sorted = window, slices.Sorted(slices.Values(window))
	}
}
