package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxHeader is the length in bytes above which a header is refused, as by the
// format's reference implementation.
const maxHeader = 100_000_000

// The longest name and the most dimensions of a tensor that are read, so that
// an error that quotes one is a line that can be read too; and the most keys of an object, each
// of which takes many times its bytes.
const (
	maxName = 512
	maxDims = 16
	maxKeys = 1 << 16
)

// metadataKey is the one key of the header that is not a tensor's name.
const metadataKey = "__metadata__"

// place is where a tensor's bytes are: from begin to end, counted from the
// first tensor's.
type place struct {
	name       string
	begin, end int
}

func parseHeader(header []byte) (*File, []place, error) {
	// Go's decoder replaces invalid UTF-8, which could make two names equal.
	if !utf8.Valid(header) {
		return nil, nil, errors.New("not UTF-8")
	}
	if len(header) == 0 || header[0] != '{' {
		return nil, nil, errors.New("does not begin with {")
	}
	dec := json.NewDecoder(bytes.NewReader(header))
	dec.UseNumber()
	f := &File{Tensors: map[string]Tensor{}}
	var places []place
	err := object(dec, func(name string) error {
		if name == metadataKey {
			f.Metadata = map[string]string{}
			return object(dec, func(key string) (err error) {
				f.Metadata[key], err = text(dec)
				return err
			})
		}
		t, p, err := parseTensor(dec)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		p.name = name
		f.Tensors[name] = t
		places = append(places, p)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, nil, errors.New("something follows the object")
	}
	return f, places, nil
}

func parseTensor(dec *json.Decoder) (t Tensor, p place, err error) {
	seen := 0
	err = object(dec, func(key string) error {
		seen++
		switch key {
		case "dtype":
			name, err := text(dec)
			t.DType = DType(name)
			return err
		case "shape":
			t.Shape, err = integers(dec)
			return err
		case "data_offsets":
			offsets, err := integers(dec)
			if err == nil && len(offsets) != 2 {
				err = fmt.Errorf("%d data_offsets, want 2", len(offsets))
			}
			if err == nil {
				p.begin, p.end = offsets[0], offsets[1]
			}
			return err
		}
		return fmt.Errorf("unknown key %q", key)
	})
	if err == nil && seen != 3 {
		err = errors.New("want dtype, shape and data_offsets")
	}
	return t, p, err
}

// object reads a JSON object and calls value to read the value of each key. A
// key that occurs twice is an error.
func object(dec *json.Decoder, value func(key string) error) error {
	if err := delimiter(dec, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for dec.More() {
		key, err := text(dec)
		if err != nil {
			return err
		}
		if len(key) > maxName {
			return fmt.Errorf("a name of %d bytes, at most %d are read", len(key), maxName)
		}
		if seen[key] {
			return fmt.Errorf("key %q occurs twice", key)
		}
		if seen[key] = true; len(seen) > maxKeys {
			return fmt.Errorf("an object of more than %d keys", maxKeys)
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return delimiter(dec, '}')
}

func delimiter(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("%s, want %v", shown(token), want)
	}
	return nil
}

// shown is a token as one line of bounded length.
func shown(token json.Token) string {
	return fmt.Sprintf("%.80q", fmt.Sprint(token))
}

func text(dec *json.Decoder) (string, error) {
	token, err := dec.Token()
	if err != nil {
		return "", err
	}
	s, ok := token.(string)
	if !ok {
		return "", fmt.Errorf("%s, want a string", shown(token))
	}
	return s, nil
}

func integers(dec *json.Decoder) ([]int, error) {
	if err := delimiter(dec, '['); err != nil {
		return nil, err
	}
	var list []int
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		number, ok := token.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%s, want an integer", shown(token))
		}
		n, err := strconv.ParseUint(number.String(), 10, strconv.IntSize-1)
		if err != nil {
			return nil, fmt.Errorf("%s, want an integer from 0 to %d", shown(number), math.MaxInt)
		}
		if list = append(list, int(n)); len(list) > maxDims {
			return nil, fmt.Errorf("more than %d numbers in a list", maxDims)
		}
	}
	return list, delimiter(dec, ']')
}

// encodeHeader returns the bytes before the tensors, which are stored in the
// order of names, and the length of the tensors together.
func encodeHeader(metadata map[string]string, names []string, tensors map[string]Tensor) (header []byte, length int, err error) {
	buf := bytes.NewBuffer(make([]byte, 8))
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	separator := byte('{')
	entry := func(key string, value any) error {
		buf.WriteByte(separator)
		separator = ','
		err := enc.Encode(key) // with a line feed
		buf.Truncate(buf.Len() - 1)
		buf.WriteByte(':')
		err = errors.Join(err, enc.Encode(value))
		buf.Truncate(buf.Len() - 1)
		return err
	}
	for key, text := range metadata {
		if !utf8.ValidString(key + "\n" + text) {
			return nil, 0, fmt.Errorf("%q is not UTF-8", key+"\n"+text)
		}
	}
	if len(metadata) > 0 {
		err = entry(metadataKey, metadata)
	}
	for _, name := range names {
		t := tensors[name]
		n, bad := t.bytes()
		if err = errors.Join(err, bad); err == nil {
			err = entry(name, struct {
				DType   DType  `json:"dtype"`
				Shape   []int  `json:"shape"`
				Offsets [2]int `json:"data_offsets"`
			}{t.DType, append([]int{}, t.Shape...), [2]int{length, length + n}})
		}
		switch {
		case err != nil:
		case name == metadataKey:
			err = errors.New("the name is reserved")
		case !utf8.ValidString(name):
			err = errors.New("the name is not UTF-8")
		case n > math.MaxInt-length:
			err = errors.New("the tensors are too large")
		}
		if err != nil {
			return nil, 0, fmt.Errorf("tensor %q: %w", name, err)
		}
		length += n
	}
	if separator == '{' {
		buf.WriteByte('{')
	}
	buf.WriteByte('}')
	for buf.Len()%8 != 0 {
		buf.WriteByte(' ')
	}
	header = buf.Bytes()
	if n := len(header) - 8; n > maxHeader {
		return nil, 0, fmt.Errorf("header of %d bytes, want at most %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, length, nil
}
