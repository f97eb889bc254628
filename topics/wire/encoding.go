package wire

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
