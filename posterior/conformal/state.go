package conformal

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
)

// cellHeader is threshold, level, offset, missed, how many scores are borrowed and
// the number of scores.
const cellHeader = 6

// AppendState appends canonical bytes of the whole state to b, for hashes and
// checkpoints, as 64-bit little-endian words: for every threshold the numbers it
// is made of, then the scores of its window, oldest first. The configuration is
// not part of it.
func (p *Predictor) AppendState(b []byte) []byte {
	for i := range p.cells {
		c := &p.cells[i]
		for _, x := range [...]float64{c.threshold, c.level, c.offset, c.missed} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(c.borrowed))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(c.window)))
		for k := range c.window {
			x := c.window[(c.next+k)%len(c.window)]
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
	}
	return b
}

var (
	errLength = errors.New("conformal: the state is not as long as it says: it was cut, or is of another configuration")
	errValue  = errors.New("conformal: the state holds values that no predictor of this configuration has")
)

// SetState is the inverse of AppendState for a predictor of the same
// configuration. On an error the state is as it was.
func (p *Predictor) SetState(b []byte) error {
	next := make([]cell, len(p.cells))
	for i := range next {
		if len(b) < 8*cellHeader {
			return errLength
		}
		number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
		c := cell{threshold: number(0), level: number(1), offset: number(2), missed: number(3)}
		borrowed, n := binary.LittleEndian.Uint64(b[8*(cellHeader-2):]), binary.LittleEndian.Uint64(b[8*(cellHeader-1):])
		b = b[8*cellHeader:]
		if n > uint64(p.cfg.Window) || borrowed > min(n, uint64(p.cfg.Borrow)) {
			return errValue
		}
		if uint64(len(b)/8) < n {
			return errLength
		}
		c.borrowed = int(borrowed)
		c.window = make([]float64, n)
		for k := range c.window {
			c.window[k] = number(k)
		}
		b = b[8*n:]
		if !finite(c.level, c.offset, c.missed) || !finite(c.window...) || math.IsNaN(c.threshold) {
			return errValue
		}
		c.sorted = slices.Clone(c.window)
		slices.Sort(c.sorted)
		next[i] = c
	}
	if len(b) > 0 {
		return errLength
	}
	p.cells = next
	return nil
}

func finite(x ...float64) bool {
	for _, x := range x {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}
