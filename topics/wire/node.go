package wire

import (
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/gvbll/gvbll/pipeline/event"
)

// node reads a node event in msgpack.
func (in *input) node(n *event.Node, limits Limits) error {
	hasID := false
	err := in.fields(func(key []byte) (bool, error) {
		var err error
		switch string(key) {
		case "id":
			hasID = true
			n.ID, err = in.id(limits.MaxID)
		case "features":
			n.Dense, err = in.numbers(limits)
		case "indices":
			n.Index, err = in.indices(limits)
		case "values":
			n.Value, err = in.numbers(limits)
		case "neighbours":
			err = in.neighbours(n, limits)
		case "context":
			n.Context, err = in.boolean()
		case "departed":
			n.Departed, err = in.boolean()
		case "time":
			n.Time, err = in.integer()
		default:
			return false, nil
		}
		return true, err
	})
	if err == nil && !hasID {
		err = refusef(event.BadID, "there is no id")
	}
	return err
}

// neighbours reads a list of ids, with a fast path for short integers.
func (in *input) neighbours(n *event.Node, limits Limits) error {
	count, _, err := in.list(0, limits.MaxNeighbours, event.TooManyNeighbours)
	if err != nil {
		return err
	}
	n.Neighbours = in.newIDs(count)
	rest, at := in.rest(), 0
	for i := range n.Neighbours {
		if num, size := short(rest[at:]); size > 0 {
			n.Neighbours[i] = event.ID{Num: num}
			at += size
			continue
		}
		in.advance(at)
		if n.Neighbours[i], err = in.id(limits.MaxID); err != nil {
			return err
		}
		rest, at = in.rest(), 0
	}
	in.advance(at)
	return nil
}

// departure reads the key of a record with a null value: the id of the node that
// leaves, as AppendKey writes it.
func (in *input) departure(key []byte, n *event.Node, limits Limits) error {
	n.Departed, n.ByKey = true, true
	if len(key) == 0 || len(key) > limits.MaxID || !utf8.Valid(key) {
		return refusef(event.BadID, "a null value removes the node that the key names, but the key is not 1 to %d bytes of UTF-8", limits.MaxID)
	}
	var room [20]byte
	if num, err := strconv.ParseInt(string(key), 10, 64); err == nil && string(strconv.AppendInt(room[:0], num, 10)) == string(key) {
		n.ID.Num = num
		return nil
	}
	n.ID.Str = in.newText(key)
	return nil
}

// checkNode enforces the invariants of event.Node, for both encodings.
func (in *input) checkNode(n *event.Node, limits Limits) error {
	if n.Departed {
		n.Dense, n.Index, n.Value, n.Neighbours, n.Context = nil, nil, nil, nil, false
		return nil
	}
	switch {
	case n.Dense != nil && (n.Index != nil || n.Value != nil):
		return refusef(event.BadFeatures, "features and indices or values: give one or the other")
	case n.Dense == nil && n.Index == nil:
		return refusef(event.BadFeatures, "neither features nor indices")
	case n.Value == nil && n.Index != nil:
		n.Value = in.newNumbers(len(n.Index))
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
		if largest(x) <= limits.MaxAbs {
			continue
		}
		for i, v := range x {
			if a := math.Abs(float64(v)); !(a <= float64(limits.MaxAbs)) {
				return badFeature(i, a, limits)
			}
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
	o := output{dst}
	fields := 2
	if n.Dense == nil && !n.Departed {
		fields++
	}
	for _, has := range [...]bool{len(n.Neighbours) > 0, n.Context, n.Time != 0} {
		if has {
			fields++
		}
	}
	o.fields(fields)
	o.text("id")
	o.id(n.ID)
	switch {
	case n.Departed:
		o.text("departed")
		o.boolean(true)
	case n.Dense != nil:
		o.text("features")
		o.singles(n.Dense)
	default:
		o.text("indices")
		o.indices(n.Index)
		o.text("values")
		o.singles(n.Value)
	}
	if len(n.Neighbours) > 0 {
		o.text("neighbours")
		o.list(len(n.Neighbours))
		for _, id := range n.Neighbours {
			o.id(id)
		}
	}
	if n.Context {
		o.text("context")
		o.boolean(true)
	}
	if n.Time != 0 {
		o.intField("time", n.Time)
	}
	return o.b
}

// AppendKey appends the record key of a node: its id as text. Keys decide the
// partition; except for departures, decoders ignore them.
func AppendKey(dst []byte, id event.ID) []byte {
	if id.Str != "" {
		return append(dst, id.Str...)
	}
	return strconv.AppendInt(dst, id.Num, 10)
}

// nodeJSON reads a node event in JSON.
func nodeJSON(b []byte, n *event.Node, limits Limits) error {
	var f struct {
		ID         field `json:"id"`
		Features   field `json:"features"`
		Indices    field `json:"indices"`
		Values     field `json:"values"`
		Neighbours field `json:"neighbours"`
		Context    field `json:"context"`
		Departed   field `json:"departed"`
		Time       field `json:"time"`
	}
	err := object(b, &f)
	if err != nil {
		return err
	}
	if n.ID, err = f.ID.id(limits.MaxID); err != nil {
		return err
	}
	if n.Dense, err = f.Features.floats(limits); err != nil {
		return err
	}
	if n.Index, err = f.Indices.indices(limits); err != nil {
		return err
	}
	if n.Value, err = f.Values.floats(limits); err != nil {
		return err
	}
	if n.Neighbours, err = f.Neighbours.ids(limits); err != nil {
		return err
	}
	if n.Context, err = f.Context.boolean(); err != nil {
		return err
	}
	if n.Departed, err = f.Departed.boolean(); err != nil {
		return err
	}
	n.Time, err = f.Time.integer()
	return err
}
