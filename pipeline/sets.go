package pipeline

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// sets is the observer that adds a set of classes to every prediction, and adapts the
// sets' thresholds to labels, so that the target share of sets holds the label.
type sets struct {
	cfg       Coverage
	predictor *conformal.Predictor
	limits    conformal.Limits
	outliers  outlierScorer

	nodes   *nodes
	pending *pending
	scorer  *scorer
	classes []string
	dim     int

	// kept has by slot of pending: the prediction's number, its slice, and the words
	// of its set, a bit for each class.
	kept  slotTable[int64]
	words int
	count int64 // predictions so far

	tally conformal.Coverage // of all sets that have a label

	// Of the window's predictions in served, then of its labels:
	rows    conformal.Rows
	covered []bool
	sizes   []int
	// Scratch:
	row []int64
}

var _ observer = (*sets)(nil)

func newSets(cfg Coverage, n *nodes, pending *pending, scorer *scorer) (*sets, error) {
	names, dim := n.model.Classes, n.model.Prior.Dim
	p := cfg.predictor(len(names))
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("sets of %d classes: %w", len(names), err)
	}
	words := (len(names) + 63) / 64
	s := &sets{
		cfg: cfg, predictor: conformal.New(p),
		limits:   conformal.Limits{MinConfidence: cfg.MinConfidence, MaxSize: cfg.MaxSize, MaxOutside: cfg.MaxOutside},
		outliers: noReference{}, nodes: n, pending: pending, scorer: scorer, classes: names, dim: dim,
		kept: newSlotTable[int64](2 + words), words: words, row: make([]int64, 2+words),
	}
	if cfg.MaxOutside > 0 {
		if dim > maxReferenceDim {
			return nil, fmt.Errorf("max-outside with embeddings of %d dimensions: give a model of up to %d, or leave it out", dim, maxReferenceDim)
		}
		s.outliers = newReference(n)
	}
	return s, nil
}

// served adds a set to every prediction of the window.
func (s *sets) served(out *event.Outcome) {
	s.outliers.learn()
	n := len(out.Predictions)
	if n == 0 {
		return
	}
	arrived, z := s.nodes.arrivals.own, s.nodes.arrivals.rows.Z
	for i := range out.Predictions {
		for _, p := range out.Predictions[i].Probabilities {
			s.rows.Probs = append(s.rows.Probs, float64(p))
		}
		s.rows.ID = append(s.rows.ID, uint64(s.count)+uint64(i))
		s.rows.Slice = append(s.rows.Slice, s.slice(arrived[i]))
	}
	values := make([]event.Set, n)
	names, members := make([]string, 0, 2*n), make([]int32, 0, len(s.classes))
	s.predictor.Impute(s.rows)
	for i, set := range s.predictor.Sets(s.rows) {
		p := &out.Predictions[i]
		from := len(names)
		members = set.Append(members[:0])
		for _, c := range members {
			names = append(names, s.classes[c])
		}
		outside := s.outliers.score(z[i*s.dim : (i+1)*s.dim])
		values[i] = event.Set{
			Classes: names[from:len(names):len(names)], Coverage: float32(s.cfg.Target),
			Abstain: s.limits.Abstain(float64(p.Confidence), set, outside).String(),
		}
		p.Set = &values[i]
		s.row[0], s.row[1] = s.count+int64(i), int64(s.rows.Slice[i])
		for k, w := range set {
			s.row[2+k] = int64(w)
		}
		s.keep(arrived[i])
	}
	s.count += int64(n)
	s.clear()
}

// slice returns a node's slice of the graph by degree, always 0 unless slices have their
// own thresholds.
func (s *sets) slice(v int32) int32 {
	if s.cfg.Per != PerSlice {
		return 0
	}
	degree, _ := s.nodes.surroundings(v)
	return int32(event.DegreeSlice(degree))
}

// clear empties rows.
func (s *sets) clear() {
	s.rows.Probs, s.rows.ID, s.rows.Slice, s.rows.Lag = s.rows.Probs[:0], s.rows.ID[:0], s.rows.Slice[:0], s.rows.Lag[:0]
	s.covered, s.sizes = s.covered[:0], s.sizes[:0]
}

// keep stores row for node v, unless its prediction has expired already to make room for
// others of its window.
func (s *sets) keep(v int32) {
	if slot, waits := s.pending.nodes.slotOf(v); waits {
		s.kept.set(slot, s.row)
	}
}

// matched collects the node's set, and whether it holds the label.
func (s *sets) matched(slot, class int32) {
	row := s.kept.row(slot)
	s.rows.ID = append(s.rows.ID, uint64(row[0]))
	s.rows.Slice = append(s.rows.Slice, int32(row[1]))
	s.covered = append(s.covered, uint64(row[2+class/64])>>(class%64)&1 == 1)
	size := 0
	for _, w := range row[2:] {
		size += bits.OnesCount64(uint64(w))
	}
	s.sizes = append(s.sizes, size)
}

// scored reports the coverage of the sets that got a label, and adapts the thresholds.
func (s *sets) scored(out *event.Outcome) {
	labels := s.scorer.batch.labels
	coverage := &event.Coverage{Target: s.cfg.Target, Labels: make([]event.Covered, len(labels))}
	for i, y := range labels {
		for _, p := range s.scorer.served(i) {
			s.rows.Probs = append(s.rows.Probs, float64(p))
		}
		group := ""
		switch s.cfg.Per {
		case PerClass:
			group = s.classes[y]
		case PerSlice:
			group = event.DegreeSlices[s.rows.Slice[i]].Name
		}
		coverage.Labels[i] = event.Covered{Held: s.covered[i], Size: s.sizes[i], Group: group}
		s.tally.Rows++
		s.tally.Classes += uint64(s.sizes[i])
		if s.covered[i] {
			s.tally.Covered++
		}
	}
	// The delay of labels, in predictions: the largest of the batch, for all of them.
	lag := 1
	for _, id := range s.rows.ID {
		lag = max(lag, int(s.count-int64(id)))
	}
	for range s.rows.ID {
		s.rows.Lag = append(s.rows.Lag, lag)
	}
	if len(labels) > 0 {
		s.predictor.Learn(s.rows, labels, s.covered)
	}
	coverage.Rate, coverage.MeanSize, coverage.Sets = s.tally.Rate(), s.tally.MeanSize(), int64(s.tally.Rows)
	out.Coverage = coverage
	s.clear()
}

// state declares the thresholds, the reference of outliers, and the sets of pending
// predictions.
func (s *sets) state(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.predictor)
	s.outliers.state(schema)
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	declareRows(schema, "sets.served", &s.kept, s.pending.nodes.walkSlots(), s.pending.nodes.len(), nil, 2+s.words)
	schema.Check(func() error {
		if slices.Min(counts) < 0 || counts[2] > counts[1] {
			return snapshot.Damaged("%d of %d sets held the class, %d classes, in %d predictions", counts[2], counts[1], counts[3], counts[0])
		}
		s.count = counts[0]
		s.tally = conformal.Coverage{Rows: uint64(counts[1]), Covered: uint64(counts[2]), Classes: uint64(counts[3])}
		return s.checkKept()
	})
}

// checkKept checks the restored rows of pending nodes, which are in slots from 0 on.
func (s *sets) checkKept() error {
	slices, beyond := int64(1), uint(len(s.classes)%64)
	if s.cfg.Per == PerSlice {
		slices = int64(len(event.DegreeSlices))
	}
	for slot := range int32(s.pending.nodes.len()) {
		row := s.kept.row(slot)
		if row[0] < 0 || row[0] >= s.count || row[1] < 0 || row[1] >= slices || beyond > 0 && uint64(row[1+s.words])>>beyond != 0 {
			return snapshot.Damaged("prediction %d of %d, of slice %d, has the set %x", row[0], s.count, row[1], row[2:])
		}
	}
	return nil
}
