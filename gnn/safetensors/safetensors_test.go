package safetensors

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// raw returns a file with the given header, as it is, and data.
func raw(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

// sample returns a file with every type of element, a scalar, an empty tensor and metadata.
func sample() *File {
	return &File{
		Metadata: map[string]string{"config": `{"a": "<b>"}`, "": "ü"},
		Tensors: map[string]Tensor{
			"b.bytes":  Of([]byte{1, 2, 3}, 3),
			"a.matrix": Of([]float32{1, -2, float32(math.Inf(1)), 0, 5, 6}, 2, 3),
			"scalar":   Of([]int64{math.MinInt64}),
			"empty":    Of([]float64{}, 4, 0),
			"double":   Of([]float64{math.Pi}, 1),
			"int":      Of([]int32{-1, 7}, 2),
			"half":     Of([]uint16{0x3f80, 0x4049}, 2),
		},
	}
}

// TestRoundTrip: a file is the same after encoding and decoding, and encoding it again
// gives the same bytes.
func TestRoundTrip(t *testing.T) {
	for name, f := range map[string]*File{
		"sample":   sample(),
		"nothing":  {Tensors: map[string]Tensor{}},
		"metadata": {Metadata: map[string]string{"k": "v"}, Tensors: map[string]Tensor{}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if n := binary.LittleEndian.Uint64(b); n%8 != 0 {
				t.Errorf("the header has %d bytes, want a multiple of 8", n)
			}
			got, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			nilIsEmpty := cmp.Comparer(func(a, b []int) bool { return slices.Equal(a, b) })
			if d := cmp.Diff(f, got, nilIsEmpty); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			again, err := got.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(again, b) {
				t.Error("encoding the decoded file gives other bytes")
			}
		})
	}
}

// TestEncodeBytes compares the bytes of a small file: metadata and header are sorted, and
// the header is padded to a multiple of 8 bytes.
func TestEncodeBytes(t *testing.T) {
	f := &File{
		Metadata: map[string]string{"z": "1", "a": "2"},
		Tensors:  map[string]Tensor{"u": Of([]byte{9}, 1), "f": Of([]float32{1}, 1), "a": Of([]float32{}, 0)},
	}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	header := `{"__metadata__":{"a":"2","z":"1"},` +
		`"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},` +
		`"f":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},` +
		`"u":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`
	for len(header)%8 != 0 {
		header += " "
	}
	if want := raw(header, "\x00\x00\x80\x3f\x09"); !bytes.Equal(b, want) {
		t.Errorf("got  %q\nwant %q", b, want)
	}
}

// TestEncodeRefuses: tensors whose data does not fit their shape, and names and types that
// the format does not have, are errors.
func TestEncodeRefuses(t *testing.T) {
	for name, f := range map[string]*File{
		"short data":    {Tensors: map[string]Tensor{"a": {DType: F32, Shape: []int{2}, Data: make([]byte, 4)}}},
		"type":          {Tensors: map[string]Tensor{"a": {DType: "F16", Shape: []int{2}, Data: make([]byte, 4)}}},
		"negative":      {Tensors: map[string]Tensor{"a": {DType: u8, Shape: []int{-1, -1}, Data: make([]byte, 1)}}},
		"overflow":      {Tensors: map[string]Tensor{"a": {DType: u8, Shape: []int{1 << 62, 4}}}},
		"reserved name": {Tensors: map[string]Tensor{"__metadata__": Of([]byte{1}, 1)}},
		"name":          {Tensors: map[string]Tensor{"\xff": Of([]byte{1}, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := f.Encode(); err == nil {
				t.Errorf("got %q, want an error", b)
			}
		})
	}
}

// TestDecodeRefuses: the error for an invalid file is one line that says what is wrong.
func TestDecodeRefuses(t *testing.T) {
	const one = `"dtype":"U8","shape":[1],"data_offsets":`
	for _, c := range []struct{ name, header, data, want string }{
		{"empty header", ``, "", "begin with {"},
		{"leading space", ` {}`, "", "begin with {"},
		{"array", `[]`, "", "begin with {"},
		{"unfinished", `{"a":{` + one + `[0,1]}`, "1", "EOF"},
		{"two objects", `{}{}`, "", "follows"},
		{"NUL padding", "{}\x00", "", "follows"},
		{"not UTF-8", "{\"\xff\":{" + one + "[0,1]}}", "1", "UTF-8"},
		{"name twice", `{"a":{` + one + `[0,1]},"\u0061":{` + one + `[1,2]}}`, "12", "occurs twice"},
		{"metadata twice", `{"__metadata__":{},"__metadata__":{}}`, "", "occurs twice"},
		{"metadata key twice", `{"__metadata__":{"a":"1","a":"2"}}`, "", "occurs twice"},
		{"metadata number", `{"__metadata__":{"a":1}}`, "", "want a string"},
		{"dtype twice", `{"a":{"dtype":"U8","dtype":"U8","shape":[1]}}`, "1", "occurs twice"},
		{"key missing", `{"a":{"dtype":"U8","shape":[1]}}`, "1", "want dtype"},
		{"key unknown", `{"a":{` + one + `[0,1],"x":1}}`, "1", "unknown key"},
		{"tensor is null", `{"a":null}`, "", "want {"},
		{"dtype unknown", `{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, "1", "element type"},
		{"one offset", `{"a":{` + one + `[0]}}`, "1", "want 2"},
		{"offsets float", `{"a":{` + one + `[0,1.0]}}`, "1", "want an integer"},
		{"offsets negative", `{"a":{` + one + `[-1,0]}}`, "1", "want an integer"},
		{"offsets reversed", `{"a":{` + one + `[1,0]}}`, "1", "is at bytes"},
		{"offsets past the end", `{"a":{` + one + `[0,2]}}`, "1", "is at bytes"},
		{"offsets huge", `{"a":{` + one + `[0,9223372036854775808]}}`, "1", "want an integer"},
		{"gap at first", `{"a":{` + one + `[1,2]}}`, "12", "is at bytes"},
		{"gap", `{"a":{` + one + `[0,1]},"b":{` + one + `[2,3]}}`, "123", "is at bytes"},
		{"overlap", `{"a":{` + one + `[0,1]},"b":{` + one + `[0,1]}}`, "1", "is at bytes"},
		{"trailing bytes", `{"a":{` + one + `[0,1]}}`, "12", "after the last"},
		{"size", `{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,3]}}`, "123", "want 4"},
		{"shape overflow", `{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, "", "too large"},
		{"shape overflow of nothing", `{"a":{"dtype":"U8","shape":[0,4611686018427387904,4],"data_offsets":[0,0]}}`, "", "too large"},
		{"shape overflow to 0", `{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, "", "too large"},
		{"shape too long", `{"a":{"dtype":"U8","shape":[` + strings.Repeat("1,", 1000*maxDims) + `1],"data_offsets":[0,1]}}`, "1", "more than 16 numbers"},
		{"name too long", `{"` + strings.Repeat("a", 1000*maxName) + `":{` + one + `[0,1]}}`, "1", "a name of 512000 bytes"},
		{"line feed for a type", `{"a":{"dtype":"a\nb","shape":[1],"data_offsets":[0,1]}}`, "1", "element type"},
		{"line feed for a tensor", `{"a":"a\nb"}`, "1", "want {"},
		{"line feed for a dimension", `{"a":{"shape":["a\nb"]}}`, "", "want an integer"},
		{"shape of strings", `{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, "1", "want an integer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(raw(c.header, c.data))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, c.want)
			}
		})
	}

	for name, b := range map[string][]byte{
		"nothing":              nil,
		"length cut":           {1, 0, 0, 0},
		"header past the end":  append(binary.LittleEndian.AppendUint64(nil, 3), '{', '}'),
		"header of 2^64-1":     append(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), '{', '}'),
		"header above maximum": binary.LittleEndian.AppendUint64(nil, maxHeader+1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode(b); err == nil {
				t.Error("Decode succeeded, want an error")
			}
		})
	}
}

// TestDecodeAnyHeaderOrder: a header may list tensors and their keys in any order. Reading
// a tensor as another type is an error.
func TestDecodeAnyHeaderOrder(t *testing.T) {
	f, err := Decode(raw(`{"b":{"data_offsets":[1,3],"shape":[2],"dtype":"U8"},"z":{"dtype":"F64","shape":[0,3],"data_offsets":[1,1]},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "123"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := Values[uint8](f.Tensors["b"])
	if err != nil || string(b) != "23" {
		t.Errorf("b is %q (%v), want 23", b, err)
	}
	if _, err := Values[float32](f.Tensors["b"]); err == nil {
		t.Error("U8 read as float32: want an error")
	}
}

// TestOfPanicsOnShape: Of panics if the shape does not fit the number of elements.
func TestOfPanicsOnShape(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Of([]float32{1, 2}, 3)
}

// TestWriteFile: a file is written anew or in place of an old one. Neither a success nor a
// failure leaves a temporary file.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "model.safetensors")
	for range 2 { // the second time over the old file
		if err := WriteFile(name, sample()); err != nil {
			t.Fatal(err)
		}
	}
	f, err := ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Metadata["config"]; got != sample().Metadata["config"] {
		t.Errorf("metadata %q, want %q", got, sample().Metadata["config"])
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v), want the file only", entries, err)
	}

	// If a folder has the name of the file, the rename fails.
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(taken, sample()); err == nil {
		t.Error("WriteFile over a folder succeeded, want an error")
	}
	if entries, err = os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v (%v), want no temporary file", entries, err)
	}
}

// TestGoldens: files that Python's safetensors package wrote can be decoded, and encoding
// them gives the same bytes.
func TestGoldens(t *testing.T) {
	names, err := filepath.Glob("../../../shared/goldens/*.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Skip("the shared golden files are not beside this module")
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(f.Tensors) == 0 {
			t.Errorf("%s: no tensors", name)
		}
		if again, err := f.Encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s: encoding the decoded file gives other bytes (%v)", name, err)
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// perByte bounds the bytes of memory for each byte of a header, which is read token by
// token. The worst is a shape, where two bytes make a token and a number.
const perByte = 100

// TestHostileHeaders: reading a header allocates no memory for the sizes that it declares,
// and a small multiple of its length for what it repeats.
func TestHostileHeaders(t *testing.T) {
	const length = 1 << 20
	repeat := func(head, item, tail string) []byte {
		return raw(head+strings.Repeat(item, length/len(item))+tail, "")
	}
	var names strings.Builder
	for i := range length / 50 {
		fmt.Fprintf(&names, `,"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, i)
	}
	for name, b := range map[string][]byte{
		"a terabyte":           raw(`{"a":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}}`, "1"),
		"a terabyte of no end": raw(`{"a":{"dtype":"F64","shape":[137438953472],"data_offsets":[0,8]}}`, "12345678"),
		"many terabytes":       repeat(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`, `,"b":{"dtype":"U8","shape":[1099511627776],"data_offsets":[0,1099511627776]}`, `}`),
		"deep":                 repeat(``, `{"a":`, ``),
		"deep metadata":        repeat(`{"__metadata__":`, `{"a":`, ``),
		"deep shape":           repeat(`{"a":{"shape":`, `[`, ``),
		"a long shape":         repeat(`{"a":{"shape":[`, `1,`, `1],"dtype":"U8","data_offsets":[0,1]}}`),
		"long offsets":         repeat(`{"a":{"data_offsets":[`, `1,`, `1]}}`),
		"a long number":        repeat(`{"a":{"shape":[`, `9`, `]}}`),
		"a long name":          repeat(`{"`, `a`, `":{}}`),
		"many tensors":         raw("{"+names.String()[1:]+"}", "1"),
		"spaces":               repeat(`{}`, ` `, `1`),
	} {
		var err error
		if got := allocated(func() { _, err = Decode(b) }); got > uint64(perByte*len(b)+16<<10) {
			t.Errorf("%s: %d bytes allocated for a file of %d, want at most %d", name, got, len(b), perByte*len(b)+16<<10)
		}
		if err == nil {
			t.Errorf("%s: Decode succeeded, want an error", name)
		}
	}
}

// TestManyKeys: 29 MB of metadata keys are refused for a few of them.
func TestManyKeys(t *testing.T) {
	var keys strings.Builder
	for i := range 29 << 20 / 16 {
		fmt.Fprintf(&keys, `,"%09d":""`, i)
	}
	b := raw(`{"__metadata__":{`+keys.String()[1:]+`}}`, "")
	var err error
	if got := allocated(func() { _, err = Decode(b) }); err == nil || !strings.Contains(err.Error(), "more than 65536 keys") || got > 64<<20 {
		t.Errorf("%d MiB allocated, error %v; want less than 64 and that there are too many", got>>20, err)
	}
}

// FuzzDecode: for any bytes, Decode does not panic and bounds its memory. A decoded file
// can be encoded, and is the same when it is decoded again.
func FuzzDecode(f *testing.F) {
	b, err := sample().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(raw(`{}`, ""))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}`, "1234"))
	f.Add(raw(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, ""))
	f.Add(raw(`{"__metadata__":{"\ud800":"\\"}}`, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		var file *File
		var err error
		if got := allocated(func() { file, err = Decode(b) }); got > uint64(perByte*len(b)+16<<10) {
			t.Fatalf("%d bytes allocated for a file of %d, want at most %d", got, len(b), perByte*len(b)+16<<10)
		}
		if err != nil {
			return
		}
		total := 0
		for name, tensor := range file.Tensors {
			if n, err := tensor.bytes(); err != nil || n != len(tensor.Data) {
				t.Fatalf("tensor %q: %d bytes for the shape %v (%v)", name, len(tensor.Data), tensor.Shape, err)
			}
			total += len(tensor.Data)
		}
		if total > len(b) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(b))
		}
		encoded, err := file.Encode()
		if err != nil {
			t.Fatalf("encoding the decoded file: %v", err)
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatalf("decoding it again: %v", err)
		}
		if len(again.Tensors) != len(file.Tensors) || !maps.Equal(again.Metadata, file.Metadata) {
			t.Fatalf("%d tensors after decoding again, want %d and the same metadata", len(again.Tensors), len(file.Tensors))
		}
		for name, want := range file.Tensors {
			if got := again.Tensors[name]; !bytes.Equal(got.Data, want.Data) || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) {
				t.Fatalf("tensor %q: got %v, want %v", name, got, want)
			}
		}
	})
}

// TestReadFileOfPipe: a pipe is not waited for, nor a device read for ever.
func TestReadFileOfPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "model.safetensors")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{pipe: "not a regular file", "/dev/zero": "not a regular file", t.TempDir(): "a folder, not a safe"} {
		if _, err := ReadFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
}

// TestReadHugeFile: nothing is taken for a file of gigabytes that is none of this format, or of more than are read.
func TestReadHugeFile(t *testing.T) {
	for size, begin := range map[int64]string{3 << 30: "", 10 * maxFile: "\x02\x00\x00\x00\x00\x00\x00\x00{}"} {
		name := filepath.Join(t.TempDir(), "model.safetensors")
		if err := os.WriteFile(name, []byte(begin), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(name, size); err != nil {
			t.Fatal(err)
		}
		var err error
		if got := allocated(func() { _, err = ReadFile(name) }); err == nil || got > 1<<20 {
			t.Errorf("%d bytes allocated for a file of %d GiB, error %v", got, size>>30, err)
		}
	}
}
