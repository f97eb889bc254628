package pipeline

import (
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// This file writes down what is known of nodes that have left, see departed,
// and reads it back.

// departedParts are all that a snapshot has of them, and none where nothing has left.
func (n *nodes) departedParts() (parts []safetensors.Part) {
	d := &n.departed
	if free := len(d.free); free > 0 {
		parts = append(parts, safetensors.PartOf("departed.free", slices.Clone(d.free), free))
	}
	if waiting := d.waiting.len(); waiting > 0 {
		var nodes, near []int32
		for slot := d.waiting.head; slot != none; slot = d.waiting.entries.at(slot).next {
			l := d.waiting.entries.at(slot).value
			nodes, near = append(nodes, l.number), append(near, l.degree, l.fresh)
		}
		parts = append(parts, safetensors.PartOf("departed.node", nodes, waiting), safetensors.PartOf("departed.near", near, waiting, 2))
	}
	if d.born != nil {
		v := int32(-1)
		parts = append(parts, safetensors.PartOf("departed.next", []int64{d.next}, 1), column("departed.born", len(d.born), func() int64 {
			v++
			if w, changed := n.taken.was[v]; changed {
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

// restoreDeparted reads which numbers are of no node, and returns those of nodes that
// left and wait for their label. It comes before the ids.
func (n *nodes) restoreDeparted(file *safetensors.Reader) ([]left, error) {
	count, d := n.graph.Len(), &n.departed
	n.states = chunked[nodeState]{}
	for range count {
		n.states.add(nodeState{})
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
		if uint(v) >= uint(count) || n.states.at(v).gone || n.graph.Degree(v) > 0 {
			return nil, damaged("node %d of %d has left and is there, or left twice", v, count)
		}
		n.states.at(v).gone = true
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
	if d.born, err = safetensors.Read[int64](file, "departed.born", count); err != nil {
		return nil, err
	}
	for v, at := range d.born {
		if at < 0 || at >= d.next {
			return nil, damaged("node %d came after %d others, of %d", v, at, d.next)
		}
	}
	return list, nil
}

// restoreLeft adds the nodes that left and wait for their label, whose ids are read.
func (n *nodes) restoreLeft(list []left) error {
	for _, l := range list {
		id := n.index.came.at(l.number)
		if _, known := n.index.number(id); known || n.departed.waiting.get(id) != nil {
			return damaged("node %q has left and is there, or left twice", id)
		}
		n.departed.waiting.put(id.Clone(), l)
	}
	return nil
}
