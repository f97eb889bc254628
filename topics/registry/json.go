package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// jsonWriter writes the JSON of a record, until there is an error.
type jsonWriter struct {
	b   []byte
	err error
}

// failed returns the first error, which may be that the record is too long.
func (w *jsonWriter) failed() error {
	if w.err == nil && len(w.b) > maxJSON {
		w.err = fmt.Errorf("the record has more than %d bytes as JSON", maxJSON)
	}
	return w.err
}

// next returns what is written, to which a value is to be appended: with a comma if it follows another.
func (w *jsonWriter) next() []byte {
	if n := len(w.b); n > 0 && strings.IndexByte("{[:", w.b[n-1]) < 0 {
		w.b = append(w.b, ',')
	}
	return w.b
}

// begin and end are of an object or a list.
func (w *jsonWriter) begin(bracket byte) { w.b = append(w.next(), bracket) }
func (w *jsonWriter) end(bracket byte)   { w.b = append(w.b, bracket) }

// key begins a member of an object.
func (w *jsonWriter) key(name string) {
	w.text(name)
	w.b = append(w.b, ':')
}

// number writes a number. NaN is null; JSON has no infinity, so that is a text.
func (w *jsonWriter) number(x float64, bits int) {
	switch {
	case math.IsNaN(x):
		w.b = append(w.next(), "null"...)
	case math.IsInf(x, 0):
		w.text(strconv.FormatFloat(x, 'f', -1, bits))
	default:
		w.b = strconv.AppendFloat(w.next(), x, 'g', -1, bits)
	}
}

// text writes a text, which is an error if it is not UTF-8.
func (w *jsonWriter) text(s string) {
	if w.err == nil && !utf8.ValidString(s) {
		w.err = errors.New("a text that is not UTF-8")
	}
	quoted, _ := json.Marshal(s) // a string
	w.b = append(w.next(), quoted...)
}
