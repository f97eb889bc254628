package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// openOGB reads a folder in the raw csv layout of the Open Graph Benchmark.
func openOGB(f folder) (*Dataset, error) {
	n, err := f.count("num-node-list", 1, maxNodes)
	if err != nil {
		return nil, err
	}
	m, err := f.count("num-edge-list", 0, maxEdges)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: f.name()}
	if d.Features, d.Dim, d.Sparse, err = f.features(n); err != nil {
		return nil, err
	}
	if d.Labels, err = f.integers("node-label", n, 0, maxClasses-1); err != nil {
		return nil, err
	}
	d.Classes = numbered(d.Labels)
	if d.Edges, err = f.edges(m, n); err != nil {
		return nil, err
	}
	d.Year, err = f.integers("node_year", n, math.MinInt16, math.MaxInt16)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	return d, err
}

// numbered names classes by their numbers, up to the largest label.
func numbered(labels []int32) (classes []string) {
	top := int32(-1)
	for _, y := range labels {
		top = max(top, y)
	}
	for c := range top + 1 {
		classes = append(classes, strconv.Itoa(int(c)))
	}
	return classes
}

func (f folder) count(name string, low, high int) (int, error) {
	n := -1
	err := f.lines(name, func(line []byte, number int) error {
		v, err := parseInt(string(line), low, high)
		if err == nil && number > 1 {
			err = errors.New("one line with one count is expected")
		}
		n = v
		return err
	})
	if err == nil && n < 0 {
		err = fmt.Errorf("%s holds no count", f.path(name))
	}
	return n, err
}

// integers reads a number for each node, whose features have been read: so the
// count n is no mere claim.
func (f folder) integers(name string, n, low, high int) ([]int32, error) {
	var out []int32
	err := f.lines(name, func(line []byte, number int) error {
		if number > n {
			return fmt.Errorf("more lines than the %d nodes of num-node-list", n)
		}
		v, err := parseInt(string(line), low, high)
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
		u, err := parseInt(string(a), 0, n-1)
		if err != nil {
			return err
		}
		v, err := parseInt(string(b), 0, n-1)
		if err != nil {
			return err
		}
		out = append(out, [2]int32{int32(u), int32(v)})
		return f.memory.take(edgeBytes)
	})
	if err == nil && len(out) != m {
		err = fmt.Errorf("%s: edge has %d lines, num-edge-list says %d", f.dir, len(out), m)
	}
	return out, err
}

func (f folder) features(n int) (x []gnn.Vector, dim int, isSparse bool, err error) {
	all := features{memory: f.memory}
	var row []float32
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
		return all.add(row)
	})
	if err != nil {
		return nil, 0, false, err
	}
	if len(all.x) != n {
		return nil, 0, false, fmt.Errorf("%s: node-feat has %d lines, num-node-list says %d", f.dir, len(all.x), n)
	}
	if x, isSparse, err = all.settle(dim); err != nil {
		return nil, 0, false, fmt.Errorf("%s: %w", f.path("node-feat"), err)
	}
	return x, dim, isSparse, nil
}

// parseRow appends a line's numbers to dst.
func parseRow(dst []float32, line []byte) ([]float32, error) {
	for first := true; first || len(line) > 0; first = false {
		item, rest, more := bytes.Cut(line, []byte(","))
		if len(dst) == maxDim {
			return nil, fmt.Errorf("more than %d features", maxDim)
		}
		v, err := parseFeature(string(item), len(dst))
		if err != nil {
			return nil, err
		}
		dst = append(dst, v)
		if more && len(rest) == 0 {
			return nil, errors.New("the line ends with a comma")
		}
		line = rest
	}
	return dst, nil
}

// parseInt reads an integer; OGB writes some of them as floats.
func parseInt(text string, low, high int) (int, error) {
	s := strings.TrimSpace(text)
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
