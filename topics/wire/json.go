package wire

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
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

func parseID(raw json.RawMessage, limits Limits) (event.ID, error) {
	if len(raw) == 0 {
		return event.ID{}, refusef(event.BadID, "there is no id")
	}
	if raw[0] == '"' {
		var s string
		if err := json.Unmarshal(raw, &s); err != nil {
			return event.ID{}, err
		}
		if s == "" || len(s) > limits.MaxID {
			return event.ID{}, refusef(event.BadID, "a string id needs 1 to %d bytes", limits.MaxID)
		}
		return event.ID{Str: s}, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return event.ID{}, refusef(event.BadID, "%.40s is neither a string nor a 64-bit integer", raw)
	}
	return event.ID{Num: n}, nil
}

// nodeJSON reads a node event. encoding/json bounds its nesting, and takes
// memory for what is there, not for what is declared.
func nodeJSON(b []byte, n *event.Node, limits Limits) error {
	var raw struct {
		ID         json.RawMessage   `json:"id"`
		Features   json.RawMessage   `json:"features"`
		Indices    []uint32          `json:"indices"`
		Values     []float64         `json:"values"`
		Neighbours []json.RawMessage `json:"neighbours"`
		Context    bool              `json:"context"`
		Time       int64             `json:"time"`
	}
	if !utf8.Valid(b) {
		return refusef(event.Undecodable, "JSON that is not UTF-8")
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	var err error
	if n.ID, err = parseID(raw.ID, limits); err != nil {
		return err
	}
	if n.Dense, err = features(raw.Features); err != nil {
		return err
	}
	if len(raw.Neighbours) > limits.MaxNeighbours {
		return refusef(event.TooManyNeighbours, "a list of %d, at most %d are taken", len(raw.Neighbours), limits.MaxNeighbours)
	}
	for _, r := range raw.Neighbours {
		id, err := parseID(r, limits)
		if err != nil {
			return err
		}
		n.Neighbours = append(n.Neighbours, id)
	}
	n.Index, n.Value = raw.Indices, singles(raw.Values)
	n.Context, n.Time = raw.Context, raw.Time
	if k := max(len(n.Dense), len(n.Index), len(n.Value)); k > limits.MaxFeatures {
		return refusef(event.TooLarge, "a list of %d, at most %d are taken", k, limits.MaxFeatures)
	}
	return nil
}

// features reads an array of numbers, or a base64 string of little-endian
// float32; nil when there is neither.
func features(raw json.RawMessage) ([]float32, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] != '"' {
		var x []float64
		if err := json.Unmarshal(raw, &x); err != nil {
			return nil, refusef(event.BadFeatures, "%v", err)
		}
		return singles(x), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, refusef(event.BadFeatures, "features: %v", err)
	}
	if len(b)%4 != 0 {
		return nil, refusef(event.BadFeatures, "a block of %d bytes, each number has 4", len(b))
	}
	x := make([]float32, len(b)/4)
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x, nil
}

func singles(x []float64) []float32 {
	if x == nil {
		return nil
	}
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = float32(v)
	}
	return y
}

// labelJSON reads a label event.
func labelJSON(b []byte, l *event.Label, limits Limits) error {
	var raw struct {
		Node  json.RawMessage `json:"node"`
		Class json.RawMessage `json:"class"`
		Time  int64           `json:"time"`
	}
	if !utf8.Valid(b) {
		return refusef(event.Undecodable, "JSON that is not UTF-8")
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if err := labelled(len(raw.Node) > 0, len(raw.Class) > 0, nil); err != nil {
		return err
	}
	var err error
	if l.Node, err = parseID(raw.Node, limits); err != nil {
		return err
	}
	l.Time = raw.Time
	if raw.Class[0] == '"' {
		if err := json.Unmarshal(raw.Class, &l.Class); err != nil {
			return err
		}
		if len(l.Class) > limits.MaxID {
			return refusef(event.UnknownClass, "a class name of %d bytes", len(l.Class))
		}
		return named(l, nil)
	}
	index, err := strconv.ParseInt(string(raw.Class), 10, 64)
	if err != nil {
		return refusef(event.UnknownClass, "class %.40s is neither a name nor an index", raw.Class)
	}
	return indexed(l, index, nil)
}
