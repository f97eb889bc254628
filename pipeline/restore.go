package pipeline

import (
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/snapshots"
)

// RestorePair returns the pair of a [snapshots.Snapshot] of size bytes, for one model or two, and
// the meta that [Pair.Snapshot] was given. From there on, the pair gives the same bits as
// the original. The snapshot determines which of two models serves. If it has two
// models, one may be left out.
//
// The error wraps [snapshots.ErrNotThere] if a model is not in the snapshot, and [snapshots.ErrDamaged] if the
// file is damaged. It is also an error if the snapshot is of other settings or of another
// version of the engine. Memory is bounded in proportion to size, whatever the bytes.
func RestorePair(cfg Config, r io.ReaderAt, size int64, models ...*model.Model) (p *Pair, meta map[string]string, err error) {
	if err := Compatible(models...); err != nil {
		return nil, nil, err
	}
	if p, meta, err = restorePair(cfg, r, size, models); err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return p, meta, nil
}

func restorePair(cfg Config, r io.ReaderAt, size int64, models []*model.Model) (*Pair, map[string]string, error) {
	file, err := safetensors.NewReader(r, size)
	if err != nil {
		return nil, nil, err
	}
	all := file.Metadata()
	shadow := file.Under(behind)
	var engines []*Engine
	for _, part := range []struct {
		file *safetensors.Reader
		own  string // what the keys of its strings begin with
	}{{file, snapshots.Own}, {shadow, snapshots.Own + behind}} {
		i := slices.IndexFunc(models, func(m *model.Model) bool { return m.ID == all[part.own+snapshots.Model] })
		if i < 0 {
			continue
		}
		e, err := restored(models[i], cfg, part.file, part.own)
		if err != nil {
			return nil, nil, err
		}
		engines = append(engines, e)
	}
	for _, m := range models {
		if !slices.ContainsFunc(engines, func(e *Engine) bool { return e.model == m }) {
			return nil, nil, fmt.Errorf("model %s: %w, which is of model %s", m.ID, snapshots.ErrNotThere,
				all[snapshots.Own+snapshots.Model])
		}
	}
	if len(engines) == 2 && engines[0].next != engines[1].next {
		return nil, nil, snapshot.Damaged("one engine is at window %d, the other at %d", engines[0].next, engines[1].next)
	}
	return pairOf(engines), snapshots.Meta(all), nil
}

// restored returns the engine in file; the keys of its strings begin with own.
func restored(m *model.Model, cfg Config, file *safetensors.Reader, own string) (*Engine, error) {
	e, err := New(m, cfg)
	if err != nil {
		return nil, err
	}
	return e, snapshots.Restore(savedEngine{e}, file, own)
}
