package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/posterior/calibration"
)

// question is what the live page answers first: by a number, a sentence or two, and a chart.
type question struct {
	ID, Asked    string
	Number, Unit string // Unit says what the number is of
	Answer       string
	Chart        *plot // nil while there is nothing to draw
}

// answers returns the three questions of whoever opens the page. The first two are
// answered by the scores of the whole stream, the third by what this worker does now.
// heads are the scores over time of those that are drawn.
func (s *Server) answers(heads []measured) []question {
	h := &s.past.h
	right := question{ID: "right", Asked: "Is it right?", Number: Undefined, Unit: "No label has come yet."}
	trusted := question{ID: "trusted", Asked: "Can its probabilities be believed?", Number: Undefined, Unit: "No label has come yet."}
	if len(h.scores) > 0 {
		if served := h.scores[h.servedBy()].Total(); served.Labels > 0 {
			h.isRight(&right, &served, heads)
			isTrusted(&trusted, &served)
			h.doubt(&trusted, s.cfg.Now())
		}
	}
	return []question{right, trusted, h.isHealthy(s.state(), s.cfg.Now())}
}

func (h *history) isRight(q *question, served *calibration.Tally, heads []measured) {
	q.Number, q.Unit = percent(served.Correct, served.Labels)+" %", fmt.Sprintf("of %d labelled predictions were right.", served.Labels)
	var answers []string
	for i := range h.scores {
		if t := h.scores[i].Total(); h.scores[i].Head == static && i != h.servedBy() && t.Labels > 0 {
			answers = append(answers, fmt.Sprintf("The model as trained, which learns from no label, was right "+
				"for %s %%.", percent(t.Correct, t.Labels)))
		}
	}
	// all labels came since this worker started
	if most := Usual(h.classes()); most != nil && h.scored.sums.Served.Labels == served.Labels {
		answers = append(answers, fmt.Sprintf("The most frequent class, %s, as the only answer would be right for %s %%.",
			most.Name, percent(most.Labels, served.Labels)))
	}
	q.Answer = strings.Join(answers, " ")
	var lines []measured
	for k, m := range heads {
		if k == 0 {
			m.name = "what serves"
		} else if m.name == static {
			m.name = "the model as trained"
		} else {
			continue
		}
		lines = append(lines, m)
	}
	if lines != nil { // labels have come since this worker started
		q.Chart = &plot{Label: "Accuracy over the windows, of what serves and of the model as trained."}
		q.Chart.add("accuracy", "window", true, linesOf(lines, func(m calibration.Means) float64 { return m.Acc })...)
	}
}

// sure is the confidence from which on a prediction is called sure. It is a bin's edge.
const sure = .9

func isTrusted(q *question, served *calibration.Tally) {
	points := func(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) }
	ece, chance := served.Bins.ECE()
	q.Number, q.Unit = points(ece)+" points", fmt.Sprintf("lie between confidence and accuracy in the mean (ECE); "+
		"chance alone gives up to %s.", points(chance))
	all, above := served.Bins.Between(0, calibration.BinCount), served.Bins.Between(calibration.BinOf(sure), calibration.BinCount)
	claimed, kept := all.SumConfidence/float64(served.Labels), float64(served.Correct)/float64(served.Labels)
	switch {
	case ece <= chance:
		q.Answer = "That is no more than chance: nothing speaks against them."
	case claimed > kept:
		q.Answer = fmt.Sprintf("It claims more than it keeps: %s %% in the mean, right for %s %%.", points(claimed), points(kept))
	default:
		q.Answer = fmt.Sprintf("It keeps more than it claims: %s %% in the mean, right for %s %%.", points(claimed), points(kept))
	}
	if above.Count > 0 {
		q.Answer += fmt.Sprintf(" Of the %d predictions that it called %v %% sure or more, %s %% were right.",
			above.Count, 100*sure, percent(int(above.Correct), int(above.Count)))
	}
	q.Chart = &plot{Label: "A reliability diagram: accuracy against confidence."}
	q.Chart.reliability("served", served)
}

// doubt says so before the answer if the labels that came since this worker started cannot tell.
func (h *history) doubt(q *question, now time.Time) {
	if silent := h.rhythm.Silent(now); silent > 0 {
		q.Answer = fmt.Sprintf("Labels stopped: the last one came %s ago. ", silent.Truncate(time.Second)) + q.Answer
	}
	if h.apart() > MuchApart {
		q.Answer = "Labels are of one class, or of others than in training and than the model as trained predicts: they say nothing " +
			"of all nodes. Of those with a label: " + q.Answer
	}
}

func (h *history) isHealthy(state string, now time.Time) question {
	q := question{ID: "healthy", Asked: "Is it healthy?", Number: state}
	q.Unit = fmt.Sprintf("%s to be read; ", counted(h.waiting(), "record waits", "records wait"))
	if h.worker.commit.IsZero() {
		q.Unit += "nothing has been committed yet."
	} else {
		q.Unit += fmt.Sprintf("the last commit was %s ago.", now.Sub(h.worker.commit).Truncate(time.Second))
	}
	q.Answer = fmt.Sprintf("Since this worker started, %s.", counted(int64(h.refused.events()), "event was refused", "events were refused"))
	if h.latest != nil && h.latest.Drift != nil {
		var found int64
		for i := range h.latest.Drift.Detectors {
			found += h.latest.Drift.Detectors[i].Total
		}
		q.Answer += fmt.Sprintf(" In the whole stream, %s.", counted(found, "change was found", "changes were found"))
	}
	if len(h.windows.items) > 1 {
		var arrivals, labels int
		come, labelled := series{name: "arrivals"}, series{name: "labels"}
		for _, w := range slices.Backward(h.windows.newest(keptWindows)) {
			arrivals += w.Arrivals
			labels += w.Labels
			come.add(float64(w.Window), float64(arrivals))
			labelled.add(float64(w.Window), float64(labels))
		}
		q.Chart = &plot{Label: "Arrivals and labels in the last windows."}
		q.Chart.add("arrivals and labels, added up", "window", true, come, labelled)
	}
	return q
}

// counted returns a number with what it counts, in the singular or the plural.
func counted(n int64, one, many string) string {
	switch n {
	case 0:
		return "no " + one
	case 1:
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}
