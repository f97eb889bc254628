package pipeline

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/calibration"
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
	file, err := safetensors.NewReader(r, size)
	if err == nil {
		e, err = restored(m, cfg, file, metaOwn)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("snapshot: %w", err)
	}
	return e, callers(file.Metadata()), nil
}

// restored makes an engine of the file, whose strings for it begin with own.
func restored(m *model.Model, cfg Config, file *safetensors.Reader, own string) (*Engine, error) {
	bare := cfg
	bare.Reserve = 0 // the graph that New makes is not the one that will serve
	e, err := New(m, bare)
	if err != nil {
		return nil, err
	}
	e.cfg.Reserve = cfg.Reserve
	e.pending.reserve(cfg.Reserve)
	if err := e.setMeta(file.Metadata(), own); err != nil {
		return nil, err
	}
	for _, set := range []func(*safetensors.Reader) error{
		e.setGraph, e.setNodes, e.setPending, e.setWaiting, e.setEarly, e.setHeads, e.setObservers, (*safetensors.Reader).Done,
	} {
		if err := set(file); err != nil {
			return nil, err
		}
	}
	return e, nil
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
			return damaged("it does not say %q", own+c.key)
		case got != c.want:
			return fmt.Errorf("it is of %s %s, this is %s: %s, or start without the snapshot", c.what, got, c.want, c.remedy)
		}
	}
	if e.next, err = strconv.ParseInt(all[own+metaWindow], 10, 64); err != nil || e.next < 0 {
		return damaged("window %q", all[own+metaWindow])
	}
	for key, hash := range map[string]*event.Hash{metaChain: &e.chain, metaPosterior: &e.posterior} {
		b, err := hex.DecodeString(all[own+key])
		if err != nil || len(b) != len(hash) {
			return damaged("%s %q", own+key, all[own+key])
		}
		copy(hash[:], b)
	}
	return nil
}

func (e *Engine) setGraph(file *safetensors.Reader) (err error) {
	e.nodes.graph, err = gnn.Thaw(e.model.Encoder, file, e.cfg.graphOptions()...)
	return err
}

func (e *Engine) setNodes(file *safetensors.Reader) error {
	nodes := e.nodes
	n := nodes.graph.Len()
	waiting, err := nodes.restoreDeparted(file)
	if err != nil {
		return err
	}
	class, err := safetensors.Read[int32](file, "nodes.label", n)
	if err != nil {
		return err
	}
	context, err := safetensors.Read[uint8](file, "nodes.context", n)
	if err != nil {
		return err
	}
	for v := range int32(nodes.states.len()) {
		f := nodes.states.at(v)
		if class[v] < none || int(class[v]) >= len(e.model.Classes) || context[v] > 1 || f.gone && class[v] != none {
			return damaged("node %d has class %d, is context %d", v, class[v], context[v])
		}
		f.label = class[v]
		nodes.context.set(v, context[v] == 1)
	}
	entered := 0
	err = readIDs(file, "nodes", func(v int, id event.ID) error {
		if entered = v + 1; entered > n {
			return damaged("more ids than the %d nodes", n)
		}
		if nodes.states.at(int32(v)).gone {
			nodes.index.came.set(int32(v), id.Clone())
			return nil
		}
		if _, known := nodes.index.number(id); known {
			return damaged("two nodes have the id %q", id)
		}
		nodes.index.enter(id, int32(v))
		return nil
	})
	if err == nil && entered < n {
		err = damaged("%d ids of %d nodes", entered, n)
	}
	for _, v := range nodes.departed.free {
		if err == nil && nodes.index.came.at(v) != (event.ID{}) {
			err = damaged("number %d is of no node and has the id %q", v, nodes.index.came.at(v))
		}
	}
	if err == nil {
		err = e.serving.thaw(nodes.graph, file, class)
	}
	if err == nil {
		err = nodes.restoreLeft(waiting)
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
	if err := safetensors.ReadRows(file, e.serving.keptName(), p.kept, e.checkKept, n, e.serving.width()/e.model.Prior.Classes, e.model.Prior.Classes); err != nil {
		return err
	}
	left := 0 // the graph
	for i, v := range node {
		if uint(v) >= uint(e.nodes.states.len()) || e.nodes.context.has(v) || e.nodes.states.at(v).label != none || p.nodes.get(v) != nil {
			return damaged("node %d does not wait for a label, or is there twice", v)
		}
		if !(tau[i] > 0 && tau[i] <= math.MaxFloat64) || window[i] < 0 || window[i] >= e.next {
			return damaged("node %d was served at temperature %v in window %d", v, tau[i], window[i])
		}
		if l := e.nodes.departed.waiting.get(e.nodes.index.came.at(v)); e.nodes.states.at(v).gone && (l == nil || l.number != v) {
			return damaged("number %d waits for a label and is of no node", v)
		} else if e.nodes.states.at(v).gone {
			left++
		}
		p.nodes.put(v, served{window: window[i], time: time[i], tau: tau[i]}) // slot i, as the rows are
	}
	if left != e.nodes.departed.waiting.len() {
		return damaged("%d nodes that left wait for their label, %d of them were served", e.nodes.departed.waiting.len(), left)
	}
	return nil
}

// checkKept refuses numbers that cannot be of what was served.
func (e *Engine) checkKept(kept []float32) error {
	for _, x := range kept {
		if !e.serving.valid(x) {
			return damaged("of a node that was served %v is kept", x)
		}
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
	if len(nodes) > e.nodes.index.bound {
		return damaged("%d edges wait for a node, at most %d do", len(nodes), e.nodes.index.bound)
	}
	err = readIDs(file, "waiting", func(i int, id event.ID) error {
		if _, known := e.nodes.index.number(id); known || e.nodes.index.waiting.get(id) != nil {
			return damaged("edges wait for node %q, which is there", id)
		}
		if i >= n || lengths[i] < 1 || int(lengths[i]) > len(nodes) {
			return damaged("other edges than wait for node %q", id)
		}
		for _, v := range nodes[:lengths[i]] {
			if uint(v) >= uint(e.nodes.states.len()) || e.nodes.states.at(v).gone {
				return damaged("an edge of node %d waits, which is not there", v)
			}
			e.nodes.states.at(v).waits = true
			e.nodes.index.wait(id, v)
		}
		nodes = nodes[lengths[i]:]
		return nil
	})
	if err == nil && (len(nodes) > 0 || e.nodes.index.waiting.len() != n) {
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
		if _, known := e.nodes.index.number(id); known || e.labels.unmatched.queue.get(id) != nil || i >= e.cfg.MaxWaitingLabels {
			return damaged("a label waits for node %q, which is there, or there are more than %d", id, e.cfg.MaxWaitingLabels)
		}
		l := r.label()
		l.Node = id
		class, ok := e.labels.class(&l)
		if r.bad || !ok {
			return damaged("what waits for node %q is no label", id)
		}
		e.labels.unmatched.keep(class, l)
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
	if !e.serving.matches(e.posterior) {
		return damaged("the heads have another hash than %x", e.posterior)
	}
	counts, err := safetensors.Read[int64](file, "summaries.counts", len(e.heads), calibration.StateCounts)
	if err != nil {
		return err
	}
	sums, err := safetensors.Read[float64](file, "summaries.sums", len(e.heads), calibration.StateSums)
	if err != nil {
		return err
	}
	for h := range e.scorer.summaries {
		if err := e.scorer.summaries[h].setState(counts[h*calibration.StateCounts:][:calibration.StateCounts], sums[h*calibration.StateSums:][:calibration.StateSums]); err != nil {
			return err
		}
	}
	return nil
}

// setObservers reads what the observers are. What a snapshot has of drift detectors
// that this engine does not have is read all the same: damage is to be found.
func (e *Engine) setObservers(file *safetensors.Reader) error {
	observers := e.observers
	if e.cfg.Unwatched {
		unused, err := newDetectors(e.nodes)
		if err != nil {
			return err
		}
		observers = append(slices.Clone(observers), unused)
	}
	for _, o := range observers {
		if err := o.restore(file); err != nil {
			return err
		}
	}
	return nil
}
