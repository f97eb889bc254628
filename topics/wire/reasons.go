package wire

import (
	"math"

	"github.com/gvbll/gvbll/pipeline/event"
)

const maxCauses = 64

var causeNames = []string{"kind", "name", "with", "value", "usual", "node", "labelled", "of_class", "by"}

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

func (s *predictionFields) readCauses(v value) error {
	causes := s.causes()
	n, list, err := v.list(1, maxCauses, event.TooLarge)
	if err == nil && n > 0 {
		causes.List = make([]event.Cause, n)
	}
	for i := 0; i < n && err == nil; i++ {
		err = list.item().object(s.in, causeNames, func(key []byte, v value) (bool, error) {
			return s.readCause(&causes.List[i], key, v)
		})
	}
	if err != nil {
		return err
	}
	for _, c := range causes.List {
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
		c.Along, err = textsOf(v, s.limits)
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
