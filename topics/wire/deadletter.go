package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

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

// AppendDeadLetter appends a dead letter, as a [Letter] in JSON: the reason, and the refused record within the bounds. In
// names of headers, what JSON would escape becomes a question mark.
func AppendDeadLetter(dst []byte, r *event.Refusal) []byte {
	o, truncated := clipRecord(r.Origin)
	l := LetterOf(&event.Refusal{Origin: &o, Reason: r.Reason, Detail: r.Detail})
	l.ValueLength, l.Truncated = len(r.Origin.Value), truncated
	return appendJSON(dst, l)
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

// headerKey returns a header's key, shortened, as valid UTF-8, and with a question mark for what JSON would escape.
func headerKey(h event.Header) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) || strings.ContainsRune("\"\\\u2028\u2029", c) {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(h.Key[:min(len(h.Key), maxHeader)], "?"))
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

// DecodeDeadLetter decodes a dead letter, as AppendDeadLetter wrote it, into r, overwriting it. With ErrTruncated r is filled
// too.
func DecodeDeadLetter(b []byte, r *event.Refusal) error {
	*r = event.Refusal{Origin: &event.Origin{}}
	text, err := valueJSON(b)
	if err != nil {
		return err
	}
	var in input
	var members [1]field
	if err := in.membersOf(text, []string{"headers"}, members[:]); err != nil {
		return err
	}
	if headers := members[0]; headers.given() && headers[0] == '[' { // before memory is taken
		if _, _, err := headers.list(1, maxHeaders, event.TooLarge); err != nil {
			return err
		}
	}
	var l Letter
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	got, err := l.Refusal()
	switch {
	case err != nil:
		return err
	case l.Reason == "":
		return refusef(event.Undecodable, "there is no reason")
	}
	*r = *got
	r.Reason, r.Detail, r.Origin.Topic = event.Reason(line(string(r.Reason))), line(r.Detail), line(r.Origin.Topic)
	if l.Truncated {
		return ErrTruncated
	}
	return nil
}

// Letter is a dead letter in JSON, made to be read by people, and to be edited by hand
// before its record is sent again. Of keys and values, what is text is a string, and other
// bytes are base64; null is left out. A record that the dead letter holds only in part (Truncated) cannot
// be sent again.
type Letter struct {
	Reason      event.Reason   `json:"reason"`
	Detail      string         `json:"detail"`
	Topic       string         `json:"topic"`
	Partition   int32          `json:"partition"`
	Offset      int64          `json:"offset"`
	Time        int64          `json:"time"` // of the record, milliseconds since the Unix epoch
	Key         jsonText       `json:"key,omitempty"`
	KeyBase64   []byte         `json:"key_base64,omitempty"`
	Value       jsonText       `json:"value,omitempty"`
	ValueBase64 []byte         `json:"value_base64,omitempty"`
	Headers     []letterHeader `json:"headers"`
	ValueLength int            `json:"value_length,omitempty"` // of the whole value
	Truncated   bool           `json:"truncated,omitempty"`
}

// letterHeader is a header of the record. Several may have one key.
type letterHeader struct {
	Key         string   `json:"key"`
	Value       jsonText `json:"value,omitempty"`
	ValueBase64 []byte   `json:"value_base64,omitempty"`
}

// LetterOf returns a refusal as a Letter.
func LetterOf(r *event.Refusal) *Letter {
	o := r.Origin
	l := &Letter{
		Reason: r.Reason, Detail: line(r.Detail), Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Time: o.Time,
		Headers: make([]letterHeader, len(o.Headers)),
	}
	l.Key, l.KeyBase64 = textOf(o.Key)
	l.Value, l.ValueBase64 = textOf(o.Value)
	for i, h := range o.Headers {
		to := &l.Headers[i]
		to.Key = h.Key
		to.Value, to.ValueBase64 = textOf(h.Value)
	}
	return l
}

// Refusal returns the refusal, the inverse of LetterOf.
func (l *Letter) Refusal() (*event.Refusal, error) {
	o := &event.Origin{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Time: l.Time}
	var err error
	if o.Key, err = l.Key.or(l.KeyBase64); err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if o.Value, err = l.Value.or(l.ValueBase64); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	for _, h := range l.Headers {
		value, err := h.Value.or(h.ValueBase64)
		if err != nil {
			return nil, fmt.Errorf("header %.100q: %w", h.Key, err)
		}
		o.Headers = append(o.Headers, event.Header{Key: h.Key, Value: value})
	}
	return &event.Refusal{Origin: o, Reason: l.Reason, Detail: l.Detail}, nil
}

// appendJSON appends v as JSON. It panics if that is impossible.
func appendJSON(dst []byte, v any) []byte {
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// jsonText is text in JSON: a string, or an object that is the text itself. Nil is neither.
type jsonText json.RawMessage

// MarshalJSON implements json.Marshaler.
func (t jsonText) MarshalJSON() ([]byte, error) { return t, nil }

// UnmarshalJSON implements json.Unmarshaler. It keeps a copy.
func (t *jsonText) UnmarshalJSON(b []byte) error {
	*t = bytes.Clone(b)
	return nil
}

// maxEscapes is how much longer than in base64 a text may be in JSON, in bytes. It bounds
// dead letters, and lets short texts that are full of quotes be read.
const maxEscapes = 256

// textOf returns bytes as text, or as they are if they are none or base64 is much shorter;
// both are nil for null.
func textOf(b []byte) (text jsonText, other []byte) {
	if b == nil {
		return nil, nil
	}
	if !utf8.Valid(b) {
		return nil, b
	}
	if text = appendJSON(nil, string(b)); len(text) > base64.StdEncoding.EncodedLen(len(b))+maxEscapes {
		return nil, b
	}
	return text, nil
}

// or returns the bytes of the text, or other if there is no text.
func (t jsonText) or(other []byte) ([]byte, error) {
	switch {
	case t == nil || string(t) == "null":
		return other, nil
	case other != nil:
		return nil, errors.New("there is also one in base64: leave out one of them")
	case t[0] == '{':
		return t, nil
	}
	text := new(string)
	if err := json.Unmarshal(t, text); err != nil {
		return nil, errors.New("give a text in quotes, an object, or null")
	}
	return []byte(*text), nil
}
