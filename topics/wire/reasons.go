package wire

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
)

// maxCauses bounds the reasons of a prediction.
const maxCauses = 64

// causeNames are the fields of a reason.
var causeNames = []string{"kind", "name", "with", "value", "usual", "node", "labelled", "of_class", "by"}

// causes appends the fields of reasons.
func (o *output) causes(r *event.Causes) {
	o.textField("reasons_class", r.Class)
	o.key("reasons")
	o.items(len(r.List), func(i int) {
		c := &r.List[i]
		m := o.begin()
		o.textField("kind", c.What)
		if c.Name != "" {
			o.textField("name", c.Name)
		}
		if len(c.Along) > 0 {
			o.key("with")
			o.items(len(c.Along), func(i int) { o.text(c.Along[i]) })
		}
		if c.Value != "" {
			o.textField("value", c.Value)
		}
		if c.Usual != "" {
			o.textField("usual", c.Usual)
		}
		if c.What == event.OfNeighbour || c.Node != (event.ID{}) {
			o.key("node")
			o.id(c.Node)
		}
		if c.Labelled > 0 {
			o.intField("labelled", int64(c.Labelled))
			o.intField("of_class", int64(c.OfClass))
		}
		o.singleField("by", c.By)
		o.end(m)
	})
}

// items appends a list of n values.
func (o *output) items(n int, item func(i int)) {
	if !o.json {
		o.to.EncodeArrayLen(n)
		for i := range n {
			item(i)
		}
		return
	}
	o.b = append(o.b, '[')
	for i := range n {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		item(i)
	}
	o.b = append(o.b, ']')
}

// readCauses reads a list of reasons.
func (s *predictionFields) readCauses(v value) error {
	list := &s.causes().List
	err := v.objects(s.in, maxCauses, causeNames, func(n int) {
		if n > 0 {
			*list = make([]event.Cause, n)
		}
	}, func(i int, key []byte, v value) (known bool, err error) { return s.readCause(&(*list)[i], key, v) })
	if err != nil {
		return err
	}
	for _, c := range *list {
		if c.OfClass < 0 || c.OfClass > c.Labelled || c.Labelled > math.MaxInt32 {
			return refusef(event.Undecodable, "%d labels of the class, among %d", c.OfClass, c.Labelled)
		}
	}
	return nil
}

func (s *predictionFields) readCause(c *event.Cause, key []byte, v value) (known bool, err error) {
	count := func(to *int) error {
		n, err := v.integer()
		*to = int(n)
		return err
	}
	switch string(key) {
	case "kind":
		c.What, err = v.text(s.limits.MaxID)
	case "name":
		c.Name, err = v.text(s.limits.MaxID)
	case "with":
		c.Along, err = v.texts(s.limits)
	case "value":
		c.Value, err = v.text(s.limits.MaxID)
	case "usual":
		c.Usual, err = v.text(s.limits.MaxID)
	case "node":
		c.Node, err = v.id(s.limits.MaxID)
	case "labelled":
		err = count(&c.Labelled)
	case "of_class":
		err = count(&c.OfClass)
	case "by":
		c.By, err = finite(v)
	default:
		return false, nil
	}
	return true, err
}

// causes returns the prediction's reasons, which it creates if there are none.
func (s *predictionFields) causes() *event.Causes {
	if s.p.Reasons == nil {
		s.p.Reasons = &event.Causes{}
	}
	return s.p.Reasons
}

// objects reads a list of at most so many objects: begin is told their number, and read each field of one.
func (in *input) objects(_ *input, most int, _ []string, begin func(n int), read func(i int, key []byte, v value) (bool, error)) error {
	n, _, err := in.cursor.list(0, most, event.TooLarge)
	if err != nil {
		return err
	}
	begin(n)
	outer := in.keys
	for i := range n {
		in.keys = outer[len(outer):]
		if err = in.fields(func(key []byte) (bool, error) { return read(i, key, in) }); err != nil {
			break
		}
	}
	clear(in.keys)
	in.keys = outer
	return err
}

func (f field) objects(in *input, most int, names []string, begin func(n int), read func(i int, key []byte, v value) (bool, error)) error {
	return f.items(Limits{MaxNeighbours: most}, event.TooLarge, begin, func(i int, item field) error {
		members := make([]field, len(names))
		if err := in.objectInto(members, item, names...); err != nil {
			return err
		}
		return readGiven(members, names, func(key []byte, v value) (bool, error) { return read(i, key, v) })
	})
}
