package dataset

import (
	"archive/zip"
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sbinet/npyio/npy"

	"github.com/gvbll/gvbll/gnn"
)

// table writes files to a folder of the given name.
func table(t testing.TB, folder string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), folder)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestOpenCSV: the same graph as dense columns and as index:value pairs, quoted,
// with a byte order mark, and years.
func TestOpenCSV(t *testing.T) {
	edges := "target,weight,source\nb,1,\"a, the first\"\nc,2,c\n"
	dense := map[string]string{
		"nodes.csv": "\ufeffid,f1,label,f2,f3,f4,f5,year\r\n\"a, the first\",1,10,0,0,0,0,2017\r\nb,0,9,2.5,0,0,0,2018\r\n\nc,0,10,0,0,0,0,2019\r\n",
		"edges.csv": edges,
	}
	sparse := map[string]string{
		"nodes.csv": "id,label,year,features\n\"a, the first\",10,2017,0:1 4:0\nb,9,2018,  1:2.5\nc,10,2019,\n",
		"edges.csv": edges,
	}
	want := &Dataset{
		Name: "few", Dim: 5, Sparse: true, Classes: []string{"9", "10"}, Labels: []int32{1, 0, 1}, Year: []int32{2017, 2018, 2019},
		Features: []gnn.Vector{{Index: []uint32{0}, Value: []float32{1}}, {Index: []uint32{1}, Value: []float32{2.5}}, {Index: []uint32{}, Value: []float32{}}},
		Edges:    [][2]int32{{0, 1}, {2, 2}},
	}
	for name, files := range map[string]map[string]string{"dense": dense, "sparse": sparse} {
		got, err := Open(table(t, "few", files))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestOpenCSVRefuses(t *testing.T) {
	const nodes, edges = "id,label,x\na,p,1\nb,q,2\n", "source,target\na,b\n"
	for _, c := range []struct{ nodes, edges, want string }{
		{"", edges, "nodes.csv is empty"},
		{"id,x\na,1\n", edges, "line 1: the header is"},
		{"id,label\na,p\n", edges, "no features"},
		{"id,label,features,y\na,p,,1\n", edges, "a column features, and 1 more"},
		{"id,label,x\n", edges, "has no nodes"},
		{"id,label,x\na,p,1\na,q,2\n", edges, "nodes.csv line 3: id \"a\" stands twice"},
		{"id,label,x\na,,1\n", edges, "line 2: the label is empty"},
		{"id,label,x\na,p\n", edges, "line 2: 2 fields, the header has 3"},
		{"id,label,x\na,p,NaN\n", edges, "feature 0, \"NaN\", is not a finite number"},
		{"id,label,x\na,p,1e39\n", edges, "feature 0"},
		{"id,label,x\na,\"p,1\n", edges, "line 2: column"},
		{"id,label,year,x\na,p,soon,1\n", edges, "year: \"soon\" is not an integer"},
		{"id,label,features\na,p,1\n", edges, "\"1\", want index:value"},
		{"id,label,features\na,p,1:1 1:2\n", edges, "feature 1 after 1"},
		{"id,label,features\na,p,99999999:1\n", edges, "99999999 is not between"},
		{nodes, "", "edges.csv is empty"},
		{nodes, "from,to\na,b\n", "columns source and target"},
		{nodes, "source,target\na,c\n", "edges.csv line 2: an edge from \"a\" to \"c\""},
	} {
		d, err := Open(table(t, "bad", map[string]string{"nodes.csv": c.nodes, "edges.csv": c.edges}))
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q and %q: %v, want an error with %q", c.nodes, c.edges, err, c.want)
		}
	}
}

// archive writes arrays as numpy.savez does.
func archive(t testing.TB, arrays map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, a := range arrays {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		if raw, ok := a.(string); ok {
			_, err = w.Write([]byte(raw))
		} else {
			err = npy.Write(w, a)
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

// matrix is an array as numpy writes it: npy.Write takes no shapes.
func matrix(kind, shape string, raw string) string {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", kind, shape)
	header += strings.Repeat(" ", (64-(10+len(header)+1)%64)%64) + "\n"
	return "\x93NUMPY\x01\x00" + string([]byte{byte(len(header)), byte(len(header) >> 8)}) + header + raw
}

func openArchive(t testing.TB, b []byte) (*Dataset, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "few.npz")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return Open(path)
}

func floats(x ...float32) string {
	var b strings.Builder
	for _, v := range x {
		u := math.Float32bits(v)
		b.Write([]byte{byte(u), byte(u >> 8), byte(u >> 16), byte(u >> 24)})
	}
	return b.String()
}

// TestOpenNPZ: the same graph as PyTorch Geometric's arrays, in either order, and
// as the parts of sparse matrices.
func TestOpenNPZ(t *testing.T) {
	want := &Dataset{
		Name: "few", Dim: 5, Sparse: true, Classes: []string{"0", "1", "2"}, Labels: []int32{2, 0},
		Features: []gnn.Vector{{Index: []uint32{0, 3}, Value: []float32{1, 2}}, {Index: []uint32{}, Value: []float32{}}},
		Edges:    [][2]int32{{0, 1}, {1, 0}, {1, 1}},
	}
	edges := matrix("|u1", "(2, 3)", "\x00\x01\x01\x01\x00\x01")
	for name, arrays := range map[string]map[string]any{
		"rows": {"x": matrix("<f4", "(2, 5)", floats(1, 0, 0, 2, 0, 0, 0, 0, 0, 0)), "edge_index": edges, "y": []int64{2, 0}, "train_mask": []bool{true, false}},
		"columns": {
			"x":          strings.NewReplacer("False", "True", "}", "} ").Replace(matrix("<f4", "(2, 5)", floats(1, 0, 0, 0, 0, 0, 2, 0, 0, 0))),
			"edge_index": edges, "y": []uint8{2, 0},
		},
		"sparse": {
			"adj_indices": []int32{1, 0, 1}, "adj_indptr": []int32{0, 1, 3}, "adj_shape": []int64{2, 2},
			"attr_data": []float64{1, 2}, "attr_indices": []int32{0, 3}, "attr_indptr": []int64{0, 2, 2}, "attr_shape": []int64{2, 5},
			"labels": []int16{2, 0},
		},
	} {
		got, err := openArchive(t, archive(t, arrays))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestOpenNPZRefuses(t *testing.T) {
	x, edges := matrix("<f4", "(2, 2)", floats(1, 0, 0, 2)), matrix("|u1", "(2, 1)", "\x00\x01")
	for _, c := range []struct {
		arrays map[string]any
		want   string
	}{
		{map[string]any{"x": x}, "neither edge_index nor adj_indptr"},
		{map[string]any{"x": x, "edge_index": edges}, "no array y"},
		{map[string]any{"x": x, "edge_index": edges, "y": []int32{0}}, "labels have shape [1], want one for each of 2"},
		{map[string]any{"x": x, "edge_index": edges, "y": []int32{0, -1}}, "label of node 1: entry 1 is -1"},
		{map[string]any{"x": x, "edge_index": matrix("|u1", "(2, 1)", "\x00\x02"), "y": []int32{0, 1}}, "edge_index: entry 0 is 2"},
		{map[string]any{"x": matrix("<f4", "(2, 2)", floats(1, 0, 0, float32(math.NaN()))), "edge_index": edges, "y": []int32{0, 1}}, "feature 1 of node 1 is NaN"},
		{map[string]any{"x": matrix("<f4", "(2, 2)", floats(1, 0, 0)), "edge_index": edges, "y": []int32{0, 1}}, "x: shape [2 2]"},
		{map[string]any{"x": matrix("<f4", "(9000000000, 9000000000)", floats(1)), "edge_index": edges, "y": []int32{0, 1}}, "x: shape"},
		{map[string]any{"x": matrix(">f4", "(2, 2)", floats(1, 0, 0, 2)), "edge_index": edges, "y": []int32{0, 1}}, "numbers of type"},
		{map[string]any{"x": matrix("|O", "(2, 2)", "abcd"), "edge_index": edges, "y": []int32{0, 1}}, "x: "},
		{map[string]any{"x": "\x93NUMPY\x02\x00\xff\xff\xff\xff", "edge_index": edges}, "x: not an array"},
		{map[string]any{"x": "junk that is long enough", "edge_index": edges}, "x: not an array"},
		{map[string]any{"adj_indptr": []int32{0, 5}, "adj_indices": []int32{0}, "adj_shape": []int32{1, 1}}, "adj_indptr: row 0 goes from 0 to 5"},
		{map[string]any{"adj_indptr": []int32{0}, "adj_indices": []int32{0}, "adj_shape": []int32{1, 1}}, "adj: indptr, indices and data have shapes"},
		{map[string]any{"adj_indptr": []int32{0, 0}, "adj_indices": []int32{}, "adj_shape": []int32{1}}, "adj_shape has shape [1]"},
	} {
		d, err := openArchive(t, archive(t, c.arrays))
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error with %q", slices.Sorted(maps.Keys(c.arrays)), err, c.want)
		}
	}
	if _, err := openArchive(t, []byte("PK no zip")); err == nil || !strings.Contains(err.Error(), "few.npz: zip") {
		t.Errorf("no zip: %v", err)
	}
}

// TestOpenTakesLittle: what a file claims takes no memory before it is there.
func TestOpenTakesLittle(t *testing.T) {
	hostile := archive(t, map[string]any{
		"x": matrix("<f4", "(100000000, 1000)", floats(1)), "edge_index": "\x93NUMPY\x02\x00\xff\xff\xff\xff", "y": []int32{0},
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := openArchive(t, hostile); err == nil {
		t.Error("taken")
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes for a file of %d", took, len(hostile))
	}
}

// fits checks what every data set must hold.
func fits(t *testing.T, d *Dataset) {
	n := len(d.Features)
	if n == 0 || len(d.Labels) != n || d.Year != nil && len(d.Year) != n {
		t.Fatalf("%d nodes, %d labels, %d years", n, len(d.Labels), len(d.Year))
	}
	for v, x := range d.Features {
		if err := x.Validate(d.Dim); err != nil || (x.Dense == nil) != d.Sparse {
			t.Fatalf("node %d: %+v, sparse %v: %v", v, x, d.Sparse, err)
		}
		if y := d.Labels[v]; y < 0 || int(y) >= len(d.Classes) {
			t.Fatalf("node %d: class %d of %d", v, y, len(d.Classes))
		}
	}
	for _, e := range d.Edges {
		if min(e[0], e[1]) < 0 || int(max(e[0], e[1])) >= n {
			t.Fatalf("edge %v in a graph of %d nodes", e, n)
		}
	}
}

func FuzzOpenCSV(f *testing.F) {
	f.Add("id,label,x\na,p,1\nb,q,2\n", "source,target\na,b\n")
	f.Add("id,label,features,year\na,p,0:1 5:2,1999\n", "source,target\na,a\n")
	f.Add("id,label,x\n\"a\nb\",p,1\n", "source,target,\n,,\n")
	f.Fuzz(func(t *testing.T, nodes, edges string) {
		if d, err := Open(table(t, "fuzz", map[string]string{"nodes.csv": nodes, "edges.csv": edges})); err == nil {
			fits(t, d)
		}
	})
}

func FuzzOpenNPZ(f *testing.F) {
	f.Add(archive(f, map[string]any{
		"x": matrix("<f4", "(2, 2)", floats(1, 0, 0, 2)), "edge_index": matrix("|u1", "(2, 1)", "\x00\x01"), "y": []int64{0, 1},
	}))
	f.Add(archive(f, map[string]any{
		"adj_indices": []int32{1, 0}, "adj_indptr": []int32{0, 1, 2}, "adj_shape": []int64{2, 2},
		"attr_data": []float64{1, 2}, "attr_indices": []int32{0, 3}, "attr_indptr": []int64{0, 2, 2}, "attr_shape": []int64{2, 5},
		"labels": []int16{2, 0},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := openArchive(t, b); err == nil {
			fits(t, d)
		}
	})
}
