package wire

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/gvbll/gvbll/pipeline/event"
)

// MaxDeadLetterValue bounds the part of a refused record's value that its dead
// letter carries, in bytes; of a longer value it has the beginning. With the
// bounds below, a dead letter stays under the brokers' default limit of 1 MB.
const MaxDeadLetterValue = 512 << 10

// Bounds on the rest of a refused record, which may be hostile too.
const (
	maxLetterKey     = 1 << 10 // of the dead letter itself
	maxDeadLetterKey = 64 << 10
	maxHeaders       = 64
	maxHeader        = 1 << 10 // bytes of a header's key, and of its value
	maxDetail        = 512
)

// Resent is the reason in a note among the dead letters, which has the form of one and
// says that the record at its topic, partition and offset was sent again. It is no
// reason of a refusal.
const Resent event.Reason = "resent"

// ResentHeader is the key of the header of a record that was sent again. Its value says
// where the record was that was refused.
const ResentHeader = "gvbll-resent"

// LetterKey returns the key of a dead letter: the beginning of the refused record's key, nil if
// that has none. The dead letter's value holds more of it.
func LetterKey(r *event.Refusal) []byte { return r.Origin.Key[:min(len(r.Origin.Key), maxLetterKey)] }

// ErrTruncated is returned by DecodeDeadLetter for a dead letter that does not
// hold the whole record: it can be shown, but must not be sent again.
var ErrTruncated = errors.New("the dead letter holds only a part of the record")

// AppendDeadLetter appends a dead letter as msgpack: the reason, and the refused
// record.
func AppendDeadLetter(dst []byte, r *event.Refusal) []byte {
	out := output{b: dst}
	o, truncated := clipRecord(r.Origin)
	m := out.begin()
	out.textField("reason", string(r.Reason))
	out.textField("detail", line(r.Detail))
	out.textField("topic", o.Topic)
	out.intField("partition", int64(o.Partition))
	out.intField("offset", o.Offset)
	out.intField("time", o.Time)
	out.key("key")
	out.block(o.Key)
	out.key("value")
	out.block(o.Value)
	out.key("headers")
	out.list(len(o.Headers))
	for _, h := range o.Headers {
		out.list(2)
		out.text(h.Key)
		out.block(h.Value)
	}
	out.intField("value_length", int64(len(r.Origin.Value)))
	out.key("truncated")
	out.boolean(truncated)
	out.end(m)
	return out.b
}

// clipRecord returns a record within the bounds of a dead letter, and whether anything was
// cut or changed. It shares the memory of what it need not change.
func clipRecord(o *event.Origin) (c event.Origin, truncated bool) {
	c = *o
	c.Key, c.Value = clip(o.Key, maxDeadLetterKey), clip(o.Value, MaxDeadLetterValue)
	c.Headers = o.Headers[:min(len(o.Headers), maxHeaders)]
	truncated = len(c.Key) < len(o.Key) || len(c.Value) < len(o.Value) || len(c.Headers) < len(o.Headers)
	fits := func(h event.Header) bool { return len(h.Value) <= maxHeader && headerKey(h) == h.Key }
	if slices.IndexFunc(c.Headers, func(h event.Header) bool { return !fits(h) }) < 0 {
		return c, truncated
	}
	c.Headers = slices.Clone(c.Headers)
	for i, h := range c.Headers {
		c.Headers[i] = event.Header{Key: headerKey(h), Value: clip(h.Value, maxHeader)}
	}
	return c, true
}

// clip shortens b to limit bytes; nil (null) stays nil.
func clip(b []byte, limit int) []byte { return b[:min(len(b), limit)] }

// headerKey returns a header's key, shortened and as valid UTF-8.
func headerKey(h event.Header) string {
	return strings.ToValidUTF8(h.Key[:min(len(h.Key), maxHeader)], "?")
}

// line returns s as one line of bounded length without control characters. A
// detail quotes the refused record, which may have megabytes, or escape sequences
// that a terminal would act on.
func line(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxDetail)], "")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// DecodeDeadLetter decodes a dead letter, as AppendDeadLetter or appendDeadLetterJSON
// wrote it, into r, overwriting it. With ErrTruncated r is filled too.
func DecodeDeadLetter(b []byte, r *event.Refusal) error {
	if EncodingOf(b) == JSON {
		*r = event.Refusal{Origin: &event.Origin{}}
		return decodeLetter(b, r)
	}
	var in input
	in.reset(b)
	o := &event.Origin{}
	*r = event.Refusal{Origin: o}
	truncated := false
	err := in.fields(func(key []byte) (bool, error) {
		var err error
		var s string
		switch string(key) {
		case "reason":
			s, err = in.text(maxDetail)
			r.Reason = event.Reason(line(s))
		case "detail":
			s, err = in.text(maxDetail)
			r.Detail = line(s)
		case "topic":
			s, err = in.text(maxDetail)
			o.Topic = line(s)
		case "partition":
			o.Partition, err = in.int32()
		case "offset":
			o.Offset, err = in.integer()
		case "time":
			o.Time, err = in.integer()
		case "key":
			o.Key, err = in.binary()
		case "value":
			o.Value, err = in.binary()
		case "headers":
			err = in.headers(o)
		case "truncated":
			truncated, err = in.boolean()
		default:
			return false, nil
		}
		return true, err
	})
	switch {
	case err != nil:
		return err
	case r.Reason == "":
		return refusef(event.Undecodable, "there is no reason")
	case in.left() > 0:
		return in.end()
	case truncated:
		return ErrTruncated
	}
	return nil
}

// headers reads a list of pairs: a header's key and its value, which may be null.
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
		code, err := in.peek()
		if err != nil {
			return err
		}
		if code == msgpcode.Nil {
			in.advance(1)
			continue
		}
		if o.Headers[i].Value, err = in.binary(); err != nil {
			return err
		}
	}
	return nil
}
