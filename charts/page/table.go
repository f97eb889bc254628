package page

import (
	"strconv"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// table is rows of figures, which the template "table" shows.
type table struct {
	Label   string // what it is, for who cannot see it
	Caption string
	Columns []string
	Rows    []tableRow
}

type tableRow struct {
	Name  string
	Cells []cell
	Link  string // of the name, "" for none
}

// cell is a figure, and the metric with the same value, "" for none.
type cell struct{ Value, Metric string }

// add adds a row of figures that are no metrics.
func (t *table) add(name string, values ...string) {
	r := tableRow{Name: name}
	for _, v := range values {
		r.Cells = append(r.Cells, cell{Value: v})
	}
	t.Rows = append(t.Rows, r)
}

// addClass adds the row of one of the classes to a table of classes, which may be empty.
func (t *table) addClass(classes []Group, c int) {
	g := &classes[c]
	t.Label, t.Columns = "Classes", []string{"class", "labels", "predicted", "precision, %", "recall, %", "NLL", "AUC", "avg. prec."}
	nll := Undefined
	if g.Labels > 0 {
		nll = formatted(g.Means().NLL)
	}
	auc, ap := ranking(OddsOf(classes, c))
	t.add(g.Name, strconv.Itoa(g.Labels), strconv.Itoa(g.Predicted.Labels), percent(g.Correct, g.Predicted.Labels),
		percent(g.Correct, g.Labels), nll, auc, ap)
}

// ranking formats the AUC and the average precision, both Undefined without labels of the class and of others.
func ranking(o *calibration.Odds) (auc, averagePrecision string) {
	if o != nil {
		if auc, ap, ok := o.Ranking(); ok {
			return formatted(auc), formatted(ap)
		}
	}
	return Undefined, Undefined
}

// Undefined stands for a share of nothing, and for a score of too few labels.
const Undefined = "–"

// percent formats a part of a whole.
func percent(part, whole int) string {
	if whole == 0 {
		return Undefined
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64)
}
