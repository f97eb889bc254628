package wire

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// What 1.0.0 read otherwise. A ledger that it began is replayed by these rules, so that it has the same bits; others
// by those that stand beside the calls. Where input.first is true, wrapped values, other spellings, change records'
// before, and frames are not looked for.

// timeOf reads an event's time: at first, an integer.
func (as *reading) timeOf(v value) (int64, error) {
	if as.first {
		return v.integer()
	}
	return moment(v)
}

// classOf reads a label's class: at first, a name or an index.
func (as *reading) classOf(l *event.Label, v value, limits Limits) error {
	if !as.first || v.kind() == aString {
		return class(l, v, limits)
	}
	index, err := v.integer()
	if _, isJSON := v.(*field); isJSON && err != nil || err == nil && (index < 0 || index > math.MaxInt32) {
		return refusef(event.UnknownClass, "the class is neither a name nor an index")
	}
	l.Index = int32(index)
	return err
}

// firstInstant reads a time of a map: at first, a whole number of units, or a date of RFC 3339.
func (f field) firstInstant(one time.Duration) (int64, error) {
	if f[0] == '"' {
		t, err := time.Parse(time.RFC3339Nano, string(f[1:len(f)-1]))
		if err != nil {
			return 0, refusef(event.Undecodable, "time: %.40s is no date such as 2026-03-01T12:00:00Z", f)
		}
		return t.UnixMilli(), nil
	}
	n, err := f.integer()
	if one < time.Millisecond {
		return n / int64(time.Millisecond/one), err // towards 1970
	}
	if most := int64(1<<62) / int64(one/time.Millisecond); n > most || n < -most {
		return 0, refusef(event.Undecodable, "time: %.40s is too large", f)
	}
	return n * int64(one/time.Millisecond), err
}

// firstHolds compares a condition's bytes.
func (c *condition) firstHolds(v field) bool {
	return v != nil && slices.ContainsFunc(c.Equals, func(want string) bool {
		return string(v) == want || string(v) == strconv.Quote(want)
	})
}

// unwrapped is field.unwrapped, but at first no value is wrapped.
func (as *reading) unwrapped(f field) field {
	if as.first {
		return f
	}
	return f.unwrapped()
}

// isUnavailable is field.unavailable, but at first that is a text as others.
func (as *reading) isUnavailable(f field) bool { return !as.first && f.unavailable() }

// sameName reports whether two texts are one name: at first, only if they are equal.
func (as *reading) sameName(a, b string) bool {
	return a == b || !as.first && spelling.Name(a) == spelling.Name(b)
}
