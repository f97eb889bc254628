package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/serve"
)

// Cohort is the scores of the nodes that have one value of an attribute. Those that are not known, or of too few labels, are nil.
type Cohort struct {
	Value     string   `json:"value"`
	Labels    int      `json:"labels"`
	Accuracy  *float64 `json:"acc,omitempty"`
	NLL       *float64 `json:"nll,omitempty"`
	ECE       *float64 `json:"ece,omitempty"`
	Chance    *float64 `json:"ece_chance,omitempty"`
	AUC       *float64 `json:"auc,omitempty"`
	Coverage  *float64 `json:"coverage,omitempty"` // share of sets with the label
	Precision *float64 `json:"acted_precision,omitempty"`
	Recall    *float64 `json:"acted_recall,omitempty"`
}

// CohortColumns are the columns of what Cells returns, behind the value.
var CohortColumns = []string{"labels", "accuracy", "NLL", "ECE", "by chance up to", "AUC", "coverage", "acted on, right", "caught"}

// Cells returns the scores as texts, a dash for each that is not known.
func (c *Cohort) Cells() []string {
	cells := []string{strconv.Itoa(c.Labels)}
	for _, x := range []*float64{c.Accuracy, c.NLL, c.ECE, c.Chance, c.AUC, c.Coverage, c.Precision, c.Recall} {
		if x == nil {
			cells = append(cells, Undefined)
		} else {
			cells = append(cells, formatted(*x))
		}
	}
	return cells
}

// CohortsOf returns the scores by value, those with most labels first.
func CohortsOf(by pipeline.Cohorts) (list []Cohort) {
	for i := range by.List {
		x := &by.List[i]
		c := Cohort{Value: x.Value, Labels: x.Labels}
		share := func(to **float64, part, of int) {
			if of > 0 {
				p := float64(part) / float64(of)
				*to = &p
			}
		}
		if x.Labels >= serve.FewLabels {
			m := x.Means()
			c.Accuracy, c.NLL, c.ECE, c.Chance = &m.Acc, &m.NLL, &m.ECE, &m.Chance
			if auc, _, ok := x.Odds.Ranking(); ok {
				c.AUC = &auc
			}
			share(&c.Coverage, x.Held, x.Sets)
			share(&c.Precision, x.Caught, x.Caught+x.Vain)
			share(&c.Recall, x.Caught, x.Caught+x.Missed)
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Cohort) int { return cmp.Or(cmp.Compare(b.Labels, a.Labels), cmp.Compare(a.Value, b.Value)) })
	return list
}

func cohortTable(by pipeline.Cohorts) (t table) {
	t.Label, t.Columns = "By "+by.By, append([]string{by.By}, CohortColumns...)
	if by.Class != "" {
		t.Caption = "AUC, and what acting brought, are of class " + by.Class
	}
	list := CohortsOf(by)
	for i := range list {
		t.add(list[i].Value, list[i].Cells()...)
	}
	return t
}
