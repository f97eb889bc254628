package wire

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/gvbll/gvbll/pipeline/event"
)

// maxKind bounds the name of a kind of edges, in bytes.
const maxKind = 256

// markNames are the fields of a neighbour that is an object.
var markNames = []string{"id", "kind", "weight", "in"}

// readMark reads a field of what an edge is beside its ends.
func readMark(m *event.Mark, key []byte, v value) (known bool, err error) {
	switch string(key) {
	case "kind":
		m.Kind, err = v.text(maxKind)
	case "weight":
		if m.Weight, err = v.number(); err == nil && !(m.Weight >= event.LeastWeight && m.Weight <= event.LargestWeight) {
			err = refusef(event.Undecodable, "the weight %v of an edge: a positive number from %g to %g is needed",
				m.Weight, event.LeastWeight, event.LargestWeight)
		}
	default:
		return false, nil
	}
	return true, err
}

// readNeighbour reads a field of a neighbour that is an object.
func readNeighbour(id *event.ID, m *event.Mark, key []byte, v value, limits Limits) (known bool, err error) {
	switch string(key) {
	case "id":
		*id, err = v.id(limits.MaxID)
	case "in":
		m.In, err = v.boolean()
	default:
		return readMark(m, key, v)
	}
	return true, err
}

var errNoNeighbour = refusef(event.BadID, "a neighbour without an id")

// neighbour reads an element of a list of neighbours that is a map.
func (in *input) neighbour(id *event.ID, m *event.Mark, limits Limits) error {
	named, outer := false, in.keys
	in.keys = outer[len(outer):]
	err := in.fields(func(key []byte) (bool, error) {
		named = named || string(key) == "id"
		return readNeighbour(id, m, key, in, limits)
	})
	clear(in.keys)
	in.keys = outer
	if err == nil && !named {
		err = errNoNeighbour
	}
	return err
}

// neighbours reads a list of ids, and of objects with ids and marks. marks is nil if there is
// no object.
func (f field) neighbours(in *input, limits Limits) (ids []event.ID, marks []event.Mark, err error) {
	if !f.given() {
		return nil, nil, nil
	}
	if ids, err = f.idsOr(limits, func(i, n int, item field) (event.ID, error) {
		var id event.ID
		if marks == nil {
			marks = make([]event.Mark, n)
		}
		var members [4]field
		if err := in.objectInto(members[:], item, markNames...); err != nil {
			return id, err
		}
		if !members[0].given() {
			return id, errNoNeighbour
		}
		return id, readGiven(members[:], markNames, func(key []byte, v value) (bool,
			error,
		) {
			return readNeighbour(&id, &marks[i], key, v, limits)
		})
	}); err != nil {
		return nil, nil, err
	}
	return ids, marks, nil
}

func (f field) text(limit int) (string, error) {
	var s string
	if f[0] != '"' || json.Unmarshal(f, &s) != nil || len(s) > limit {
		return "", refusef(event.Undecodable, "%.40s where a string of at most %d bytes is needed", f, limit)
	}
	return s, nil
}

func (f field) number() (float32, error) {
	x, err := strconv.ParseFloat(string(f), 32)
	if err != nil && (f[0] == '"' || !math.IsInf(x, 0)) {
		return 0, refusef(event.Undecodable, "%.40s where a number is needed", f)
	}
	return float32(x), nil
}

// neighbours appends a list of neighbours, those with marks as objects.
func (o *output) neighbours(n *event.Node) {
	o.key("neighbours")
	o.to.EncodeArrayLen(len(n.Neighbours))
	for i, id := range n.Neighbours {
		if n.Marks == nil || n.Marks[i] == (event.Mark{}) {
			o.id(id)
			continue
		}
		m := o.begin()
		o.key("id")
		o.id(id)
		o.mark(n.Marks[i])
		o.trueField("in", n.Marks[i].In)
		o.end(m)
	}
}

// mark appends the fields of a mark but in.
func (o *output) mark(m event.Mark) {
	if m.Kind != "" {
		o.textField("kind", m.Kind)
	}
	if m.Weight != 0 {
		o.singleField("weight", m.Weight)
	}
}
