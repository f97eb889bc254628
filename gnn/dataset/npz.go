package dataset

import (
	"archive/zip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbinet/npyio/npy"

	"github.com/gvbll/gvbll/gnn"
)

// openNPZ reads numpy's archive of arrays, see [Open].
func openNPZ(path string) (*Dataset, error) {
	d, err := readNPZ(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func readNPZ(path string) (*Dataset, error) {
	file, err := zip.OpenReader(path)
	if err != nil {
		return nil, cause(err)
	}
	defer file.Close()
	z := npz{&file.Reader}
	d := &Dataset{Name: strings.TrimSuffix(filepath.Base(path), ".npz")}
	var labels array
	if z.has("edge_index") {
		if labels, err = z.dense(d); err != nil {
			return nil, err
		}
	} else if z.has("adj_indptr") {
		if labels, err = z.sparse(d); err != nil {
			return nil, err
		}
	} else {
		return nil, errors.New("neither edge_index nor adj_indptr is there: see gvbll train --help for the layouts")
	}
	if err := d.number(labels); err != nil {
		return nil, err
	}
	if z.has("node_year") {
		years, err := z.integers("node_year", len(d.Features), math.MinInt16, math.MaxInt16)
		if err != nil {
			return nil, err
		}
		d.Year = years
	}
	return d, nil
}

// dense reads x, edge_index and y.
func (z npz) dense(d *Dataset) (labels array, err error) {
	x, err := z.read("x")
	if err != nil {
		return array{}, err
	}
	edges, err := z.read("edge_index")
	if err != nil {
		return array{}, err
	}
	if len(x.shape) != 2 || x.shape[0] == 0 || x.shape[1] == 0 || x.shape[0] > maxNodes || x.shape[1] > maxDim {
		return array{}, fmt.Errorf("x has shape %v, want nodes × features, at most %d × %d", x.shape, maxNodes, maxDim)
	}
	if len(edges.shape) != 2 || edges.shape[0] != 2 || edges.shape[1] > maxEdges {
		return array{}, fmt.Errorf("edge_index has shape %v, want 2 × edges, at most %d", edges.shape, maxEdges)
	}
	n, dim, m := x.shape[0], x.shape[1], edges.shape[1]
	d.Dim = dim
	nonzero := 0
	for v := range n {
		row := gnn.Vector{Index: []uint32{}, Value: []float32{}}
		for k := range dim {
			value := float32(x.at(v, k))
			if isBad(value) {
				return array{}, fmt.Errorf("x: feature %d of node %d is %v", k, v, value)
			}
			if value != 0 {
				row.Index, row.Value = append(row.Index, uint32(k)), append(row.Value, value)
			}
		}
		nonzero += len(row.Index)
		d.Features = append(d.Features, row)
	}
	d.Sparse = settle(d.Features, dim, nonzero)
	for e := range m {
		u, err := edges.integer(0, e, n)
		if err != nil {
			return array{}, fmt.Errorf("edge_index: %w", err)
		}
		v, err := edges.integer(1, e, n)
		if err != nil {
			return array{}, fmt.Errorf("edge_index: %w", err)
		}
		d.Edges = append(d.Edges, [2]int32{u, v})
	}
	return z.read("y")
}

// sparse reads the parts of the matrices adj and attr, and labels.
func (z npz) sparse(d *Dataset) (labels array, err error) {
	n, _, err := z.csr("adj", func(row, column int32, _ float32) {
		d.Edges = append(d.Edges, [2]int32{row, column})
	})
	if err != nil {
		return array{}, err
	}
	nonzero := 0
	d.Features = make([]gnn.Vector, n)
	for v := range d.Features {
		d.Features[v] = gnn.Vector{Index: []uint32{}, Value: []float32{}}
	}
	var bad error
	rows, dim, err := z.csr("attr", func(row, column int32, value float32) {
		if int(row) >= n || value == 0 {
			return
		}
		x := &d.Features[row]
		if k := len(x.Index); k > 0 && x.Index[k-1] >= uint32(column) && bad == nil {
			bad = fmt.Errorf("attr_indices: feature %d after %d in row %d, want them ascending", column, x.Index[k-1], row)
		}
		x.Index, x.Value = append(x.Index, uint32(column)), append(x.Value, value)
		nonzero++
	})
	switch {
	case err != nil:
		return array{}, err
	case bad != nil:
		return array{}, bad
	case rows != n || n == 0 || dim == 0 || dim > maxDim:
		return array{}, fmt.Errorf("attr_shape is %d × %d, want the %d nodes of adj_shape and at most %d features", rows, dim, n, maxDim)
	}
	d.Dim = dim
	d.Sparse = settle(d.Features, dim, nonzero)
	return z.read("labels")
}

// number takes a label for each node. Classes are named by their numbers.
func (d *Dataset) number(labels array) error {
	if len(labels.shape) != 1 || labels.shape[0] != len(d.Features) {
		return fmt.Errorf("labels have shape %v, want one for each of %d nodes", labels.shape, len(d.Features))
	}
	top := int32(-1)
	for v := range d.Features {
		y, err := labels.integer(0, v, 1<<16)
		if err != nil {
			return fmt.Errorf("label of node %d: %w", v, err)
		}
		d.Labels = append(d.Labels, y)
		top = max(top, y)
	}
	for c := range top + 1 {
		d.Classes = append(d.Classes, strconv.Itoa(int(c)))
	}
	return nil
}

func isBad(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }

// npz is an archive of arrays, one .npy member each.
type npz struct{ zip *zip.Reader }

func (z npz) has(name string) bool {
	f, err := z.zip.Open(name + ".npy")
	if err == nil {
		f.Close()
	}
	return err == nil
}

// array is a member's numbers.
type array struct {
	shape   []int
	fortran bool // columns stand together
	values  func(i int) float64
}

// at returns an entry of a matrix, or of a vector for row 0.
func (a array) at(row, column int) float64 {
	switch {
	case len(a.shape) == 1:
		return a.values(column)
	case a.fortran:
		return a.values(column*a.shape[0] + row)
	}
	return a.values(row*a.shape[1] + column)
}

// integer returns an entry that is a whole number from 0 to below limit.
func (a array) integer(row, column, limit int) (int32, error) {
	v := a.at(row, column)
	if v != math.Trunc(v) || !(v >= 0 && v < float64(limit)) {
		return 0, fmt.Errorf("entry %d is %v, want a whole number from 0 to %d", column, v, limit-1)
	}
	return int32(v), nil
}

func (z npz) integers(name string, n, low, high int) ([]int32, error) {
	a, err := z.read(name)
	if err != nil {
		return nil, err
	}
	if len(a.shape) != 1 || a.shape[0] != n {
		return nil, fmt.Errorf("%s has shape %v, want %d numbers", name, a.shape, n)
	}
	out := make([]int32, n)
	for i := range out {
		v := a.values(i)
		if v != math.Trunc(v) || !(v >= float64(low) && v <= float64(high)) {
			return nil, fmt.Errorf("%s: entry %d is %v, want a whole number from %d to %d", name, i, v, low, high)
		}
		out[i] = int32(v)
	}
	return out, nil
}

// csr calls each with the entries of a matrix in compressed sparse rows, and
// returns its shape. Values that are not there are ones.
func (z npz) csr(name string, each func(row, column int32, value float32)) (rows, columns int, err error) {
	shape, err := z.read(name + "_shape")
	if err != nil {
		return 0, 0, err
	}
	if len(shape.shape) != 1 || shape.shape[0] != 2 {
		return 0, 0, fmt.Errorf("%s_shape has shape %v, want 2 numbers", name, shape.shape)
	}
	r, err := shape.integer(0, 0, maxNodes)
	if err != nil {
		return 0, 0, fmt.Errorf("%s_shape: %w", name, err)
	}
	c, err := shape.integer(0, 1, math.MaxInt32)
	if err != nil {
		return 0, 0, fmt.Errorf("%s_shape: %w", name, err)
	}
	start, err := z.read(name + "_indptr")
	if err != nil {
		return 0, 0, err
	}
	index, err := z.read(name + "_indices")
	if err != nil {
		return 0, 0, err
	}
	value := array{shape: index.shape, values: func(int) float64 { return 1 }}
	if z.has(name + "_data") {
		if value, err = z.read(name + "_data"); err != nil {
			return 0, 0, err
		}
	}
	if len(start.shape) != 1 || start.shape[0] != int(r)+1 || len(index.shape) != 1 || len(value.shape) != 1 || value.shape[0] != index.shape[0] {
		return 0, 0, fmt.Errorf("%s: indptr, indices and data have shapes %v, %v and %v for %d rows", name, start.shape, index.shape, value.shape, r)
	}
	last := int32(0)
	for row := range r {
		from, err := start.integer(0, int(row), index.shape[0]+1)
		if err != nil || from != last {
			return 0, 0, fmt.Errorf("%s_indptr: row %d begins at %v, want %d", name, row, start.at(0, int(row)), last)
		}
		to, err := start.integer(0, int(row)+1, index.shape[0]+1)
		if err != nil || to < from {
			return 0, 0, fmt.Errorf("%s_indptr: row %d goes from %d to %v of %d entries", name, row, from, start.at(0, int(row)+1), index.shape[0])
		}
		for e := from; e < to; e++ {
			column, err := index.integer(0, int(e), int(c))
			if err != nil {
				return 0, 0, fmt.Errorf("%s_indices: %w", name, err)
			}
			v := float32(value.values(int(e)))
			if isBad(v) {
				return 0, 0, fmt.Errorf("%s_data: entry %d is %v", name, e, v)
			}
			each(row, column, v)
		}
		last = to
	}
	return int(r), int(c), nil
}

// maxHeader is the largest .npy header that is believed: numpy writes 128 bytes.
const maxHeader = 1 << 16

// deflateRatio is more than deflate can make of a byte. A member that declares
// more is lying, so nothing larger than that many times the file is ever taken.
const deflateRatio = 1100

// read reads a member. Its header is believed only when the numbers it declares
// are as many bytes as the archive says are there.
func (z npz) read(name string) (a array, err error) {
	member, err := z.zip.Open(name + ".npy")
	if errors.Is(err, fs.ErrNotExist) {
		return a, fmt.Errorf("no array %s", name)
	} else if err != nil {
		return a, fmt.Errorf("%s: %w", name, cause(err))
	}
	defer member.Close()
	info, err := member.Stat()
	if err != nil {
		return a, err
	}
	size := info.Size()
	if packed, ok := info.Sys().(*zip.FileHeader); ok && uint64(size) > deflateRatio*packed.CompressedSize64+maxHeader {
		return a, fmt.Errorf("%s: %d bytes that are packed in %d", name, size, packed.CompressedSize64)
	}
	body, err := header(member)
	if err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	// The package panics on some headers that are not numpy's.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: not an array: %v", name, r)
		}
	}()
	r, err := npy.NewReader(body)
	if err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	a.shape, a.fortran = r.Header.Descr.Shape, r.Header.Descr.Fortran
	kind := strings.TrimLeft(r.Header.Descr.Type, "<=|")
	width, known := map[string]int64{"f4": 4, "f8": 8, "i8": 8, "i4": 4, "i2": 2, "i1": 1, "u1": 1, "u2": 2, "u4": 4, "b1": 1}[kind]
	if !known {
		return a, fmt.Errorf("%s: numbers of type %.20q, want little-endian f4, f8, i1 to i8, u1 to u4 or b1", name, r.Header.Descr.Type)
	}
	count := int64(1)
	for _, n := range a.shape {
		if n < 0 || n > 0 && count > size/int64(n) {
			return a, fmt.Errorf("%s: shape %v in %d bytes", name, a.shape, size)
		}
		count *= int64(n)
	}
	if count > size/width {
		return a, fmt.Errorf("%s: shape %v in %d bytes", name, a.shape, size)
	}
	raw := make([]byte, count*width)
	if _, err := io.ReadFull(body, raw); err != nil {
		return a, fmt.Errorf("%s: shape %v: %w", name, a.shape, err)
	}
	a.values = entries(kind, raw)
	return a, nil
}

// header returns the member from its beginning, after a look at how long the
// header says it is.
func header(r io.Reader) (io.Reader, error) {
	var start [12]byte
	n, err := io.ReadFull(r, start[:])
	if err != nil {
		return nil, fmt.Errorf("not an array: %w", err)
	}
	length := uint32(binary.LittleEndian.Uint16(start[8:]))
	if start[6] >= 2 {
		length = binary.LittleEndian.Uint32(start[8:])
	}
	if string(start[:6]) != "\x93NUMPY" || length > maxHeader {
		return nil, fmt.Errorf("not an array: it begins with %q", start[:n])
	}
	return io.MultiReader(strings.NewReader(string(start[:])), r), nil
}

// entries reads the numbers of raw.
func entries(kind string, raw []byte) func(i int) float64 {
	le := binary.LittleEndian
	switch kind {
	case "f4":
		return func(i int) float64 { return float64(math.Float32frombits(le.Uint32(raw[4*i:]))) }
	case "f8":
		return func(i int) float64 { return math.Float64frombits(le.Uint64(raw[8*i:])) }
	case "i8":
		return func(i int) float64 { return float64(int64(le.Uint64(raw[8*i:]))) }
	case "i4":
		return func(i int) float64 { return float64(int32(le.Uint32(raw[4*i:]))) }
	case "u4":
		return func(i int) float64 { return float64(le.Uint32(raw[4*i:])) }
	case "i2":
		return func(i int) float64 { return float64(int16(le.Uint16(raw[2*i:]))) }
	case "u2":
		return func(i int) float64 { return float64(le.Uint16(raw[2*i:])) }
	case "i1":
		return func(i int) float64 { return float64(int8(raw[i])) }
	default: // u1, b1
		return func(i int) float64 { return float64(raw[i]) }
	}
}
