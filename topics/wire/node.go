package wire

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// shape holds the fields that decide what a node event is, beside those of event.Node.
type shape struct {
	hasID, hasSource, hasTarget, hasNeighbours bool
	edge                                       event.Edge // its ends if hasSource and hasTarget; Remove always
}

// node reads a node event: an object, or a list of edges.
func (in *input) node(v value, n *event.Node, limits Limits) error {
	if v.kind() == aList {
		return in.edges(v, n, limits)
	}
	var s shape
	if err := s.fields(in, v, n, limits); err != nil {
		return err
	}
	return s.form(in, n)
}

// value is a value of a record, in msgpack or JSON.
type value interface {
	kind() kind
	id(limit int) (event.ID, error)
	text(limit int) (string, error)
	number() (float32, error)
	double() (float64, error)
	boolean() (bool, error)
	integer() (int64, error)
	numbers(Limits) ([]float32, error)
	indices(Limits) ([]uint32, error)
	named(*input, Limits) ([]event.Attribute, error)
	probabilities(Limits) (of []float32, classes []string, err error)
	// list returns the number of items of a list, and the list, which has the next one. One of more than most items is refused
	// with the reason excess, and one whose items have fewer than least bytes each.
	list(least, most int, excess event.Reason) (n int, items list, err error)
	// object calls read for the members that are given: in JSON those of these names, in their order, and otherwise all.
	object(in *input, names []string, read func(key []byte, v value) (known bool, err error)) error
}

type list interface{ item() value }

// nodeNames are the fields of a node event, in the order in which those of an object are
// read.
var nodeNames = []string{
	"id", "source", "target", "remove", "features", "indices", "values", "neighbours", "neighbors",
	"context", "departed", "predict", "time", "nodes", "edges", "kind", "weight",
}

func (s *shape) read(in *input, n *event.Node, key []byte, v value, limits Limits) (known bool, err error) {
	switch string(key) {
	case "id":
		s.hasID = true
		n.ID, err = v.id(limits.MaxID)
	case "source":
		s.hasSource = true
		s.edge.Source, err = v.id(limits.MaxID)
	case "target":
		s.hasTarget = true
		s.edge.Target, err = v.id(limits.MaxID)
	case "remove":
		s.edge.Remove, err = v.boolean()
	case "features":
		if v.kind() == aMap {
			n.Named, err = v.named(in, limits)
		} else {
			n.Dense, err = v.numbers(limits)
		}
	case "indices":
		n.Index, err = v.indices(limits)
	case "values":
		n.Value, err = v.numbers(limits)
	case "neighbours", "neighbors":
		if s.hasNeighbours {
			return true, refusef(event.Undecodable, "neighbours and neighbors: give one of them")
		}
		s.hasNeighbours = true
		n.Neighbours, n.Marks, err = in.neighbours(v, limits)
	case "context":
		n.Context, err = v.boolean()
	case "departed":
		n.Departed, err = v.boolean()
	case "predict":
		n.Predict, err = v.boolean()
	case "time":
		n.Time, err = in.reads.timeOf(v)
	case "nodes":
		graph(n).Nodes, err = rows(v, limits)
	case "edges":
		graph(n).Ends, err = pairs(v, limits)
	default:
		return readMark(&s.edge.Mark, key, v)
	}
	return true, err
}

// fields reads the fields of an object. In JSON, source and target are read only if they are the event's.
func (s *shape) fields(in *input, v value, n *event.Node, limits Limits) error {
	text, isJSON := v.(*field)
	if !isJSON {
		return in.fields(func(key []byte) (bool, error) { return s.read(in, n, key, in, limits) })
	}
	members := in.members[:len(nodeNames)]
	if err := in.membersOf(*text, nodeNames, members); err != nil {
		return err
	}
	const id, source, target, neighbours, neighbors, kind = 0, 1, 2, 7, 8, 15
	s.hasID, s.hasSource, s.hasTarget = members[id].given(), members[source].given(), members[target].given()
	byEnds := s.hasSource && s.hasTarget && !s.hasID
	s.hasNeighbours = members[neighbours].given() && members[neighbors].given() // which read refuses
	for i := range members {
		if v := &members[i]; v.given() && (i != source && i != target && i < kind || byEnds) {
			if _, err := s.read(in, n, []byte(nodeNames[i]), v, limits); err != nil {
				return err
			}
		}
	}
	return nil
}

// form decides what a node event is, for both encodings. An event without an id is an edge
// by its ends. One with an id and without features is its edges to the neighbours.
func (s *shape) form(in *input, n *event.Node) error {
	if !slices.ContainsFunc(n.Marks, func(m event.Mark) bool { return m != (event.Mark{}) }) {
		n.Marks = nil
	}
	plain := n.Dense == nil && n.Index == nil && n.Value == nil && n.Named == nil && n.Graph == nil
	switch {
	case s.hasID:
		if s.hasSource {
			in.unknown([]byte("source"))
		}
		if s.hasTarget {
			in.unknown([]byte("target"))
		}
		if s.edge.Mark != (event.Mark{}) {
			in.unknown([]byte("kind or weight"))
		}
	case !s.hasSource && !s.hasTarget:
		return refusef(event.BadID, "there is no id, nor the source and target of an edge")
	case !s.hasSource || !s.hasTarget:
		return refusef(event.BadID, "an edge needs a source and a target")
	case !plain || s.hasNeighbours || n.Context || n.Departed || n.Predict:
		return refusef(event.Undecodable, "an edge by source and target has no fields but kind, weight, remove and time")
	default:
		n.ID = s.edge.Source
		n.Edges = append(in.memory.edges.cut(1)[:0], s.edge)
		return nil
	}
	switch {
	case n.Departed:
	case plain && len(n.Neighbours) > 0:
		n.Featureless, n.Remove, n.Context = true, s.edge.Remove, false
	case s.edge.Remove:
		return refusef(event.BadFeatures, "remove takes away the edges to neighbours, in an event without features")
	}
	return nil
}

// edges reads a list of edges. The event's time is that of the first that has one.
func (in *input) edges(v value, n *event.Node, limits Limits) error {
	count, list, err := v.list(2, limits.MaxNeighbours, event.TooManyNeighbours)
	switch {
	case err != nil:
		return err
	case count == 0:
		return refusef(event.BadID, "a list without edges")
	}
	n.Edges = in.memory.edges.cut(count)
	for i := range n.Edges {
		var one event.Node
		var s shape
		if err := s.fields(in, list.item(), &one, limits); err != nil {
			return err
		}
		if s.hasID {
			return refusef(event.Undecodable, "element %d of the list has an id: only edges, with source and target, come in lists", i)
		}
		if err := s.form(in, &one); err != nil {
			return err
		}
		n.Edges[i] = s.edge
		n.Time = cmp.Or(n.Time, one.Time)
	}
	n.ID = n.Edges[0].Source
	return nil
}

// neighbours reads a list of ids, and of objects with ids and marks. marks is nil if there is no object.
func (in *input) neighbours(v value, limits Limits) (ids []event.ID, marks []event.Mark, err error) {
	n, list, err := v.list(1, limits.MaxNeighbours, event.TooManyNeighbours)
	if err != nil {
		return nil, nil, err
	}
	ids = in.memory.ids.cut(n)
	for i := range ids {
		if item := list.item(); item.kind() == aMap {
			if marks == nil {
				marks = make([]event.Mark, n)
			}
			err = in.neighbour(item, &ids[i], &marks[i], limits)
		} else {
			ids[i], err = item.id(limits.MaxID)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return ids, marks, nil
}

// departure reads the key of a record with a null value: the id of the node that
// leaves, as AppendKey writes it.
func departure(in *input, key []byte, n *event.Node, limits Limits) error {
	n.Departed, n.ByKey = true, true
	refuse := func() error {
		return refusef(event.BadID, "a null value removes the node that the key names, but the key is not 1 to %d "+
			"bytes of UTF-8", limits.MaxID)
	}
	if len(key) == 0 || len(key) > limits.MaxID {
		return refuse()
	}
	if !in.reads.first {
		id, is, err := keyID(in, key, limits)
		if err != nil || is {
			n.ID, n.ByKey = id, id.Str == ""
			return err
		}
	}
	if !utf8.Valid(key) {
		return refuse()
	}
	if num, ok := spelling.Integer(string(key)); ok {
		n.ID.Num = num
		return nil
	}
	n.ID.Str = in.memory.text(key)
	return nil
}

// keyValue returns what a key is as JSON that serializers of a schema registry have framed, and other keys as they are. A
// whole number of eight bytes may look like three bytes of JSON, which are no id.
func (as *reading) keyValue(key []byte) (value []byte, framed bool, err error) {
	if as.first || len(key) < 5 || key[0] != 0 || binary.BigEndian.Uint32(key[1:]) == 0 || len(key) == 8 && looksLikeJSON(key[5:]) {
		return key, false, nil
	}
	value, err = as.framed(key)
	if err != nil && len(key) == 8 {
		return key, false, nil
	}
	return value, true, err
}

// keyID reads an id from a key of another form than ours: an integer of four or eight bytes, as serializers of Java write it;
// a text or an object of one member in JSON, maybe with its schema; what serializers of a registry have framed. Other keys are
// the id as they are. It is an error if a key of these forms has no id.
func keyID(in *input, key []byte, limits Limits) (id event.ID, is bool, err error) {
	value, framed, err := in.reads.keyValue(key)
	switch {
	case err != nil || framed:
	case len(key) == 8 && (key[0] == 0 || !utf8.Valid(key)):
		return event.ID{Num: int64(binary.BigEndian.Uint64(key))}, true, nil
	case len(key) == 4 && (key[0] == 0 || !utf8.Valid(key)):
		return event.ID{Num: int64(int32(binary.BigEndian.Uint32(key)))}, true, nil
	case key[0] != '"' && key[0] != '{':
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	all, err := valueJSON(value)
	if err != nil {
		return id, false, nil
	}
	f := payload(all)
	is = framed || all[0] == '"' || len(f) < len(all)
	if f.given() && f[0] == '{' {
		f = in.reads.find(f, pointTo("/*"))
	}
	if f.given() && f[0] != '{' {
		if id, err = f.id(limits.MaxID); err == nil {
			return event.ID{Str: in.memory.text([]byte(id.Str)), Num: id.Num}, true, nil
		}
	}
	if is {
		err = refusef(event.BadID, "a null value removes the node that the key names, but %.40s is no id", value)
	}
	return id, false, err
}

// validate enforces the invariants of event.Node, for both encodings.
func validate(memory *Memory, n *event.Node, limits Limits) error {
	if n.Departed {
		n.Dense, n.Index, n.Value, n.Named, n.Graph, n.Neighbours, n.Implicit, n.Marks, n.Context, n.Predict = nil, nil,
			nil, nil, nil, nil, nil, nil, false, false
		return nil
	}
	if n.OnlyEdges() {
		return nil
	}
	switch {
	case n.Graph != nil:
		return checkGraph(n, limits)
	case n.Named != nil && (n.Index != nil || n.Value != nil):
		return refusef(event.BadFeatures, "features by name, and indices or values: give one or the other")
	case n.Named != nil:
		return nil
	case n.Dense != nil && (n.Index != nil || n.Value != nil):
		return refusef(event.BadFeatures, "features and indices or values: give one or the other")
	case n.OnlyAsks() && n.Value == nil:
		n.Neighbours, n.Context = nil, false
		return nil
	case n.Dense == nil && n.Index == nil:
		return refusef(event.BadFeatures, "neither features nor indices, nor neighbours to add")
	case n.Value == nil && n.Index != nil:
		n.Value = memory.numbers.cut(len(n.Index))
		for i := range n.Value {
			n.Value[i] = 1
		}
	case len(n.Value) != len(n.Index):
		return refusef(event.BadFeatures, "%d indices and %d values", len(n.Index), len(n.Value))
	}
	for i := 1; i < len(n.Index); i++ {
		if n.Index[i] <= n.Index[i-1] {
			return refusef(event.BadFeatures, "index %d follows index %d: they must increase", n.Index[i], n.Index[i-1])
		}
	}
	for _, x := range [...][]float32{n.Dense, n.Value} {
		if err := checkNumbers(x, limits); err != nil {
			return err
		}
	}
	return nil
}

// checkNumbers returns an error if a feature is not finite or beyond the limit.
func checkNumbers(x []float32, limits Limits) error {
	if largest(x) <= limits.MaxAbs {
		return nil
	}
	for i, v := range x {
		if a := math.Abs(float64(v)); !(a <= float64(limits.MaxAbs)) {
			return badFeature(i, a, limits)
		}
	}
	return nil
}

// largest returns the largest magnitude in x, or NaN if there is one. It compares
// bits: without the sign they are in the order of magnitudes, with NaN above all.
// Four independent maxima keep the additions from waiting for each other.
func largest(x []float32) float32 {
	var a, b, c, d uint32
	for len(x) >= 4 {
		a = max(a, math.Float32bits(x[0])<<1)
		b = max(b, math.Float32bits(x[1])<<1)
		c = max(c, math.Float32bits(x[2])<<1)
		d = max(d, math.Float32bits(x[3])<<1)
		x = x[4:]
	}
	for _, v := range x {
		a = max(a, math.Float32bits(v)<<1)
	}
	return math.Float32frombits(max(a, b, c, d) >> 1)
}

// badFeature returns the refusal of feature i, whose magnitude is a.
func badFeature(i int, a float64, limits Limits) error {
	if math.IsNaN(a) || math.IsInf(a, 0) {
		return refusef(event.NonFinite, "feature %d is NaN or infinite", i)
	}
	return refusef(event.HugeNumber, "feature %d is ±%v, the limit is ±%v", i, a, limits.MaxAbs)
}

// AppendNode appends a node event as msgpack, with its features as a binary
// block.
func AppendNode(dst []byte, n *event.Node) []byte {
	o := appendTo(dst, MsgPack)
	if n.Edges != nil {
		o.edges(n)
		return o.done()
	}
	m := o.begin()
	o.key("id")
	o.id(n.ID)
	switch {
	case n.Departed:
		o.trueField("departed", true)
	case n.Featureless || n.OnlyAsks():
	case n.Graph != nil:
		o.graph(n.Graph)
	case n.Named != nil:
		o.key("features")
		o.named(n.Named)
	case n.Dense != nil:
		o.key("features")
		o.singles(n.Dense)
	default:
		o.key("indices")
		o.indices(n.Index)
		o.key("values")
		o.singles(n.Value)
	}
	if len(n.Neighbours) > 0 {
		o.neighbours(n)
	}
	o.trueField("remove", n.Remove)
	o.trueField("context", n.Context)
	o.trueField("predict", n.Predict)
	if n.Time != 0 {
		o.intField("time", n.Time)
	}
	o.end(m)
	return o.done()
}

// edges appends an event of edges by their ends: a map for one, else a list of maps, of
// which the first has the time.
func (o *output) edges(n *event.Node) {
	if len(n.Edges) != 1 {
		o.to.EncodeArrayLen(len(n.Edges))
	}
	for i, e := range n.Edges {
		m := o.begin()
		o.key("source")
		o.id(e.Source)
		o.key("target")
		o.id(e.Target)
		o.mark(e.Mark)
		o.trueField("remove", e.Remove)
		if i == 0 && n.Time != 0 {
			o.intField("time", n.Time)
		}
		o.end(m)
	}
}

// AppendKey appends the record key of a node: its id as text. Keys decide the
// partition; except for departures, decoders ignore them.
func AppendKey(dst []byte, id event.ID) []byte {
	if id.Str != "" {
		return append(dst, id.Str...)
	}
	return strconv.AppendInt(dst, id.Num, 10)
}
