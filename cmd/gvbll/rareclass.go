package main

import (
	"fmt"
	"io"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// rareClass says how well the rarest class is told from the others, where one class has nearly all labels.
type rareClass struct {
	Class string `json:"class"`
	Of    int    `json:"of"` // labels of all classes
	calibration.Ranking
	Majority string  `json:"majority"`       // the most frequent class
	Share    float64 `json:"majority_share"` // of the labels: how often it is right to always say it
}

// acted is what came of acting (--act), by the labels that came.
type acted struct {
	Caught int `json:"caught"`
	Vain   int `json:"vain"`
	Missed int `json:"missed"`
}

func (a *acted) add(out *event.Outcome) {
	a.Caught += out.Figures.Int(parts.Acted.Caught)
	a.Vain += out.Figures.Int(parts.Acted.Vain)
	a.Missed += out.Figures.Int(parts.Acted.Missed)
}

// watchedLabels are labels with the probabilities that were served for the watched classes.
type watchedLabels struct {
	classes []int32
	labels  []int32
	probs   [][event.MaxWatched]float32
}

func (w *watchedLabels) add(out *event.Outcome) {
	w.classes = append(w.classes[:0], out.Watched...)
	for i := range out.Labelled {
		w.labels = append(w.labels, out.Labelled[i].Class)
		w.probs = append(w.probs, out.Labelled[i].Watched)
	}
}

// rare returns how the rarest watched class that has labels is ranked; nil unless another one has nearly all.
func (w *watchedLabels) rare(names []string) *rareClass {
	counts, most := byClass(len(names), w.labels)
	place := -1
	for k, c := range w.classes {
		if counts[c] > 0 && int(c) != most && (place < 0 || counts[c] < counts[w.classes[place]]) {
			place = k
		}
	}
	if place < 0 || float64(counts[most]) <= calibration.MuchMajority*float64(len(w.labels)) {
		return nil
	}
	c := w.classes[place]
	r := &rareClass{Class: names[c], Of: len(w.labels), Majority: names[most], Share: float64(counts[most]) / float64(len(w.labels))}
	r.Ranking, _ = calibration.Rank(len(w.labels), func(i int) float64 { return float64(w.probs[i][place]) },
		func(i int) bool { return w.labels[i] == c })
	return r
}

// byClass counts labels by class, and returns the class that has the most of them.
func byClass(classes int, labels []int32) (counts []int, most int) {
	counts = make([]int, classes)
	for _, c := range labels {
		if counts[c]++; counts[c] > counts[most] {
			most = int(c)
		}
	}
	return counts, most
}

// lines says it to people. what are the nodes whose labels these are.
func (r *rareClass) lines(what string) []string {
	share := float64(r.Labels) / float64(r.Of)
	majority := fmt.Sprintf("To always say %.20q is right for %.2f %% of %s.", r.Majority, 100*r.Share, what)
	if r.Labels < page.FewOfClass {
		return []string{majority, fmt.Sprintf("Of %.20q there are %d labels, too few to say how it is ranked.", r.Class, r.Labels)}
	}
	return []string{
		majority,
		fmt.Sprintf("Of %.20q (%s labels) the AUC is %.3f, the average precision %.3f (a coin's %.3f).",
			r.Class, look.Grouped(r.Labels), r.AUC, r.AP, share),
		fmt.Sprintf("The 1 %% that are most likely %.20q have %.0f %% of it.", r.Class, 100*r.Recall),
	}
}

func (a *acted) line() string {
	return fmt.Sprintf("Acting (--act) caught %s of %s, and %s were in vain.", look.Grouped(a.Caught),
		look.Grouped(a.Caught+a.Missed), look.Grouped(a.Vain))
}

// printRare prints how the rarest class of the training nodes held out was ranked, if there is one to speak of. labels are those
// of all training nodes.
func printRare(w io.Writer, held *watchedLabels, names []string, labels []int32) {
	if r := held.rare(names); r != nil {
		for _, line := range r.lines("the training nodes held out") {
			fmt.Fprintln(w, line)
		}
		return
	}
	counts, most := byClass(len(names), labels)
	if share := float64(counts[most]) / float64(len(labels)); share > calibration.MuchMajority && share < 1 {
		fmt.Fprintf(w, "To always say %.20q is right for %.2f %% of the training nodes.\n", names[most], 100*share)
	}
}
