package dataset

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sbinet/npyio/npy"

	"github.com/gvbll/gvbll/gnn"
)

// TestOpenNPZ opens one graph as numpy writes it (testdata/make.py), with edges row after row
// or column after column, and with either order of bytes.
func TestOpenNPZ(t *testing.T) {
	want := Dataset{
		Dim: 6, Sparse: true, Classes: []string{"0", "1", "2"}, Labels: []int32{1, 0, 2, 1},
		Features: []gnn.Vector{
			{Index: []uint32{1}, Value: []float32{1}},
			{Index: []uint32{5}, Value: []float32{.5}},
			{Index: []uint32{}, Value: []float32{}},
			{Index: []uint32{0, 4}, Value: []float32{2, -3}},
		},
		Edges: [][2]int32{{0, 1}, {1, 2}, {2, 2}},
	}
	for name, years := range map[string][]float64{"tensors": nil, "fortran": {2016, 2017, 2018, 2019}} {
		got, err := Open(filepath.Join("testdata", name+".npz"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want.Name, want.Time, want.Given = name, years, nil
		if name == "tensors" { // which has a mask of two training nodes
			want.Given = &GivenSplit{Parts: []Part{InTrain, InNone, InNone, InTrain}, How: "masks"}
		}
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestOpenNPZRefusesMatrices: the parts of scipy's matrices, as older benchmarks publish
// graphs, are refused with what to save instead.
func TestOpenNPZRefusesMatrices(t *testing.T) {
	_, err := Open(filepath.Join("testdata", "matrices.npz"))
	if err == nil || !strings.HasSuffix(err.Error(), "save x, edge_index and y (docs/datasets.md)") {
		t.Errorf("error %v, want what to save", err)
	}
}

// TestOpenNPZIDs: ids are integers of any size. A label that is not a number is none, and of
// masks of several splits the first counts.
func TestOpenNPZIDs(t *testing.T) {
	got, err := openArchive(t, archive(t, map[string]any{
		"x": array2("<f4", 2, 2, false, floats(1, 0, 0, 2)), "edge_index": array2("|u1", 2, 1, false, "\x00\x01"), "y": []float64{0, math.NaN()}, "node_ids": []int64{1 << 60, -5},
		"train_mask": array2("|b1", 2, 3, false, "\x01\x01\x00\x00\x01\x01"),
	}))
	if err != nil || !slices.Equal(got.IDs.Numbers, []int64{1 << 60, -5}) || !slices.Equal(got.Labels, []int32{0, Unlabelled}) || !slices.Equal(got.Given.Parts, []Part{InTrain, InNone}) {
		t.Errorf("error %v, %+v, want ids 2^60 and -5, no label for the second, and the first to train", err, got)
	}
}

// TestOpenNPZKinds: a type of edges that come in both directions is undirected, and another
// directed. Weights alone are of edges without a kind. One undirected kind without weights
// tells nothing apart.
func TestOpenNPZKinds(t *testing.T) {
	open := func(more map[string]any) (*Dataset, error) {
		arrays := map[string]any{"x": array2("<f4", 3, 1, false, floats(1, 2, 3)), "edge_index": array2("|u1", 2, 3, false, "\x00\x01\x01\x01\x00\x02"), "y": []int64{0, 1, 0}}
		maps.Copy(arrays, more)
		return openArchive(t, archive(t, arrays))
	}
	for name, c := range map[string]struct {
		more  map[string]any
		kinds gnn.EdgeKinds
		marks []Mark
	}{
		"types":   {map[string]any{"edge_type": []int64{0, 0, 1}}, gnn.EdgeKinds{{Name: "0"}, {Name: "1", Directed: true}}, []Mark{{0, 1}, {0, 1}, {1, 1}}},
		"weights": {map[string]any{"edge_weight": []float64{.5, 2, 3}}, gnn.EdgeKinds{{}}, []Mark{{0, .5}, {0, 2}, {0, 3}}},
		"one":     {map[string]any{"edge_type": []int64{0, 0, 0}, "edge_index": array2("|u1", 2, 3, false, "\x00\x01\x02\x01\x00\x02")}, nil, nil},
		"both":    {map[string]any{"edge_type": []int64{1, 1, 0}, "edge_weight": []float64{4, 4, 3}}, gnn.EdgeKinds{{Name: "0", Directed: true}, {Name: "1"}}, []Mark{{1, 4}, {1, 4}, {0, 3}}},
	} {
		got, err := open(c.more)
		if err != nil || cmp.Diff(c.kinds, got.Kinds) != "" || cmp.Diff(c.marks, got.Marks) != "" {
			t.Errorf("%s: error %v, %+v", name, err, got)
		}
	}
	for _, bad := range []map[string]any{{"edge_type": []int64{0, 0}}, {"edge_type": []int64{0, 0, -1}}, {"edge_type": []int64{0, 100 * gnn.MaxMeans, 0}}, {"edge_weight": []float64{1, 0, 1}}, {"edge_weight": []float64{1, 1e9 * largestWeight, 1}}, {"edge_weight": []float64{1, math.NaN(), 1}}} {
		if _, err := open(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// TestOpenNPZIntegers: integers of every width are read, of many numbers.
func TestOpenNPZIntegers(t *testing.T) {
	const n, dim = 300, 50
	for kind, width := range map[string]int{"|b1": 1, "|i1": 1, "|u1": 1, "<i2": 2, "<u2": 2, "<i4": 4, "<u4": 4, "<i8": 8, "<u8": 8} {
		raw, want := make([]byte, n*dim*width), make([][]float32, n)
		for v := range n {
			for j := range dim {
				number := byte((3*v + j) % 100)
				if kind == "|b1" {
					number %= 2
				}
				raw[(v*dim+j)*width] = number
				want[v] = append(want[v], float32(number))
			}
		}
		d, err := openArchive(t, archive(t, map[string]any{
			"x": array2(kind, n, dim, false, string(raw)), "edge_index": array2("|u1", 2, 0, false, ""), "y": make([]int8, n),
		}))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		for v := range want {
			if !slices.Equal(d.Features[v].Dense, want[v]) {
				t.Fatalf("%s, node %d: %v, want %v", kind, v, d.Features[v].Dense, want[v])
			}
		}
	}
}

// TestOpenNPZRefuses: the error for an invalid archive is one line that names the array.
func TestOpenNPZRefuses(t *testing.T) {
	x := array2("<f4", 2, 2, false, floats(1, 0, 0, 2))
	edges := array2("|u1", 2, 1, false, "\x00\x01")
	y := []int32{0, 1}
	tensors := func(changes map[string]any) map[string]any {
		all := map[string]any{"x": x, "edge_index": edges, "y": y}
		maps.Copy(all, changes)
		return all
	}
	for _, c := range []struct {
		arrays map[string]any
		want   string
	}{
		{map[string]any{"x": x}, "no array edge_index"},
		{map[string]any{"x": x, "edge_index": edges}, "no array y"},
		{tensors(map[string]any{"y": []int32{0}}), "y has shape [1], want [2], one for each node"},
		{tensors(map[string]any{"y": []int32{0, -2}}), "y, entry 1: -2, want a whole number from -1"},
		{tensors(map[string]any{"y": []float64{0, .5}}), "y, entry 1: 0.5, want a whole number"},
		{tensors(map[string]any{"y": []int64{0, math.MaxInt64}}), "y, entry 1"},
		{tensors(map[string]any{"node_year": []int32{1999}}), "node_year has shape [1]"},
		{tensors(map[string]any{"time": []float64{1999, math.NaN()}}), "time, entry 1: NaN is not a finite number"},
		{tensors(map[string]any{"node_ids": []float64{1, 2}}), "node_ids has the type f8, want integers"},
		{tensors(map[string]any{"node_ids": []int64{7, 7}}), "node_ids: 7 occurs twice"},
		{tensors(map[string]any{"node_ids": array2("|S1", 2, 1, false, "aa")}), "numbers of type \"|S1\""},
		{tensors(map[string]any{"train_mask": []bool{true}}), "train_mask has shape [1], want [2], one for each node"},
		{tensors(map[string]any{"train_mask": []int8{0, 2}}), "train_mask, entry 1: 2, want a whole number from 0 to 1"},
		{tensors(map[string]any{"train_mask": []bool{true, false}, "test_mask": []bool{true, true}}), "test_mask: node 0 is in the part train too"},
		{tensors(map[string]any{"train_mask": array2("|b1", 2, 2, true, "\x00\x01\x01\x00")}), "train_mask has shape [2 2], want [2]"},
		{tensors(map[string]any{"x": array2("<f4", 2, 2, true, floats(1, 0, 0, 2))}), "save numpy.ascontiguousarray(x)"},
		{tensors(map[string]any{"edge_index": array2("|u1", 2, 1, false, "\x00\x02")}), "edge_index, entry 1: 2, want a whole number from 0 to 1"},
		{tensors(map[string]any{"edge_index": array2("|u1", 3, 2, false, "\x00\x01\x00\x01\x00\x01")}), "edge_index has shape [3 2], want [2 edges]"},
		{tensors(map[string]any{"x": array2("<f4", 2, 2, false, floats(1, 0, 0, float32(math.NaN())))}), "x, feature 1 of node 1: NaN"},
		{tensors(map[string]any{"x": array2("<f8", 1, 1, false, "\x00\x00\x00\x00\x00\x00\xf0\x7e")}), "is not a finite number"},
		{tensors(map[string]any{"x": array2("<f4", 2, 2, false, floats(1, 0, 0))}), "x: shape [2 2] of type <f4 makes 144 bytes, the archive says 140"},
		{tensors(map[string]any{"x": array2("<f4", 2, 2, false, floats(1, 0, 0, 1, 1))}), "the archive says 148"},
		{tensors(map[string]any{"x": array2("<f4", 9e9, 9e9, false, floats(1))}), "x: shape [9000000000 9000000000] is more than can be counted"},
		{tensors(map[string]any{"x": array2("<f4", 0, 4, false, "")}), "x has shape [0 4], want [nodes features]"},
		{tensors(map[string]any{"x": array2("<f2", 2, 2, false, "12345678")}), "numbers of type \"<f2\""},
		{tensors(map[string]any{"x": array2("|O", 2, 2, false, "abcd")}), "numbers of type \"|O\""},
		{tensors(map[string]any{"x": "\x93NUMPY\x02\x00\xff\xff\xff\xff"}), "x: an array of version 2 with a header of 4294967295 bytes"},
		{tensors(map[string]any{"x": "\x93NUMPY\x01\x00\xff\xff" + strings.Repeat(" ", 16*maxHeader)}), "x: an array of version 1 with a header of 65535 bytes"},
		{tensors(map[string]any{"y": []int64{0, 1000 * maxClasses}}), "y, entry 1"},
		{tensors(map[string]any{"x": "\x93NUMPY\x01\x00\x76\x00{'descr'"}), "x: not an array: its header is cut short"},
		{tensors(map[string]any{"x": "\x93NUMPY\x01\x00\x02\x00{}"}), "x: not an array of plain numbers: its header is \"{}\""},
		{tensors(map[string]any{"x": strings.Replace(x, "'<f4'", "[('a', '<f4')]", 1)}), "x: not an array of plain numbers"},
		{tensors(map[string]any{"x": "junk that is long enough"}), "x: not an array"},
		{tensors(map[string]any{"x": ""}), "x: not an array"},
	} {
		d, err := openArchive(t, archive(t, c.arrays))
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("arrays %q: got %v, want one line with %q", slices.Sorted(maps.Keys(c.arrays)), err, c.want)
		}
	}
	damaged := archive(t, tensors(nil))
	damaged[bytes.Index(damaged, []byte(edges))+len(edges)-1] ^= 1
	if _, err := openArchive(t, damaged); err == nil || !strings.Contains(err.Error(), "edge_index: zip: checksum error") {
		t.Errorf("a flipped bit: got %v, want a checksum error of edge_index", err)
	}
}

// TestHostileNPZ: no memory is allocated for the sizes that the headers of an archive
// declare, even if its directory agrees with them. Data that is really there, packed a
// thousandfold, is refused before it takes much memory.
func TestHostileNPZ(t *testing.T) {
	edges, y := array2("|u1", 2, 1, false, "\x00\x01"), []int32{0}
	huge := func(kind string, rows, columns int, fortran bool) string {
		return array2(kind, rows, columns, fortran, floats(1))
	}
	for what, arrays := range map[string]map[string]any{
		"x":          {"x": huge("<f4", 100_000, 1000, false), "edge_index": edges, "y": y},
		"columns":    {"x": huge("<f4", 100_000, 1000, true), "edge_index": edges, "y": y},
		"one row":    {"x": huge("<f8", 1, 1<<20, false), "edge_index": edges, "y": y},
		"edge_index": {"x": array2("<f4", 1, 1, false, floats(1)), "edge_index": huge("<i4", 2, 4_000_000, false), "y": y},
		"headers":    {"x": "\x93NUMPY\x02\x00\xff\xff\xff\xff", "edge_index": edges, "y": y},
	} {
		for _, forged := range []bool{false, true} {
			b := archive(t, arrays)
			if forged {
				forgeSizes(b, arrays)
			}
			var err error
			took := allocated(func() { _, err = openArchive(t, b) })
			if err == nil {
				t.Errorf("%s: Open succeeded, want an error", what)
			}
			if took > 1<<20 {
				t.Errorf("%s: %d KiB allocated for a file of %d bytes, want at most 1024 (%v)", what, took>>10, len(b), err)
			}
		}
	}
	// The data is really there, packed a thousandfold.
	for what, x := range map[string]string{
		"many nodes": array2("|u1", 1<<20, 1, false, strings.Repeat("\x00", 1<<20)),
		"ones":       array2("|u1", 1<<13, 1<<10, false, strings.Repeat("\x01", 8<<20)),
	} {
		b := archive(t, map[string]any{"x": x, "edge_index": edges, "y": y})
		var err error
		took := allocated(func() { _, err = openArchive(t, b) })
		if err == nil || !strings.Contains(err.Error(), "give it unpacked") {
			t.Errorf("%s: got %v, want an error with \"give it unpacked\"", what, err)
		}
		if took > 6*freeBytes {
			t.Errorf("%s: %d MiB allocated for a file of %d KiB, want at most %d", what, took>>20, len(b)>>10, 6*freeBytes>>20)
		}
	}
}

// forgeSizes writes into the directory of an archive that each member is as long as its
// header declares.
func forgeSizes(b []byte, arrays map[string]any) {
	const entry = "PK\x01\x02"
	for at := bytes.Index(b, []byte(entry)); at >= 0; {
		name := string(b[at+46 : at+46+int(binary.LittleEndian.Uint16(b[at+28:]))])
		if raw, ok := arrays[strings.TrimSuffix(name, ".npy")].(string); ok && strings.Contains(raw, "shape") {
			var rows, columns, width uint32
			if _, err := fmt.Sscanf(raw[strings.Index(raw, "shape"):], "shape': (%d, %d)", &rows, &columns); err != nil {
				panic(err)
			}
			width = uint32(raw[strings.Index(raw, "descr")+11] - '0')
			binary.LittleEndian.PutUint32(b[at+20:], 128+rows*columns*width)
			binary.LittleEndian.PutUint32(b[at+24:], 128+rows*columns*width)
		}
		next := bytes.Index(b[at+4:], []byte(entry))
		if next < 0 {
			return
		}
		at += 4 + next
	}
}

// archive packs arrays as numpy.savez_compressed does, in the order of their names. A
// string is a whole member, with its header.
func archive(t testing.TB, arrays map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		how := &zip.FileHeader{Name: name + ".npy", Method: zip.Deflate}
		raw, ok := arrays[name].(string)
		if len(raw) < 1<<10 {
			how.Method = zip.Store
		}
		w, err := z.CreateHeader(how)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			_, err = w.Write([]byte(raw))
		} else {
			err = npy.Write(w, arrays[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// array2 returns a matrix as numpy writes it. npy.Write does not write shapes.
func array2(kind string, rows, columns int, fortran bool, raw string) string {
	order := "False"
	if fortran {
		order = "True"
	}
	dictionary := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%d, %d), }", kind, order, rows, columns)
	return fmt.Sprintf("\x93NUMPY\x01\x00\x76\x00%-117s\n%s", dictionary, raw)
}

// floats returns the bytes of numbers.
func floats(x ...float32) string {
	var b []byte
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return string(b)
}

// openArchive opens the bytes of an archive.
func openArchive(t testing.TB, b []byte) (*Dataset, error) {
	t.Helper()
	return Open(filepath.Join(write(t, map[string]string{"few.npz": string(b)}), "few.npz"))
}

// TestPipes: a data set whose files are pipes is refused, not waited for.
func TestPipes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.npz", "nodes.csv"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "edges.csv"), []byte("source,target\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "a.npz"), dir, filepath.Join(dir, "nodes.csv")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: error %v, want that it is not a regular file", path, err)
		}
	}
}

// TestNPZMinusOne: -1 is no label beside counted classes, and says so; -1 and 1 alone are a coding of two classes, with NaN for none.
func TestNPZMinusOne(t *testing.T) {
	for name, c := range map[string]struct {
		y       []float64
		classes []string
		labels  []int32
		said    string
	}{
		"counted":          {[]float64{2, -1, 0}, []string{"0", "1", "2"}, []int32{2, Unlabelled, 0}, "label -1 of 1 nodes is taken for none"},
		"counted, no 0":    {[]float64{2, -1, 1}, []string{"0", "1", "2"}, []int32{2, Unlabelled, 1}, "no node has label 0, from which labels count here: there is a class 0 without nodes" + "label -1 of 1 nodes is taken for none"},
		"a coding of two":  {[]float64{1, -1, 1}, []string{"-1", "1"}, []int32{1, 0, 1}, ""},
		"with none":        {[]float64{1, -1, math.NaN()}, []string{"-1", "1"}, []int32{1, 0, Unlabelled}, ""},
		"without it":       {[]float64{1, 0, math.NaN()}, []string{"0", "1"}, []int32{1, 0, Unlabelled}, ""},
		"0 and 1 and none": {[]float64{1, 0, -1}, []string{"0", "1"}, []int32{1, 0, Unlabelled}, "label -1 of 1 nodes is taken for none"},
	} {
		got, err := openArchive(t, archive(t, map[string]any{
			"x": array2("<f4", 3, 1, false, floats(1, 2, 3)), "edge_index": array2("|u1", 2, 1, false, "\x00\x01"), "y": c.y,
		}))
		if err != nil || !slices.Equal(got.Classes, c.classes) || !slices.Equal(got.Labels, c.labels) || strings.Join(got.Notes, "") != c.said {
			t.Errorf("%s: %v %v, said %q, error %v; want %v %v, said %q", name, got.Classes, got.Labels, got.Notes, err, c.classes, c.labels, c.said)
		}
	}
}

// TestManyMembers: an archive of a hundred thousand members, all of them the same bytes, takes memory in proportion to its own, and one
// whose members claim to unpack to more than their bytes can is refused.
func TestManyMembers(t *testing.T) {
	one := archive(t, map[string]any{"x": array2("|u1", 1<<13, 1<<10, false, strings.Repeat("\x01", 8<<20))})
	at := bytes.LastIndex(one, []byte("PK\x01\x02"))
	end := bytes.LastIndex(one, []byte("PK\x05\x06"))
	entry := one[at:end]
	const many = 60_000
	b := bytes.Clone(one[:at])
	for i := range many {
		e := bytes.Clone(entry)
		copy(e[46:], fmt.Sprintf("%c", 'a'+i%26)) // the name's first letter
		b = append(b, e...)
	}
	size := len(b) - at
	tail := bytes.Clone(one[end:])
	binary.LittleEndian.PutUint16(tail[8:], many)
	binary.LittleEndian.PutUint16(tail[10:], many)
	binary.LittleEndian.PutUint32(tail[12:], uint32(size))
	b = append(b, tail...)
	var err error
	took := allocated(func() { _, err = openArchive(t, b) })
	t.Logf("%d KiB, %d MiB allocated: %v", len(b)>>10, took>>20, err)
	if err == nil || took > 6*freeBytes {
		t.Errorf("%d MiB allocated for %d KiB (%v), want at most %d and an error", took>>20, len(b)>>10, err, 6*freeBytes>>20)
	}
}
