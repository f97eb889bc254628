package pipeline

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

// sets is the observer that adds a set of classes to every prediction, and adapts the
// sets' thresholds to labels, so that the target share of sets holds the label.
type sets struct {
	setMaker
	setLearner
}

var _ observer = (*sets)(nil)

// setMaker is what of sets serves, with thresholds that a [setLearner] learns: in a shard,
// another process does.
type setMaker struct {
	cfg       Coverage
	predictor *conformal.Predictor
	impute    func(rows conformal.Rows) // called with the window's predictions, which have no labels yet
	limits    conformal.Limits

	pending *pending
	classes []string

	// kept has by slot of pending: the prediction's number, and the words of its set, a
	// bit for each class.
	kept  store.SlotTable[int64]
	words int
	count int64 // predictions so far, of all shards

	joined []joinedSet // of the window's labels
	rows   conformal.Rows
	row    []int64 // scratch
}

// joinedSet is the set that was served for a node whose label was joined.
type joinedSet struct {
	id   int64 // number of the prediction
	size int32
	held bool // the label
}

// setLearner is what of sets learns thresholds.
type setLearner struct {
	cfg       Coverage
	predictor *conformal.Predictor
	scorer    *scorer
	classes   []string
	imputed   []conformal.Imputation // of the window's predictions, where others serve
	tally     conformal.Coverage     // of all sets that have a label
	rows      conformal.Rows
	held      []bool
}

// newSetPredictor returns the thresholds of sets of that many classes.
func newSetPredictor(cfg Coverage, classes int) (*conformal.Predictor, error) {
	p := cfg.predictor(classes)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("sets of %d classes: %w", classes, err)
	}
	return conformal.New(p), nil
}

func newSets(cfg Coverage, m *model.Model, pending *pending, scorer *scorer) (*sets, error) {
	p, err := newSetPredictor(cfg, len(m.Classes))
	if err != nil {
		return nil, err
	}
	return &sets{newSetMaker(cfg, p, p.Impute, m.Classes, pending), setLearner{cfg: cfg, predictor: p, scorer: scorer, classes: m.Classes}}, nil
}

func newSetMaker(cfg Coverage, p *conformal.Predictor, impute func(conformal.Rows), classes []string, pending *pending) setMaker {
	words := (len(classes) + 63) / 64
	return setMaker{
		cfg: cfg, predictor: p, impute: impute,
		limits:  conformal.Limits{MinConfidence: cfg.MinConfidence, MaxSize: cfg.MaxSize},
		pending: pending, classes: classes,
		kept: store.NewSlotTable[int64](1 + words), words: words, row: make([]int64, 1+words),
	}
}

// served adds a set to every prediction of the window.
func (s *setMaker) served(x *entered) {
	s.joined = s.joined[:0]
	if len(x.out.Predictions) > 0 {
		s.serve(x.own, x.out)
	}
	s.count += int64(x.all)
}

// serve adds sets to the predictions of own, which are some of all arrivals. Predictions are
// numbered in the order of these, so that a prediction has the same number however many
// shards there are.
func (s *setMaker) serve(own []awaited, out *event.Outcome) {
	n, rows := len(own), &s.rows
	rows.Probs, rows.ID = rows.Probs[:0], rows.ID[:0]
	for i, a := range own {
		for _, p := range out.Predictions[i].Probabilities {
			rows.Probs = append(rows.Probs, float64(p))
		}
		rows.ID = append(rows.ID, uint64(s.count)+uint64(a.at))
	}
	values := make([]event.Set, n)
	names, members := make([]string, 0, 2*n), make([]int32, 0, len(s.classes))
	s.impute(*rows)
	for i, set := range s.predictor.Sets(*rows) {
		p := &out.Predictions[i]
		from := len(names)
		members = set.Append(members[:0])
		for _, c := range members {
			names = append(names, s.classes[c])
		}
		values[i] = event.Set{
			Classes: names[from:len(names):len(names)], Coverage: float32(s.cfg.Target),
			Abstain: s.limits.Abstain(float64(p.Confidence), set).String(),
		}
		p.Set = &values[i]
		s.row[0] = int64(rows.ID[i])
		for k, w := range set {
			s.row[1+k] = int64(w)
		}
		s.kept.Set(own[i].slot, s.row)
	}
}

// matched collects the node's set, and whether it holds the label.
func (s *setMaker) matched(slot, class int32) {
	row := s.kept.Row(slot)
	size := 0
	for _, w := range row[1:] {
		size += bits.OnesCount64(uint64(w))
	}
	s.joined = append(s.joined, joinedSet{
		id: row[0], size: int32(size), held: uint64(row[1+class/64])>>(class%64)&1 == 1,
	})
}

func (s *sets) served(x *entered)         { s.setMaker.served(x) }
func (s *sets) matched(slot, class int32) { s.setMaker.matched(slot, class) }
func (s *sets) scored(out *event.Outcome) { s.learn(s.joined, s.count, out) }

// learn reports the coverage of the sets that got a label, and adapts the thresholds. count is
// the number of predictions so far.
func (s *setLearner) learn(joined []joinedSet, count int64, out *event.Outcome) {
	labels, rows := s.scorer.batch.labels, &s.rows
	rows.Probs, rows.ID, rows.Lag, s.held = rows.Probs[:0], rows.ID[:0], rows.Lag[:0], s.held[:0]
	coverage := &event.Coverage{Target: s.cfg.Target, Labels: make([]event.Covered, len(labels))}
	lag := 1 // the delay of labels, in predictions: the largest of the batch, for all of them
	for i, y := range labels {
		for _, p := range s.scorer.served(i) {
			rows.Probs = append(rows.Probs, float64(p))
		}
		set := joined[i]
		rows.ID, s.held = append(rows.ID, uint64(set.id)), append(s.held, set.held)
		lag = max(lag, int(count-set.id))
		group := ""
		if s.cfg.Per == PerClass {
			group = s.classes[y]
		}
		coverage.Labels[i] = event.Covered{Held: set.held, Size: int(set.size), Group: group}
		s.tally.Rows++
		s.tally.Classes += uint64(set.size)
		if set.held {
			s.tally.Covered++
		}
	}
	for range labels {
		rows.Lag = append(rows.Lag, lag)
	}
	s.predictor.AddImputed(s.imputed)
	s.imputed = s.imputed[:0]
	if len(labels) > 0 {
		s.predictor.Learn(*rows, labels, s.held)
	}
	coverage.Rate, coverage.MeanSize, coverage.Sets = s.tally.Rate(), s.tally.MeanSize(), int64(s.tally.Rows)
	out.Coverage = coverage
}

// State declares the thresholds and the sets of pending predictions.
func (s *sets) State(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.setLearner.predictor)
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	schema.Check(func() error {
		s.count = counts[0]
		return s.setTally(counts[0], counts[1:])
	})
	s.keptState(schema)
}

// setTally sets the tally to restored counts: sets with a label, those that held it, and their
// classes, of so many predictions.
func (s *setLearner) setTally(predictions int64, counts []int64) error {
	if predictions < 0 || slices.Min(counts) < 0 || counts[1] > counts[0] {
		return snapshot.Damaged("%d of %d sets held the class, %d classes, in %d predictions", counts[1], counts[0], counts[2], predictions)
	}
	s.tally = conformal.Coverage{Rows: uint64(counts[0]), Covered: uint64(counts[1]), Classes: uint64(counts[2])}
	return nil
}

// keptState declares the sets of pending predictions that are here.
func (s *setMaker) keptState(schema *snapshot.Schema) {
	n := s.pending.nodes.Len() - s.pending.elsewhere // restored already
	store.DeclareRows(schema, "sets.served", &s.kept, s.pending.walkSlotsHere(), n, nil, 1+s.words)
	schema.Check(func() error {
		var here []int32
		for slot := range int32(s.pending.nodes.Len()) {
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
func (s *setMaker) checkKept(slots []int32) error {
	beyond := uint(len(s.classes) % 64)
	for _, slot := range slots {
		row := s.kept.Row(slot)
		if row[0] < 0 || row[0] >= s.count || beyond > 0 && uint64(row[s.words])>>beyond != 0 {
			return snapshot.Damaged("prediction %d of %d has the set %x", row[0], s.count, row[1:])
		}
	}
	return nil
}
