package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// This file writes down what is known of nodes that have left, see departed,
// and reads it back.

// goneParts are all that a snapshot has of them, and none where nothing has left.
func (e *Engine) goneParts() (parts []safetensors.Part) {
	d := &e.gone
	if n := len(d.free); n > 0 {
		parts = append(parts, safetensors.PartOf("departed.free", slices.Clone(d.free), n))
	}
	if n := d.waiting.len(); n > 0 {
		var nodes, near []int32
		for slot := d.waiting.head; slot != none; slot = d.waiting.entries.at(slot).next {
			l := d.waiting.entries.at(slot).value
			nodes, near = append(nodes, l.number), append(near, l.degree, l.fresh)
		}
		parts = append(parts, safetensors.PartOf("departed.node", nodes, n), safetensors.PartOf("departed.near", near, n, 2))
	}
	if d.born != nil {
		v := int32(-1)
		parts = append(parts, safetensors.PartOf("departed.next", []int64{d.next}, 1), column("departed.born", len(d.born), func() int64 {
			v++
			if w, changed := e.taken.was[v]; changed {
				return w.born
			}
			return d.born[v]
		}))
	}
	return parts
}

// some reads a tensor that may be missing, where it has no entries.
func some[T safetensors.Element](file *safetensors.Reader, name string, shape ...int) ([]T, error) {
	if shape[0] == 0 {
		return nil, nil
	}
	return safetensors.Read[T](file, name, shape...)
}

// setGone reads which numbers are of no node, and returns those of nodes that
// left and wait for their label. It comes before the ids.
func (e *Engine) setGone(file *safetensors.Reader) ([]left, error) {
	n, d := e.graph.Len(), &e.gone
	e.fate = chunked[fate]{}
	for range n {
		e.fate.add(fate{})
	}
	var err error
	if d.free, err = some[int32](file, "departed.free", file.Len("departed.free")); err != nil {
		return nil, err
	}
	waits := file.Len("departed.node")
	nodes, err := some[int32](file, "departed.node", waits)
	if err != nil {
		return nil, err
	}
	near, err := some[int32](file, "departed.near", waits, 2)
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Concat(d.free, nodes) {
		if uint(v) >= uint(n) || e.fate.at(v).gone || e.graph.Degree(v) > 0 {
			return nil, damaged("node %d of %d has left and is there, or left twice", v, n)
		}
		e.fate.at(v).gone = true
	}
	list := make([]left, waits)
	for i, v := range nodes {
		list[i] = left{number: v, degree: near[2*i], fresh: near[2*i+1]}
		if list[i].fresh < 0 || list[i].fresh > list[i].degree {
			return nil, damaged("node %d had %d neighbours, %d of them fresh", v, list[i].degree, list[i].fresh)
		}
	}
	if file.Len("departed.next") == 0 {
		return list, nil
	}
	next, err := safetensors.Read[int64](file, "departed.next", 1)
	if err != nil {
		return nil, err
	}
	d.next = next[0]
	if d.born, err = safetensors.Read[int64](file, "departed.born", n); err != nil {
		return nil, err
	}
	for v, at := range d.born {
		if at < 0 || at >= d.next {
			return nil, damaged("node %d came after %d others, of %d", v, at, d.next)
		}
	}
	return list, nil
}

// setLeft takes the nodes that left and wait for their label, whose ids are read.
func (e *Engine) setLeft(list []left) error {
	for _, l := range list {
		id := e.roster.came.at(l.number)
		if _, known := e.roster.number(id); known || e.gone.waiting.get(id) != nil {
			return damaged("node %q has left and is there, or left twice", id)
		}
		e.gone.waiting.put(id.Clone(), l)
	}
	return nil
}
