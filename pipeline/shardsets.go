package pipeline

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Shards make sets with thresholds that the lead learns from labels, and sends with the
// heads. Unlike an engine's, these are not computed from rows without labels, too: a set has
// all classes until there are labels enough for a threshold.

// leadSets is the observer of a lead that learns thresholds.
type leadSets struct {
	setLearner
	joined []joinedSet // of the window's labels, in their order
	count  int64       // predictions so far
}

var _ observer = (*leadSets)(nil)

func newLeadSets(m *model.Model, cfg Config, by *scorer) (*leadSets, error) {
	p, err := newSetPredictor(cfg.Coverage, len(m.Classes), false)
	if err != nil {
		return nil, err
	}
	return &leadSets{setLearner: setLearner{cfg: cfg.Coverage, predictor: p, scorer: by, classes: m.Classes}}, nil
}

func newShardSets(cfg Config, n *nodes, pending *pending) (*setMaker, error) {
	p, err := newSetPredictor(cfg.Coverage, len(n.model.Classes), false)
	if err != nil {
		return nil, err
	}
	s := newSetMaker(cfg.Coverage, p, n, pending)
	return &s, nil
}

// gather takes the sets of the window's labels from the rows of all shards.
func (s *leadSets) gather(rows []*Rows, labels int) error {
	s.joined = append(s.joined[:0], make([]joinedSet, labels)...)
	s.count += int64(rows[0].arrived)
	for p, r := range rows {
		if r.arrived != rows[0].arrived || len(r.sets) != len(r.labelled) {
			return fmt.Errorf("shard %d has %d predictions and %d sets of %d labels: shard 0 has %d predictions", p, r.arrived, len(r.sets), len(r.labelled), rows[0].arrived)
		}
		for i, at := range r.part.Positions {
			if set := r.sets[i]; set.id >= s.count {
				return fmt.Errorf("shard %d has the set of prediction %d, of %d", p, set.id, s.count)
			}
			s.joined[at] = r.sets[i]
		}
	}
	return nil
}

func (s *leadSets) served(*event.Outcome)     {}
func (s *leadSets) matched(int32, int32)      {}
func (s *leadSets) scored(out *event.Outcome) { s.learn(s.joined, s.count, out) }

func (s *leadSets) state(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.predictor)
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	schema.Check(func() error {
		s.count = counts[0]
		return s.setTally(counts[0], counts[1:])
	})
}

// append appends the set as varints: the number of the prediction, slice, size, and 1 if it held
// the label.
func (x *joinedSet) append(b []byte) []byte {
	held := uint64(0)
	if x.held {
		held = 1
	}
	for _, n := range [...]uint64{uint64(x.id), uint64(x.slice), uint64(x.size), held} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// read reads what joinedSet.append appended. What cannot be a set is bad.
func (s *leadSets) read(d *recordReader) joinedSet {
	id, slice, size, held := d.uint(), d.uint(), d.uint(), d.uint()
	slices := uint64(1)
	if s.cfg.Per == PerSlice {
		slices = uint64(len(event.DegreeSlices))
	}
	if id > math.MaxInt64 || slice >= slices || size > uint64(len(s.classes)) || held > 1 {
		d.bad = true
	}
	if d.bad {
		return joinedSet{}
	}
	return joinedSet{id: int64(id), slice: int32(slice), size: int32(size), held: held == 1}
}
