package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/gvbll/gvbll/pipeline/event"
)

// jsonID is a node's id in JSON: a string, or an integer.
type jsonID event.ID

// MarshalJSON writes the string or the integer.
func (id jsonID) MarshalJSON() ([]byte, error) {
	if id.Str != "" {
		return json.Marshal(id.Str)
	}
	return strconv.AppendInt(nil, id.Num, 10), nil
}

// field is the JSON text of one field of an event. encoding/json would let the
// last of two equal keys win; as msgpack's, they are refused.
type field []byte

// UnmarshalJSON keeps the text.
func (f *field) UnmarshalJSON(b []byte) error {
	if *f != nil {
		return refusef(event.Undecodable, "a key comes twice")
	}
	*f = bytes.Clone(b)
	return nil
}

// given tells whether there is a value: null is the same as no key.
func (f field) given() bool { return f != nil && string(f) != "null" }

// object reads the fields of a JSON object. encoding/json bounds its nesting,
// and takes memory for what is there, not for what is declared.
func object(b []byte, fields any) error {
	if !utf8.Valid(b) {
		return refusef(event.Undecodable, "JSON that is not UTF-8")
	}
	return json.Unmarshal(b, fields)
}

func (f field) id(limit int) (event.ID, error) {
	if !f.given() {
		return event.ID{}, refusef(event.BadID, "there is no id")
	}
	if f[0] == '"' {
		var s string
		if err := json.Unmarshal(f, &s); err != nil {
			return event.ID{}, err
		}
		if s == "" || len(s) > limit {
			return event.ID{}, refusef(event.BadID, "a string id needs 1 to %d bytes of UTF-8", limit)
		}
		return event.ID{Str: s}, nil
	}
	n, err := strconv.ParseInt(string(f), 10, 64)
	if err != nil {
		return event.ID{}, refusef(event.BadID, "%.40s is neither a string nor a 64-bit integer", f)
	}
	return event.ID{Num: n}, nil
}

func (f field) integer() (int64, error) {
	if !f.given() {
		return 0, nil
	}
	n, err := strconv.ParseInt(string(f), 10, 64)
	if err != nil {
		return 0, refusef(event.Undecodable, "%.40s is no 64-bit integer", f)
	}
	return n, nil
}

func (f field) boolean() (bool, error) {
	switch string(f) {
	case "true":
		return true, nil
	case "", "null", "false":
		return false, nil
	}
	return false, refusef(event.Undecodable, "%.40s is neither true nor false", f)
}

// numbers returns the inside of an array of numbers and their count, which is
// checked before memory is taken for it.
func (f field) numbers(limits Limits) (inner []byte, n int, err error) {
	inner, opened := bytes.CutPrefix(f, []byte("["))
	inner, closed := bytes.CutSuffix(inner, []byte("]"))
	if !opened || !closed || bytes.ContainsAny(inner, "\"[{tfn") {
		return nil, 0, refusef(event.BadFeatures, "%.40s where a list of numbers is needed", f)
	}
	if inner = bytes.TrimSpace(inner); len(inner) > 0 {
		n = bytes.Count(inner, []byte(",")) + 1
	}
	if n > limits.MaxFeatures {
		return nil, 0, refusef(event.TooLarge, "a list of %d, at most %d are taken", n, limits.MaxFeatures)
	}
	return inner, n, nil
}

// first cuts the first number from the inside of an array.
func first(inner []byte) (number, rest []byte) {
	number, rest, _ = bytes.Cut(inner, []byte(","))
	return bytes.TrimSpace(number), rest
}

// floats reads an array of numbers, or a base64 string of little-endian
// float32. What float64 cannot hold becomes infinite, and is refused as that.
func (f field) floats(limits Limits) ([]float32, error) {
	if !f.given() {
		return nil, nil
	}
	if f[0] == '"' {
		var b []byte
		if err := json.Unmarshal(f, &b); err != nil || len(b)%4 != 0 {
			return nil, refusef(event.BadFeatures, "a string that is not the base64 of whole float32 numbers")
		}
		if len(b)/4 > limits.MaxFeatures {
			return nil, refusef(event.TooLarge, "a list of %d, at most %d are taken", len(b)/4, limits.MaxFeatures)
		}
		x := make([]float32, len(b)/4)
		readFloats(x, b)
		return x, nil
	}
	inner, n, err := f.numbers(limits)
	if err != nil {
		return nil, err
	}
	x := make([]float32, n)
	var text []byte
	for i := range x {
		text, inner = first(inner)
		v, _ := strconv.ParseFloat(string(text), 64) // a JSON number: it can only be out of range
		x[i] = float32(v)
	}
	return x, nil
}

func (f field) indices(limits Limits) ([]uint32, error) {
	if !f.given() {
		return nil, nil
	}
	inner, n, err := f.numbers(limits)
	if err != nil {
		return nil, err
	}
	x := make([]uint32, n)
	var text []byte
	for i := range x {
		text, inner = first(inner)
		v, err := strconv.ParseUint(string(text), 10, 32)
		if err != nil {
			return nil, refusef(event.BadFeatures, "feature index %.40s", text)
		}
		x[i] = uint32(v)
	}
	return x, nil
}

func (f field) ids(limits Limits) ([]event.ID, error) {
	if !f.given() {
		return nil, nil
	}
	inner, opened := bytes.CutPrefix(f, []byte("["))
	inner, closed := bytes.CutSuffix(inner, []byte("]"))
	if !opened || !closed {
		return nil, refusef(event.Undecodable, "%.40s where a list is needed", f)
	}
	inner = bytes.TrimSpace(inner)
	n := 0
	for rest := inner; len(rest) > 0; n++ {
		_, rest = firstID(rest)
	}
	if n > limits.MaxNeighbours {
		return nil, refusef(event.TooManyNeighbours, "a list of %d, at most %d are taken", n, limits.MaxNeighbours)
	}
	ids := make([]event.ID, n)
	for i := range ids {
		var text field
		var err error
		text, inner = firstID(inner)
		if ids[i], err = text.id(limits.MaxID); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// firstID cuts the first id from the inside of an array. A comma ends it, save
// in a string. What nests is cut in the wrong place, and then is no id.
func firstID(inner []byte) (id, rest []byte) {
	end := 0
	if inner[0] == '"' {
		for end = 1; end < len(inner) && inner[end] != '"'; end++ {
			if inner[end] == '\\' {
				end++
			}
		}
		end = min(end, len(inner))
	}
	id, rest = inner, nil
	if comma := bytes.IndexByte(inner[end:], ','); comma >= 0 {
		id, rest = inner[:end+comma], inner[end+comma+1:]
	}
	return bytes.TrimSpace(id), bytes.TrimLeft(rest, " \t\r\n")
}

// nodeJSON reads a node event.
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

// labelJSON reads a label event.
func labelJSON(b []byte, l *event.Label, limits Limits) error {
	var f struct {
		Node  field `json:"node"`
		Class field `json:"class"`
		Time  field `json:"time"`
	}
	err := object(b, &f)
	if err != nil {
		return err
	}
	if err := labelled(f.Node.given(), f.Class.given(), nil); err != nil {
		return err
	}
	if l.Node, err = f.Node.id(limits.MaxID); err != nil {
		return err
	}
	if l.Time, err = f.Time.integer(); err != nil {
		return err
	}
	if f.Class[0] == '"' {
		if err := json.Unmarshal(f.Class, &l.Class); err != nil {
			return err
		}
		if len(l.Class) > limits.MaxID {
			return refusef(event.UnknownClass, "a class name of %d bytes", len(l.Class))
		}
		return named(l, nil)
	}
	index, err := strconv.ParseInt(string(f.Class), 10, 64)
	if err != nil {
		return refusef(event.UnknownClass, "class %.40s is neither a name nor an index", f.Class)
	}
	return indexed(l, index, nil)
}
