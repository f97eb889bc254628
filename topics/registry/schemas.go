package registry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Source is where schemas come from that the ledger does not have, such as a [Client].
type Source interface {
	Schema(ctx context.Context, id uint32) (Schema, error)
}

// Schemas are the schemas of a graph's inputs. Those that are kept are in the ledger: a record of a window is read by them
// alone, whenever it is read. Others were asked for, by an owner that reads ahead, and are kept with the first window that has a record of
// theirs. Of nil Schemas there are none.
type Schemas struct {
	ctx    context.Context
	source Source // nil without a registry
	log    *slog.Logger
	asks   atomic.Bool

	mu     sync.Mutex
	kept   map[uint32]*Reader
	found  map[uint32]*Reader
	absent map[uint32]time.Time
	bytes  int      // of those that are kept
	fresh  []Schema // of them that no record has yet
	size   int      // of these
}

// New returns the schemas that a ledger had at a position. Questions end with the context.
func New(ctx context.Context, source Source, log *slog.Logger, kept []Schema) *Schemas {
	s := &Schemas{
		ctx: ctx, source: source, log: cmp.Or(log, slog.Default()), kept: make(map[uint32]*Reader),
		found: make(map[uint32]*Reader), absent: make(map[uint32]time.Time),
	}
	s.Keep(kept)
	return s
}

// Ask has schemas that are not kept asked for: an owner does, and a replay does not.
func (s *Schemas) Ask() {
	if s != nil {
		s.asks.Store(s.source != nil)
	}
}

// Keep adds the schemas that a record of the ledger has.
func (s *Schemas) Keep(list []Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, schema := range list {
		s.keep(NewReader(schema))
	}
}

func (s *Schemas) keep(r *Reader) {
	if s.kept[r.ID] == nil {
		s.bytes += r.size()
		s.kept[r.ID] = r
	}
}

// Kept returns the schema of the ledger, nil if it has none.
func (s *Schemas) Kept(id uint32) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[id]
}

// All returns the schemas that are kept, by number.
func (s *Schemas) All() (list []Schema) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.kept)) {
		list = append(list, s.kept[id].Schema)
	}
	return list
}

// Adopt keeps a schema with the window that is cut, if there is room, and returns what is kept.
func (s *Schemas) Adopt(r *Reader) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := r.size(); s.kept[r.ID] == nil && len(s.kept) < maxSchemas && s.bytes+n <= maxAll && s.size+n <= maxOfWindow {
		s.keep(r)
		s.size += n
		s.fresh = append(s.fresh, r.Schema)
		delete(s.found, r.ID)
	}
	return s.kept[r.ID]
}

// TakeFresh returns the schemas that were adopted since the last call, for the record of the window.
func (s *Schemas) TakeFresh() (list []Schema) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list, s.fresh, s.size = s.fresh, nil, 0
	return list
}

// absentFor is for how long a registry is not asked again for what it does not have.
const absentFor = 10 * time.Second

// Find returns the reader of a schema. If it is not known and is to be asked for, Find waits for the registry, however long it is away.
// It is nil if there is no such schema. The error is that of the context.
func (s *Schemas) Find(id uint32) (*Reader, error) {
	s.mu.Lock()
	r := cmp.Or(s.kept[id], s.found[id])
	asked, full := time.Since(s.absent[id]) < absentFor, len(s.kept)+len(s.found) >= 2*maxSchemas
	s.mu.Unlock()
	if r != nil || !s.asks.Load() || asked || full {
		return r, nil
	}
	said := time.Time{}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 10*time.Second) {
		schema, err := s.source.Schema(s.ctx, id)
		if err == nil || errors.Is(err, errAbsent) {
			if !said.IsZero() {
				s.log.Info("the schema registry answers again")
			}
			return s.note(id, schema, err == nil), nil
		}
		if s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		if time.Since(said) > time.Minute {
			said = time.Now()
			s.log.Warn("records wait for the schema registry, which has not given a schema: check --registry", "schema", id, "err", err)
		}
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil, s.ctx.Err()
		}
	}
}

// note keeps an answer for a while.
func (s *Schemas) note(id uint32, schema Schema, there bool) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !there {
		if len(s.absent) >= maxSchemas {
			clear(s.absent)
		}
		s.absent[id] = time.Now()
		return nil
	}
	s.found[id] = NewReader(schema)
	return s.found[id]
}

// JSON returns a record of a schema as JSON.
func (s *Schemas) JSON(id uint32, payload []byte) ([]byte, error) {
	r, err := s.Find(id)
	if err != nil {
		return nil, err
	}
	return r.JSON(payload)
}
