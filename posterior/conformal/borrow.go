package conformal

import (
	"fmt"
	"slices"
)

// loan is the score of a row that has no label yet.
type loan struct {
	id    uint64
	score float64
}

// loans are those of one threshold.
type loans struct {
	rows []loan    // the oldest first
	lent []float64 // their scores, sorted
}

// Borrow takes rows as they are served, before their labels, into thresholds: a
// row counts as if its class were drawn from its own probabilities, as it is where
// the model is calibrated. It stays until a label comes of a row that was served
// with it or later, or longer where there are few scores yet; the latest Window
// are kept. So thresholds are there before any label, and where labels are late,
// what has changed in what is served moves thresholds at once; what such scores
// are off by, ACI's level makes up for.
func (p *Predictor) Borrow(rows Rows) {
	n := p.check(rows)
	if len(rows.ID) != n {
		panic(fmt.Sprintf("conformal: %d identities of %d rows", len(rows.ID), n))
	}
	if p.cfg.Borrow == 0 {
		return
	}
	for i := range n {
		left, class := p.draw(rows.ID[i]+1<<63), 0
		for row := p.row(rows, i); class < len(row)-1 && left >= row[class]; class++ {
			left -= row[class]
		}
		if c := p.cell(rows, i, int32(class)); c.borrows(&p.cfg) {
			c.lend(loan{rows.ID[i], p.score(rows, i, int32(class))})
			c.repay(&p.cfg, len(c.window), p.through)
			c.settle(&p.cfg)
		}
	}
}

// borrows tells whether a row without a label is welcome.
func (c *cell) borrows(cfg *Config) bool {
	return cfg.Method != Fixed || c.level > 0 && len(c.window) < cfg.Window
}

func (l *loans) lend(x loan) {
	l.rows = append(l.rows, x)
	i, _ := slices.BinarySearch(l.lent, x.score)
	l.lent = slices.Insert(l.lent, i, x.score)
}

// repay gives up the loans that are no longer wanted beside so many scores of
// labels, the latest of a row before through.
func (l *loans) repay(cfg *Config, labels int, through uint64) {
	first := 0
	for ; first < len(l.rows); first++ {
		left := len(l.rows) - first
		labelled := l.rows[first].id < through || cfg.Method == Fixed
		if left <= cfg.Window && !(labelled && left+labels > cfg.Borrow) {
			break
		}
		i, _ := slices.BinarySearch(l.lent, l.rows[first].score)
		l.lent = slices.Delete(l.lent, i, i+1)
	}
	l.rows = slices.Delete(l.rows, 0, first)
}
