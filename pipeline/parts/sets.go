package parts

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// sets is the observer that adds a set of classes to every prediction, and adapts the
// sets' thresholds to labels, so that the target share of sets holds the label.
type sets struct {
	cfg       Coverage
	predictor *conformal.Predictor
	limits    conformal.Limits
	pending   *serve.Pending
	scorer    *serve.Scorer
	classes   []string

	// kept has by slot of pending: the prediction's number, and the words of its set, a
	// bit for each class.
	kept  store.SlotTable[int64]
	words int
	count int64              // predictions so far
	tally conformal.Coverage // of all sets that have a label

	joined []joinedSet // of the window's labels
	rows   conformal.Rows
	labels []int32 // scratch: of the window
	row    []int64 // the same
	held   []bool  // the same
}

// joinedSet is the set that was served for a node whose label was joined.
type joinedSet struct {
	id   int64 // number of the prediction
	size int
	held bool // the label
}

// NewSets returns sets with the thresholds that an empty stream begins with.
func NewSets(cfg Coverage, m *model.Model, pending *serve.Pending, scorer *serve.Scorer) (*sets, error) {
	p := cfg.predictor(len(m.Classes))
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("sets of %d classes: %w", len(m.Classes), err)
	}
	words := (len(m.Classes) + 63) / 64
	return &sets{
		cfg: cfg, predictor: conformal.New(p),
		limits:  conformal.Limits{MinConfidence: cfg.MinConfidence, MaxSize: cfg.MaxSize},
		pending: pending, scorer: scorer, classes: m.Classes,
		kept: store.NewSlotTable[int64](1 + words), words: words, row: make([]int64, 1+words),
	}, nil
}

// Observer returns s as an observer.
func (s *sets) Observer() serve.Observer {
	return serve.Observer{Served: s.served, Matched: s.matched, Scored: s.scored, State: s.state}
}

// served adds a set to every prediction of the window.
func (s *sets) served(x *serve.Entered) {
	s.joined = s.joined[:0]
	n, out, rows := len(x.Arrivals), x.Out, &s.rows
	if n == 0 {
		return
	}
	rows.Probs, rows.ID = rows.Probs[:0], rows.ID[:0]
	for i := range n {
		for _, p := range out.Predictions[i].Probabilities {
			rows.Probs = append(rows.Probs, float64(p))
		}
		rows.ID = append(rows.ID, uint64(s.count))
		s.count++
	}
	values := make([]event.Set, n)
	names, members := make([]string, 0, 2*n), make([]int32, 0, len(s.classes))
	s.predictor.Impute(*rows)
	for i, set := range s.predictor.Sets(*rows) {
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
		s.kept.Set(x.Arrivals[i].Slot, s.row)
	}
}

// matched collects the node's set, and whether it holds the label.
func (s *sets) matched(slot, class int32) {
	row := s.kept.Row(slot)
	size := 0
	for _, w := range row[1:] {
		size += bits.OnesCount64(uint64(w))
	}
	s.joined = append(s.joined, joinedSet{
		id: row[0], size: size, held: uint64(row[1+class/64])>>(class%64)&1 == 1,
	})
}

// scored reports the coverage of the sets that got a label, and adapts the thresholds.
func (s *sets) scored(out *event.Outcome) {
	rows, labels := &s.rows, s.labels[:0]
	for i := range out.Labelled {
		labels = append(labels, out.Labelled[i].Class)
	}
	s.labels = labels
	rows.Probs, rows.ID, rows.Lag, s.held = rows.Probs[:0], rows.ID[:0], rows.Lag[:0], s.held[:0]
	coverage := &event.Coverage{Target: s.cfg.Target, Labels: make([]event.Covered, len(labels))}
	lag := 1 // the delay of labels, in predictions: the largest of the batch, for all of them
	for i, y := range labels {
		for _, p := range s.scorer.Served(i) {
			rows.Probs = append(rows.Probs, float64(p))
		}
		set := s.joined[i]
		rows.ID, s.held = append(rows.ID, uint64(set.id)), append(s.held, set.held)
		lag = max(lag, int(s.count-set.id))
		group := ""
		if s.cfg.Per == PerClass {
			group = s.classes[y]
		}
		coverage.Labels[i] = event.Covered{Held: set.held, Size: set.size, Group: group}
		s.tally.Rows++
		s.tally.Classes += uint64(set.size)
		if set.held {
			s.tally.Covered++
		}
	}
	for range labels {
		rows.Lag = append(rows.Lag, lag)
	}
	if len(labels) > 0 {
		s.predictor.Learn(*rows, labels, s.held)
	}
	coverage.Rate, coverage.MeanSize, coverage.Sets = s.tally.Rate(), s.tally.MeanSize(), int64(s.tally.Rows)
	out.Coverage = coverage
}

// state declares the thresholds, the tally of the sets that got a label, and the sets of
// pending predictions.
func (s *sets) state(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.predictor)
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	schema.Check(func() error {
		if slices.Min(counts) < 0 || counts[2] > counts[1] {
			return snapshot.Damaged("%d of %d sets held the class, %d classes, in %d predictions", counts[2], counts[1],
				counts[3], counts[0])
		}
		s.count = counts[0]
		s.tally = conformal.Coverage{Rows: uint64(counts[1]), Covered: uint64(counts[2]), Classes: uint64(counts[3])}
		return nil
	})
	q := s.pending.Nodes // restored already
	store.DeclareRows(schema, "sets.served", &s.kept, q.WalkSlots(), q.Len(), nil, 1+s.words)
	schema.Check(s.checkKept)
}

// checkKept checks the restored rows of pending nodes.
func (s *sets) checkKept() error {
	beyond := uint(len(s.classes) % 64)
	for slot := range int32(s.pending.Nodes.Len()) {
		row := s.kept.Row(slot)
		if row[0] < 0 || row[0] >= s.count || beyond > 0 && uint64(row[s.words])>>beyond != 0 {
			return snapshot.Damaged("prediction %d of %d has the set %x", row[0], s.count, row[1:])
		}
	}
	return nil
}
