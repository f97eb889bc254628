package page

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/pipeline"
)

// Cohort is the scores of the nodes that have one value of an attribute: those that are known.
type Cohort struct {
	Value  string             `json:"value"`
	Labels int                `json:"labels"`
	Scores map[string]float64 `json:"scores"` // see [serve.Cohort.Scores]
}

// cohortColumns are the scores by their names in tables.
var cohortColumns = [...][2]string{
	{"acc", "accuracy"},
	{"nll", "NLL"},
	{"ece", "ECE"},
	{"ece_chance", "by chance up to"},
	{"auc", "AUC"},
	{"coverage", "coverage"},
	{"acted_precision", "acted on, right"},
	{"acted_recall", "caught"},
}

// CohortsOf returns the scores by value, those with most labels first.
func CohortsOf(by pipeline.Cohorts) (list []Cohort) {
	for i := range by.List {
		list = append(list, Cohort{by.List[i].Value, by.List[i].Labels, by.List[i].Scores()})
	}
	slices.SortStableFunc(list, func(a, b Cohort) int { return cmp.Or(cmp.Compare(b.Labels, a.Labels), cmp.Compare(a.Value, b.Value)) })
	return list
}

// CohortTable returns the scores as texts, a dash for each that is not known, without columns of which none is: the names of the columns
// first.
func CohortTable(attribute string, list []Cohort) [][]string {
	rows := [][]string{{attribute, "labels"}}
	for _, c := range list {
		rows = append(rows, []string{c.Value, strconv.Itoa(c.Labels)})
	}
	for _, column := range cohortColumns {
		if !slices.ContainsFunc(list, func(c Cohort) bool { _, known := c.Scores[column[0]]; return known }) {
			continue
		}
		rows[0] = append(rows[0], column[1])
		for i, c := range list {
			text := Undefined
			if x, known := c.Scores[column[0]]; known {
				text = formatted(x)
			}
			rows[i+1] = append(rows[i+1], text)
		}
	}
	return rows
}

func cohortTable(by pipeline.Cohorts) (t table) {
	rows := CohortTable(by.By, CohortsOf(by))
	t.Label, t.Columns = "By "+by.By, rows[0]
	if by.Class != "" {
		t.Caption = "AUC, and what acting brought, are of class " + by.Class
	}
	for _, row := range rows[1:] {
		t.add(row[0], row[1:]...)
	}
	return t
}
