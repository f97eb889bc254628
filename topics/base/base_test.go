package base_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gvbll/gvbll/topics/base"
)

// memory is a store whose objects can be looked at and changed.
type memory map[string][]byte

func (m memory) Beside(string) base.Store { return m }
func (m memory) String() string           { return "memory" }
func (m memory) Put(_ context.Context, name string, b []byte) error {
	m[name] = bytes.Clone(b)
	return nil
}

func (m memory) Get(_ context.Context, name string, most int64) ([]byte, error) {
	if b, ok := m[name]; ok {
		return b[:min(int64(len(b)), most)], nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) List(context.Context) (names []string, err error) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}
func (m memory) Delete(_ context.Context, name string) error { delete(m, name); return nil }

// write stores a base of one file.
func write(t *testing.T, s base.Store, window int64, file []byte, before *base.Base) (base.Name, int64) {
	t.Helper()
	name, stored, err := base.Write(window, []base.Source{{File: base.File{Name: "state", Bytes: int64(len(file))}, Reader: bytes.NewReader(file)}}, before,
		func(name string, b []byte) error { return s.Put(t.Context(), name, b) })
	if err != nil {
		t.Fatal(err)
	}
	return name, stored
}

// read returns the file of a base.
func read(t *testing.T, s base.Store, name base.Name) ([]byte, error) {
	t.Helper()
	b, err := base.Find(t.Context(), s, name)
	if err != nil {
		return nil, err
	}
	if err := b.Fetch(t.Context(), t.TempDir()); err != nil {
		return nil, err
	}
	r, size, err := b.Open("state")
	if err != nil {
		return nil, err
	}
	whole := make([]byte, size)
	_, err = r.ReadAt(whole, 0)
	return whole, err
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestChanges: bytes are put in, taken out and changed from base to base. Each is read as it was stored, costs what
// changed, and sweeping keeps what the others need and nothing more, in a folder as in memory.
func TestChanges(t *testing.T) {
	folder, err := base.Open(t.TempDir(), "g.ledger")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []base.Store{memory{}, folder} {
		rng := rand.New(rand.NewPCG(1, 2))
		file := random(rng, 4<<20)
		var kept []base.Name
		files := map[base.Name][]byte{}
		var before *base.Base
		later := int64(0) // bytes that bases after the first one cost
		for window := int64(1); window <= 9; window++ {
			name, stored := write(t, s, window, file, before)
			if window > 1 {
				later += stored
			}
			files[name] = bytes.Clone(file)
			if kept = append([]base.Name{name}, kept...); len(kept) > 3 {
				kept = kept[:3]
			}
			if err := base.Sweep(t.Context(), s, kept, window+1); err != nil {
				t.Fatal(err)
			}
			for _, name := range kept {
				if got, err := read(t, s, name); err != nil || !bytes.Equal(got, files[name]) {
					t.Fatalf("base %v is not as it was stored: %v", name, err)
				}
			}
			if before, err = base.Find(t.Context(), s, name); err != nil {
				t.Fatal(err)
			}
			names, err := s.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if lists := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, "base-") }); len(lists) != len(kept) {
				t.Errorf("%d bases are kept, want %d", len(lists), len(kept))
			}
			for range len(file) / 100 / 500 {
				at := rng.IntN(len(file) - 500)
				switch rng.IntN(3) {
				case 0:
					copy(file[at:], random(rng, 500))
				case 1:
					file = slices.Insert(file, at, random(rng, 500)...)
				default:
					file = slices.Delete(file, at, at+500)
				}
			}
		}
		if later > 8*int64(len(file))/3 {
			t.Errorf("8 bases cost %d bytes, of %d each of which a hundredth changed", later, len(file))
		}
		total := 0
		names, _ := s.List(t.Context())
		for _, name := range names {
			b, err := s.Get(t.Context(), name, 1<<40)
			if err != nil {
				t.Fatal(err)
			}
			total += len(b)
		}
		if total > 3*len(file) {
			t.Errorf("%d bytes are stored for three bases of %d", total, len(file))
		}
	}
}

// TestTables: rows change in their last third, as GraphSAGE's do when a neighbour comes, and lists grow, while both tables become longer.
// The base of a file that says where they are costs little more than that, and half of what it costs where nothing says so.
func TestTables(t *testing.T) {
	const rows, width = 2000, 1536
	rng := rand.New(rand.NewPCG(1, 3))
	table, lists := random(rng, rows*width), random(rng, rows*60)
	file := func(said bool) []byte {
		header := fmt.Sprintf(`{"lists":{"dtype":"I32","shape":[%d],"data_offsets":[%d,%d]},"__metadata__":{"dtype":"x"},"none":{"dtype":"F32",`+
			`"shape":[0,9],"data_offsets":[%[2]d,%[2]d]},"rows":{"dtype":"F32","shape":[%[4]d,%[5]d],"data_offsets":[0,%[2]d]}}`,
			len(lists)/4, len(table), len(table)+len(lists), len(table)/width, width/4)
		if !said {
			header = strings.Repeat(" ", len(header))
		}
		return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), table, lists)
	}
	said, unsaid := memory{}, memory{}
	of := func(s memory, name base.Name, _ int64) *base.Base {
		b, err := base.Find(t.Context(), s, name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	name, stored := write(t, said, 1, file(true), nil)
	before := of(said, name, stored)
	name, stored = write(t, unsaid, 1, file(false), nil)
	without := of(unsaid, name, stored)
	changed := int64(0)
	for v := 0; v < rows; v += 16 {
		changed += int64(copy(table[v*width+2*width/3:], random(rng, width/3)))
		lists = slices.Insert(lists, v*60+v/4, 1, 2, 3, 4)
	}
	table = append(table, random(rng, 20*width)...)
	changed += 20 * width
	name, stored = write(t, said, 2, file(true), before)
	if got, err := read(t, said, name); err != nil || !bytes.Equal(got, file(true)) {
		t.Fatal("the base is not as it was stored:", err)
	}
	_, more := write(t, unsaid, 2, file(false), without)
	if list := int64(len(said[name.String()])); stored-list > changed+int64(len(lists)) || 3*stored > 2*more {
		t.Errorf("%d bytes beside a list of %d, where %d changed; %d where nothing says where rows are", stored-list, list, changed, more)
	}
}

// TestDamage: whatever byte of an object is changed, and wherever one is cut or missing, a base is read as it was stored or not at all.
func TestDamage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	file := random(rng, 200_000)
	s := memory{}
	name, _ := write(t, s, 7, file, nil)
	whole := memory{}
	for object, b := range s {
		whole[object] = bytes.Clone(b)
	}
	for range 500 {
		clear(s)
		for object, b := range whole {
			s[object] = bytes.Clone(b)
		}
		for object := range s {
			switch b := s[object]; rng.IntN(8) {
			case 0:
				s[object] = b[:rng.IntN(len(b))]
			case 1:
				delete(s, object)
			case 2:
				s[object] = append(b, 0)
			default:
				b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
			}
			break
		}
		if got, err := read(t, s, name); err == nil && !bytes.Equal(got, file) {
			t.Fatal("other bytes were read than were stored")
		}
	}
}

// TestAlteredOnTheWay: what is damaged once, on its way from the store, is read again, and what is cut seven times.
func TestAlteredOnTheWay(t *testing.T) {
	file := random(rand.New(rand.NewPCG(5, 6)), 100_000)
	s := memory{}
	name, _ := write(t, s, 7, file, nil)
	for at := range 3 {
		if got, err := read(t, &altering{memory: s, at: at}, name); err != nil || !bytes.Equal(got, file) {
			t.Fatal("not read again:", err)
		}
	}
	if got, err := read(t, &cutting{memory: s}, name); err != nil || !bytes.Equal(got, file) {
		t.Fatal("not read again:", err)
	}
}

// cutting is a store that answers a request whole after seven that are cut.
type cutting struct {
	memory
	answers int
}

func (c *cutting) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	b, err := c.memory.Get(ctx, name, most)
	if c.answers++; c.answers%8 != 0 {
		return b[:len(b)/2], &base.AwayError{Err: fmt.Errorf("memory: %w", io.ErrUnexpectedEOF)}
	}
	return b, err
}

// altering is a store that alters a byte of one answer.
type altering struct {
	memory
	at int
}

func (a *altering) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	b, err := a.memory.Get(ctx, name, most)
	if a.at--; a.at == -1 {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
	}
	return b, err
}

// TestOversizedFiles: of a file in a folder no more is read than a list or its part may have. A pipe is not waited for, and
// a link that leads out of the folder not followed.
func TestOversizedFiles(t *testing.T) {
	for _, test := range []struct {
		name    string
		replace func(path string) error
		useless bool
	}{
		{"6 GiB of zeros", func(path string) error { return os.Truncate(path, 6<<30) }, true},
		{"a pipe", func(path string) error { return cmp.Or(os.Remove(path), syscall.Mkfifo(path, 0o600)) }, false},
		{"a link to another folder", func(path string) error {
			other := filepath.Join(t.TempDir(), "part")
			return cmp.Or(os.Rename(path, other), os.Symlink(other, path))
		}, false},
	} {
		for _, prefix := range []string{"base-", "part-"} {
			t.Run(test.name+" as "+prefix, func(t *testing.T) {
				dir := t.TempDir()
				s, err := base.Open(dir, "g.ledger")
				if err != nil {
					t.Fatal(err)
				}
				name, _ := write(t, s, 1, []byte("some text"), nil)
				all, err := s.List(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(all, func(n string) bool { return strings.HasPrefix(n, prefix) })
				if err := test.replace(filepath.Join(dir, "g.ledger", all[i])); err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				got, err := read(t, s, name)
				runtime.ReadMemStats(&after)
				if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 3*128 {
					t.Errorf("%d MiB were taken", took)
				}
				switch {
				case prefix == "part-" && test.useless: // its first bytes are its own, and no others are read
					if err != nil {
						t.Error(err)
					}
				case err == nil, test.useless && !base.Useless(err):
					t.Errorf("%q was read, error %v", got, err)
				}
			})
		}
	}
}

// FuzzName: what is read as a name is one.
func FuzzName(f *testing.F) {
	f.Add("base-00000000000000000012-" + strings.Repeat("ab", 32))
	f.Fuzz(func(t *testing.T, text string) {
		var n base.Name
		if n.UnmarshalText([]byte(text)) == nil && n.String() != text {
			t.Errorf("%q is read as %v", text, n)
		}
	})
}

// FuzzList: whatever a list is, reading it takes no more memory than it has, and gives what its name says or an error.
func FuzzList(f *testing.F) {
	s := memory{}
	name, _, err := base.Write(7, []base.Source{{File: base.File{Name: "state", Bytes: 9}, Reader: strings.NewReader("some text")}}, nil,
		func(name string, b []byte) error { return s.Put(f.Context(), name, b) })
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s[name.String()])
	f.Fuzz(func(t *testing.T, list []byte) {
		s := maps.Clone(s)
		s[name.String()] = list
		if got, err := read(t, s, name); err == nil && string(got) != "some text" {
			t.Errorf("read %q", got)
		}
	})
}

// TestForgedBase: a base whose parts and list are whole and agree with each other, under the name of one that the ledger has, is not taken:
// the name is the hash of what is in the list. So is a part of other bytes.
func TestForgedBase(t *testing.T) {
	s, other := memory{}, memory{}
	rng := rand.New(rand.NewPCG(1, 9))
	name, _ := write(t, s, 7, random(rng, 1<<20), nil)
	forged, _ := write(t, other, 7, random(rng, 1<<20), nil)
	list := s[name.String()]
	for object, b := range other {
		s[object] = b
	}
	s[name.String()] = other[forged.String()]
	if _, err := base.Find(t.Context(), s, name); !base.Useless(err) {
		t.Errorf("a forged list: error %v, want that it is damaged", err)
	}
	s[name.String()] = list
	for object := range s {
		for forgery, b := range other {
			if strings.HasPrefix(object, "part-") && strings.HasPrefix(forgery, "part-") && object != forgery {
				s[object] = b
			}
		}
	}
	if b, err := read(t, s, name); err == nil {
		t.Errorf("%d bytes of forged parts were read", len(b))
	}
}
