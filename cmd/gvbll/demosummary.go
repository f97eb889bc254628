package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/posterior/calibration"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// demoSummary is the output of --json. It does not depend on timing: a run that was
// killed and continued ends with the same summary as one that was not.
type demoSummary struct {
	Data        string     `json:"data"`
	Model       string     `json:"model"`
	Arrivals    int        `json:"arrivals"`
	Predictions int        `json:"predictions"` // committed records in the topic
	Labels      int        `json:"labels"`      // each learned from once
	Steps       int        `json:"steps"`
	Head        string     `json:"head"` // the one that serves
	Served      demoScores `json:"served"`
	Static      demoScores `json:"static"`
	Online      demoScores `json:"online"`
	Heads       []demoHead `json:"heads"` // all that could have served instead, by their NLL
	Right       struct {   // accuracy along the stream
		Served fifths `json:"served"`
		Static fifths `json:"static"`
	} `json:"right"`
	Reliability struct { // over all labels
		Served calibration.Bins `json:"served"`
		Static calibration.Bins `json:"static"`
	} `json:"reliability"`
	Rare      *rareClass `json:"rare,omitempty"`  // null unless a class has nearly all labels
	Acted     *acted     `json:"acted,omitempty"` // null without --act
	Posterior string     `json:"posterior"`
	Chain     string     `json:"chain"`
}

// demoScores are means over steps, as in the paper, and in stream over all labels.
type demoScores struct {
	calibration.Means
	Stream calibration.Means `json:"stream"`
}

// demoHead is a head beside what served, scored on the same labels.
type demoHead struct {
	Head string `json:"head"`
	demoScores
	// Behind is the head's NLL less that of what served, as means over steps; it is
	// negative if the head would have done better. Error is the standard error of this
	// mean of differences.
	Behind float64 `json:"behind"`
	Error  float64 `json:"error"`
}

// summary compares the counts of the demo with the published records, and shows what came of
// it: to people, or as JSON.
func (d demoCmd) summary(
	ctx context.Context, out io.Writer, c *kafka.Client, names topics.Names, show *demoShow, set *flags.DataSet,
) error {
	records, keys, err := published(ctx, c, names.Predictions)
	if err != nil {
		return err
	}
	if !d.Keep && (records != show.arrivals || keys != records) {
		return fmt.Errorf("%d arrivals, but %d predictions of %d nodes: every arrival should be predicted once",
			show.arrivals, records, keys)
	}
	sum := show.summary()
	sum.Rare = show.watched.rare(set.Classes)
	sum.Data, sum.Predictions = set.Name, records
	if d.JSON {
		return flags.PrintJSON(out, sum)
	}
	show.print(sum.ending(show.screen.Width()))
	return nil
}

// summary returns the summary of what was shown.
func (d *demoShow) summary() demoSummary {
	s := demoSummary{
		Model: d.model, Arrivals: d.arrivals, Labels: d.labels, Steps: d.total, Posterior: d.posterior, Chain: d.chain,
		Head: d.scores[0].Head, Served: scoresOf(&d.prequential), Heads: d.alternatives(),
		Static: scoresOf(&named(d.scores, look.StaticHead).Prequential), Online: scoresOf(&named(d.scores, "online").Prequential),
	}
	if d.engine.Config().Act != "" {
		s.Acted = &d.acted
	}
	served, static := sum(d.served), sum(d.static())
	s.Reliability.Served, s.Reliability.Static = served.Bins, static.Bins
	s.Right.Served, s.Right.Static = fifthsOf(d.served), fifthsOf(d.static())
	return s
}

// alternatives returns all heads that did not serve throughout, the best first.
func (d *demoShow) alternatives() (list []demoHead) {
	for h := range d.scores {
		if slices.Equal(d.heads[h], d.served) {
			continue
		}
		behind := make([]float64, len(d.served))
		for t := range d.served {
			behind[t] = d.heads[h][t].Means().NLL - d.served[t].Means().NLL
		}
		head := demoHead{Head: d.scores[h].Head, demoScores: scoresOf(&d.scores[h].Prequential)}
		head.Behind, head.Error = calibration.MeanAndError(behind)
		list = append(list, head)
	}
	slices.SortStableFunc(list, func(a, b demoHead) int { return cmp.Compare(a.Behind, b.Behind) })
	return list
}

func scoresOf(s *calibration.Prequential) demoScores {
	return demoScores{Means: s.WindowMeans(), Stream: s.LabelMeans()}
}

// named returns the summary of the head of that name, or an empty one.
func named(scores []pipeline.Summary, head string) *pipeline.Summary {
	for i := range scores {
		if scores[i].Head == head {
			return &scores[i]
		}
	}
	return &pipeline.Summary{}
}

// published counts the committed records of a topic, and their distinct keys.
func published(ctx context.Context, c *kafka.Client, topic string) (records, keys int, err error) {
	seen := make(map[string]bool)
	err = c.ReadAll(ctx, topic, func(r *kafka.Record) {
		records++
		seen[string(r.Key)] = true
	})
	return records, len(seen), err
}
