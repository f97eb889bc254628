package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// deadLetter is a line of 'dead-letters --json', made to be edited by hand. Of key and
// value, what is text is written as such, a JSON object as the object that it is, and
// other bytes in base64. A record that the dead letter holds only in part (Truncated)
// cannot be sent again.
type deadLetter struct {
	Reason      event.Reason `json:"reason"`
	Detail      string       `json:"detail"`
	Topic       string       `json:"topic"`
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Time        int64        `json:"time"` // of the record, milliseconds since the Unix epoch
	Key         plain        `json:"key,omitempty"`
	KeyBase64   []byte       `json:"key_base64,omitempty"`
	Value       plain        `json:"value,omitempty"`
	ValueBase64 []byte       `json:"value_base64,omitempty"`
	Headers     headers      `json:"headers"`
	Truncated   bool         `json:"truncated,omitempty"`
	SentAgain   *time.Time   `json:"sent_again,omitempty"`
}

// printLetter prints a dead letter as a line. again is when its record was sent again,
// zero for never.
func printLetter(w io.Writer, r *event.Refusal, truncated bool, again time.Time) error {
	o := r.Origin
	d := deadLetter{
		Reason: r.Reason, Detail: r.Detail, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Time: o.Time, Truncated: truncated,
	}
	d.Key, d.KeyBase64 = plainText(o.Key)
	if d.Value, d.ValueBase64 = plainText(o.Value); json.Valid(o.Value) && d.Value != nil && o.Value[0] == '{' {
		d.Value = o.Value
	}
	for _, h := range o.Headers {
		d.Headers = append(d.Headers, kafka.Header(h))
	}
	if !again.IsZero() {
		again = again.UTC().Truncate(time.Second)
		d.SentAgain = &again
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// plain is text in JSON: a string, or an object that is the text itself. Nil is neither.
type plain json.RawMessage

func (p plain) MarshalJSON() ([]byte, error) { return p, nil }

// UnmarshalJSON keeps a copy.
func (p *plain) UnmarshalJSON(b []byte) error {
	*p = bytes.Clone(b)
	return nil
}

// plainText returns bytes as text or, if they are none, as they are; both are nil for
// null.
func plainText(b []byte) (text plain, other []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	return quote(string(b)), nil
}

// quote returns a text as a JSON string.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return b
}

// or returns the bytes of the text, or other if there is no text.
func (p plain) or(other []byte) ([]byte, error) {
	switch {
	case p == nil || string(p) == "null":
		return other, nil
	case other != nil:
		return nil, errors.New("there is also one in base64: leave out one of them")
	case p[0] == '{':
		return p, nil
	}
	text := new(string)
	if err := json.Unmarshal(p, text); err != nil {
		return nil, errors.New("give a text in quotes, an object, or null")
	}
	return []byte(*text), nil
}

// headers are written as an object, in their order, with a member for each, so that
// several may have one name. A value that is no text is an object, {"base64": "…"}.
type headers []kafka.Header

type inBase64 struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON implements json.Marshaler.
func (h headers) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, x := range h {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, quote(x.Key)...), ':')
		value, other := plainText(x.Value)
		switch {
		case value != nil:
			b = append(b, value...)
		case other == nil:
			b = append(b, "null"...)
		default:
			in, err := json.Marshal(inBase64{other})
			if err != nil {
				return nil, err
			}
			b = append(b, in...)
		}
	}
	return append(b, '}'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (h *headers) UnmarshalJSON(b []byte) error {
	*h = nil
	if string(b) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.New(`headers: give an object, such as {"content-type": "application/json"}`)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var value plain
		if err := d.Decode(&value); err != nil {
			return err
		}
		x := kafka.Header{Key: key.(string)} // the keys of an object are strings
		if len(value) > 0 && value[0] == '{' {
			var in inBase64
			if err := json.Unmarshal(value, &in); err != nil {
				return fmt.Errorf("header %.100q: %w", key, err)
			}
			x.Value = in.Base64
		} else if x.Value, err = value.or(nil); err != nil {
			return fmt.Errorf("header %.100q: %w", key, err)
		}
		*h = append(*h, x)
	}
	return nil
}
