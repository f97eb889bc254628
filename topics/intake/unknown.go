package intake

import (
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

// Bounds on the names of unknown fields that are told apart, so that no producer can fill
// memory or metrics with names. All others are otherFields.
const (
	maxUnknownFields = 64 // of a topic
	maxFieldName     = 64 // bytes
)

// otherFields stands for the unknown fields that are not counted by name.
const otherFields = "(other)"

// TimeIn and the name of a unit stand for an event time that is of our age in that unit, and not in milliseconds, as it
// is read. It is counted as if it were a field of that name.
const TimeIn = "time in "

// otherUnit returns the name under which a time is counted that looks like one in another unit than milliseconds, "" for
// all others. A small number may be a counter, not days.
func otherUnit(t int64) string {
	if unit := spelling.Guess(t); unit != "" && unit != "days" {
		return TimeIn + spelling.UnitNames[unit]
	}
	return ""
}

// UnknownField is a field of a topic's records that is not of the wire format, and so is
// ignored.
type UnknownField struct {
	Topic, Name string
	Records     int           // that had it
	Example     *event.Origin // one of them, valid during the call
	First       bool          // the first time that the field is reported
}

type unknownFields struct {
	names  []string // in the order in which they came
	counts map[string]*unknownCount
}

type unknownCount struct{ records, example int } // example is an index in the block

func (u *unknownFields) reset() {
	u.names = u.names[:0]
	clear(u.counts)
}

// note counts a field of the record with the given index.
func (u *unknownFields) note(name []byte, record int) {
	if c := u.counts[string(name)]; c != nil { // allocates nothing
		c.records++
		return
	}
	if len(name) > maxFieldName || len(u.names) >= maxUnknownFields && string(name) != otherFields {
		u.note([]byte(otherFields), record)
		return
	}
	if u.counts == nil {
		u.counts = make(map[string]*unknownCount)
	}
	u.names = append(u.names, string(name))
	u.counts[string(name)] = &unknownCount{records: 1, example: record}
}

func (in *input[E]) reportUnknown(b *block[E]) {
	if in.fetcher.source.unknown == nil {
		return
	}
	for _, name := range b.unknown.names {
		c := b.unknown.counts[name]
		if !in.fields[name] && len(in.fields) >= maxUnknownFields {
			name = otherFields
		}
		first := !in.fields[name]
		if first {
			if in.fields == nil {
				in.fields = make(map[string]bool)
			}
			in.fields[name] = true
		}
		in.fetcher.source.unknown(UnknownField{
			Topic: in.store.topic, Name: name, Records: c.records, Example: &b.origins[c.example], First: first,
		})
	}
}
