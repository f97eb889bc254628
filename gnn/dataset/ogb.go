package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// openOGB reads a folder in the raw csv layout of the Open Graph Benchmark.
func openOGB(f folder) (*Dataset, error) {
	n, err := f.count(ogbNodes, 1, maxNodes)
	if err != nil {
		return nil, err
	}
	m, err := f.count("num-edge-list", 0, maxEdges)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: f.name}
	if d.Features, d.Dim, d.Sparse, err = f.features(n); err != nil {
		return nil, err
	}
	if d.Labels, err = f.labels(n); err != nil {
		return nil, err
	}
	d.Classes = numbered(d.Labels)
	if d.Edges, err = f.edges(m, n); err != nil {
		return nil, err
	}
	for _, name := range []string{"node_year", "time"} {
		if f.has(name) && d.Time == nil {
			if d.Time, err = f.times(name, n); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// count reads a table that holds one integer from low to high.
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

// rows calls row for each line of a table that has n lines, one for each of the
// things (nodes or edges) whose number the file list gives.
func (f folder) rows(name string, n int, things, list string, row func(line []byte) error) error {
	lines := 0
	err := f.lines(name, func(line []byte, number int) error {
		if number > n {
			return fmt.Errorf("more lines than the %d %s of %s", n, things, list)
		}
		lines = number
		return row(line)
	})
	if err == nil && lines != n {
		err = fmt.Errorf("%s: %s has %d lines, %s says %d", f.dir, name, lines, list, n)
	}
	return err
}

func (f folder) nodeRows(name string, n int, row func(line []byte) error) error {
	return f.rows(name, n, "nodes", ogbNodes, row)
}

// labels reads the nodes' labels: integers from 0; -1, nan or nothing for none. n need not
// be checked against the budget: the nodes' features have been read.
func (f folder) labels(n int) (out []int32, err error) {
	err = f.nodeRows("node-label", n, func(line []byte) (err error) {
		y := Unlabelled
		if text := string(line); text != "" && !strings.EqualFold(text, "nan") {
			y, err = parseInt(text, Unlabelled, maxClasses-1)
		}
		out = append(out, int32(y))
		return err
	})
	return out, err
}

// times reads the nodes' times.
func (f folder) times(name string, n int) (out []float64, err error) {
	err = f.nodeRows(name, n, func(line []byte) error {
		at, err := parseTime(string(line))
		out = append(out, at)
		return err
	})
	return out, err
}

// edges reads m edges between n nodes.
func (f folder) edges(m, n int) ([][2]int32, error) {
	var out [][2]int32
	err := f.rows("edge", m, "edges", "num-edge-list", func(line []byte) error {
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
		return f.memory.claim(edgeBytes)
	})
	return out, err
}

// features reads the n nodes' feature vectors, of as many features as the first
// has.
func (f folder) features(n int) (x []gnn.Vector, dim int, isSparse bool, err error) {
	all := features{memory: f.memory}
	var row []float32
	err = f.nodeRows("node-feat", n, func(line []byte) (err error) {
		if row, err = parseRow(row[:0], line); err != nil {
			return err
		}
		if len(all.x) == 0 {
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
	if x, isSparse, err = all.finish(dim); err != nil {
		return nil, 0, false, fmt.Errorf("%s: %w", f.path("node-feat"), err)
	}
	return x, dim, isSparse, nil
}

// parseRow appends the numbers of a line to dst.
func parseRow(dst []float32, line []byte) ([]float32, error) {
	for first := true; first || len(line) > 0; first = false {
		item, rest, more := bytes.Cut(line, []byte(","))
		if len(dst) == maxDim {
			return nil, fmt.Errorf("more than %d features", maxDim)
		}
		v, err := parseFeature(string(item))
		if err != nil {
			return nil, fmt.Errorf("feature %d: %w", len(dst), err)
		}
		dst = append(dst, v)
		if more && len(rest) == 0 {
			return nil, errors.New("the line ends with a comma")
		}
		line = rest
	}
	return dst, nil
}

// parseInt reads an integer from low to high. OGB writes some as floats: 3.0.
func parseInt(text string, low, high int) (int, error) {
	s := strings.TrimSpace(text)
	v, err := strconv.Atoi(s)
	if err != nil {
		f, ferr := strconv.ParseFloat(s, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1e15 { // up to 2⁵³ ≈ 9e15 floats are exact integers
			return 0, fmt.Errorf("%.40q is not an integer", s)
		}
		v = int(f)
	}
	if v < low || v > high {
		return 0, fmt.Errorf("%d is not between %d and %d", v, low, high)
	}
	return v, nil
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
