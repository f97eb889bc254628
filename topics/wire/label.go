package wire

import (
	"math"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
)

var labelNames = []string{"node", "class", "time"}

type labelFields struct{ node, class bool }

func (s *labelFields) read(in *input, l *event.Label, key []byte, v value, limits Limits) (known bool, err error) {
	switch string(key) {
	case "node":
		s.node = true
		l.Node, err = v.id(limits.MaxID)
	case "class":
		s.class = true
		err = in.reads.classOf(l, v, limits)
	case "time":
		l.Time, err = in.reads.timeOf(v)
	default:
		return false, nil
	}
	return true, err
}

// check completes a label event. null says that there is a class, and that it is null.
func (s *labelFields) check(l *event.Label, null bool) error {
	l.Withdrawn = null
	switch {
	case !s.node:
		return refusef(event.BadID, "there is no node")
	case !s.class && !null:
		return refusef(event.UnknownClass, "there is no class")
	}
	return nil
}

func (s *labelFields) label(in *input, v value, l *event.Label, limits Limits) error {
	members := in.members[:len(labelNames)]
	read := func(key []byte, v value) (bool, error) { return s.read(in, l, key, v, limits) }
	var err error
	if text, isJSON := v.(*field); isJSON {
		if err = in.membersOf(*text, labelNames, members); err == nil {
			err = readGiven(members, labelNames, read)
		}
	} else {
		err = in.fields(func(key []byte) (bool, error) { return read(key, in) })
	}
	if err != nil {
		return err
	}
	// A null field is not handed on, but its key is kept.
	return s.check(l, !s.class && (members[1] != nil || slices.ContainsFunc(in.keys,
		func(key []byte) bool { return string(key) == "class" })))
}

func class(l *event.Label, v value, limits Limits) (err error) {
	switch v.kind() {
	case aString:
		if l.Class, err = v.text(limits.MaxValue); len(l.Class) > limits.MaxID {
			return refusef(event.UnknownClass, "a class name of %d bytes", len(l.Class))
		}
		return checkName(l, err)
	case aBoolean:
		is, err := v.boolean()
		l.Class = strconv.FormatBool(is)
		return err
	}
	number, err := v.double()
	if _, isJSON := v.(*field); isJSON && err != nil {
		return refusef(event.UnknownClass, "the class is neither a name nor a number")
	}
	return setNumber(l, number, err)
}

func checkName(l *event.Label, err error) error {
	if err == nil && l.Class == "" {
		return refusef(event.UnknownClass, "the class has no name")
	}
	return err
}

// setNumber sets a class that came as a number: one that Index cannot hold is a name.
func setNumber(l *event.Label, number float64, err error) error {
	switch {
	case err != nil:
	case math.IsNaN(number) || math.IsInf(number, 0):
		return refusef(event.UnknownClass, "class %v", number)
	case number == math.Trunc(number) && math.Abs(number) <= math.MaxInt32:
		l.Index = int32(number)
	default:
		l.Class = spelling.NameOf(number)
	}
	return err
}

// AppendLabel appends a label event as msgpack.
func AppendLabel(dst []byte, l *event.Label) []byte {
	o := appendTo(dst, MsgPack)
	m := o.begin()
	o.key("node")
	o.id(l.Node)
	o.key("class")
	switch {
	case l.Withdrawn:
		o.to.EncodeNil()
	case l.Class != "":
		o.text(l.Class)
	default:
		o.integer(int64(l.Index))
	}
	if l.Time != 0 {
		o.intField("time", l.Time)
	}
	o.end(m)
	return o.done()
}
