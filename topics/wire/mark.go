package wire

import "github.com/gvbll/gvbll/pipeline/event"

// maxKind bounds the name of a kind of edges, in bytes.
const maxKind = 256

var markNames = []string{"id", "kind", "weight", "in"}

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

func (in *input) neighbour(v value, id *event.ID, m *event.Mark, limits Limits) error {
	named := false
	err := v.object(in, markNames, func(key []byte, v value) (bool, error) {
		named = named || string(key) == "id"
		return readNeighbour(id, m, key, v, limits)
	})
	if err == nil && !named {
		err = refusef(event.BadID, "a neighbour without an id")
	}
	return err
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
