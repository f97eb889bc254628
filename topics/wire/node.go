package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/gvbll/gvbll/pipeline/event"
)

// shape holds the fields that decide what a node event is, beside those of event.Node.
type shape struct {
	hasID, hasSource, hasTarget, hasNeighbours bool
	edge                                       event.Edge // its ends if hasSource and hasTarget; Remove always
}

// node reads a node event in msgpack: a map, or a list of edges.
func (in *input) node(n *event.Node, limits Limits) error {
	if in.cursor.next() == aList {
		return in.edges(n, limits)
	}
	var s shape
	if err := s.fields(in, n, limits); err != nil {
		return err
	}
	return s.form(in, n)
}

// value is a field of an event, in msgpack or JSON.
type value interface {
	id(limit int) (event.ID, error)
	neighbours(*input, Limits) ([]event.ID, []event.Mark, error)
	class(*event.Label, Limits) error
	text(limit int) (string, error)
	number() (float32, error)
	numbers(Limits) ([]float32, error)
	isNamed() bool
	named(*input, Limits) ([]event.Attribute, error)
	indices(Limits) ([]uint32, error)
	boolean() (bool, error)
	integer() (int64, error)
	moment() (int64, error)
	rows(Limits) ([][]float32, error)
	pairs(Limits) ([]uint32, error)
	texts(Limits) ([]string, error)
	objects(in *input, most int, names []string, begin func(n int), read func(i int, key []byte, v value) (bool, error)) error
	probabilities(Limits) (of []float32, classes []string, err error)
}

// nodeNames are the fields of a node event, in the order in which those of an object are
// read.
var nodeNames = []string{
	"id", "source", "target", "remove", "features", "indices", "values", "neighbours", "neighbors",
	"context", "departed", "predict", "time", "nodes", "edges", "kind", "weight",
}

// read reads a field of a node event by its name.
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
		if v.isNamed() {
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
		n.Neighbours, n.Marks, err = v.neighbours(in, limits)
	case "context":
		n.Context, err = v.boolean()
	case "departed":
		n.Departed, err = v.boolean()
	case "predict":
		n.Predict, err = v.boolean()
	case "time":
		n.Time, err = in.reads.timeOf(v)
	case "nodes":
		graph(n).Nodes, err = v.rows(limits)
	case "edges":
		graph(n).Ends, err = v.pairs(limits)
	default:
		return readMark(&s.edge.Mark, key, v)
	}
	return true, err
}

func (s *shape) fields(in *input, n *event.Node, limits Limits) error {
	return in.fields(func(key []byte) (bool, error) { return s.read(in, n, key, in, limits) })
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
func (in *input) edges(n *event.Node, limits Limits) error {
	count, _, err := in.cursor.list(0, limits.MaxNeighbours, event.TooManyNeighbours)
	if err != nil {
		return err
	}
	if in.cursor.left() < 2*count { // before memory is taken: a map of two fields has more
		return refusef(event.Undecodable, "%d edges are declared, but only %d bytes remain", count, in.cursor.left())
	}
	n.Edges = in.memory.edges.cut(count)
	for i := range n.Edges {
		var one event.Node
		var s shape
		if err := s.fields(in, &one, limits); err != nil {
			return err
		}
		if err := s.element(in, n, &one, i); err != nil {
			return err
		}
	}
	return endOfList(n)
}

// element sets the i-th edge of a list to the event one, which must be an edge.
func (s *shape) element(in *input, n, one *event.Node, i int) error {
	if s.hasID {
		return refusef(event.Undecodable, "element %d of the list has an id: only edges, with source and target, come in lists", i)
	}
	if err := s.form(in, one); err != nil {
		return err
	}
	n.Edges[i] = s.edge
	if n.Time == 0 {
		n.Time = one.Time
	}
	return nil
}

// endOfList completes a list of edges.
func endOfList(n *event.Node) error {
	if len(n.Edges) == 0 {
		return refusef(event.BadID, "a list without edges")
	}
	n.ID = n.Edges[0].Source
	return nil
}

// neighbours reads a list of ids, and of maps with ids and marks. marks is nil if there is no map.
func (in *input) neighbours(_ *input, limits Limits) (ids []event.ID, marks []event.Mark, err error) {
	count, _, err := in.cursor.list(0, limits.MaxNeighbours, event.TooManyNeighbours)
	if err != nil {
		return nil, nil, err
	}
	ids = in.memory.ids.cut(count)
	for i := range ids {
		if in.cursor.next() == aMap {
			if marks == nil {
				marks = make([]event.Mark, count)
			}
			err = in.neighbour(&ids[i], &marks[i], limits)
		} else {
			ids[i], err = in.id(limits.MaxID)
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
	framed := len(key)
	key = in.reads.keyValue(key)
	if id, ok := keyID(in, key, limits); ok && !in.reads.first {
		n.ID, n.ByKey = id, id.Str == ""
		return nil
	}
	if len(key) < framed && looksLikeJSON(key) {
		return refusef(event.BadID, "a null value removes the node that the key names, but %.40s, by a schema, is no id", key)
	}
	if !utf8.Valid(key) {
		return refuse()
	}
	var room [20]byte
	if num, err := strconv.ParseInt(string(key), 10, 64); err == nil && string(strconv.AppendInt(room[:0], num, 10)) == string(key) {
		n.ID.Num = num
		return nil
	}
	n.ID.Str = in.memory.text(key)
	return nil
}

// keyValue returns what a key is as JSON that serializers of a schema registry have framed, and other keys as they are.
func (as *reading) keyValue(key []byte) []byte {
	if as.first || len(key) < 5 || key[0] != 0 || binary.BigEndian.Uint32(key[1:]) == 0 {
		return key
	}
	if framed, err := as.framed(key); err == nil {
		return framed
	}
	return key
}

// keyID reads an id from a key of another form than ours: an integer of four or eight bytes, as serializers of Java write it;
// a text or an object of one member in JSON, maybe with its schema. Other keys are the id as they are.
func keyID(in *input, key []byte, limits Limits) (id event.ID, ok bool) {
	switch {
	case len(key) == 8 && (key[0] == 0 || !utf8.Valid(key)):
		return event.ID{Num: int64(binary.BigEndian.Uint64(key))}, true
	case len(key) == 4 && (key[0] == 0 || !utf8.Valid(key)):
		return event.ID{Num: int64(int32(binary.BigEndian.Uint32(key)))}, true
	case key[0] != '"' && key[0] != '{':
		return id, false
	}
	f, err := valueJSON(key)
	if err != nil {
		return id, false
	}
	if f = payload(f); f.given() && f[0] == '{' {
		f = in.reads.find(f, pointTo("/*"))
	}
	if !f.given() || f[0] == '{' {
		return id, false
	}
	id, err = f.id(limits.MaxID)
	id.Str = in.memory.text([]byte(id.Str))
	return id, err == nil
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

// nodeJSON reads a node event in JSON: an object, or a list of edges.
func (in *input) nodeJSON(b []byte, n *event.Node, limits Limits) error {
	text, err := in.reads.eventJSON(b)
	if err != nil {
		return err
	}
	if text[0] == '[' {
		return in.edgesJSON(text, n, limits)
	}
	var s shape
	if err := s.fieldsJSON(in, text, n, limits); err != nil {
		return err
	}
	return s.form(in, n)
}

// fieldsJSON reads the fields of an object. source and target are read only if they are
// the event's.
func (s *shape) fieldsJSON(in *input, text field, n *event.Node, limits Limits) error {
	members, err := in.object(text, nodeNames...)
	if err != nil {
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

// edgesJSON reads a list of edges.
func (in *input) edgesJSON(text field, n *event.Node, limits Limits) error {
	if err := text.items(limits, event.TooManyNeighbours, func(count int) { n.Edges = in.memory.edges.cut(count) },
		func(i int, item field) error {
			var one event.Node
			var s shape
			if err := s.fieldsJSON(in, item, &one, limits); err != nil {
				return err
			}
			return s.element(in, n, &one, i)
		}); err != nil {
		return err
	}
	return endOfList(n)
}
