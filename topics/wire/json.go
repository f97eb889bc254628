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

// field is the JSON text of one field of an event. A duplicate key is refused, as in
// msgpack; without this type encoding/json would use the last one.
type field []byte

// UnmarshalJSON keeps the text.
func (f *field) UnmarshalJSON(b []byte) error {
	if *f != nil {
		return refusef(event.Undecodable, "a key comes twice")
	}
	*f = bytes.Clone(b)
	return nil
}

// given reports whether there is a value: null is the same as a missing key.
func (f field) given() bool { return f != nil && string(f) != "null" }

// object reads the fields of a JSON object. encoding/json bounds the nesting and
// allocates in proportion to the text.
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
		return 0, refusef(event.Undecodable, "%.40s is not a 64-bit integer", f)
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

// numbers returns the inside of an array of numbers and their count, which it
// checks before the caller allocates.
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
		return nil, 0, refusef(event.TooLarge, "a list of %d items, the limit is %d", n, limits.MaxFeatures)
	}
	return inner, n, nil
}

// first cuts the first number from the inside of an array.
func first(inner []byte) (number, rest []byte) {
	number, rest, _ = bytes.Cut(inner, []byte(","))
	return bytes.TrimSpace(number), rest
}

// floats reads an array of numbers, or a base64 string of little-endian float32.
// A number beyond float64 becomes infinite, which checkNode refuses.
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
			return nil, refusef(event.TooLarge, "a list of %d items, the limit is %d", len(b)/4, limits.MaxFeatures)
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
		v, _ := strconv.ParseFloat(string(text), 64) // valid JSON, so the only error is a number out of range
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
		return nil, refusef(event.TooManyNeighbours, "a list of %d items, the limit is %d", n, limits.MaxNeighbours)
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

// firstID cuts the first id from the inside of an array. It ends at a comma that
// is not in a string. A nested value is cut at the wrong place, and then refused
// because the piece is not an id.
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
