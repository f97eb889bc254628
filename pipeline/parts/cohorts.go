package parts

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/setting"
	"github.com/gvbll/gvbll/pipeline/store"
)

// By says by what scores are told apart. The zero value says nothing.
type By struct {
	Attribute string   // its name, or [ByID]
	Values    int      // that have scores of their own, the first that come
	Classes   []string // that are watched beside the rarest, and the one that is acted on
}

// ByID is the attribute that is what an id that is a text has before its first colon.
const ByID = "id:"

// Bounds of a By, and the bytes of a value.
const (
	mostCohorts   = 20
	defaultValues = 10
	mostNamed     = 5 // classes: with the one that is acted on and the two rarest as many as are watched
	mostValueSize = 64
	otherCohorts  = serve.OtherCohorts
	noCohort      = "(none)"
)

// ParseBy reads ATTRIBUTE, and behind commas values=N and class=NAME, or these alone, and "" for nothing.
func ParseBy(text string) (b By, err error) {
	b.Values = defaultValues
	rest := text
	for rest != "" {
		i := strings.LastIndex(rest, ",") + 1
		name, is := strings.CutPrefix(rest[i:], "class=")
		number, some := strings.CutPrefix(rest[i:], "values=")
		if is {
			b.Classes = append(b.Classes, name)
		} else if some {
			if b.Values, err = strconv.Atoi(number); err != nil || b.Values < 1 || b.Values > mostCohorts {
				return By{}, fmt.Errorf("values=%.20q: give 1 to %d", number, mostCohorts)
			}
		} else {
			break
		}
		rest = rest[:max(i-1, 0)]
	}
	b.Attribute = rest
	if len(b.Classes) > mostNamed || strings.HasSuffix(rest, ",") || rest == "" && text != "" && b.Classes == nil {
		return By{}, fmt.Errorf("%.100q: give an attribute, such as country, or id:, and behind commas values=N and at most %d class=NAME",
			text, mostNamed)
	}
	slices.Reverse(b.Classes)
	return b, nil
}

// Unknown says that a model has no attribute of this name, so that only events that have one all the same are told apart; "" if it has.
func (b By) Unknown(m *model.Model) string {
	if b.Attribute == "" || b.Attribute == ByID {
		return ""
	}
	var known []string
	if m.Schema != nil {
		for i := range m.Schema.Attributes {
			known = append(known, m.Schema.Attributes[i].Name)
		}
	}
	if slices.Contains(known, b.Attribute) {
		return ""
	}
	text := fmt.Sprintf("--by %.64q is no attribute of the model: nodes without one are (none)", b.Attribute)
	if meant := spelling.Meant(b.Attribute, known); meant != "" {
		text += fmt.Sprintf("; did you mean %.64q?", meant)
	}
	return text
}

// DeclareBy declares the text of a By.
func DeclareBy(l *setting.List, text *string) {
	setting.AddText(l, setting.Setting{
		Name: "by", Group: "sets", Kept: setting.Optional, Placeholder: "ATTRIBUTE,...",
		Help: "Scores by the values of an attribute, or id: for what ids have before a colon: the first 10, or " +
			"values=N. class=NAME: one more class with ranking metrics. Such as country,values=5,class=fraud.",
	}, text, ParseBy)
}

// ofOthers counts the labels whose nodes have no cohort of their own.
var ofOthers = figure.Sum("cohort_others_total",
	"Scored labels of nodes whose value of --by came after those that have scores of their own.", "labels of other values of --by",
	"Most of the labels: the attribute has too many values.")

// Cohorts is the observer that tells scores apart by the values of an attribute: those that come first. Of a category
// of the model these are values that training had, so that no typing error takes the place of one.
type Cohorts struct {
	By
	listed  []string // the values of a category
	class   string   // see [event.Cohorts], also for place
	place   int
	pending *serve.Pending

	values []string               // that have cohorts
	kept   store.SlotTable[int64] // by slot of pending: 1 + the place in values, 0 for others; and which attributes are odd
	scores serve.Cohorts          // since window 0
	joined [][2]int64             // of the window's labels
}

// NewCohorts returns cohorts that have seen no nodes; named are the classes that are watched beside the rarest. The model must have them.
func NewCohorts(by By, named []string, m *model.Model, pending *serve.Pending) (*Cohorts, error) {
	c := &Cohorts{By: by, pending: pending, kept: store.NewSlotTable[int64](2)}
	for _, name := range named {
		if !slices.Contains(m.Classes, name) {
			return nil, fmt.Errorf("--by class=%s: model %s has no such class: give one of %.200q", name, m.ID, m.Classes)
		}
	}
	if first := m.Foremost(1, named...); len(first) > 0 {
		c.class, c.place = m.Classes[first[0]], slices.Index(m.Watched(named...), first[0])
	}
	if m.Schema != nil {
		for i := range m.Schema.Attributes {
			if m.Schema.Attributes[i].Name == by.Attribute {
				c.listed = m.Schema.Attributes[i].Values
			}
		}
	}
	return c, nil
}

// Observer returns c as an observer. It must be the last one, as it scores what others add to outcomes.
func (c *Cohorts) Observer() serve.Observer {
	return serve.Observer{Served: c.served, Matched: c.matched, Scored: c.scored, State: c.state}
}

// Scores returns the scores since window 0. They belong to c.
func (c *Cohorts) Scores() serve.Cohorts { return c.scores }

func (c *Cohorts) served(x *serve.Entered) {
	for i := range x.Arrivals {
		n := x.Arrivals[i].Node
		c.kept.Set(x.Arrivals[i].Slot, []int64{c.cohort(n), int64(n.Odd)})
	}
}

// cohort returns 1 + the place of a node's value, which may be a new one, and 0 for others.
func (c *Cohorts) cohort(n *event.Node) int64 {
	value := c.valueOf(n)
	i := slices.Index(c.values, value)
	if i < 0 && value != otherCohorts && len(c.values) < c.Values &&
		(c.listed == nil || value == noCohort || slices.Contains(c.listed, value)) {
		i, c.values = len(c.values), append(c.values, strings.Clone(value))
	}
	return int64(1 + i)
}

// valueOf returns the value of a node: a text, a truth value or a whole number.
func (c *Cohorts) valueOf(n *event.Node) string {
	if c.Attribute == ByID {
		if before, _, found := strings.Cut(n.ID.Str, ":"); found {
			return nameOf(before)
		}
		return noCohort
	}
	for i := range slices.Backward(n.Named) { // given twice, a value is the last one
		switch a := &n.Named[i]; {
		case a.Name != c.Attribute:
		case a.Kind == event.Gap || a.Kind == event.Text && spelling.IsGap(a.Text):
			return noCohort
		case a.Kind == event.Number && (a.Number != math.Trunc(a.Number) || math.Abs(a.Number) >= 1e9):
			return otherCohorts
		case a.Kind <= event.Text:
			return nameOf(a.String())
		default:
			return otherCohorts
		}
	}
	return noCohort
}

// nameOf returns a value as it is shown.
func nameOf(value string) string {
	if len(value) > mostValueSize {
		value = value[:mostValueSize]
	}
	if value = strings.ToValidUTF8(spelling.Name(value), ""); value == "" {
		return noCohort
	}
	return value
}

func (c *Cohorts) matched(slot, _ int32) { c.joined = append(c.joined, [2]int64(c.kept.Row(slot))) }

func (c *Cohorts) scored(out *event.Outcome) {
	out.Cohorts = &event.Cohorts{By: c.Attribute, Class: c.class, Place: c.place, Known: c.values}
	for _, j := range c.joined {
		value, k := otherCohorts, j[0]
		if k == 0 {
			out.Figures.Count(ofOthers, 1)
		} else {
			value = c.values[k-1]
		}
		out.Cohorts.Values, out.Cohorts.Odd = append(out.Cohorts.Values, value), append(out.Cohorts.Odd, uint64(j[1]))
	}
	c.joined = c.joined[:0]
	c.scores.Merge(serve.CohortsOf(out))
}

// cohortsState is the values and their scores as snapshots have them, in JSON, which gives every number back as it was.
type cohortsState struct {
	Values []string
	Scores serve.Cohorts
}

// mostState bounds the bytes of a cohortsState.
const mostState = 1 << 20

// state declares the values of pending nodes, and the scores.
func (c *Cohorts) state(s *snapshot.Schema) {
	q := c.pending.Nodes // restored already
	store.DeclareRows(s, "cohorts.kept", &c.kept, q.WalkSlots(), q.Len(), nil, 2)
	b, err := json.Marshal(cohortsState{c.values, c.scores})
	if err != nil {
		panic(err) // strings and finite numbers only
	}
	snapshot.Slice(s, "cohorts.scores", &b, s.Len("cohorts.scores", len(b), mostState))
	s.Check(func() error {
		var x cohortsState
		if err := json.Unmarshal(b, &x); err != nil {
			return snapshot.Damaged("the scores of cohorts: %v", err)
		}
		if len(x.Values) > c.Values || len(x.Scores.List) > c.Values+1 {
			return snapshot.Damaged("%d values of %d, and scores of %d", len(x.Values), c.Values, len(x.Scores.List))
		}
		for slot := range int32(q.Len()) {
			if k := c.kept.Row(slot)[0]; k < 0 || k > int64(len(x.Values)) {
				return snapshot.Damaged("a node has value %d of %d", k, len(x.Values))
			}
		}
		c.values, c.scores = x.Values, x.Scores
		return nil
	})
}
