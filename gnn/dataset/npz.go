package dataset

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// readNPZ reads numpy's archive of arrays, see [Open]. It has the given size in
// bytes.
func readNPZ(r io.ReaderAt, size int64, name string) (*Dataset, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	z := npz{members: make(map[string]*zip.File), memory: newBudget(size)}
	for _, f := range archive.File {
		z.members[strings.TrimSuffix(f.Name, ".npy")] = f
	}
	d := &Dataset{Name: name}
	switch {
	case z.has("edge_index"):
		err = z.tensors(d)
	case z.has("adj_indptr"):
		err = z.matrices(d)
	default:
		err = errors.New("neither edge_index (with x and y) nor adj_indptr (with the other parts of adj and attr, and labels) is there")
	}
	if err != nil {
		return nil, err
	}
	if z.has("node_year") {
		if d.Year, err = z.perNode("node_year", len(d.Features), minYear, maxYear); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// npz is an archive of arrays by name.
type npz struct {
	members map[string]*zip.File
	memory  *budget
}

func (z npz) has(name string) bool { return z.members[name] != nil }

func (z npz) open(name string) (*array, error) {
	f := z.members[name]
	if f == nil {
		return nil, fmt.Errorf("no array %s", name)
	}
	return openArray(name, f)
}

// vector returns a one-dimensional array of n integers from low to high, or of any
// number of them if n is negative.
func (z npz) vector(name string, n, low, high int) ([]int32, error) {
	want := "[n]"
	if n >= 0 {
		want = fmt.Sprintf("[%d]", n)
	}
	fits := func(shape []int) bool { return len(shape) == 1 && (n < 0 || shape[0] == n) }
	return z.integers(name, low, high, fits, want)
}

// perNode returns an integer from low to high for each of n nodes. The shape may be
// [n] or [n 1].
func (z npz) perNode(name string, n, low, high int) ([]int32, error) {
	fits := func(shape []int) bool { return slices.Equal(shape, []int{n}) || slices.Equal(shape, []int{n, 1}) }
	return z.integers(name, low, high, fits, fmt.Sprintf("[%d], one for each node", n))
}

// integers returns an array of integers from low to high whose shape fits.
func (z npz) integers(name string, low, high int, fits func(shape []int) bool, want string) ([]int32, error) {
	a, err := z.open(name)
	if err != nil {
		return nil, err
	}
	defer a.close()
	if !fits(a.shape) {
		return nil, fmt.Errorf("%s has shape %v, want %s", name, a.shape, want)
	}
	return a.rest(low, high, z.memory)
}

// tensors reads PyTorch Geometric's x, edge_index and y.
func (z npz) tensors(d *Dataset) (err error) {
	if err := z.x(d); err != nil {
		return err
	}
	if err := z.edgeIndex(d); err != nil {
		return err
	}
	if d.Labels, err = z.perNode("y", len(d.Features), 0, maxClasses-1); err != nil {
		return err
	}
	d.Classes = numbered(d.Labels)
	return nil
}

func (z npz) x(d *Dataset) error {
	a, err := z.open("x")
	if err != nil {
		return err
	}
	defer a.close()
	if len(a.shape) != 2 || a.shape[0] == 0 || a.shape[1] == 0 || a.shape[0] > maxNodes || a.shape[1] > maxDim {
		return fmt.Errorf("x has shape %v, want [nodes features], at most [%d %d]", a.shape, maxNodes, maxDim)
	}
	n, dim := a.shape[0], a.shape[1]
	all := features{memory: z.memory}
	if a.fortran {
		err = all.addColumns(a, n, dim)
	} else {
		err = all.addRows(a, n, dim)
	}
	if err != nil {
		return err
	}
	if err := a.end(); err != nil {
		return err
	}
	d.Dim = dim
	if d.Features, d.Sparse, err = all.finish(dim); err != nil {
		return fmt.Errorf("x: %w", err)
	}
	return nil
}

func (f *features) addRows(a *array, n, dim int) error {
	var row []float32 // grows as the numbers come
	for v := range n {
		row = row[:0]
		for j := range dim {
			x, err := a.feature()
			if err != nil {
				return fmt.Errorf("%s, feature %d of node %d: %w", a.name, j, v, err)
			}
			row = append(row, x)
		}
		if err := f.add(row); err != nil {
			return err
		}
	}
	return nil
}

// addColumns adds n vectors that come column after column. It holds the nonzero
// numbers, and adds the nodes only as the first column is read.
func (f *features) addColumns(a *array, n, dim int) error {
	for j := range dim {
		for v := range n {
			x, err := a.feature()
			if err != nil {
				return fmt.Errorf("%s, feature %d of node %d: %w", a.name, j, v, err)
			}
			if j == 0 {
				if err := f.addSparse(nil, nil); err != nil {
					return err
				}
			}
			if x == 0 {
				continue
			}
			f.x[v].Index, f.x[v].Value = append(f.x[v].Index, uint32(j)), append(f.x[v].Value, x)
			f.nonzero++
			if err := f.memory.claim(12); err != nil {
				return err
			}
		}
	}
	return nil
}

func (z npz) edgeIndex(d *Dataset) error {
	a, err := z.open("edge_index")
	if err != nil {
		return err
	}
	defer a.close()
	if len(a.shape) != 2 || a.shape[0] != 2 || a.shape[1] > maxEdges {
		return fmt.Errorf("edge_index has shape %v, want [2 edges], at most [2 %d]", a.shape, maxEdges)
	}
	m := a.shape[1]
	if err := z.memory.claim(edgeBytes * m); err != nil {
		return err
	}
	ends, err := a.rest(0, len(d.Features)-1, z.memory)
	if err != nil {
		return err
	}
	d.Edges = make([][2]int32, m)
	for e := range d.Edges {
		if a.fortran {
			d.Edges[e] = [2]int32{ends[2*e], ends[2*e+1]}
		} else {
			d.Edges[e] = [2]int32{ends[e], ends[m+e]}
		}
	}
	return nil
}

// matrices reads scipy's sparse matrices adj and attr, and labels.
func (z npz) matrices(d *Dataset) error {
	nodes := 0
	rows, columns, err := z.csr("adj", func(index []uint32, _ []float32) error {
		for _, u := range index {
			d.Edges = append(d.Edges, [2]int32{int32(nodes), int32(u)})
		}
		nodes++
		return z.memory.claim(edgeBytes * len(index))
	})
	if err != nil {
		return err
	}
	if rows != columns || rows == 0 {
		return fmt.Errorf("adj_shape is %d × %d, want as many rows as columns, and at least one", rows, columns)
	}
	all := features{memory: z.memory}
	n, dim, err := z.csr("attr", all.addSparse)
	if err != nil {
		return err
	}
	if n != nodes || dim == 0 || dim > maxDim {
		return fmt.Errorf("attr_shape is %d × %d, want %d × features, at most %d", n, dim, nodes, maxDim)
	}
	d.Dim = dim
	if d.Features, d.Sparse, err = all.finish(dim); err != nil {
		return fmt.Errorf("attr: %w", err)
	}
	if d.Labels, err = z.perNode("labels", n, 0, maxClasses-1); err != nil {
		return err
	}
	d.Classes = numbered(d.Labels)
	return nil
}

// csr reads a matrix in compressed sparse rows and calls each with every row's
// nonzero entries, by strictly increasing column; the slices are valid until
// each returns. It returns the matrix's shape. If name_data is missing, all
// values are 1.
func (z npz) csr(name string, each func(index []uint32, value []float32) error) (rows, columns int, err error) {
	shape, err := z.vector(name+"_shape", 2, 0, math.MaxInt32)
	if err != nil {
		return 0, 0, err
	}
	rows, columns = int(shape[0]), int(shape[1])
	if rows > maxNodes {
		return 0, 0, fmt.Errorf("%s_shape is %d × %d, want at most %d rows", name, rows, columns, maxNodes)
	}
	index, err := z.vector(name+"_indices", -1, 0, columns-1)
	if err != nil {
		return 0, 0, err
	}
	start, err := z.vector(name+"_indptr", rows+1, 0, len(index))
	if err != nil {
		return 0, 0, err
	}
	if start[0] != 0 || int(start[rows]) != len(index) {
		return 0, 0, fmt.Errorf("%s_indptr goes from %d to %d, want 0 to the %d entries of %s_indices", name, start[0], start[rows], len(index), name)
	}
	var data *array
	if z.has(name + "_data") {
		if data, err = z.open(name + "_data"); err != nil {
			return 0, 0, err
		}
		defer data.close()
		if !slices.Equal(data.shape, []int{len(index)}) {
			return 0, 0, fmt.Errorf("%s_data has shape %v, want [%d] as %s_indices", name, data.shape, len(index), name)
		}
	}
	type entry struct {
		column uint32
		value  float32
	}
	var row []entry
	var at []uint32
	var values []float32
	for r := range rows {
		from, to := start[r], start[r+1]
		if to < from {
			return 0, 0, fmt.Errorf("%s_indptr: row %d goes from %d to %d", name, r, from, to)
		}
		row = row[:0]
		for k := from; k < to; k++ {
			v := float32(1)
			if data != nil {
				if v, err = data.feature(); err != nil {
					return 0, 0, fmt.Errorf("%s_data, entry %d: %w", name, k, err)
				}
			}
			row = append(row, entry{uint32(index[k]), v})
		}
		slices.SortFunc(row, func(p, q entry) int { return int(p.column) - int(q.column) })
		at, values = at[:0], values[:0]
		for k, e := range row {
			if k > 0 && row[k-1].column == e.column {
				return 0, 0, fmt.Errorf("%s: row %d has two entries in column %d: call sum_duplicates before saving", name, r, e.column)
			}
			if e.value != 0 {
				at, values = append(at, e.column), append(values, e.value)
			}
		}
		if err := each(at, values); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	if data != nil {
		if err := data.end(); err != nil {
			return 0, 0, err
		}
	}
	return rows, columns, nil
}
