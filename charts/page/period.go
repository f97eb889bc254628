package page

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// Period is what happened in a stretch of time, From ≤ t < To. Its scores are of the
// labels that came in it, whenever their nodes were served.
type Period struct {
	From, To    time.Time
	Predictions int               // first ones of their nodes
	Revisions   int               // further ones
	Labels      int               // learned; scores may be missing for some, see Served.Labels
	Refused     map[string]int    // events, by reason
	Served      calibration.Tally // of the predictions as they were served
	Heads       []Group           // each head's own scores, whichever served
	Degrees     []Group           // what was served, by the node's degree
	Classes     []Group           // what was served, by the class of the label
	Cohorts     pipeline.Cohorts  // what was served, by the value of an attribute
	Delays      []Delay
	Attributes  []Attribute        // of the events with features by name
	Unknown     []spelling.Unknown // names of features that the model's schema lacks

	Figures figure.Kept
}

// Add adds to the sums what came of a window: to Served, Degrees, Cohorts, Attributes and Classes, which are by their indices and without
// names. m is the model that served it; of another, nothing is known of attributes.
func (p *Period) Add(out *event.Outcome, m *model.Model) {
	class := func(c int32) *Group {
		if missing := int(c) + 1 - len(p.Classes); missing > 0 {
			p.Classes = append(p.Classes, make([]Group, missing)...)
		}
		return &p.Classes[c]
	}
	if p.Degrees == nil {
		for _, d := range event.DegreeSlices {
			p.Degrees = append(p.Degrees, Group{Name: d.Name})
		}
	}
	for i := range out.Labelled {
		l := &out.Labelled[i]
		score := (*calibration.Score)(&out.Heads[l.By].Scores[i])
		p.Served.Add(score)
		p.Degrees[event.DegreeSlice(l.Degree)].Add(score)
		class(l.Class).Add(score)
		class(score.Class).Predicted.Add(score)
	}
	for i := range out.Predictions {
		class(out.Predictions[i].ClassIndex).Arrived++
	}
	for c, n := range out.AsTrained {
		class(int32(c)).AsTrained += int(n)
	}
	for k, c := range out.Watched {
		odds := serve.Odds(out, k)
		class(c).addOdds(&odds)
	}
	p.Cohorts.Merge(serve.CohortsOf(out))
	p.Attributes = AddAttributes(p.Attributes, AttributesOf(out, m)...)
}

// addOdds adds counts, and changes none that others hold.
func (g *Group) addOdds(more *calibration.Odds) {
	odds := *more
	if g.Odds != nil {
		odds.Merge(g.Odds)
	}
	g.Odds = &odds
}

// Group is the sums of scores of a part of the labels, or of one head.
type Group struct {
	Name              string
	Predicted         calibration.Tally // of a class: of the labelled nodes predicted as it; from the ledger their number alone
	Arrived           int               // of a class: how many arrivals of windows with labels were
	AsTrained         int               // of a class: how many of these the model as trained predicts as it
	Trained           float64           // of a class: how many labels it would have, were they as in training; 0: not known
	Confidence        float64           // sum
	calibration.Tally                   // its bins may be empty
	Odds              *calibration.Odds // of a class that is watched
}

// Usual returns the class with the most labels, the first of several, nil if there are none.
func Usual(classes []Group) (most *Group) {
	for i := range classes {
		if n := classes[i].Labels; n > 0 && (most == nil || n > most.Labels) {
			most = &classes[i]
		}
	}
	return most
}

// Delay is the median time from a node's arrival to its label, of a number of labels.
type Delay struct {
	Median time.Duration
	Labels int
}

// overconfidence returns the mean confidence minus the accuracy.
func (g *Group) overconfidence() float64 {
	return (g.Confidence - float64(g.Correct)) / float64(max(g.Labels, 1))
}

// merge adds what happened in another period. From and To stay.
func (p *Period) merge(o *Period) {
	p.Predictions += o.Predictions
	p.Revisions += o.Revisions
	p.Labels += o.Labels
	p.Figures.Merge(o.Figures)
	for reason, events := range o.Refused {
		p.Refuse(reason, events)
	}
	p.Served.Merge(&o.Served)
	p.Heads = AddGroups(p.Heads, o.Heads...)
	p.Degrees = AddGroups(p.Degrees, o.Degrees...)
	p.Classes = AddGroups(p.Classes, o.Classes...)
	p.Cohorts.Merge(o.Cohorts)
	p.AddDelays(o.Delays...)
	p.Attributes = AddAttributes(p.Attributes, o.Attributes...)
	p.Unknown = AddUnknown(p.Unknown, o.Unknown...)
}

// maxDelays bounds Period.Delays. It must be even.
const maxDelays = 4096

// AddDelays adds delays. Beyond maxDelays, neighbours are merged in pairs, each pair with
// the median of its greater part.
func (p *Period) AddDelays(delays ...Delay) {
	for _, d := range delays {
		if p.Delays = append(p.Delays, d); len(p.Delays) < maxDelays {
			continue
		}
		slices.SortFunc(p.Delays, byMedian)
		for i := range maxDelays / 2 {
			a, b := p.Delays[2*i], p.Delays[2*i+1]
			if a.Labels < b.Labels {
				a.Median = b.Median
			}
			p.Delays[i] = Delay{a.Median, a.Labels + b.Labels}
		}
		p.Delays = p.Delays[:maxDelays/2]
	}
}

func byMedian(a, b Delay) int { return cmp.Compare(a.Median, b.Median) }

// Refuse counts events that were refused for a reason.
func (p *Period) Refuse(reason string, events int) {
	if p.Refused == nil {
		p.Refused = make(map[string]int)
	}
	p.Refused[reason] += events
}

// refusedEvents returns the number of all refused events.
func (p *Period) refusedEvents() (n int) {
	for _, events := range p.Refused {
		n += events
	}
	return n
}

// Head returns the scores of a head, nil if the period has none.
func (p *Period) Head(name string) *Group {
	if i := slices.IndexFunc(p.Heads, func(g Group) bool { return g.Name == name }); i >= 0 {
		return &p.Heads[i]
	}
	return nil
}

// Delay returns the median time from a node's arrival to its label, 0 if it is not
// known. It is the median of medians, each counting for its labels.
func (p *Period) Delay() time.Duration {
	if len(p.Delays) == 0 {
		return 0
	}
	list := slices.SortedFunc(slices.Values(p.Delays), byMedian)
	medians, labels := make([]float64, len(list)), make([]float64, len(list))
	for i, d := range list {
		medians[i], labels[i] = float64(d.Median), float64(d.Labels)
	}
	return time.Duration(stat.Quantile(.5, stat.Empirical, medians, labels))
}

// AddGroups adds the sums of more groups to those of the same names in list. New names
// are appended.
func AddGroups(list []Group, more ...Group) []Group {
	for _, m := range more {
		i := slices.IndexFunc(list, func(g Group) bool { return g.Name == m.Name })
		if i < 0 {
			list = append(list, m)
			continue
		}
		g := &list[i]
		g.Predicted.Merge(&m.Predicted)
		g.Arrived += m.Arrived
		g.AsTrained += m.AsTrained
		g.Trained += float64(m.Trained)
		g.Confidence += m.Confidence
		g.Merge(&m.Tally)
		if m.Odds != nil {
			g.addOdds(m.Odds)
		}
	}
	return list
}

// OddsOf returns the counts of a class by its probability, nil unless it is watched. The commoner of two classes has those of the
// other, the other way round: so both have one AUC.
func OddsOf(classes []Group, c int) *calibration.Odds {
	own := classes[c].Odds
	var other *calibration.Odds
	watched := 0
	for i := range classes {
		if o := classes[i].Odds; o != nil {
			watched++
			if i != c {
				other = o
			}
		}
	}
	if own == nil || watched != 2 {
		return own
	}
	all, others := own.From(0), other.From(0)
	if all.Rows != others.Rows || all.Labels <= others.Labels || math.Abs(all.Sum+others.Sum-all.Rows) > 1e-3*all.Rows {
		return own
	}
	rest := other.Rest()
	return &rest
}
