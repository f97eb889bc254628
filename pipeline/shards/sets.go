package shards

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/store"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// Shards make sets with thresholds that the trainer learns, and sends with the heads: from the
// scores of labels, and of predictions without one, as an engine does. The latter count from
// the next window on.

// trainerSets is the observer of a trainer that learns thresholds.
type trainerSets struct {
	serve.SetLearner
	joined []serve.JoinedSet // of the window's labels, in their order
	count  int64             // predictions so far
}

var _ serve.Observer = (*trainerSets)(nil)

func newTrainerSets(m *model.Model, cfg pipeline.Config, by *serve.Scorer) (*trainerSets, error) {
	p, err := serve.NewSetPredictor(cfg.Coverage, len(m.Classes))
	if err != nil {
		return nil, err
	}
	return &trainerSets{SetLearner: serve.SetLearner{Config: cfg.Coverage, Predictor: p, Scorer: by, Classes: m.Classes}}, nil
}

// shardSets makes sets for a shard.
type shardSets struct {
	serve.SetMaker
	imputed []conformal.Imputation // of the window's predictions, for the trainer
}

var _ serve.Observer = (*shardSets)(nil)

func newShardSets(cfg pipeline.Config, m *model.Model, pending *serve.Pending) (*shardSets, error) {
	p, err := serve.NewSetPredictor(cfg.Coverage, len(m.Classes))
	if err != nil {
		return nil, err
	}
	s := &shardSets{}
	s.SetMaker = serve.NewSetMaker(cfg.Coverage, p, func(rows conformal.Rows) { s.imputed = p.Imputed(rows) }, m.Classes, pending)
	return s, nil
}

func (s *shardSets) Served(x *serve.Entered) {
	s.imputed = nil
	s.SetMaker.Served(x)
}

// Scored is not called: the trainer scores.
func (s *shardSets) Scored(*event.Outcome) {}

func (s *shardSets) State(schema *snapshot.Schema) {
	thresholds := s.Predictor.Thresholds()
	snapshot.Slice(schema, "sets.given", &thresholds, len(thresholds))
	snapshot.Value(schema, "sets.count", &s.Count)
	schema.Check(func() error {
		if err := s.Predictor.SetThresholds(thresholds); err != nil {
			return snapshot.Damaged("%v", err)
		}
		if s.Count < 0 {
			return snapshot.Damaged("%d predictions", s.Count)
		}
		return nil
	})
	s.KeptState(schema)
}

// gather takes the sets of the window's labels, and the imputed scores of its predictions, from
// the rows of all shards.
func (s *trainerSets) gather(rows []*Rows, labels int) error {
	s.joined = append(s.joined[:0], make([]serve.JoinedSet, labels)...)
	first := s.count
	s.count += int64(rows[0].arrived)
	for p, r := range rows {
		for _, x := range r.imputed {
			if x.ID < uint64(first) || x.ID >= uint64(s.count) {
				return fmt.Errorf("shard %d has a score of prediction %d, the window has %d to %d", p, x.ID, first, s.count-1)
			}
		}
		s.Imputed = append(s.Imputed, r.imputed...)
	}
	slices.SortFunc(s.Imputed, func(a, b conformal.Imputation) int { return cmp.Compare(a.ID, b.ID) })
	for p, r := range rows {
		if r.arrived != rows[0].arrived || len(r.sets) != len(r.labelled) {
			return fmt.Errorf("shard %d has %d predictions and %d sets of %d labels: shard 0 has %d predictions", p, r.arrived, len(r.sets), len(r.labelled), rows[0].arrived)
		}
		for i, at := range r.part.Positions {
			if set := r.sets[i]; set.ID >= s.count {
				return fmt.Errorf("shard %d has the set of prediction %d, of %d", p, set.ID, s.count)
			}
			s.joined[at] = r.sets[i]
		}
	}
	return nil
}

func (s *trainerSets) Served(*serve.Entered)     {}
func (s *trainerSets) Matched(int32, int32)      {}
func (s *trainerSets) Scored(out *event.Outcome) { s.Learn(s.joined, s.count, out) }

func (s *trainerSets) State(schema *snapshot.Schema) { s.DeclareState(schema, &s.count) }

// appendSet appends a set as varints: the number of the prediction, its size, and 1 if it held the
// label.
func appendSet(b []byte, x serve.JoinedSet) []byte {
	held := uint64(0)
	if x.Held {
		held = 1
	}
	for _, n := range [...]uint64{uint64(x.ID), uint64(x.Size), held} {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// read reads what appendSet appended. What cannot be a set is bad.
func (s *trainerSets) read(d *store.Reader) serve.JoinedSet {
	id, size, held := d.Uint(), d.Uint(), d.Uint()
	if id > math.MaxInt64 || size > uint64(len(s.Classes)) || held > 1 {
		d.Bad = true
	}
	if d.Bad {
		return serve.JoinedSet{}
	}
	return serve.JoinedSet{ID: int64(id), Size: int32(size), Held: held == 1}
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
func (s *trainerSets) readImputed(d *store.Reader) []conformal.Imputation {
	n, cells := d.Uint(), uint64(len(s.Predictor.Thresholds()))
	if n > uint64(len(d.Rest))/minImputation {
		d.Bad = true
		return nil
	}
	list := make([]conformal.Imputation, n)
	for i := range list {
		id, cell := d.Uint(), d.Uint()
		bits := d.Next(8)
		if d.Bad || cell >= cells {
			d.Bad = true
			return nil
		}
		score := math.Float64frombits(binary.LittleEndian.Uint64(bits))
		if !(math.Abs(score) <= math.MaxFloat64) {
			d.Bad = true
			return nil
		}
		list[i] = conformal.Imputation{ID: id, Cell: int(cell), Score: score}
	}
	return list
}
