package page

import (
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Attribute sums up what came of an attribute.
type Attribute struct {
	Name    string
	Rows    int64
	Missing int64   // rows with a gap, or with a category that training did not have
	Trained float64 // how many of them there would be as in training
	Sum     float64 // of a number or an age, in standard deviations from the mean in training
}

// Shares returns the share of rows without a known value, that in training, and by how many
// standard deviations the mean moved.
func (a *Attribute) Shares() (missing, trained, moved float64) {
	n := float64(max(a.Rows, 1))
	return float64(a.Missing) / n, a.Trained / n, a.Sum / n
}

// AttributesOf returns what came of a window by name: of the first attributes of the model that
// served which are numbers or have ages, or were missing, now or in training.
func AttributesOf(out *event.Outcome, m *model.Model) (list []Attribute) {
	t := out.Attributes
	if t == nil || m == nil || m.Schema == nil || out.Model != m.ID {
		return nil
	}
	for i := range m.Schema.Attributes[:min(len(m.Schema.Attributes), event.MostAttributes)] {
		of := &m.Schema.Attributes[i]
		a := Attribute{of.Name, t.Rows, t.Gaps[i] + t.Others[i], float64(t.Rows) * (of.Gaps + of.Others), t.Sum[i]}
		if of.Kind == attributes.Number || of.Aged || a.Missing > 0 || a.Trained > 0 {
			list = append(list, a)
		}
	}
	return list
}

// AddAttributes adds the sums of more attributes to those of the same names in list. New
// names are appended.
func AddAttributes(list []Attribute, more ...Attribute) []Attribute {
	for _, m := range more {
		i := slices.IndexFunc(list, func(a Attribute) bool { return a.Name == m.Name })
		if i < 0 {
			list = append(list, m)
			continue
		}
		a := &list[i]
		a.Rows, a.Missing, a.Trained, a.Sum = a.Rows+m.Rows, a.Missing+m.Missing, a.Trained+m.Trained, a.Sum+m.Sum
	}
	return list
}

// mostUnknown bounds the names that a period holds, so that no producer can fill memory with names.
const mostUnknown = 256

// AddUnknown adds values under names that the model's schema lacks to those in list.
func AddUnknown(list []spelling.Unknown, more ...spelling.Unknown) []spelling.Unknown {
	for _, m := range more {
		i := slices.IndexFunc(list, func(u spelling.Unknown) bool { return u.Name == m.Name })
		if i >= 0 {
			list[i].Values += m.Values
		} else if len(list) < mostUnknown {
			list = append(list, m)
		}
	}
	return list
}

func attributeTable(list []Attribute) (t table) {
	t.Label, t.Columns = "Attributes", []string{"attribute", "events", "missing, %", "in training, %", "mean moved, sd"}
	for i := range list {
		missing, trained, moved := list[i].Shares()
		percent := func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }
		mean := Undefined
		if moved != 0 {
			mean = strconv.FormatFloat(moved, 'f', 2, 64)
		}
		t.add(list[i].Name, strconv.FormatInt(list[i].Rows, 10), percent(missing), percent(trained), mean)
	}
	return t
}
