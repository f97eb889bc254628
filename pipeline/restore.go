package pipeline

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/model"
)

// ErrDamaged is wrapped by the error for a file that is not a snapshot or was changed.
var ErrDamaged = safetensors.ErrDamaged

// ErrNotThere is wrapped by the error for an undamaged snapshot that does not have one
// of the models.
var ErrNotThere = errors.New("not in the snapshot")

// RestorePair returns the pair of a [Snapshot] of size bytes, for one model or two, and
// the meta that [Pair.Snapshot] was given. From there on, the pair gives the same bits as
// the original. The snapshot determines which of two models serves. If it has two
// models, one may be left out.
//
// The error wraps [ErrNotThere] if a model is not in the snapshot, and [ErrDamaged] if the
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
	}{{file, metaOwn}, {shadow, metaOwn + behind}} {
		i := slices.IndexFunc(models, func(m *model.Model) bool { return m.ID == all[part.own+metaModel] })
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
			return nil, nil, fmt.Errorf("model %s: %w, which is of model %s", m.ID, ErrNotThere, all[metaOwn+metaModel])
		}
	}
	if len(engines) == 2 && engines[0].next != engines[1].next {
		return nil, nil, snapshot.Damaged("one engine is at window %d, the other at %d", engines[0].next, engines[1].next)
	}
	return pairOf(engines), callers(all), nil
}

// restored returns the engine in file; the keys of its strings begin with own.
func restored(m *model.Model, cfg Config, file *safetensors.Reader, own string) (*Engine, error) {
	e, err := New(m, cfg)
	if err != nil {
		return nil, err
	}
	return e, restore(e, file, own)
}

// restore sets the state of x, which is new, to that in file.
func restore(x saved, file *safetensors.Reader, own string) error {
	for _, str := range x.strings() {
		text, ok := file.Metadata()[own+str.key]
		if !ok {
			return snapshot.Damaged("it has no string %q", own+str.key)
		}
		if err := str.set(text); err != nil {
			return err
		}
	}
	s := snapshot.Restoring(file)
	x.State(s)
	return s.Finish()
}

// RestoreShard returns the shard of a [Snapshot] of size bytes, as [RestorePair] does.
func RestoreShard(m *model.Model, cfg Config, p, P int, r io.ReaderAt, size int64) (*Shard, map[string]string, error) {
	s, err := NewShard(m, cfg, p, P)
	if err != nil {
		return nil, nil, err
	}
	meta, err := restoreAlone(s, m, r, size)
	return s, meta, err
}

// RestoreLead returns the lead of a [Snapshot] of size bytes, as [RestorePair] does.
func RestoreLead(m *model.Model, cfg Config, P int, r io.ReaderAt, size int64) (*Lead, map[string]string, error) {
	l, err := NewLead(m, cfg, P)
	if err != nil {
		return nil, nil, err
	}
	meta, err := restoreAlone(l, m, r, size)
	return l, meta, err
}

// restoreAlone sets the state of x, which is new, to that of a snapshot of it alone.
func restoreAlone(x saved, m *model.Model, r io.ReaderAt, size int64) (map[string]string, error) {
	file, err := ofModel(m, r, size)
	if err == nil {
		err = restore(x, file, metaOwn)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return callers(file.Metadata()), nil
}

// ofModel opens a snapshot, which must be of a model.
func ofModel(m *model.Model, r io.ReaderAt, size int64) (*safetensors.Reader, error) {
	file, err := safetensors.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	if id := file.Metadata()[metaOwn+metaModel]; id != m.ID {
		return nil, fmt.Errorf("model %s: %w, which is of model %.100q", m.ID, ErrNotThere, id)
	}
	return file, nil
}

// callers returns the strings without those of engines.
func callers(all map[string]string) map[string]string {
	meta := map[string]string{}
	for key, value := range all {
		if !strings.HasPrefix(key, metaOwn) {
			meta[key] = value
		}
	}
	return meta
}
