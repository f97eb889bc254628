package attributes

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// firstText is Text by the rules of 1.0.0: a gap is an empty text, NaN or null; a category has the texts that training had,
// and no other spellings; numbers, truth values and times are read as they were then. What later models know, a unit or
// decimal commas, is theirs.
func (e *Encoder) firstText(a *Attribute, i int, x []float32, text string) error {
	ok := true
	switch {
	case text == "" || strings.EqualFold(text, "nan") || strings.EqualFold(text, "null"):
		e.given[i] = nothing
	case a.Kind == Category:
		if k, found := slices.BinarySearch(a.Values, text); found {
			x[k] = 1
		} else {
			e.other(a, i, x)
		}
	case a.Kind == Text:
		setWords(x, text)
	case a.Kind == Number:
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if ok = err == nil && isFinite(v); a.Comma {
			v, ok = spelling.WithComma(text)
		}
		if ok {
			a.number(x, v)
		}
	case a.Kind == Boolean:
		if strings.EqualFold(text, "true") || text == "1" {
			x[0] = 1
		} else {
			ok = strings.EqualFold(text, "false") || text == "0"
		}
	case a.Kind == Time:
		var at int64
		if at, ok = firstTime(text); a.Unit != "" {
			at, ok = a.parseTime(text)
		}
		if ok {
			e.moment(i, x, at)
		}
	case a.Kind == Vector:
		v, isVector := parseVector(text, a.Width)
		if ok = isVector; ok {
			return e.Vector(a.Name, v)
		}
	}
	if !ok {
		return wrong(a, strconv.Quote(text))
	}
	return nil
}

// firstTime reads milliseconds since 1970, or a date with its seconds, or without a time of day.
func firstTime(text string) (at int64, ok bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, v > -latest && v < latest
	}
	for _, layout := range []string{
		time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly,
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// firstMoment is a time that came as a number, of milliseconds since 1970 however far away.
func (e *Encoder) firstMoment(a *Attribute, i int, x []float32, v float64) bool {
	if a.Unit != "" || !(math.Abs(v) < latest) {
		return false
	}
	e.moment(i, x, int64(math.Floor(v)))
	return true
}
