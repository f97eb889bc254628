package wire

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// label reads a label event in msgpack.
func (in *input) label(l *event.Label, limits Limits) error {
	hasNode, hasClass := false, false
	err := in.fields(func(key []byte) (bool, error) {
		var err error
		switch string(key) {
		case "node":
			hasNode = true
			l.Node, err = in.id(limits.MaxID)
		case "class":
			hasClass = true
			err = in.class(l, limits)
		case "time":
			l.Time, err = in.integer()
		default:
			return false, nil
		}
		return true, err
	})
	// A null field is not handed on, but its key is kept.
	l.Withdrawn = !hasClass && slices.ContainsFunc(in.keys, func(key []byte) bool { return string(key) == "class" })
	return checkLabel(hasNode, hasClass || l.Withdrawn, err)
}

func checkLabel(hasNode, hasClass bool, err error) error {
	switch {
	case err != nil:
		return err
	case !hasNode:
		return refusef(event.BadID, "there is no node")
	case !hasClass:
		return refusef(event.UnknownClass, "there is no class")
	}
	return nil
}

// class reads a class: its name or its index.
func (in *input) class(l *event.Label, limits Limits) error {
	code, err := in.peek()
	if err != nil {
		return err
	}
	if msgpcode.IsString(code) {
		l.Class, err = in.text(limits.MaxID)
		return checkName(l, err)
	}
	index, err := in.integer()
	return setIndex(l, index, err)
}

func checkName(l *event.Label, err error) error {
	if err == nil && l.Class == "" {
		return refusef(event.UnknownClass, "the class has no name")
	}
	return err
}

func setIndex(l *event.Label, index int64, err error) error {
	if err == nil && (index < 0 || index > math.MaxInt32) {
		return refusef(event.UnknownClass, "class index %d", index)
	}
	l.Index = int32(index)
	return err
}

// AppendLabel appends a label event as msgpack.
func AppendLabel(dst []byte, l *event.Label) []byte {
	o := output{dst}
	n := 2
	if l.Time != 0 {
		n++
	}
	o.fields(n)
	o.text("node")
	o.id(l.Node)
	o.text("class")
	switch {
	case l.Withdrawn:
		o.code(msgpcode.Nil)
	case l.Class != "":
		o.text(l.Class)
	default:
		o.integer(int64(l.Index))
	}
	if l.Time != 0 {
		o.intField("time", l.Time)
	}
	return o.b
}

// labelJSON reads a label event in JSON.
func (in *input) labelJSON(b []byte, l *event.Label, limits Limits) error {
	text, err := valueJSON(b)
	if err != nil {
		return err
	}
	members, err := in.object(text, "node", "class", "time")
	if err != nil {
		return err
	}
	node, class, time := members[0], members[1], members[2]
	l.Withdrawn = class != nil && !class.given()
	if err := checkLabel(node.given(), class != nil, nil); err != nil {
		return err
	}
	if l.Node, err = node.id(limits.MaxID); err != nil {
		return err
	}
	if l.Time, err = time.integer(); err != nil {
		return err
	}
	if l.Withdrawn {
		return nil
	}
	if class[0] == '"' {
		if err := json.Unmarshal(class, &l.Class); err != nil {
			return err
		}
		if len(l.Class) > limits.MaxID {
			return refusef(event.UnknownClass, "a class name of %d bytes", len(l.Class))
		}
		return checkName(l, nil)
	}
	index, err := strconv.ParseInt(string(class), 10, 64)
	if err != nil {
		return refusef(event.UnknownClass, "class %.40s is neither a name nor an index", class)
	}
	return setIndex(l, index, nil)
}
