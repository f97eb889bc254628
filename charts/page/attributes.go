package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Attribute sums up what came of an attribute.
type Attribute struct {
	Name    string
	Rows    int64
	Missing int64   // rows with a gap, or with a category that training did not have
	Trained float64 // how many of them there would be as in training
	Sum     float64 // of a number or an age, in standard deviations from the mean in training
	// With --by: the labels whose nodes have no value, one that training had not, or one far out, the sum of their log losses, and
	// the share of such nodes in training.
	Odd                 int
	OddLoss, OddTrained float64
}

// Shares returns the share of rows without a known value, that in training, and by how many
// standard deviations the mean moved.
func (a *Attribute) Shares() (missing, trained, moved float64) {
	n := float64(max(a.Rows, 1))
	return float64(a.Missing) / n, a.Trained / n, a.Sum / n
}

// Cost returns by how much the shift of the attribute since training raised the mean log loss of labels, of all of which the
// sums are given: how much more often its values are odd than in training, times by how much worse such labels are than
// others. It is not ok
// where labels of either are few.
func (a *Attribute) Cost(all *calibration.Tally) (nats float64, ok bool) {
	odd, others := float64(a.Odd), float64(all.Labels-a.Odd)
	if min(odd, others) < serve.FewLabels {
		return 0, false
	}
	return (odd/float64(all.Labels) - a.OddTrained) * (a.OddLoss/odd - (all.LogLoss-a.OddLoss)/others), true
}

// AttributesOf returns what came of a window by name: of the first attributes of the model that
// served which are numbers or have ages, or were missing, now or in training, and of which values of labelled nodes are odd.
func AttributesOf(out *event.Outcome, m *model.Model) (list []Attribute) {
	t := out.Odd.Attributes
	if m == nil || m.Schema == nil || out.Model != m.ID {
		return nil
	}
	for i := range m.Schema.Attributes[:min(len(m.Schema.Attributes), event.MostAttributes)] {
		of := &m.Schema.Attributes[i]
		a := Attribute{Name: of.Name, OddTrained: of.OddShare()}
		if a.Odd, a.OddLoss = serve.Odd(out, i); t != nil {
			a.Rows, a.Missing, a.Trained, a.Sum = t.Rows, t.Gaps[i]+t.Others[i], float64(t.Rows)*(of.Gaps+of.Others), t.Sum[i]
		}
		if t != nil && (of.Kind == attributes.Number || of.Aged) || a.Missing > 0 || a.Trained > 0 || a.Odd > 0 {
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
		a.Odd, a.OddLoss, a.OddTrained = a.Odd+m.Odd, a.OddLoss+m.OddLoss, max(a.OddTrained, m.OddTrained)
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

// Shift is what the shift of an attribute since training did to the mean log loss, in nats: see [Attribute.Cost].
type Shift struct {
	Attribute string  `json:"attribute"`
	Cost      float64 `json:"cost"`
}

// Shifts returns the attributes of which it is known what their shift did, those that cost most first.
func (p *Period) Shifts() (list []Shift) {
	all := p.Cohorts.All() // the labels of which that is known
	for i := range p.Attributes {
		if nats, ok := p.Attributes[i].Cost(&all); ok {
			list = append(list, Shift{p.Attributes[i].Name, nats})
		}
	}
	slices.SortStableFunc(list, func(a, b Shift) int { return cmp.Compare(b.Cost, a.Cost) })
	return list
}

// attributeTable has the attributes whose shift cost most first.
func (p *Period) attributeTable() (t table) {
	t.Label, t.Columns = "Attributes", []string{"attribute", "events", "missing, %", "in training, %", "mean moved, sd"}
	shifts := p.Shifts()
	if len(shifts) > 0 {
		t.Columns = append(t.Columns, "cost of the shift, nats")
	}
	place := func(a Attribute) int {
		if i := slices.IndexFunc(shifts, func(s Shift) bool { return s.Attribute == a.Name }); i >= 0 {
			return i
		}
		return len(shifts)
	}
	percent := func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }
	for _, a := range slices.SortedStableFunc(slices.Values(p.Attributes), func(a, b Attribute) int { return place(a) - place(b) }) {
		missing, trained, moved := a.Shares()
		mean := Undefined
		if moved != 0 {
			mean = strconv.FormatFloat(moved, 'f', 2, 64)
		}
		cells := []string{strconv.FormatInt(a.Rows, 10), percent(missing), percent(trained), mean}
		if k := place(a); k < len(shifts) {
			cells = append(cells, fmt.Sprintf("%+.4f", shifts[k].Cost))
		} else if len(shifts) > 0 {
			cells = append(cells, Undefined)
		}
		t.add(a.Name, cells...)
	}
	return t
}
