package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gvbll/gvbll/gnn"
)

// Limits of what is read: a folder comes from outside like everything else.
const (
	maxNodes = 100_000_000
	maxEdges = 2_000_000_000
	maxDim   = 1 << 20
	maxLine  = 16 << 20 // bytes
	// Features are kept sparse up to this share of numbers that are not zero.
	maxDensity = 0.25
)

// openOGB reads a folder in the raw csv layout of the Open Graph Benchmark.
func openOGB(dir string) (*Dataset, error) {
	f := folder{dir}
	n, err := f.count("num-node-list", 1, maxNodes)
	if err != nil {
		return nil, err
	}
	m, err := f.count("num-edge-list", 0, maxEdges)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: name(dir)}
	if d.Features, d.Dim, d.Sparse, err = f.features(n); err != nil {
		return nil, err
	}
	if d.Labels, err = f.integers("node-label", n, 0, 1<<16); err != nil {
		return nil, err
	}
	top := int32(-1)
	for _, y := range d.Labels {
		top = max(top, y)
	}
	for c := range top + 1 {
		d.Classes = append(d.Classes, strconv.Itoa(int(c)))
	}
	if d.Edges, err = f.edges(m, n); err != nil {
		return nil, err
	}
	d.Year, err = f.integers("node_year", n, math.MinInt16, math.MaxInt16)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	return d, err
}

// name is the folder's, or its parent's where the folder is OGB's "raw".
func name(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if filepath.Base(dir) == "raw" {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(dir)
}

type folder struct{ dir string }

// lines calls f for every line of a file, with its number from 1.
func (f folder) lines(name string, each func(line []byte, number int) error) error {
	path := filepath.Join(f.dir, name+".csv.gz")
	file, err := os.Open(path)
	packed := err == nil
	if errors.Is(err, fs.ErrNotExist) {
		plain := filepath.Join(f.dir, name+".csv")
		if file, err = os.Open(plain); err == nil {
			path = plain
		}
	}
	if err != nil {
		return fmt.Errorf("%s (or .csv): %w", path, cause(err))
	}
	defer file.Close()
	var r io.Reader = file
	if packed {
		if r, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for s.Scan() {
		number++
		if err := each(bytes.TrimSpace(s.Bytes()), number); err != nil {
			return fmt.Errorf("%s line %d: %w", path, number, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s line %d: %w", path, number+1, err)
	}
	return nil
}

// cause leaves out the path, which the message has already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (f folder) count(name string, low, high int) (int, error) {
	n := -1
	err := f.lines(name, func(line []byte, number int) error {
		v, err := parseInt(line, low, high)
		if err == nil && number > 1 {
			err = errors.New("one line with one count is expected")
		}
		n = v
		return err
	})
	if err == nil && n < 0 {
		err = fmt.Errorf("%s holds no count", filepath.Join(f.dir, name))
	}
	return n, err
}

func (f folder) integers(name string, n, low, high int) ([]int32, error) {
	var out []int32
	err := f.lines(name, func(line []byte, number int) error {
		if number > n {
			return fmt.Errorf("more lines than the %d nodes of num-node-list", n)
		}
		v, err := parseInt(line, low, high)
		out = append(out, int32(v))
		return err
	})
	if err == nil && len(out) != n {
		err = fmt.Errorf("%s: %s has %d lines, num-node-list says %d", f.dir, name, len(out), n)
	}
	return out, err
}

func (f folder) edges(m, n int) ([][2]int32, error) {
	var out [][2]int32
	err := f.lines("edge", func(line []byte, number int) error {
		if number > m {
			return fmt.Errorf("more lines than the %d edges of num-edge-list", m)
		}
		a, b, ok := bytes.Cut(line, []byte(","))
		if !ok {
			return fmt.Errorf("%.40q, want source,target", line)
		}
		u, err := parseInt(a, 0, n-1)
		if err != nil {
			return err
		}
		v, err := parseInt(b, 0, n-1)
		out = append(out, [2]int32{int32(u), int32(v)})
		return err
	})
	if err == nil && len(out) != m {
		err = fmt.Errorf("%s: edge has %d lines, num-edge-list says %d", f.dir, len(out), m)
	}
	return out, err
}

func (f folder) features(n int) (x []gnn.Vector, dim int, sparse bool, err error) {
	var row []float32
	nonzero := 0
	err = f.lines("node-feat", func(line []byte, number int) error {
		if number > n {
			return fmt.Errorf("more lines than the %d nodes of num-node-list", n)
		}
		if row, err = parseRow(row[:0], line); err != nil {
			return err
		}
		if number == 1 {
			dim = len(row)
		}
		if len(row) != dim {
			return fmt.Errorf("%d features, the first line has %d", len(row), dim)
		}
		// Sparse while reading, so that a bag of words never stands in memory
		// with its zeros.
		v := gnn.Vector{Index: []uint32{}, Value: []float32{}}
		for j, a := range row {
			if a != 0 {
				v.Index, v.Value = append(v.Index, uint32(j)), append(v.Value, a)
			}
		}
		nonzero += len(v.Index)
		if len(v.Index)*2 > dim {
			v = gnn.Vector{Dense: append([]float32(nil), row...)}
		}
		x = append(x, v)
		return nil
	})
	if err != nil {
		return nil, 0, false, err
	}
	if len(x) != n {
		return nil, 0, false, fmt.Errorf("%s: node-feat has %d lines, num-node-list says %d", f.dir, len(x), n)
	}
	return x, dim, settle(x, dim, nonzero), nil
}

// settle makes all features sparse or all dense, by how many of the numbers are
// not zero. Dense ones then take at most four numbers for each of those.
func settle(x []gnn.Vector, dim, nonzero int) (sparse bool) {
	sparse = float64(nonzero) <= maxDensity*float64(len(x))*float64(dim)
	for i := range x {
		x[i] = as(x[i], dim, sparse)
	}
	return sparse
}

// as returns v in the other form where it is not the wanted one.
func as(v gnn.Vector, dim int, sparse bool) gnn.Vector {
	switch {
	case sparse && v.Dense != nil:
		w := gnn.Vector{Index: []uint32{}, Value: []float32{}}
		for j, a := range v.Dense {
			if a != 0 {
				w.Index, w.Value = append(w.Index, uint32(j)), append(w.Value, a)
			}
		}
		return w
	case !sparse && v.Dense == nil:
		w := gnn.Vector{Dense: make([]float32, dim)}
		for k, j := range v.Index {
			w.Dense[j] = v.Value[k]
		}
		return w
	}
	return v
}

// parseRow appends a line's numbers to dst.
func parseRow(dst []float32, line []byte) ([]float32, error) {
	for first := true; first || len(line) > 0; first = false {
		item, rest, more := bytes.Cut(line, []byte(","))
		if len(dst) == maxDim {
			return nil, fmt.Errorf("more than %d features", maxDim)
		}
		var v float64
		switch {
		case len(item) == 1 && item[0] >= '0' && item[0] <= '9': // most of a bag of words
			v = float64(item[0] - '0')
		default:
			var err error
			if v, err = strconv.ParseFloat(string(bytes.TrimSpace(item)), 32); err != nil {
				return nil, fmt.Errorf("feature %d, %.40q, is not a number", len(dst), item)
			}
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("feature %d is %v", len(dst), v)
		}
		dst = append(dst, float32(v))
		if more && len(rest) == 0 {
			return nil, errors.New("the line ends with a comma")
		}
		line = rest
	}
	return dst, nil
}

// parseInt reads an integer; OGB writes some of them as floats.
func parseInt(b []byte, low, high int) (int, error) {
	s := string(bytes.TrimSpace(b))
	v, err := strconv.Atoi(s)
	if err != nil {
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1e15 {
			return 0, fmt.Errorf("%.40q is not an integer", s)
		}
		v = int(f)
	}
	if v < low || v > high {
		return 0, fmt.Errorf("%d is not between %d and %d", v, low, high)
	}
	return v, nil
}
