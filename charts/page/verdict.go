package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/serve"
)

// The bounds of the verdict. They are those of the rule graph:gvbll_verdict:points1h, so that boards, page and status
// say the same of a graph.
const (
	enoughToBlame = serve.FewLabels
	EnoughLabels  = 200 // to judge scores by
	MuchApart     = 0.5 // of the labels
	ofOneClass    = 0.98
	noRhythm      = 10 * time.Minute
)

// The verdicts that are not points, as the rule graph:gvbll_verdict:points1h has them.
var verdicts = map[float64]string{
	-7: "a class is worse", -6: "labels stopped", -5: "labels of one class", -1: "too few labels", 0: "calibrated",
}

// Verdict says in words whether what was served can be believed by the labels of a period. Where these cannot tell, that is the
// verdict. before is the period before it, told says that the rates are known at which classes get labels, and silent is
// for how long labels have stopped, 0 if they have not.
func (p *Period) Verdict(before *Period, told bool, silent time.Duration) string {
	points := p.Points(before, told, silent)
	return cmp.Or(verdicts[points], fmt.Sprintf("%.1f points off", points))
}

// Points is the verdict as a number: above 0 by how many points of 100 the ECE is above its chance level, else one of verdicts.
func (p *Period) Points(before *Period, told bool, silent time.Duration) float64 {
	means := p.Served.Means()
	switch {
	case p.Apart(told) > MuchApart:
		return -5
	case silent > 0:
		return -6
	case len(p.Worse(before)) > 0:
		return -7
	case p.Served.Labels >= enoughToBlame && means.ECE > means.Chance:
		return 100 * (means.ECE - means.Chance)
	case p.Served.Labels < EnoughLabels:
		return -1
	}
	return 0
}

// Apart returns which share of the labels is of other classes than in training, and than what the model as trained predicts of
// arrivals: the lesser of the two, of those that are known. It is 0 where labels are few, and where the rates are
// known at which classes get labels, unless there is one class only.
func (p *Period) Apart(told bool) float64 {
	var labels, arrived, trained, most float64
	for i := range p.Classes {
		c := &p.Classes[i]
		labels, arrived, trained = labels+float64(c.Labels), arrived+float64(c.AsTrained), trained+c.Trained
		most = max(most, float64(c.Labels))
	}
	if labels < enoughToBlame || told && most <= ofOneClass*labels {
		return 0
	}
	asTrained, asTraining := 1.0, 1.0
	for i := range p.Classes {
		c := &p.Classes[i]
		asTrained -= min(float64(c.Labels)/labels, float64(c.AsTrained)/max(arrived, 1))
		asTraining -= min(float64(c.Labels)/labels, c.Trained/max(trained, 1))
	}
	switch {
	case arrived == 0 && trained == 0:
		return 0
	case arrived == 0:
		return asTraining
	case trained == 0:
		return asTrained
	}
	return min(asTrained, asTraining)
}

// Worse is a score of a class that is worse than in the period before, by more than chance.
type Worse struct {
	Class, Score string
	Was, Is      float64
}

// Bounds of what is worse: by such a share of what it was, by so many standard errors, with so many labels of the class.
const (
	muchWorse  = 0.05
	Certain    = 3
	FewOfClass = 20 // labels of a class below which its ranking says nothing
)

// Worse returns the scores of the two rarest classes that are worse than in the period before: of two classes, of the rarer one,
// as both have one AUC.
func (p *Period) Worse(before *Period) (list []Worse) {
	rarest := slices.DeleteFunc(slices.Clone(p.Classes), func(g Group) bool { return g.Odds == nil })
	slices.SortStableFunc(rarest, func(a, b Group) int { return cmp.Compare(a.Odds.From(0).Labels, b.Odds.From(0).Labels) })
	judged := min(len(rarest), 2)
	if len(rarest) == 2 {
		judged = 1
	}
	for i := range rarest[:judged] {
		now := &rarest[i]
		was := groupNamed(before.Classes, now.Name)
		if was == nil || was.Odds == nil {
			continue
		}
		if now.Odds.From(0).Labels < FewOfClass || was.Odds.From(0).Labels < FewOfClass {
			continue
		}
		auc, ap, _ := now.Odds.Ranking()
		aucWas, apWas, _ := was.Odds.Ranking()
		aucError, apError := now.Odds.RankingErrors()
		aucErrorWas, apErrorWas := was.Odds.RankingErrors()
		for _, x := range []struct {
			score          string
			was, is, error float64
		}{{"AUC", aucWas, auc, math.Hypot(aucError, aucErrorWas)}, {"average precision", apWas, ap, math.Hypot(apError, apErrorWas)}} {
			if x.was-x.is > max(muchWorse*x.was, Certain*x.error) {
				list = append(list, Worse{now.Name, x.score, x.was, x.is})
			}
		}
	}
	return list
}

// groupNamed returns the group of a name, nil if there is none.
func groupNamed(list []Group, name string) *Group {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Rhythm is when labels come. The zero value has seen nothing.
type Rhythm struct {
	last    time.Time     // of the latest label, or of the first window
	longest time.Duration // between two labels, or before the first
	came    bool          // a label
	since   int           // predictions after the latest label
}

// Add adds a window: when it was stepped, its predictions and labels.
func (r *Rhythm) Add(at time.Time, predictions, labels int) {
	if r.last.IsZero() {
		r.last = at
	}
	r.since += predictions
	if labels > 0 {
		r.longest = max(r.longest, at.Sub(r.last))
		r.last, r.came, r.since = at, true, 0
	}
}

// Silent returns for how long no label has come, if that is twice as long as ever before while nodes were predicted;
// otherwise 0.
func (r *Rhythm) Silent(now time.Time) time.Duration {
	if silent := now.Sub(r.last); r.came && r.since > 0 && silent > max(2*r.longest, noRhythm) {
		return silent
	}
	return 0
}

// Last returns when the latest label came, the zero time if none did.
func (r *Rhythm) Last() time.Time {
	if !r.came {
		return time.Time{}
	}
	return r.last
}
