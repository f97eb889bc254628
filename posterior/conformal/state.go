package conformal

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/gvbll/gvbll/posterior/internal/check"
)

// cellHeader is the number of words before the scores of a threshold: threshold, level, the
// number of imputed rows and the number of scores.
const cellHeader = 4

// AppendState appends the whole state to b as canonical bytes, for hashes and
// checkpoints: 64-bit little-endian words. First comes 1 + the largest ID that has a
// label; then for every threshold the numbers of cellHeader, the scores of its window,
// oldest first, and its imputed rows, each an ID and a score. The configuration is not
// part of it.
func (p *Predictor) AppendState(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, p.through)
	for i := range p.cells {
		c := &p.cells[i]
		for _, x := range [...]float64{c.threshold, c.level} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(len(c.rows)))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(c.window)))
		for k := range c.window {
			x := c.window[(c.next+k)%len(c.window)]
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x))
		}
		for _, l := range c.rows {
			b = binary.LittleEndian.AppendUint64(b, l.id)
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(l.score))
		}
	}
	return b
}

var (
	errLength = errors.New("conformal: the state is not as long as it says: it was cut, or is of another configuration")
	errValue  = errors.New("conformal: the state holds values that no predictor of this configuration has")
)

// SetState reads what AppendState of a predictor of the same configuration wrote. On an
// error the state is as it was.
func (p *Predictor) SetState(b []byte) error {
	if len(b) < 8 {
		return errLength
	}
	through := binary.LittleEndian.Uint64(b)
	b = b[8:]
	next := make([]cell, len(p.cells))
	for i := range next {
		if len(b) < 8*cellHeader {
			return errLength
		}
		number := func(i int) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])) }
		c := p.empty(i)
		c.threshold, c.level = number(0), number(1)
		imputed, n := binary.LittleEndian.Uint64(b[8*(cellHeader-2):]), binary.LittleEndian.Uint64(b[8*(cellHeader-1):])
		b = b[8*cellHeader:]
		if n > uint64(p.cfg.Window) || imputed > uint64(p.cfg.Window) || imputed > 0 && p.cfg.Impute == 0 {
			return errValue
		}
		if uint64(len(b)/8) < n+2*imputed {
			return errLength
		}
		c.window = make([]float64, n)
		for k := range c.window {
			c.window[k] = number(k)
		}
		b = b[8*n:]
		for k := range int(imputed) {
			c.add(imputedRow{binary.LittleEndian.Uint64(b[16*k:]), number(2*k + 1)})
		}
		b = b[16*imputed:]
		if !check.Finite(c.level) || !check.Finite(c.window...) || !check.Finite(c.sortedImputed...) || math.IsNaN(c.threshold) {
			return errValue
		}
		c.sorted = slices.Clone(c.window)
		slices.Sort(c.sorted)
		next[i] = c
	}
	if len(b) > 0 {
		return errLength
	}
	p.cells, p.through = next, through
	return nil
}
