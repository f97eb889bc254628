package wire

import "github.com/gvbll/gvbll/pipeline/event"

// Encoding is how a value is encoded, as the header content-type names it.
type Encoding string

// The encodings.
const (
	MsgPack Encoding = "application/msgpack"
	JSON    Encoding = "application/json"
)

// EncodingOf returns the encoding of a value that gvbll wrote, by its first byte: all
// values are maps, and in JSON a map begins with a brace, which in msgpack is a number.
func EncodingOf(value []byte) Encoding {
	if len(value) > 0 && value[0] == '{' {
		return JSON
	}
	return MsgPack
}

// AppendPrediction appends a prediction in this encoding.
func (e Encoding) AppendPrediction(dst []byte, p *event.Prediction) []byte {
	if e == JSON {
		return AppendPredictionJSON(dst, p)
	}
	return AppendPrediction(dst, p)
}

// AppendDeadLetter appends a dead letter in this encoding.
func (e Encoding) AppendDeadLetter(dst []byte, r *event.Refusal) []byte {
	if e == JSON {
		return appendDeadLetterJSON(dst, r)
	}
	return AppendDeadLetter(dst, r)
}
