package wire

import "github.com/gvbll/gvbll/pipeline/event"

// MaxDeadLetterValue is how many bytes of a refused record's value its dead
// letter carries; of a longer one it has the beginning.
const MaxDeadLetterValue = 512 << 10

// AppendDeadLetter appends a dead letter as msgpack: why, and the whole record.
func AppendDeadLetter(dst []byte, r *event.Refusal) []byte {
	out := newOutput(dst)
	o := r.Origin
	out.fields(9)
	out.textField("reason", string(r.Reason))
	out.textField("detail", r.Detail)
	out.textField("topic", o.Topic)
	out.intField("partition", int64(o.Partition))
	out.intField("offset", o.Offset)
	out.text("key")
	out.block(clip(o.Key))
	out.text("value")
	out.block(clip(o.Value))
	out.intField("value_length", int64(len(o.Value)))
	out.text("headers")
	headers := o.Headers[:min(len(o.Headers), maxHeaders)]
	out.list(len(headers))
	for _, h := range headers {
		out.list(2)
		out.text(h.Key[:min(len(h.Key), maxHeader)])
		out.block(h.Value[:min(len(h.Value), maxHeader)])
	}
	return out.done()
}

// Headers of a refused record are hostile too.
const (
	maxHeaders = 64
	maxHeader  = 1024
)

// clip keeps null, and cuts what is too long.
func clip(b []byte) []byte { return b[:min(len(b), MaxDeadLetterValue)] }

// DecodeDeadLetter reads what AppendDeadLetter wrote.
func DecodeDeadLetter(b []byte, r *event.Refusal) error {
	const maxText = 1 << 16
	var in input
	in.reset(b)
	o := &event.Origin{}
	*r = event.Refusal{Origin: o}
	return in.fields(func(key string) (bool, error) {
		var err error
		var s string
		var n int64
		switch key {
		case "reason":
			s, err = in.text(maxText)
			r.Reason = event.Reason(s)
		case "detail":
			r.Detail, err = in.text(maxText)
		case "topic":
			o.Topic, err = in.text(maxText)
		case "partition":
			n, err = in.integer()
			o.Partition = int32(n)
		case "offset":
			o.Offset, err = in.integer()
		case "key":
			o.Key, err = in.binaryOrNull()
		case "value":
			o.Value, err = in.binaryOrNull()
		case "headers":
			err = in.headers(o)
		default:
			return false, nil
		}
		return true, err
	})
}

func (in *input) headers(o *event.Origin) error {
	n, _, err := in.list(0, maxHeaders, event.TooLarge)
	if err != nil {
		return err
	}
	o.Headers = make([]event.Header, n)
	for i := range o.Headers {
		pair, _, err := in.list(0, 2, event.Undecodable)
		if err != nil {
			return err
		}
		if pair != 2 {
			return refusef(event.Undecodable, "a header of %d parts", pair)
		}
		if o.Headers[i].Key, err = in.text(maxHeader); err != nil {
			return err
		}
		if o.Headers[i].Value, err = in.binaryOrNull(); err != nil {
			return err
		}
	}
	return nil
}
