package page

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// scored is the scores of a model in the windows reported so far.
type scored struct {
	model   string   // the model's id
	first   int64    // window
	heads   []string // names
	curve   curve
	classes []classScores // of the head that serves
}

// classScores is the scores of the labels of a class.
type classScores struct {
	labelled  calibration.Tally
	predicted int               // labelled nodes that were predicted as it
	odds      *calibration.Odds // nil unless it is watched
}

// add adds the scores of a window. If another model serves, it first resets them.
func (s *scored) add(out *event.Outcome) {
	if out.Model != s.model || s.heads == nil {
		*s = scored{model: out.Model, first: out.Window}
		for i := range out.Heads {
			s.heads = append(s.heads, out.Heads[i].Name)
		}
	}
	s.curve.add(out)
	if len(out.Heads) == 0 {
		return
	}
	for i := range out.Heads[0].Scores {
		score, label := (*calibration.Score)(&out.Heads[0].Scores[i]), out.Labelled[i].Class
		for int(max(score.Class, label)) >= len(s.classes) {
			s.classes = append(s.classes, classScores{})
		}
		s.classes[score.Class].predicted++
		s.classes[label].labelled.Add(score)
	}
	for k, c := range out.Watched {
		for int(c) >= len(s.classes) {
			s.classes = append(s.classes, classScores{})
		}
		odds := serve.Odds(out, k)
		if of := &s.classes[c]; of.odds == nil {
			of.odds = &odds
		} else {
			of.odds.Merge(&odds)
		}
	}
}

// labels returns the number of labels.
func (s *scored) labels() (n int) {
	for c := range s.classes {
		n += s.classes[c].labelled.Labels
	}
	return n
}

// mostFrequent returns the class with the most labels, the first of several, and their
// number, 0 if there are none.
func (s *scored) mostFrequent() (class, labels int) {
	for c := range s.classes {
		if n := s.classes[c].labelled.Labels; n > labels {
			class, labels = c, n
		}
	}
	return class, labels
}

// classTable returns a row for each class.
func (h *history) classTable() (t table) {
	for c, name := range h.model.Classes {
		var of classScores
		if c < len(h.scored.classes) {
			of = h.scored.classes[c]
		}
		t.addClass(&Group{Name: name, Predicted: of.predicted, Tally: of.labelled, Odds: of.odds})
	}
	t.Caption = fmt.Sprintf("labels since window %d, the first that this worker has seen of this model", h.scored.first)
	return t
}
