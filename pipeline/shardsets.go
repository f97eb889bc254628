package pipeline

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Shards make sets with thresholds that the lead learns, and sends with the heads: from the
// scores of labels, and of predictions without one, as an engine does. The latter count from
// the next window on.

// leadSets is the observer of a lead that learns thresholds.
type leadSets struct {
	setLearner
	joined []joinedSet // of the window's labels, in their order
	count  int64       // predictions so far
}

var _ observer = (*leadSets)(nil)

func newLeadSets(m *model.Model, cfg Config, by *scorer) (*leadSets, error) {
	p, err := newSetPredictor(cfg.Coverage, len(m.Classes))
	if err != nil {
		return nil, err
	}
	return &leadSets{setLearner: setLearner{cfg: cfg.Coverage, predictor: p, scorer: by, classes: m.Classes}}, nil
}

// shardSets makes sets for a shard.
type shardSets struct {
	setMaker
	imputed []conformal.Imputation // of the window's predictions, for the lead
}

var _ observer = (*shardSets)(nil)

func newShardSets(cfg Config, m *model.Model, pending *pending) (*shardSets, error) {
	p, err := newSetPredictor(cfg.Coverage, len(m.Classes))
	if err != nil {
		return nil, err
	}
	s := &shardSets{}
	s.setMaker = newSetMaker(cfg.Coverage, p, func(rows conformal.Rows) { s.imputed = p.Imputed(rows) }, m.Classes, pending)
	return s, nil
}

func (s *shardSets) served(x *entered) {
	s.imputed = nil
	s.setMaker.served(x)
}

// scored is not called: the lead scores.
func (s *shardSets) scored(*event.Outcome) {}

func (s *shardSets) State(schema *snapshot.Schema) {
	thresholds := s.predictor.Thresholds()
	snapshot.Slice(schema, "sets.given", &thresholds, len(thresholds))
	snapshot.Value(schema, "sets.count", &s.count)
	schema.Check(func() error {
		if err := s.predictor.SetThresholds(thresholds); err != nil {
			return snapshot.Damaged("%v", err)
		}
		if s.count < 0 {
			return snapshot.Damaged("%d predictions", s.count)
		}
		return nil
	})
	s.keptState(schema)
}

// gather takes the sets of the window's labels, and the imputed scores of its predictions, from
// the rows of all shards.
func (s *leadSets) gather(rows []*Rows, labels int) error {
	s.joined = append(s.joined[:0], make([]joinedSet, labels)...)
	first := s.count
	s.count += int64(rows[0].arrived)
	for p, r := range rows {
		for _, x := range r.imputed {
			if x.ID < uint64(first) || x.ID >= uint64(s.count) {
				return fmt.Errorf("shard %d has a score of prediction %d, the window has %d to %d", p, x.ID, first, s.count-1)
			}
		}
		s.imputed = append(s.imputed, r.imputed...)
	}
	slices.SortFunc(s.imputed, func(a, b conformal.Imputation) int { return cmp.Compare(a.ID, b.ID) })
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

func (s *leadSets) served(*entered)           {}
func (s *leadSets) matched(int32, int32)      {}
func (s *leadSets) scored(out *event.Outcome) { s.learn(s.joined, s.count, out) }

func (s *leadSets) State(schema *snapshot.Schema) {
	snapshot.Bytes(schema, "sets.thresholds", s.predictor)
	counts := []int64{s.count, int64(s.tally.Rows), int64(s.tally.Covered), int64(s.tally.Classes)}
	snapshot.Slice(schema, "sets.counts", &counts, len(counts))
	schema.Check(func() error {
		s.count = counts[0]
		return s.setTally(counts[0], counts[1:])
	})
}

// append appends the set as varints: the number of the prediction, its size, and 1 if it held the
// label.
func (x *joinedSet) append(b []byte) []byte {
	held := uint64(0)
	if x.held {
		held = 1
	}
	for _, n := range [...]uint64{uint64(x.id), uint64(x.size), held} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// read reads what joinedSet.append appended. What cannot be a set is bad.
func (s *leadSets) read(d *recordReader) joinedSet {
	id, size, held := d.uint(), d.uint(), d.uint()
	if id > math.MaxInt64 || size > uint64(len(s.classes)) || held > 1 {
		d.bad = true
	}
	if d.bad {
		return joinedSet{}
	}
	return joinedSet{id: int64(id), size: int32(size), held: held == 1}
}

// minImputation is the least number of bytes of an imputed score.
const minImputation = 10

// appendImputed appends the number of imputed scores, and each: the prediction's number, the
// threshold's, and the score.
func appendImputed(b []byte, list []conformal.Imputation) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, x := range list {
		b = binary.AppendUvarint(binary.AppendUvarint(b, x.ID), uint64(x.Cell))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(x.Score))
	}
	return b
}

// readImputed reads what appendImputed appended.
func (s *leadSets) readImputed(d *recordReader) []conformal.Imputation {
	n, cells := d.uint(), uint64(len(s.predictor.Thresholds()))
	if n > uint64(len(d.b))/minImputation {
		d.bad = true
		return nil
	}
	list := make([]conformal.Imputation, n)
	for i := range list {
		id, cell := d.uint(), d.uint()
		bits := d.next(8)
		if d.bad || cell >= cells {
			d.bad = true
			return nil
		}
		score := math.Float64frombits(binary.LittleEndian.Uint64(bits))
		if !(math.Abs(score) <= math.MaxFloat64) {
			d.bad = true
			return nil
		}
		list[i] = conformal.Imputation{ID: id, Cell: int(cell), Score: score}
	}
	return list
}
