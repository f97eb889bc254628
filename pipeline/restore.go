package pipeline

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// ErrDamaged is what an error wraps when a file is no snapshot, or not as it
// was written.
var ErrDamaged = safetensors.ErrDamaged

// Restore makes an engine of a [Snapshot], size bytes long: stepped through the
// same windows as the one it was taken of, it gives the same bits. meta is what
// Engine.Snapshot was given.
//
// A snapshot of another model, other settings or another version of the engine
// is an error that says so and what to do, damage one that wraps [ErrDamaged].
// Memory is taken in proportion to size, whatever the bytes.
func Restore(m *model.Model, cfg Config, r io.ReaderAt, size int64) (e *Engine, meta map[string]string, err error) {
	if e, err = New(m, cfg); err != nil {
		return nil, nil, err
	}
	file, err := safetensors.NewReader(r, size)
	if err == nil {
		meta, err = e.setMeta(file.Metadata())
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	for _, set := range []func(*safetensors.Reader) error{
		e.setGraph, e.setNodes, e.setPending, e.setWaiting, e.setEarly, e.setHeads, e.setFallback, e.setSets, e.setDrift, (*safetensors.Reader).Done,
	} {
		if err := set(file); err != nil {
			return nil, nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	return e, meta, nil
}

// setMeta takes the engine's own strings and returns the caller's.
func (e *Engine) setMeta(all map[string]string) (meta map[string]string, err error) {
	for _, c := range []struct{ key, want, what, remedy string }{
		{metaFormat, snapshotFormat, "format", "restore it with the gvbll that wrote it"},
		{metaEngine, e.cfg.String(), "an engine", "give the settings it was taken with"},
		{metaModel, e.model.ID, "model", "give the model it was taken with"},
	} {
		switch got, ok := all[c.key]; {
		case !ok:
			return nil, damaged("it does not say %q", c.key)
		case got != c.want:
			return nil, fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", c.what, got, c.want, c.remedy)
		}
	}
	if e.next, err = strconv.ParseInt(all[metaWindow], 10, 64); err != nil || e.next < 0 {
		return nil, damaged("window %q", all[metaWindow])
	}
	for key, hash := range map[string]*event.Hash{metaChain: &e.chain, metaPosterior: &e.posterior} {
		b, err := hex.DecodeString(all[key])
		if err != nil || len(b) != len(hash) {
			return nil, damaged("%s %q", key, all[key])
		}
		copy(hash[:], b)
	}
	meta = map[string]string{}
	for key, value := range all {
		if !strings.HasPrefix(key, metaOwn) {
			meta[key] = value
		}
	}
	return meta, nil
}

func (e *Engine) setGraph(file *safetensors.Reader) (err error) {
	e.graph, err = gnn.Thaw(e.model.Encoder, file, e.cfg.graphOptions()...)
	return err
}

func (e *Engine) setNodes(file *safetensors.Reader) error {
	n := e.graph.Len()
	class, err := safetensors.Read[int32](file, "nodes.label", n)
	if err != nil {
		return err
	}
	context, err := safetensors.Read[uint8](file, "nodes.context", n)
	if err != nil {
		return err
	}
	e.fate = make([]fate, n)
	for v := range e.fate {
		if class[v] < none || int(class[v]) >= len(e.model.Classes) || context[v] > 1 {
			return damaged("node %d has class %d, is context %d", v, class[v], context[v])
		}
		e.fate[v] = fate{label: class[v], context: context[v] == 1}
	}
	entered := 0
	err = readIDs(file, "nodes", func(v int, id event.ID) error {
		if _, known := e.roster.number(id); known {
			return damaged("two nodes have the id %q", id)
		}
		if entered = v + 1; entered > n {
			return damaged("more ids than the %d nodes", n)
		}
		e.roster.enter(id, int32(v))
		return nil
	})
	if err == nil && entered < n {
		err = damaged("%d ids of %d nodes", entered, n)
	}
	return err
}

func (e *Engine) setPending(file *safetensors.Reader) error {
	p, n := e.pending, file.Len("pending.node")
	if n > p.bound {
		return damaged("%d nodes wait for their label, at most %d do", n, p.bound)
	}
	node, err := safetensors.Read[int32](file, "pending.node", n)
	if err != nil {
		return err
	}
	window, err := safetensors.Read[int64](file, "pending.window", n)
	if err != nil {
		return err
	}
	time, err := safetensors.Read[int64](file, "pending.time", n)
	if err != nil {
		return err
	}
	tau, err := safetensors.Read[float64](file, "pending.temperature", n)
	if err != nil {
		return err
	}
	if err := safetensors.ReadRows(file, "pending.embedding", p.z, func(z []float32) error {
		for _, x := range z {
			if !(math.Abs(float64(x)) <= math.MaxFloat32) {
				return damaged("a node was served at an embedding of %v", x)
			}
		}
		return nil
	}, n, e.model.Prior.Dim); err != nil {
		return err
	}
	if err := safetensors.ReadRows(file, "pending.probabilities", p.probs, func(probs []float32) error {
		for _, x := range probs {
			if !(x >= 0 && x <= 1) {
				return damaged("a node was served with the probability %v", x)
			}
		}
		return nil
	}, n, len(e.heads), e.model.Prior.Classes); err != nil {
		return err
	}
	for i, v := range node {
		if uint(v) >= uint(len(e.fate)) || e.fate[v].context || e.fate[v].label != none || p.nodes.get(v) != nil {
			return damaged("node %d does not wait for a label, or is there twice", v)
		}
		if !(tau[i] > 0 && tau[i] <= math.MaxFloat64) || window[i] < 0 || window[i] >= e.next {
			return damaged("node %d was served at temperature %v in window %d", v, tau[i], window[i])
		}
		p.nodes.put(v, served{window: window[i], time: time[i], tau: tau[i]}) // slot i, as the rows are
	}
	return nil
}

func (e *Engine) setWaiting(file *safetensors.Reader) error {
	n := file.Len("waiting.edges")
	lengths, err := safetensors.Read[int32](file, "waiting.edges", n)
	if err != nil {
		return err
	}
	nodes, err := safetensors.Read[int32](file, "waiting.nodes", file.Len("waiting.nodes"))
	if err != nil {
		return err
	}
	if len(nodes) > e.roster.bound {
		return damaged("%d edges wait for a node, at most %d do", len(nodes), e.roster.bound)
	}
	err = readIDs(file, "waiting", func(i int, id event.ID) error {
		if _, known := e.roster.number(id); known || e.roster.waiting.get(id) != nil {
			return damaged("edges wait for node %q, which is there", id)
		}
		if i >= n || lengths[i] < 1 || int(lengths[i]) > len(nodes) {
			return damaged("other edges than wait for node %q", id)
		}
		for _, v := range nodes[:lengths[i]] {
			if uint(v) >= uint(len(e.fate)) {
				return damaged("an edge of node %d waits, there are %d", v, len(e.fate))
			}
			e.roster.wait(id, v)
		}
		nodes = nodes[lengths[i]:]
		return nil
	})
	if err == nil && (len(nodes) > 0 || e.roster.waiting.len() != n) {
		err = damaged("%d edges wait for no node", len(nodes))
	}
	return err
}

func (e *Engine) setEarly(file *safetensors.Reader) error {
	records, err := safetensors.Read[uint8](file, "early.records", file.Len("early.records"))
	if err != nil {
		return err
	}
	r := record{b: records}
	err = readIDs(file, "early", func(i int, id event.ID) error {
		if _, known := e.roster.number(id); known || e.early.get(id) != nil || i >= e.cfg.MaxWaitingLabels {
			return damaged("a label waits for node %q, which is there, or there are more than %d", id, e.cfg.MaxWaitingLabels)
		}
		l := r.label()
		l.Node = id
		class, ok := e.class(&l)
		if r.bad || !ok {
			return damaged("what waits for node %q is no label", id)
		}
		e.keep(class, l)
		return nil
	})
	if err == nil && len(r.b) > 0 {
		err = damaged("%d bytes more than the labels that wait", len(r.b))
	}
	return err
}

func (e *Engine) setHeads(file *safetensors.Reader) error {
	for _, h := range e.heads {
		name := "heads." + h.Name()
		state, err := safetensors.Read[uint8](file, name, file.Len(name))
		if err != nil {
			return err
		}
		if err := h.SetState(state); err != nil {
			return damaged("%s: %v", name, err)
		}
	}
	want := e.posterior
	if e.hashPosterior(); e.posterior != want {
		return damaged("the heads have the hash %x, want %x", e.posterior, want)
	}
	counts, err := safetensors.Read[int64](file, "summaries.counts", len(e.heads), summaryCounts)
	if err != nil {
		return err
	}
	sums, err := safetensors.Read[float64](file, "summaries.sums", len(e.heads), summarySums)
	if err != nil {
		return err
	}
	for h := range e.summary {
		if err := e.summary[h].setState(counts[h*summaryCounts:][:summaryCounts], sums[h*summarySums:][:summarySums]); err != nil {
			return err
		}
	}
	return nil
}
