package pipeline

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Coverage asks for a set of classes with every prediction, which holds the node's
// class with a stated probability, and says when a prediction is better not acted on.
// The zero value asks for nothing.
type Coverage struct {
	// Target, in [0.5, 1), is the share of sets that are to hold their node's class;
	// 0 for no sets.
	Target float64
	// Score orders a node's classes, and Method moves the thresholds by labels.
	Score  conformal.Kind
	Method conformal.Method
	// Per says which nodes share a threshold.
	Per Per

	// Beyond these limits a prediction is better not acted on; 0 for none. See
	// [conformal.Limits], and for MaxOutside [conformal.Outside].
	MinConfidence float64
	MaxSize       int
	MaxOutside    float64
}

// Per says which nodes have a threshold, and so a coverage, of their own.
type Per uint8

const (
	// PerNone is one threshold for all.
	PerNone Per = iota
	// PerClass is one for each class: coverage holds among the nodes of each.
	PerClass
	// PerSlice is one for each slice of the graph by degree: nodes with 0, 1 to 3, 4 to
	// 15, and 16 or more neighbours that came before them.
	PerSlice
)

// String returns "none", "class" or "slice".
func (p Per) String() string {
	switch p {
	case PerNone:
		return "none"
	case PerClass:
		return "class"
	case PerSlice:
		return "slice"
	}
	return fmt.Sprintf("Per(%d)", uint8(p))
}

// degreeSlices are the slices by name, with the degree that each begins at.
var degreeSlices = [...]struct {
	name string
	from int
}{{"0", 0}, {"1-3", 1}, {"4-15", 4}, {"16+", 16}}

// String is the part of [Config.String] that is about sets, with a blank before it; ""
// for no sets.
func (c Coverage) String() string {
	if c.Target == 0 {
		return ""
	}
	return fmt.Sprintf(" coverage=%g sets=%v/%v/%v abstain=%g/%d/%g", c.Target, c.Score, c.Method, c.Per, c.MinConfidence, c.MaxSize, c.MaxOutside)
}

// predictor returns how sets are made of this many classes. Scores are randomized
// where they can be: then coverage is the target, and not just at least the target.
func (c Coverage) predictor(classes int) conformal.Config {
	p := conformal.DefaultConfig(classes)
	p.Alpha = 1 - c.Target
	p.Score = conformal.Score{Kind: c.Score, Randomized: true}
	if c.Score == conformal.RAPS {
		p.Score.Penalty, p.Score.Free = 0.05, 2
	}
	p.Method = c.Method
	// Labels that come at once may move thresholds far, late ones must not: these
	// constants kept coverage within two points on every data set of docs/coverage.md.
	p.Rate, p.Gain, p.Impute = 0.03, 0.5, 50
	if c.Method == conformal.PID {
		p.Rate = 0.005
	}
	p.PerClass = c.Per == PerClass
	if c.Per == PerSlice {
		p.Slices = len(degreeSlices)
	}
	return p
}

// validate returns an error for what is out of range, with the remedy.
func (c Coverage) validate() error {
	switch {
	case c.Target == 0 && c != (Coverage{}):
		return fmt.Errorf("settings of sets without sets: give a coverage too, such as 0.9")
	case c.Target == 0:
		return nil
	case !(c.Target >= 0.5 && c.Target < 1):
		return fmt.Errorf("coverage %v: give a share from 0.5 to below 1, such as 0.9, or 0 for no sets", c.Target)
	case c.Per > PerSlice:
		return fmt.Errorf("sets per %v: say class, slice or none", c.Per)
	case !(c.MinConfidence >= 0 && c.MinConfidence <= 1):
		return fmt.Errorf("min-confidence %v: give a probability, or 0 for none", c.MinConfidence)
	case c.MaxSize < 0:
		return fmt.Errorf("max-set-size %d: give 1 or more, or 0 for none", c.MaxSize)
	case !(c.MaxOutside >= 0):
		return fmt.Errorf("max-outside %v: give a positive number such as 2, or 0 for none", c.MaxOutside)
	}
	return c.predictor(2).Validate()
}

// sets make a set of classes for every prediction and learn from labels how large
// it has to be.
type sets struct {
	cfg       Coverage
	predictor *conformal.Predictor
	limits    conformal.Limits
	outside   *conformal.Outside // nil without Coverage.MaxOutside

	nodes   *nodes
	pending *pending
	scorer  *scorer
	classes []string
	dim     int

	// kept is by the slots of pending: the prediction's number, its slice, and the
	// words of its set.
	kept  slotTable[int64]
	words int
	count int64 // predictions so far

	tally conformal.Coverage // of all sets that have a label

	// Of the window's predictions while they are made, then of its labels:
	rows    conformal.Rows
	covered []bool
	sizes   []int
	// Scratch:
	row     []int64
	z       []float32
	context []int32
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
		limits: conformal.Limits{MinConfidence: cfg.MinConfidence, MaxSize: cfg.MaxSize, MaxOutside: cfg.MaxOutside},
		nodes:  n, pending: pending, scorer: scorer, classes: names, dim: dim,
		kept: newSlotTable[int64](2 + words), words: words, row: make([]int64, 2+words),
	}
	if cfg.MaxOutside > 0 {
		if dim > 1024 {
			return nil, fmt.Errorf("max-outside with embeddings of %d dimensions: give a model of up to 1024, or leave it out", dim)
		}
		s.outside = conformal.NewOutside(dim)
	}
	return s, nil
}

// served gives every prediction of the window its set.
func (s *sets) served(out *event.Outcome) {
	s.learnOutside()
	n := len(out.Predictions)
	if n == 0 {
		return
	}
	asked, z := s.nodes.arrivals.asked, s.nodes.arrivals.rows.Z
	for i := range out.Predictions {
		for _, p := range out.Predictions[i].Probabilities {
			s.rows.Probs = append(s.rows.Probs, float64(p))
		}
		s.rows.ID = append(s.rows.ID, uint64(s.count)+uint64(i))
		s.rows.Slice = append(s.rows.Slice, s.slice(asked[i]))
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
		far := 0.
		if s.outside != nil {
			far = s.outside.Score(z[i*s.dim : (i+1)*s.dim])
		}
		values[i] = event.Set{
			Classes: names[from:len(names):len(names)], Coverage: float32(s.cfg.Target),
			Abstain: s.limits.Abstain(float64(p.Confidence), set, far).String(),
		}
		p.Set = &values[i]
		s.row[0], s.row[1] = s.count+int64(i), int64(s.rows.Slice[i])
		for k, w := range set {
			s.row[2+k] = int64(w)
		}
		s.keep(asked[i])
	}
	s.count += int64(n)
	s.clear()
}

// slice returns a node's slice of the graph, 0 where slices have no thresholds of
// their own.
func (s *sets) slice(v int32) (slice int32) {
	if s.cfg.Per != PerSlice {
		return 0
	}
	degree, _ := s.nodes.surroundings(v)
	for int(slice)+1 < len(degreeSlices) && degree >= degreeSlices[slice+1].from {
		slice++
	}
	return slice
}

// maxContext bounds the context nodes of a window that go into the reference of
// what is known.
const maxContext = 1024

// learnOutside adds the nodes that came to the reference of what is known, until
// that is full: context first, which is what the model was trained on.
func (s *sets) learnOutside() {
	if s.outside == nil || s.outside.Full() {
		return
	}
	arrivals := &s.nodes.arrivals
	s.context = s.context[:0]
	for _, a := range arrivals.accepted {
		if a.node.Context && len(s.context) < maxContext {
			s.context = append(s.context, a.number)
		}
	}
	s.z = kernel.Room(s.z, len(s.context)*s.dim)
	s.nodes.graph.Embed(s.context, s.z)
	for _, z := range [...][]float32{s.z, arrivals.rows.Z} {
		for ; len(z) > 0; z = z[s.dim:] {
			if finite(z[:s.dim]) {
				s.outside.Learn(z[:s.dim])
			}
		}
	}
}

// clear empties rows.
func (s *sets) clear() {
	s.rows.Probs, s.rows.ID, s.rows.Slice, s.rows.Lag = s.rows.Probs[:0], s.rows.ID[:0], s.rows.Slice[:0], s.rows.Lag[:0]
	s.covered, s.sizes = s.covered[:0], s.sizes[:0]
}

// keep keeps row beside the pending node v, if that is still pending: it may have
// made room for others of its window.
func (s *sets) keep(v int32) {
	if slot, waits := s.pending.nodes.place(v); waits {
		s.kept.set(slot, s.row)
	}
}

// matched adds the set that was served for the node to those of the window's
// labels.
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

// scored moves the thresholds by the window's labels, and reports how the sets
// that were served for them did.
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
			group = degreeSlices[s.rows.Slice[i]].name
		}
		coverage.Labels[i] = event.Covered{Held: s.covered[i], Size: s.sizes[i], Group: group}
		s.tally.Rows++
		s.tally.Classes += uint64(s.sizes[i])
		if s.covered[i] {
			s.tally.Covered++
		}
	}
	// How late labels are, in predictions: all of a batch as late as the latest.
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

// state declares the thresholds, what they are learned from, and the sets of what
// is pending.
func (s *sets) state(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.predictor)
	if s.outside != nil {
		snapshot.Bytes(schema, "sets.outside", s.outside)
	}
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	declareRows(schema, "sets.served", &s.kept, s.pending.nodes, nil, 2+s.words)
	schema.Check(func() error {
		if slices.Min(counts) < 0 || counts[2] > counts[1] {
			return snapshot.Damaged("%d of %d sets held the class, %d classes, in %d predictions", counts[2], counts[1], counts[3], counts[0])
		}
		s.count = counts[0]
		s.tally = conformal.Coverage{Rows: uint64(counts[1]), Covered: uint64(counts[2]), Classes: uint64(counts[3])}
		return s.checkKept()
	})
}

// checkKept checks the rows of pending nodes, which were restored into slots from 0
// on.
func (s *sets) checkKept() error {
	slices, beyond := int64(1), uint(len(s.classes)%64)
	if s.cfg.Per == PerSlice {
		slices = int64(len(degreeSlices))
	}
	for slot := range int32(s.pending.nodes.len()) {
		row := s.kept.row(slot)
		if row[0] < 0 || row[0] >= s.count || row[1] < 0 || row[1] >= slices || beyond > 0 && uint64(row[1+s.words])>>beyond != 0 {
			return snapshot.Damaged("prediction %d of %d, of slice %d, has the set %x", row[0], s.count, row[1], row[2:])
		}
	}
	return nil
}
