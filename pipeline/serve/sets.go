package serve

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Sets is the observer that adds a set of classes to every prediction, and adapts the
// sets' thresholds to labels, so that the target share of sets holds the label.
type Sets struct {
	SetMaker
	Learner SetLearner
}

var _ Observer = (*Sets)(nil)

// SetMaker is what of sets serves, with thresholds that a [SetLearner] learns, perhaps in another
// process.
type SetMaker struct {
	cfg       Coverage
	Predictor *conformal.Predictor
	Impute    func(rows conformal.Rows) // called with the window's predictions, which have no labels yet
	limits    conformal.Limits

	pending *Pending
	classes []string

	// kept has by slot of pending: the prediction's number, and the words of its set, a
	// bit for each class.
	kept  store.SlotTable[int64]
	words int
	Count int64 // predictions so far, here and elsewhere

	Joined []JoinedSet // of the window's labels
	rows   conformal.Rows
	row    []int64 // scratch
}

// JoinedSet is the set that was served for a node whose label was joined.
type JoinedSet struct {
	ID   int64 // number of the prediction
	Size int32
	Held bool // the label
}

// SetLearner is what of sets learns thresholds.
type SetLearner struct {
	Config    Coverage
	Predictor *conformal.Predictor
	Scorer    *Scorer
	Classes   []string
	Imputed   []conformal.Imputation // of the window's predictions, where others serve
	tally     conformal.Coverage     // of all sets that have a label
	rows      conformal.Rows
	held      []bool
}

// NewSetPredictor returns the thresholds of sets of that many classes.
func NewSetPredictor(cfg Coverage, classes int) (*conformal.Predictor, error) {
	p := cfg.predictor(classes)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("sets of %d classes: %w", classes, err)
	}
	return conformal.New(p), nil
}

// NewSets returns sets with the thresholds that an empty stream begins with.
func NewSets(cfg Coverage, m *model.Model, pending *Pending, scorer *Scorer) (*Sets, error) {
	p, err := NewSetPredictor(cfg, len(m.Classes))
	if err != nil {
		return nil, err
	}
	return &Sets{NewSetMaker(cfg, p, p.Impute, m.Classes, pending), SetLearner{Config: cfg, Predictor: p, Scorer: scorer, Classes: m.Classes}}, nil
}

// NewSetMaker returns what makes sets with the thresholds of p. It calls impute with every
// window's predictions.
func NewSetMaker(cfg Coverage, p *conformal.Predictor, impute func(conformal.Rows), classes []string, pending *Pending) SetMaker {
	words := (len(classes) + 63) / 64
	return SetMaker{
		cfg: cfg, Predictor: p, Impute: impute,
		limits:  conformal.Limits{MinConfidence: cfg.MinConfidence, MaxSize: cfg.MaxSize},
		pending: pending, classes: classes,
		kept: store.NewSlotTable[int64](1 + words), words: words, row: make([]int64, 1+words),
	}
}

// Served adds a set to every prediction of the window.
func (s *SetMaker) Served(x *Entered) {
	s.Joined = s.Joined[:0]
	if len(x.Out.Predictions) > 0 {
		s.serve(x.Own, x.Out)
	}
	s.Count += int64(x.All)
}

// serve adds sets to the predictions of own, which are some of all arrivals. Predictions are
// numbered in the order of these, so that a prediction has the same number wherever
// it is made.
func (s *SetMaker) serve(own []awaited, out *event.Outcome) {
	n, rows := len(own), &s.rows
	rows.Probs, rows.ID = rows.Probs[:0], rows.ID[:0]
	for i, a := range own {
		for _, p := range out.Predictions[i].Probabilities {
			rows.Probs = append(rows.Probs, float64(p))
		}
		rows.ID = append(rows.ID, uint64(s.Count)+uint64(a.at))
	}
	values := make([]event.Set, n)
	names, members := make([]string, 0, 2*n), make([]int32, 0, len(s.classes))
	s.Impute(*rows)
	for i, set := range s.Predictor.Sets(*rows) {
		p := &out.Predictions[i]
		from := len(names)
		members = set.Append(members[:0])
		for _, c := range members {
			names = append(names, s.classes[c])
		}
		values[i] = event.Set{
			Classes: names[from:len(names):len(names)], Coverage: float32(s.cfg.Target),
			Abstain: s.limits.Abstain(float64(p.Confidence), set),
		}
		p.Set = &values[i]
		s.row[0] = int64(rows.ID[i])
		for k, w := range set {
			s.row[1+k] = int64(w)
		}
		s.kept.Set(own[i].slot, s.row)
	}
}

// Matched collects the node's set, and whether it holds the label.
func (s *SetMaker) Matched(slot, class int32) {
	row := s.kept.Row(slot)
	size := 0
	for _, w := range row[1:] {
		size += bits.OnesCount64(uint64(w))
	}
	s.Joined = append(s.Joined, JoinedSet{
		ID: row[0], Size: int32(size), Held: uint64(row[1+class/64])>>(class%64)&1 == 1,
	})
}

// Scored adapts the thresholds to the labels of a window.
func (s *Sets) Scored(out *event.Outcome) { s.Learner.Learn(s.Joined, s.Count, out) }

// Learn reports the coverage of the sets that got a label, and adapts the thresholds. count is
// the number of predictions so far.
func (s *SetLearner) Learn(joined []JoinedSet, count int64, out *event.Outcome) {
	labels, rows := s.Scorer.batch.Labels, &s.rows
	rows.Probs, rows.ID, rows.Lag, s.held = rows.Probs[:0], rows.ID[:0], rows.Lag[:0], s.held[:0]
	coverage := &event.Coverage{Target: s.Config.Target, Labels: make([]event.Covered, len(labels))}
	lag := 1 // the delay of labels, in predictions: the largest of the batch, for all of them
	for i, y := range labels {
		for _, p := range s.Scorer.served(i) {
			rows.Probs = append(rows.Probs, float64(p))
		}
		set := joined[i]
		rows.ID, s.held = append(rows.ID, uint64(set.ID)), append(s.held, set.Held)
		lag = max(lag, int(count-set.ID))
		group := ""
		if s.Config.Per == PerClass {
			group = s.Classes[y]
		}
		coverage.Labels[i] = event.Covered{Held: set.Held, Size: int(set.Size), Group: group}
		s.tally.Rows++
		s.tally.Classes += uint64(set.Size)
		if set.Held {
			s.tally.Covered++
		}
	}
	for range labels {
		rows.Lag = append(rows.Lag, lag)
	}
	s.Predictor.AddImputed(s.Imputed)
	s.Imputed = s.Imputed[:0]
	if len(labels) > 0 {
		s.Predictor.Learn(*rows, labels, s.held)
	}
	coverage.Rate, coverage.MeanSize, coverage.Sets = s.tally.Rate(), s.tally.MeanSize(), int64(s.tally.Rows)
	out.Coverage = coverage
}

// State declares the thresholds, and the sets of pending predictions.
func (s *Sets) State(schema *snapshot.Schema) {
	s.Learner.DeclareState(schema, &s.Count)
	s.KeptState(schema)
}

// DeclareState declares the thresholds and the tally of the sets that got a label, among so many
// predictions.
func (s *SetLearner) DeclareState(schema *snapshot.Schema, predictions *int64) {
	snapshot.Bytes(schema, "sets.thresholds", s.Predictor)
	counts := []int64{*predictions, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	schema.Check(func() error {
		if slices.Min(counts) < 0 || counts[2] > counts[1] {
			return snapshot.Damaged("%d of %d sets held the class, %d classes, in %d predictions", counts[2], counts[1], counts[3], counts[0])
		}
		*predictions = counts[0]
		s.tally = conformal.Coverage{Rows: uint64(counts[1]), Covered: uint64(counts[2]), Classes: uint64(counts[3])}
		return nil
	})
}

// KeptState declares the sets of pending predictions that are here.
func (s *SetMaker) KeptState(schema *snapshot.Schema) {
	n := s.pending.Nodes.Len() - s.pending.elsewhere // restored already
	next := s.pending.walkHere(s.pending.Nodes.Oldest())
	store.DeclareRows(schema, "sets.served", &s.kept, func() int32 { slot, _ := next(); return slot }, n, nil, 1+s.words)
	schema.Check(func() error {
		var here []int32
		for slot := range int32(s.pending.Nodes.Len()) {
			if s.pending.isHere(slot) {
				here = append(here, slot)
			}
		}
		for i := len(here) - 1; i >= 0; i-- { // each is at i or behind it
			s.kept.Set(here[i], s.kept.Row(int32(i)))
		}
		return s.checkKept(here)
	})
}

// checkKept checks the restored rows of pending nodes in some slots.
func (s *SetMaker) checkKept(slots []int32) error {
	beyond := uint(len(s.classes) % 64)
	for _, slot := range slots {
		row := s.kept.Row(slot)
		if row[0] < 0 || row[0] >= s.Count || beyond > 0 && uint64(row[s.words])>>beyond != 0 {
			return snapshot.Damaged("prediction %d of %d has the set %x", row[0], s.Count, row[1:])
		}
	}
	return nil
}
