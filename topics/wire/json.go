package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// field is the JSON text of a value, without white space around it. Its syntax has been
// checked. It is part of the record's value, so the caller copies what it keeps.
type field []byte

// given reports whether there is a value: null is the same as a missing key.
func (f field) given() bool { return f != nil && string(f) != "null" }

const jsonSpace = " \t\r\n"

// trimLeft is bytes.TrimLeft of white space, of which there is little.
func trimLeft(f field) field {
	for len(f) > 0 && (f[0] == ' ' || f[0] == '\t' || f[0] == '\r' || f[0] == '\n') {
		f = f[1:]
	}
	return f
}

// valueJSON checks that b is one JSON value, and returns it. encoding/json bounds the
// nesting.
func valueJSON(b []byte) (field, error) {
	if !utf8.Valid(b) {
		return nil, refusef(event.Undecodable, "JSON that is not UTF-8")
	}
	if !json.Valid(b) {
		var text json.RawMessage
		return nil, json.Unmarshal(b, &text) // says what is wrong
	}
	return field(bytes.Trim(b, jsonSpace)), nil
}

// eventJSON is valueJSON of an event, in which all escapes are of texts.
func (as *reading) eventJSON(b []byte) (field, error) {
	f, err := valueJSON(b)
	if err == nil && !as.first && loneSurrogate(b) {
		err = refusef(event.Undecodable, "JSON that escapes half of a surrogate pair, which no text has")
	}
	return f, err
}

// loneSurrogate reports whether valid JSON escapes one half of a surrogate pair of UTF-16 without the other (RFC 8259, 8.2).
// encoding/json makes one and the same text of all of them.
func loneSurrogate(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return false
		}
		if b = b[i:]; b[1] != 'u' {
			b = b[2:]
			continue
		}
		unit := func(b []byte) rune {
			if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
				return 0
			}
			n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
			return rune(n)
		}
		first := unit(b)
		b = b[6:]
		if utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, unit(b)) == utf8.RuneError {
				return true
			}
			b = b[6:]
		}
	}
}

// membersOf sets members to those of an object that have these names, nil for one that is not there. Names are matched without
// regard to case; one that comes twice is refused, as in msgpack. Other members are ignored, and reported. null is an
// object without members.
func (in *input) membersOf(text field, names []string, members []field) error {
	clear(members)
	if !text.given() {
		return nil
	}
	return text.each(func(name []byte, value field) error {
		i := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, string(name)) })
		switch {
		case i < 0 && value.given():
			in.unknown(name)
		case i >= 0 && members[i] != nil:
			return refusef(event.Undecodable, "key %.40q comes twice", name)
		case i >= 0:
			members[i] = value
		}
		return nil
	})
}

func (f field) object(in *input, names []string, read func(key []byte, v value) (known bool, err error)) error {
	members := make([]field, len(names))
	if err := in.membersOf(f, names, members); err != nil {
		return err
	}
	return readGiven(members, names, read)
}

// readGiven calls read with each member that is given, in the order of the names.
func readGiven(members []field, names []string, read func(key []byte, v value) (known bool, err error)) error {
	for i := range members {
		if v := &members[i]; v.given() {
			if _, err := read([]byte(names[i]), v); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls member for each member of an object. The name is valid during the call.
func (f field) each(member func(name []byte, value field) error) error {
	if f[0] != '{' {
		return refusef(event.Undecodable, "%.40s where an object is needed", f)
	}
	for rest := trimLeft(f[1:]); rest[0] != '}'; {
		var key, value field
		key, rest = cutItem(rest)
		value, rest = cutItem(rest)
		name := []byte(key[1 : len(key)-1])
		if escaped(name) {
			s, err := key.unescaped()
			if err != nil {
				return err
			}
			name = []byte(s)
		}
		if err := member(name, value); err != nil {
			return err
		}
	}
	return nil
}

// escaped reports whether a text, with its quotes or without, is not what it stands for.
func escaped(text []byte) bool { return bytes.IndexByte(text, '\\') >= 0 }

// plain returns a text without its quotes, and other values as they are.
func (f field) plain() (string, error) {
	if f[0] == '"' {
		return f.unescaped()
	}
	return string(f), nil
}

func (f field) unescaped() (s string, err error) {
	err = json.Unmarshal(f, &s)
	return s, err
}

// items calls each for every item of a list, which are most at the most.
func (f field) items(most int, each func(i int, item field) error) error {
	n, list, err := f.list(1, most, event.TooManyNeighbours)
	for i := 0; i < n && err == nil; i++ {
		err = each(i, *list.item().(*field))
	}
	return err
}

// cutItem cuts the first item from the inside of a list or an object, with the comma or
// colon and the white space behind it. The closing bracket stays.
func cutItem(inside field) (item, rest field) {
	inside = trimLeft(inside)
	end, depth := 0, 0
	for {
		switch inside[end] {
		case '"':
			for end++; inside[end] != '"'; end++ {
				if inside[end] == '\\' {
					end++
				}
			}
		case '[', '{':
			depth++
		case ']', '}', ',', ':':
			if depth == 0 { // the end of a number or a word
				return cutAt(inside, end)
			}
			if inside[end] == ']' || inside[end] == '}' {
				depth--
			}
		}
		if end++; depth == 0 && (inside[end-1] == '"' || inside[end-1] == ']' || inside[end-1] == '}') {
			return cutAt(inside, end)
		}
	}
}

// cutAt cuts an item of the given length, as cutItem does.
func cutAt(inside field, length int) (item, rest field) {
	rest = trimLeft(inside[length:])
	for ; length > 0 && inside[length-1] <= ' '; length-- { // of which there is little, too
	}
	item = inside[:length]
	if rest[0] == ',' || rest[0] == ':' {
		rest = trimLeft(rest[1:])
	}
	return item, rest
}

// kind returns what a value is: a number without a point and an exponent is an integer.
func (f field) kind() kind {
	switch f[0] {
	case '"':
		return aString
	case '[':
		return aList
	case '{':
		return aMap
	case 't', 'f':
		return aBoolean
	case 'n':
		return aNull
	}
	if bytes.ContainsAny(f, ".eE") {
		return aDouble
	}
	return anInteger
}

func (f field) list(_, most int, excess event.Reason) (int, list, error) {
	if f[0] != '[' {
		return 0, nil, refusef(event.Undecodable, "%.40s where a list is needed", f)
	}
	n := 0
	for rest := trimLeft(f[1:]); rest[0] != ']'; n++ {
		_, rest = cutItem(rest)
	}
	if n > most {
		return 0, nil, refusef(excess, "a list of %d items, the limit is %d", n, most)
	}
	return n, &itemsJSON{rest: f[1:]}, nil
}

// itemsJSON are the items of a list that are not read yet, and the one that is.
type itemsJSON struct{ rest, now field }

func (l *itemsJSON) item() value {
	l.now, l.rest = cutItem(l.rest)
	return &l.now
}

func (f field) text(limit int) (string, error) {
	var s string
	if f[0] != '"' || json.Unmarshal(f, &s) != nil || len(s) > limit {
		return "", refusef(event.Undecodable, "%.40s where a string of at most %d bytes is needed", f, limit)
	}
	return s, nil
}

func (f field) number() (float32, error) {
	x, err := f.float(32)
	return float32(x), err
}

func (f field) double() (float64, error) { return f.float(64) }

// float reads a number that is rounded to so many bits once. One beyond them is infinite.
func (f field) float(bits int) (float64, error) {
	x, err := strconv.ParseFloat(string(f), bits)
	if err != nil && (f[0] == '"' || !math.IsInf(x, 0)) {
		return 0, refusef(event.Undecodable, "%.40s where a number is needed", f)
	}
	return x, nil
}

func (f field) id(limit int) (event.ID, error) {
	if !f.given() {
		return event.ID{}, refusef(event.BadID, "there is no id")
	}
	if f[0] == '"' {
		s := string(f[1 : len(f)-1])
		if escaped(f) {
			var err error
			if s, err = f.unescaped(); err != nil {
				return event.ID{}, err
			}
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

// moment reads a time in milliseconds since 1970, or a date.
func moment(v value) (at int64, err error) {
	if text, isJSON := v.(*field); isJSON {
		return text.instant(time.Millisecond)
	}
	switch v.kind() {
	case aString:
		text, err := v.text(maxContentType)
		if err != nil {
			return 0, err
		}
		at, ok := spelling.Time(text, time.Millisecond)
		if !ok {
			return 0, noTime(strconv.Quote(text))
		}
		return at, nil
	case aDouble:
		x, err := v.double()
		at, ok := spelling.MillisOf(x, time.Millisecond)
		if err == nil && !ok {
			err = noTime(strconv.FormatFloat(x, 'g', -1, 64))
		}
		return at, err
	}
	return v.integer()
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

// numerals reads an array of numbers by their texts. Their count is checked before memory is taken.
func numerals[T any](f field, limits Limits, read func(text string) (T, error)) ([]T, error) {
	inner, opened := bytes.CutPrefix(f, []byte("["))
	inner, closed := bytes.CutSuffix(inner, []byte("]"))
	if !opened || !closed || bytes.ContainsAny(inner, "\"[{tfn") {
		return nil, refusef(event.BadFeatures, "%.40s where a list of numbers is needed", f)
	}
	if inner = bytes.TrimSpace(inner); len(inner) == 0 {
		return []T{}, nil
	}
	n := bytes.Count(inner, []byte(",")) + 1
	if n > limits.MaxFeatures {
		return nil, refusef(event.TooLarge, "a list of %d items, the limit is %d", n, limits.MaxFeatures)
	}
	x := make([]T, 0, n)
	for text := range bytes.SplitSeq(inner, []byte(",")) {
		number, err := read(string(bytes.TrimSpace(text)))
		if err != nil {
			return nil, err
		}
		x = append(x, number)
	}
	return x, nil
}

// numbers reads an array of numbers, or a base64 string of little-endian float32.
// A number beyond float64 becomes infinite, which validate refuses.
func (f field) numbers(limits Limits) ([]float32, error) {
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
	if f[0] == '[' && bytes.IndexByte(f, 'n') >= 0 && !bytes.ContainsAny(f[1:], "\"[{tf") { // null
		return nil, refusef(event.PartialFeatures, "%.40s where all features are needed", f)
	}
	return numerals(f, limits, func(text string) (float32, error) {
		v, _ := strconv.ParseFloat(text, 64) // valid JSON, so the only error is a number out of range
		return float32(v), nil
	})
}

func (f field) indices(limits Limits) ([]uint32, error) {
	if !f.given() {
		return nil, nil
	}
	return numerals(f, limits, func(text string) (uint32, error) {
		v, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			err = refusef(event.BadFeatures, "feature index %.40s", text)
		}
		return uint32(v), err
	})
}
