package look

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
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

// reasonsIn returns the reasons of the newest predictions of a time, nil where there are none, or where the topic may not be read.
func (g Graph) reasonsIn(ctx context.Context, from, to time.Time) (r *reasons, err error) {
	bounds, err := g.Client.Offsets(ctx, g.Names.Predictions)
	if err != nil {
		return nil, err
	}
	begin, err := g.Client.OffsetsAt(ctx, g.Names.Predictions, from)
	if err != nil {
		return nil, err
	}
	end, err := g.Client.OffsetsAt(ctx, g.Names.Predictions, to)
	if err != nil {
		return nil, err
	}
	for at, b := range bounds {
		b.End = min(end[at], b.End)
		bounds[at] = b
		begin[at] = max(begin[at], b.End-predictionsCompared/int64(len(bounds)))
	}
	err = g.Client.ReadTo(ctx, begin, bounds, func(record *kafka.Record) bool {
		var p event.Prediction
		if wire.DecodePrediction(record.Value, &p) == nil {
			r = r.with(&p)
		}
		return true
	})
	if errors.Is(err, kafkago.TopicAuthorizationFailed) {
		return nil, nil
	}
	return r, err
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
