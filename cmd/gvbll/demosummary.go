package main

import (
	"context"
	"fmt"
	"io"

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
	Posterior   string     `json:"posterior"`
	Chain       string     `json:"chain"`
}

// demoScores are means over steps, as in the paper, and in stream over all labels.
type demoScores struct {
	calibration.Means
	Stream calibration.Means `json:"stream"`
}

// summary compares the counts of the demo with the published records, and prints the
// scores: to text for people, or to out as JSON.
func (d demoCmd) summary(ctx context.Context, out, text io.Writer, c *kafka.Client, names topics.Names, show *demoShow, set *dataSet) error {
	records, keys, err := published(ctx, c, names.Predictions)
	if err != nil {
		return err
	}
	if !d.Keep && (records != show.arrivals || keys != records) {
		return fmt.Errorf("%d arrivals, but %d predictions of %d nodes: every arrival should be predicted once", show.arrivals, records, keys)
	}
	sum := demoSummary{
		Data: set.Name, Model: show.model, Arrivals: show.arrivals, Predictions: records, Labels: show.labels, Steps: show.total,
		Head: show.scores[0].Head, Served: scoresOf(&show.scores[0]), Online: scoresOf(named(show.scores, "online")), Static: scoresOf(named(show.scores, staticHead)), Posterior: show.posterior, Chain: show.chain,
	}
	if d.JSON {
		return printJSON(out, sum)
	}
	fmt.Fprintf(text, "\n%d arrivals, %d predictions published, %d labels learned from, each once.\n\n", sum.Arrivals, sum.Predictions, sum.Labels)
	fmt.Fprintf(text, "mean over steps   accuracy     NLL     ECE   Brier\n")
	rows := []struct {
		name string
		s    calibration.Means
	}{{"static", sum.Static.Means}, {"online", sum.Online.Means}}
	if sum.Head != "online" {
		rows = append(rows, rows[0])
		rows[2].name, rows[2].s = sum.Head, sum.Served.Means
	}
	for _, row := range rows {
		fmt.Fprintf(text, "  %-14s %10.4f %7.4f %7.4f %7.4f\n", row.name, row.s.Acc, row.s.NLL, row.s.ECE, row.s.Brier)
	}
	fmt.Fprintf(text, "  %-14s %+10.4f %+7.4f %+7.4f %+7.4f\n", "difference",
		sum.Served.Acc-sum.Static.Acc, sum.Served.NLL-sum.Static.NLL, sum.Served.ECE-sum.Static.ECE, sum.Served.Brier-sum.Static.Brier)
	fmt.Fprintf(text, "\nLearning online %s: NLL %.3f to %.3f, accuracy %.1f%% to %.1f%%.\n", verdict(sum), sum.Static.NLL, sum.Served.NLL, 100*sum.Static.Acc, 100*sum.Served.Acc)
	return nil
}

func scoresOf(s *pipeline.Summary) demoScores {
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

// verdict says whether the serving head has a lower NLL than the model as trained.
func verdict(s demoSummary) string {
	if s.Served.NLL < s.Static.NLL {
		return "paid"
	}
	return "did not pay here"
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
