package conformal

import (
	"fmt"
	"slices"
)

// imputedRow is the score of a row that has no label yet, for a class drawn from its
// own probabilities.
type imputedRow struct {
	id    uint64
	score float64
}

// imputed are the imputed rows of one threshold.
type imputed struct {
	rows          []imputedRow // oldest first
	sortedImputed []float64    // their scores, sorted
}

// Impute adds rows without labels, as they are served, to the scores from which
// thresholds are computed. The score of a row is that of a class drawn from its own
// probabilities, which has the right distribution if the model is calibrated; the
// level corrects for miscalibration. A row is removed when a label comes for it or
// for a later row, unless fewer than Config.Impute scores would remain; at most Window
// rows are kept.
//
// So there are thresholds before the first label, and when labels are late the
// thresholds follow a change of the predictions at once.
func (p *Predictor) Impute(rows Rows) {
	if p.cfg.Impute == 0 {
		return
	}
	n := p.check(rows)
	if len(rows.ID) != n {
		panic(fmt.Sprintf("conformal: %d identities of %d rows", len(rows.ID), n))
	}
	for i := range n {
		left, class := p.draw(rows.ID[i]+1<<63), 0
		for row := p.row(rows, i); class < len(row)-1 && left >= row[class]; class++ {
			left -= row[class]
		}
		c := &p.cells[p.index(class)]
		c.add(imputedRow{rows.ID[i], score(p.row(rows, i)[class])})
		c.prune(&p.cfg, len(c.window), p.through)
		c.setThreshold()
	}
}

// add adds a row.
func (l *imputed) add(x imputedRow) {
	l.rows = append(l.rows, x)
	i, _ := slices.BinarySearch(l.sortedImputed, x.score)
	l.sortedImputed = slices.Insert(l.sortedImputed, i, x.score)
}

// prune removes the oldest rows while there are more than Window, or while the oldest
// has an ID below through (1 + the largest ID with a label) and more than Impute
// scores are left, counting the given number of labels.
func (l *imputed) prune(cfg *Config, labels int, through uint64) {
	first := 0
	for ; first < len(l.rows); first++ {
		left := len(l.rows) - first
		labelled := l.rows[first].id < through
		if left <= cfg.Window && !(labelled && left+labels > cfg.Impute) {
			break
		}
		i, _ := slices.BinarySearch(l.sortedImputed, l.rows[first].score)
		l.sortedImputed = slices.Delete(l.sortedImputed, i, i+1)
	}
	l.rows = slices.Delete(l.rows, 0, first)
}
