package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// readAll reads a stream in pieces of random length.
func readAll(t *testing.T, rng *rand.Rand, s *Stream) (b []byte) {
	t.Helper()
	p := make([]byte, 3*pieceBytes)
	for {
		n, err := s.Read(p[:rng.IntN(len(p))])
		b = append(b, p[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if int64(len(b)) != s.Len() {
		t.Fatalf("the stream has %d bytes, Len is %d", len(b), s.Len())
	}
	return b
}

// reading returns a reader of b.
func reading(b []byte) (*Reader, error) { return NewReader(bytes.NewReader(b), int64(len(b))) }

// sequence returns a tensor of the numbers 0 to n-1, which is produced in parts of random
// length.
func sequence(rng *rand.Rand, name string, n int) Part {
	x := int32(0)
	return NewPart[int32](name, func(b []byte) []byte {
		for range min(n-int(x), rng.IntN(3000)) {
			b = Append(b, x)
			x++
		}
		return b
	}, n)
}

// TestStream: a stream has the bytes of Encode except for the checksums, and can be read:
// files shorter than a span, of exactly one, and of several.
func TestStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	stream := func(n int) *Stream {
		s, err := NewStream(map[string]string{"k": "v"}, []Part{
			PartOf("bytes", []byte("abcd"), 4), sequence(rng, "numbers", n), PartOf("none", []float64{}, 0, 2), PartOf("halves", []uint16{1, 2}, 1, 2),
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	exact := spanBytes/4 - 200 // how many numbers fill exactly one span
	for stream(exact).Len() != spanBytes+4 {
		if exact++; exact == spanBytes/4 {
			t.Fatal("no number of elements gives a file of exactly one span")
		}
	}
	for _, n := range []int{0, 1, 1000, exact, exact + 1, spanBytes, 1_000_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := readAll(t, rng, stream(n))
			f, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			r, err := reading(b)
			if err != nil {
				t.Fatal(err)
			}
			if r.Metadata()["k"] != "v" || r.Len("numbers") != n || r.Len("nothing") != 0 {
				t.Errorf("metadata %v and %d numbers, want k and %d", r.Metadata(), r.Len("numbers"), n)
			}
			numbers, err := Read[int32](r, "numbers", n)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range numbers {
				if x != int32(i) {
					t.Fatalf("number %d is %d", i, x)
				}
			}
			if err := r.Done(); !errors.Is(err, ErrDamaged) {
				t.Errorf("Done before all tensors are read: got %v, want ErrDamaged", err)
			}
			text, err := Read[uint8](r, "bytes", 4)
			if err != nil || string(text) != "abcd" {
				t.Errorf("bytes %q (%v), want abcd", text, err)
			}
			if halves, err := Read[uint16](r, "halves", 1, 2); err != nil || !slices.Equal(halves, []uint16{1, 2}) {
				t.Errorf("halves %v (%v), want 1 and 2", halves, err)
			}
			if none, err := Read[float64](r, "none", 0, 2); err != nil || len(none) != 0 {
				t.Errorf("none %v (%v), want no numbers", none, err)
			}
			if err := r.Done(); err != nil {
				t.Error(err)
			}

			// Encode the same tensors and metadata at once.
			sums := f.Tensors[checksums]
			delete(f.Tensors, checksums)
			f.Tensors["~"] = sums // sorts last
			again, err := f.Encode()
			if err != nil {
				t.Fatal(err)
			}
			data := 8 + binary.LittleEndian.Uint64(again)
			if !bytes.HasSuffix(b, again[data:]) {
				t.Error("the data differs from that of Encode")
			}
		})
	}
}

// TestStreamRefuses: names that occur twice or are reserved are errors, and so are those
// that Encode refuses.
func TestStreamRefuses(t *testing.T) {
	one := func(name string) Part { return PartOf(name, []byte{1}, 1) }
	for name, parts := range map[string][]Part{
		"twice":     {one("a"), one("a")},
		"checksums": {one(checksums)},
		"reserved":  {one(metadataKey)},
		"UTF-8":     {one("\xff")},
		"type":      {{Name: "a", DType: "F16", Shape: []int{1}}},
	} {
		if _, err := NewStream(nil, parts); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// TestStreamPanicsOnLongPart: a part that produces more elements than its shape has panics.
func TestStreamPanicsOnLongPart(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	s, err := NewStream(nil, []Part{NewPart[uint8]("a", func(b []byte) []byte { return append(b, 1, 2) }, 1)})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, s)
}

// long returns a file of several spans.
func long(t *testing.T) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(2, 2))
	s, err := NewStream(nil, []Part{sequence(rng, "a", 700_000), sequence(rng, "b", 300_000)})
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, rng, s)
}

// TestReaderFindsDamage: wherever a bit is flipped, NewReader fails or reading a tensor of
// that span does.
func TestReaderFindsDamage(t *testing.T) {
	whole := long(t)
	rng := rand.New(rand.NewPCG(3, 3))
	for range 40 {
		b := bytes.Clone(whole)
		at := rng.IntN(len(b))
		if rng.IntN(4) == 0 {
			at = len(b) - 1 - rng.IntN(20) // the checksums themselves
		}
		b[at] ^= 1 << rng.IntN(8)
		r, err := reading(b)
		if err == nil {
			_, first := Read[int32](r, "a", 700_000)
			_, second := Read[int32](r, "b", 300_000)
			if err = first; err == nil {
				err = second
			}
		}
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("a flipped bit of byte %d of %d: got %v, want ErrDamaged", at, len(b), err)
		}
	}
}

// TestReaderRefuses: files without checksums, misaligned tensors, and declarations that
// differ from the file are ErrDamaged. An error of the function that is given the elements
// is passed on.
func TestReaderRefuses(t *testing.T) {
	var file bytes.Buffer
	s, err := NewStream(nil, []Part{PartOf("a", []int32{1, 2}, 2)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.ReadFrom(s); err != nil {
		t.Fatal(err)
	}
	plain, err := (&File{Tensors: map[string]Tensor{"a": Of([]int32{1}, 1)}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	const one = `"dtype":"U8","shape":[1],"data_offsets":`
	for name, b := range map[string][]byte{
		"nothing":      nil,
		"no checksums": plain,
		"not aligned":  raw(`{"a":{`+one+`[0,1]},"b":{"dtype":"I32","shape":[0],"data_offsets":[1,1]}}     `, "1"),
		"header":       raw(`{"a":{`+one+`[0,1]}}`, "1"), // its length is no multiple of 8
		"sums between": raw(`{"checksums":{"dtype":"U8","shape":[1,4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}     `, "\x00\x00\x00\x001"),
		"more":         append(bytes.Clone(file.Bytes()), 0),
	} {
		if _, err := reading(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}

	r, err := reading(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"no such": errorOf(Read[int32](r, "b", 2)),
		"type":    errorOf(Read[float32](r, "a", 2)),
		"length":  errorOf(Read[int32](r, "a", 1)),
		"rank":    errorOf(Read[int32](r, "a", 2, 1)),
	} {
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}
	own := errors.New("refused")
	if err := each(r, "a", func(int, []int32) error { return own }, 2); !errors.Is(err, own) || errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want %v, not ErrDamaged", err, own)
	}
}

// TestEachCovers: the parts of a tensor that each gives cover every element once, with its
// index.
func TestEachCovers(t *testing.T) {
	r, err := reading(long(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]int{"a": 700_000, "b": 300_000} {
		seen := make([]int, n)
		if err := each(r, name, func(at int, values []int32) error {
			for i, x := range values {
				if int(x) != at+i {
					return fmt.Errorf("number %d is %d", at+i, x)
				}
				seen[at+i]++
			}
			return nil
		}, n); err != nil {
			t.Fatal(err)
		}
		if slices.Max(seen) != 1 || slices.Min(seen) != 1 {
			t.Errorf("%s: elements were left out or given twice", name)
		}
	}
	if keys := slices.Collect(maps.Keys(r.Metadata())); len(keys) > 0 {
		t.Errorf("metadata has the keys %v, want none", keys)
	}
}

// failing is a file that cannot be read from an offset on.
type failing struct{ at int64 }

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.at {
		return 0, errors.New("input/output error")
	}
	return len(b), nil
}

// TestReaderPassesErrorsOn: an error of reading the file is passed on, and is not
// ErrDamaged.
func TestReaderPassesErrorsOn(t *testing.T) {
	for _, at := range []int64{0, 8} {
		if _, err := NewReader(failing{at}, 1<<30); err == nil || at == 0 && (errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "input/output")) {
			t.Errorf("unreadable from byte %d: got %v, want the error of the file", at, err)
		}
	}
}

// TestFill: Fill reads what Append wrote.
func TestFill(t *testing.T) {
	want := []float32{0, -1.5, float32(math.Inf(1)), math.SmallestNonzeroFloat32}
	got := make([]float32, len(want))
	Fill(got, append(Append(nil, want...), "more"...))
	if !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}

func errorOf[T any](_ T, err error) error { return err }
