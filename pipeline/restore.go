package pipeline

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// ErrDamaged is what an error wraps when a file is no snapshot, or not as it
// was written.
var ErrDamaged = safetensors.ErrDamaged

// ErrNotThere is what an error wraps when a snapshot is whole and does not hold a
// model that is asked for.
var ErrNotThere = errors.New("not in the snapshot")

// RestorePair makes a pair for one model or for two from a [Snapshot] of size bytes.
// Stepped through the same windows as the pair that it was taken of, it gives the same
// bits. The snapshot says which of two models serves; of a snapshot of two, one may be
// left out. meta is what [Pair.Snapshot] was given.
//
// A model that is not in the snapshot is an error that wraps [ErrNotThere], damage one
// that wraps [ErrDamaged]; other settings and another version of the engine are errors
// that say so and what to do. Memory is taken in proportion to size, whatever the
// bytes are.
func RestorePair(cfg Config, r io.ReaderAt, size int64, models ...*model.Model) (p *Pair, meta map[string]string, err error) {
	if err := compatible(models); err != nil {
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

// restored makes an engine of the file, whose strings for it begin with own.
func restored(m *model.Model, cfg Config, file *safetensors.Reader, own string) (*Engine, error) {
	e, err := New(m, cfg)
	if err != nil {
		return nil, err
	}
	if err := e.setMeta(file.Metadata(), own); err != nil {
		return nil, err
	}
	s := snapshot.Restoring(file)
	e.state(s)
	return e, s.Finish()
}

// callers returns the strings that are not an engine's own.
func callers(all map[string]string) map[string]string {
	meta := map[string]string{}
	for key, value := range all {
		if !strings.HasPrefix(key, metaOwn) {
			meta[key] = value
		}
	}
	return meta
}

// setMeta takes the engine's own strings.
func (e *Engine) setMeta(all map[string]string, own string) (err error) {
	for _, c := range []struct{ key, want, what, remedy string }{
		{metaFormat, snapshotFormat, "format", "restore it with the gvbll that wrote it"},
		{metaEngine, e.cfg.String(), "an engine", "give the settings it was taken with"},
		{metaModel, e.model.ID, "model", "give the model it was taken with"},
	} {
		switch got, ok := all[own+c.key]; {
		case !ok:
			return snapshot.Damaged("it does not say %q", own+c.key)
		case got != c.want:
			return fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", c.what, got, c.want, c.remedy)
		}
	}
	if e.next, err = strconv.ParseInt(all[own+metaWindow], 10, 64); err != nil || e.next < 0 {
		return snapshot.Damaged("window %q", all[own+metaWindow])
	}
	for key, hash := range map[string]*event.Hash{metaChain: &e.chain, metaPosterior: &e.posterior} {
		b, err := hex.DecodeString(all[own+key])
		if err != nil || len(b) != len(hash) {
			return snapshot.Damaged("%s %q", own+key, all[own+key])
		}
		copy(hash[:], b)
	}
	return nil
}

// checkPending holds what waits for a label to the nodes: a node that has a label or
// is of the context does not wait, and one that left waits under its id.
func (e *Engine) checkPending() error {
	n, q := e.nodes, e.pending.nodes
	left := 0 // the graph
	for i := range int32(q.len()) {
		v := q.entries.at(i).key
		state := n.states.at(v)
		if n.context.has(v) || state.label != none {
			return snapshot.Damaged("node %d does not wait for a label", v)
		}
		if !state.gone {
			continue
		}
		left++
		if l := n.departed.waiting.get(n.index.came.at(v)); l == nil || l.number != v {
			return snapshot.Damaged("number %d waits for a label and is of no node", v)
		}
	}
	if waits := n.departed.waiting.len(); left != waits {
		return snapshot.Damaged("%d nodes that left wait for their label, %d of them were served", waits, left)
	}
	return nil
}
