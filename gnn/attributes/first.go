package attributes

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// What 1.0.0 read otherwise: a gap is an empty text, NaN or null; a category has the texts that training had, and no other
// spellings; numbers, truth values and times are read as they were then. What later models know, a unit or decimal commas, is
// theirs.

func (e *Encoder) parseNumber(a *Attribute, text string) (v float64, ok bool) {
	if !e.First || a.Comma {
		return a.parseNumber(text)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return v, err == nil && isFinite(v)
}

func (e *Encoder) parseBool(text string) (v, ok bool) {
	if !e.First {
		return spelling.Bool(text)
	}
	v = strings.EqualFold(text, "true") || text == "1"
	return v, v || strings.EqualFold(text, "false") || text == "0"
}

func (e *Encoder) parseTime(a *Attribute, text string) (at int64, ok bool) {
	if !e.First || a.Unit != "" {
		return a.parseTime(text)
	}
	return firstTime(text)
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
