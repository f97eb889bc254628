package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// TestFreeze: while the store changes, records are read as they were at Begin, through one
// walk, several walks or At, in this freeze and in later ones.
func TestFreeze(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var f Freeze[int]
		var store [][]int
		current := func(i int32) []int { return store[i] }
		change := func() {
			for range rng.IntN(300) {
				list := make([]int, rng.IntN(5))
				for k := range list {
					list[k] = rng.Int()
				}
				if i := int32(rng.IntN(2000)); int(i) < len(store) {
					f.Keep(i, store[i])
					store[i] = append(store[i][:0], list...)
				} else {
					store = append(store, list)
				}
			}
		}
		for range 5 {
			change()
			var want [][]int
			for _, list := range store {
				want = append(want, slices.Clone(list))
			}
			f.Begin(len(store))
			var walks []func() []int
			for range rng.IntN(3) {
				walks = append(walks, f.Walk(current))
			}
			for _, next := range walks {
				change()
				for i := range want {
					if got := next(); !slices.Equal(got, want[i]) {
						t.Fatalf("record %d is %v, want %v", i, got, want[i])
					}
					if rng.IntN(100) == 0 {
						change()
					}
				}
			}
			if len(walks) == 0 {
				change()
				for _, i := range rng.Perm(len(want)) {
					if got := f.At(int32(i), current); !slices.Equal(got, want[i]) {
						t.Fatalf("record %d is %v, want %v", i, got, want[i])
					}
				}
			} else if len(want) > 0 && f.Wants(0) {
				t.Fatal("Wants is true for a record that all walks have passed")
			}
			f.End()
		}
		if len(store) > 0 && f.Wants(0) {
			t.Fatal("Wants is true without a freeze")
		}
	}
}

// TestKeepAllocatesNothing: Keep does not allocate without a freeze, nor in a
// freeze that reuses the memory of an earlier one.
func TestKeepAllocatesNothing(t *testing.T) {
	var f Freeze[float32]
	row := make([]float32, 100)
	keep := func() {
		for i := range int32(2000) {
			f.Keep(i, row)
		}
	}
	if n := testing.AllocsPerRun(10, keep); n > 0 {
		t.Errorf("%v allocations without a freeze, want none", n)
	}
	if n := testing.AllocsPerRun(10, func() { f.Begin(2000); keep(); f.End() }); n > 0 {
		t.Errorf("%v allocations in a freeze, want none", n)
	}
}

// store is a state with a tensor of each kind.
type store struct {
	rows    kernel.Table[float32]
	freeze  Freeze[float32]
	lengths []int32
	lists   [][]int64
	number  float64
	bytes   text
	more    []uint8 // optional
}

// text is a state that is saved as bytes, which must begin with x.
type text string

func (x *text) AppendState(b []byte) []byte { return append(b, *x...) }

func (x *text) SetState(b []byte) error {
	if *x = text(b); len(b) > 0 && b[0] != 'x' {
		return errors.New("does not begin with x")
	}
	return nil
}

const width = 3

func newStore() *store { return &store{rows: *kernel.NewTable[float32](width)} }

// state declares the tensors of the store, with checks.
func (x *store) state(s *Schema) {
	n := s.Len("rows", x.rows.Len(), 1000)
	Rows(s, "rows", &x.rows, &x.freeze, func(x []float32) error {
		if slices.Contains(x, -1) {
			return Damaged("a row is negative")
		}
		return nil
	}, n, width)
	i, all := 0, 0
	for _, list := range x.lists {
		all += len(list)
	}
	x.lengths = Column(s, "lengths", func() int32 { i++; return int32(len(x.lists[i-1])) }, s.Len("lengths", len(x.lists), 1000))
	k := 0
	flat := Lists(s, "lists", func() []int64 { k++; return x.lists[k-1] }, s.Len("lists", all, 100_000))
	s.Check(func() error {
		for _, n := range x.lengths {
			if n < 0 || int(n) > len(flat) {
				return Damaged("a list of %d elements, of %d", n, len(flat))
			}
			x.lists, flat = append(x.lists, flat[:n]), flat[n:]
		}
		return nil
	})
	s.Check(func() error {
		Value(s, "checked", new(int64))
		return nil
	})
	if s.Saving() {
		Value(s, "checked", new(int64))
	}
	Value(s, "number", &x.number)
	Bytes(s, "bytes", &x.bytes)
	if s.Has("more", len(x.more) > 0) {
		Slice(s, "more", &x.more, s.Len("more", len(x.more), 10))
	}
}

// randomStore returns a store with random content.
func randomStore(rng *rand.Rand) *store {
	x := newStore()
	x.rows.Grow(rng.IntN(200))
	for i := range int32(x.rows.Len()) {
		x.rows.Row(i)[0] = rng.Float32()
	}
	for range rng.IntN(10) {
		x.lists = append(x.lists, []int64{rng.Int64(), 2, 3}[:rng.IntN(3)])
	}
	x.number, x.bytes = rng.Float64(), "xyz"
	x.more = make([]uint8, rng.IntN(3))
	return x
}

// saved returns the bytes of a store. meanwhile is called after saving began and before the
// bytes are read.
func saved(t *testing.T, x *store, meanwhile func()) []byte {
	t.Helper()
	s := Saving()
	x.state(s)
	defer s.Release()
	stream, err := safetensors.NewStream(nil, s.Parts())
	if err != nil {
		t.Fatal(err)
	}
	meanwhile()
	b, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// restored returns the store restored from a file.
func restored(t *testing.T, b []byte) (*store, error) {
	t.Helper()
	file, err := safetensors.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	x, s := newStore(), Restoring(file)
	x.state(s)
	return x, s.Finish()
}

// TestSchema: a state is saved as it was when saving began, and saving the restored
// state gives the same bytes.
func TestSchema(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		x := randomStore(rng)
		want := saved(t, x, func() {})
		during := saved(t, x, func() {
			for i := range int32(x.rows.Len()) {
				x.freeze.Keep(i, x.rows.Row(i))
				x.rows.Row(i)[0] = -1
			}
			x.rows.Grow(3)
			x.number, x.bytes = 0, "x"
		})
		if !bytes.Equal(during, want) {
			t.Fatal("changes after Saving changed the saved bytes")
		}
		y, err := restored(t, want)
		if err != nil {
			t.Fatal(err)
		}
		if again := saved(t, y, func() {}); !bytes.Equal(again, want) {
			t.Fatal("the restored state is saved as other bytes")
		}
	}
}

// TestDamaged: a file that differs from the declarations, or fails a check, is an
// error, and nothing is restored after it.
func TestDamaged(t *testing.T) {
	file := func(change func(map[string]safetensors.Part)) []byte {
		x := randomStore(rand.New(rand.NewPCG(3, 3)))
		x.more = []uint8{1}
		x.rows.Grow(1)
		s := Saving()
		x.state(s)
		parts := map[string]safetensors.Part{}
		for _, p := range s.Parts() {
			parts[p.Name] = p
		}
		change(parts)
		var list []safetensors.Part
		for name, p := range parts {
			p.Name = name
			list = append(list, p)
		}
		stream, err := safetensors.NewStream(nil, list)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(stream)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if _, err := restored(t, file(func(map[string]safetensors.Part) {})); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]safetensors.Part){
		"in a check":   func(p map[string]safetensors.Part) { delete(p, "checked") },
		"missing":      func(p map[string]safetensors.Part) { delete(p, "number") },
		"unknown":      func(p map[string]safetensors.Part) { p["other"] = safetensors.PartOf("", []int64{1}, 1) },
		"more":         func(p map[string]safetensors.Part) { p["more"] = safetensors.PartOf("", make([]uint8, 11), 11) },
		"another type": func(p map[string]safetensors.Part) { p["number"] = safetensors.PartOf("", []int64{1}, 1) },
		"a row":        func(p map[string]safetensors.Part) { p["rows"] = safetensors.PartOf("", []float32{0, -1, 0}, 1, 3) },
		"a length":     func(p map[string]safetensors.Part) { p["lengths"] = safetensors.PartOf("", []int32{-1}, 1) },
		"bytes":        func(p map[string]safetensors.Part) { p["bytes"] = safetensors.PartOf("", []uint8{'y'}, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			x, err := restored(t, file(change))
			if !errors.Is(err, safetensors.ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
			if name == "a row" && fmt.Sprint(x.lists, x.number) != "[] 0" {
				t.Errorf("lists %v and number %v after an error, want neither restored", x.lists, x.number)
			}
		})
	}
}
