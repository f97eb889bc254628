package wire

import (
	"bytes"
	"math"
	"strconv"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// Bounds on features by name. The names themselves are the model's business.
const (
	maxNamed         = 4096
	maxAttributeName = 256 // bytes
)

var errNoName = refusef(event.BadFeatures, "an attribute without a name")

func (in *input) named(_ *input, limits Limits) ([]event.Attribute, error) {
	n, err := in.cursor.mapLen()
	if err != nil {
		return nil, err
	}
	if n > maxNamed {
		return nil, refusef(event.TooLarge, "features by %d names, the limit is %d", n, maxNamed)
	}
	if in.cursor.left() < 3*n { // before memory is taken: a name has a byte at least
		return nil, refusef(event.Undecodable, "%d names are declared, but only %d bytes remain", n, in.cursor.left())
	}
	list := in.memory.named.cut(n)
	for i := range list {
		name, err := in.text(maxAttributeName)
		if err != nil {
			return nil, err
		}
		if name == "" {
			return nil, errNoName
		}
		list[i] = event.Attribute{Name: name}
		if err := in.attribute(&list[i], limits); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (in *input) attribute(a *event.Attribute, limits Limits) (err error) {
	switch in.cursor.next() {
	case aNull:
		in.cursor.advance(1)
	case aBoolean:
		a.Kind = event.Bool
		var is bool
		if is, err = in.boolean(); is {
			a.Number = 1
		}
	case aString:
		a.Kind = event.Text
		a.Text, err = in.text(limits.MaxValue)
	case aList, aBlock:
		a.Kind = event.Numbers
		a.Numbers, err = in.numbers(limits)
	case aMap:
		err = nestedAttribute(a)
	default:
		a.Kind = event.Number
		a.Number, err = in.double()
	}
	return err
}

// double reads an integer or a float of any form.
func (in *input) double() (float64, error) {
	k := in.cursor.next()
	if k != aDouble && k != anInteger {
		x, err := in.number()
		return float64(x), err
	}
	code, n, err := in.cursor.head()
	switch {
	case k == aDouble:
		return math.Float64frombits(n), err
	case code == msgpcode.Uint64:
		return float64(n), err
	}
	return float64(int64(n)), err
}

func nestedAttribute(a *event.Attribute) error {
	return refusef(event.BadFeatures, "attribute %.40s: an object where a value is needed", a.Name)
}

// named reads features by name into the memory of in.
func (f field) named(in *input, limits Limits) ([]event.Attribute, error) {
	return f.namedAs(in, limits, false)
}

// mapped is named of somebody else's record: objects that wrap a value are that value, others are no error unless the schema
// has their name, and a value that the sender does not know is left out.
func (f field) mapped(in *input, limits Limits) ([]event.Attribute, error) {
	return f.namedAs(in, limits, true)
}

// isValue reports whether an attribute may have the value: it is no object, and no list but of numbers.
func isValue(f field) bool {
	return f[0] != '{' && (f[0] != '[' || !bytes.ContainsAny(f[1:], "\"[{tfn"))
}

func (f field) namedAs(in *input, limits Limits, mapped bool) ([]event.Attribute, error) {
	most := min(bytes.Count(f, []byte(":")), len(f)/len(`"a":1,`)+1, maxNamed)
	list := in.memory.named.cut(most)[:0]
	err := f.each(func(name []byte, value field) error {
		if len(list) == maxNamed {
			return refusef(event.TooLarge, "features by more than %d names", maxNamed)
		}
		if mapped {
			if in.reads.first && !isValue(value) {
				return nil
			}
			if value = in.reads.unwrapped(value); in.reads.isUnavailable(value) {
				in.unknown(value[1 : len(value)-1])
				return nil
			}
		}
		switch {
		case len(name) == 0:
			return errNoName
		case len(name) > maxAttributeName:
			return refusef(event.Undecodable, "a name of %d bytes, the limit is %d", len(name), maxAttributeName)
		}
		list = append(list, event.Attribute{Name: in.memory.text(name)})
		if mapped && !isValue(value) {
			list[len(list)-1].Kind = event.Nested
			return nil
		}
		return value.attribute(in, &list[len(list)-1], limits)
	})
	return list, err
}

func (f field) attribute(in *input, a *event.Attribute, limits Limits) (err error) {
	switch {
	case !f.given():
	case f[0] == '"':
		a.Kind = event.Text
		if inner := f[1 : len(f)-1]; !escaped(inner) {
			a.Text = in.memory.text(inner)
			return nil
		}
		a.Text, err = f.unescaped()
	case f[0] == '[':
		a.Kind = event.Numbers
		a.Numbers, err = f.numbers(limits)
	case f[0] == '{':
		return nestedAttribute(a)
	case f[0] == 't', f[0] == 'f':
		a.Kind = event.Bool
		if f[0] == 't' {
			a.Number = 1
		}
	default:
		a.Kind = event.Number
		if a.Number, err = strconv.ParseFloat(string(f), 64); err != nil { // valid JSON, so out of range
			return refusef(event.HugeNumber, "attribute %.40s: %.40s does not fit 64 bits", a.Name, f)
		}
	}
	return err
}

func (o *output) named(list []event.Attribute) {
	m := o.begin()
	for i := range list {
		a := &list[i]
		o.key(a.Name)
		switch a.Kind {
		case event.Number:
			if n := int64(a.Number); float64(n) == a.Number && math.Abs(a.Number) < 1<<53 {
				o.integer(n)
			} else {
				o.to.EncodeFloat64(a.Number)
			}
		case event.Bool:
			o.boolean(a.Number != 0)
		case event.Text:
			o.text(a.Text)
		case event.Numbers:
			o.singles(a.Numbers)
		default:
			o.to.EncodeNil()
		}
	}
	o.end(m)
}
