package look

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
)

// reasons sum up what moved the newest predictions.
type reasons struct {
	Predictions int      `json:"predictions"` // that have reasons
	First       []first  `json:"first"`       // what moved them most, those of most predictions first
	Latest      event.ID `json:"latest"`      // the last one of them
	Words       string   `json:"words"`       // and what moved it, in words
}

// first is what moved some predictions most.
type first struct {
	What        string `json:"what"` // such as "key card"
	Predictions int    `json:"predictions"`
}

// with adds a prediction, which may have none. A nil one is empty.
func (r *reasons) with(p *event.Prediction) *reasons {
	if p.Reasons == nil || len(p.Reasons.List) == 0 {
		return r
	}
	if r == nil {
		r = &reasons{}
	}
	r.Predictions++
	r.Latest, r.Words = p.Node.Clone(), p.Reasons.Class+": "+p.Reasons.Words()
	most := &p.Reasons.List[0]
	what := strings.TrimSuffix(most.What+" "+most.Name, " ")
	i := slices.IndexFunc(r.First, func(f first) bool { return f.What == what })
	if i < 0 {
		i = len(r.First)
		r.First = append(r.First, first{What: strings.Clone(what)})
	}
	r.First[i].Predictions++
	slices.SortStableFunc(r.First, func(a, b first) int { return cmp.Compare(b.Predictions, a.Predictions) })
	return r
}

// lines say it in words.
func (r *reasons) lines() []string {
	if r == nil {
		return nil
	}
	var list []string
	for _, f := range r.First[:min(len(r.First), 4)] { // --json has all
		list = append(list, fmt.Sprintf("%s (%.0f %%)", cut(shown(f.What), 40), 100*float64(f.Predictions)/float64(r.Predictions)))
	}
	return []string{
		fmt.Sprintf("what moved the newest predictions most: %s", strings.Join(list, ", ")),
		fmt.Sprintf("the latest, of %s: why %s", cut(shown(r.Latest.String()), 40), shown(r.Words)),
	}
}
