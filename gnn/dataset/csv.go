package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// openCSV reads a folder with a table of nodes and a list of edges, see [Open].
func openCSV(dir string) (*Dataset, error) {
	d := &Dataset{Name: name(dir)}
	f := folder{dir}
	n := nodeTable{number: make(map[string]int32)}
	if err := f.records("nodes", n.header, n.row); err != nil {
		return nil, err
	}
	if len(n.labels) == 0 {
		return nil, fmt.Errorf("%s: nodes.csv has no nodes", dir)
	}
	d.Features, d.Dim, d.Year = n.x, n.dim, n.years
	d.Sparse = settle(d.Features, d.Dim, n.nonzero)
	d.Classes, d.Labels = classesOf(n.labels)
	e := edgeList{number: n.number}
	if err := f.records("edges", e.header, e.row); err != nil {
		return nil, err
	}
	d.Edges = e.edges
	return d, nil
}

// records calls header with the first line's fields and row with those of every
// other line, as many as the header's. A field may be quoted, but not go over
// lines: so no line can take more memory than maxLine.
func (f folder) records(name string, header, row func(fields []string) error) error {
	width := -1
	err := f.lines(name, func(line []byte, number int) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(line) == 0 {
			return nil
		}
		r := csv.NewReader(bytes.NewReader(line))
		fields, err := r.Read()
		var bad *csv.ParseError
		switch {
		case errors.As(err, &bad):
			return fmt.Errorf("column %d: %w", bad.Column, bad.Err)
		case err != nil:
			return err
		case width < 0:
			width = len(fields)
			return header(fields)
		case len(fields) != width:
			return fmt.Errorf("%d fields, the header has %d", len(fields), width)
		}
		return row(fields)
	})
	if err == nil && width < 0 {
		err = fmt.Errorf("%s: %s.csv is empty, want a header", f.dir, name)
	}
	return err
}

// nodeTable is what nodes.csv holds.
type nodeTable struct {
	id, label, year int // columns; year is -1 for none
	pairs           int // the column of sparse features, -1 for none
	features        []int

	number  map[string]int32 // of each id
	labels  []string
	years   []int32
	x       []gnn.Vector
	dim     int
	nonzero int
}

func (t *nodeTable) header(fields []string) error {
	t.id, t.label = slices.Index(fields, "id"), slices.Index(fields, "label")
	t.year, t.pairs = slices.Index(fields, "year"), slices.Index(fields, "features")
	if t.id < 0 || t.label < 0 {
		return fmt.Errorf("the header is %.80q, want columns id and label", strings.Join(fields, ","))
	}
	for c := range fields {
		if c != t.id && c != t.label && c != t.year && c != t.pairs {
			t.features = append(t.features, c)
		}
	}
	if t.pairs >= 0 && len(t.features) > 0 {
		return fmt.Errorf("a column features, and %d more (%.40q): sparse features are one column, dense ones have no column of that name", len(t.features), fields[t.features[0]])
	}
	if t.pairs < 0 && len(t.features) == 0 {
		return errors.New("no features: want a column for each, or one column features with index:value pairs")
	}
	if t.dim = len(t.features); t.dim > maxDim {
		return fmt.Errorf("%d features, want at most %d", t.dim, maxDim)
	}
	return nil
}

func (t *nodeTable) row(fields []string) error {
	id := fields[t.id]
	if _, twice := t.number[id]; twice {
		return fmt.Errorf("id %.80q stands twice", id)
	}
	if len(t.number) == maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	t.number[strings.Clone(id)] = int32(len(t.number))
	if fields[t.label] == "" {
		return errors.New("the label is empty")
	}
	t.labels = append(t.labels, strings.Clone(fields[t.label]))
	if t.year >= 0 {
		year, err := parseInt([]byte(fields[t.year]), math.MinInt16, math.MaxInt16)
		if err != nil {
			return fmt.Errorf("year: %w", err)
		}
		t.years = append(t.years, int32(year))
	}
	x, err := t.vector(fields)
	if err != nil {
		return err
	}
	t.nonzero += len(x.Index)
	t.x = append(t.x, x)
	return nil
}

// vector returns a row's features, sparse.
func (t *nodeTable) vector(fields []string) (gnn.Vector, error) {
	x := gnn.Vector{Index: []uint32{}, Value: []float32{}}
	put := func(index int, text string) error {
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("feature %d, %.40q, is not a finite number", index, text)
		}
		if v != 0 {
			x.Index, x.Value = append(x.Index, uint32(index)), append(x.Value, float32(v))
		}
		return nil
	}
	if t.pairs < 0 {
		for k, c := range t.features {
			if err := put(k, fields[c]); err != nil {
				return x, err
			}
		}
		return x, nil
	}
	last := -1
	for _, pair := range strings.Fields(fields[t.pairs]) {
		at, value, ok := strings.Cut(pair, ":")
		if !ok {
			return x, fmt.Errorf("%.40q, want index:value", pair)
		}
		index, err := parseInt([]byte(at), 0, maxDim-1)
		if err != nil {
			return x, err
		}
		if index <= last {
			return x, fmt.Errorf("feature %d after %d, want them ascending", index, last)
		}
		if err := put(index, value); err != nil {
			return x, err
		}
		last = index
	}
	t.dim = max(t.dim, last+1, 1)
	return x, nil
}

// classesOf names the distinct labels in order, and numbers all by it.
func classesOf(labels []string) (classes []string, y []int32) {
	value := make(map[string]float64)
	numbers := true
	for _, l := range labels {
		if _, known := value[l]; known {
			continue
		}
		v, err := strconv.ParseFloat(l, 64)
		numbers = numbers && err == nil && !math.IsNaN(v)
		value[l] = v
		classes = append(classes, l)
	}
	slices.SortFunc(classes, func(a, b string) int {
		if numbers && value[a] != value[b] {
			if value[a] < value[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	number := make(map[string]int32, len(classes))
	for c, l := range classes {
		number[l] = int32(c)
	}
	for _, l := range labels {
		y = append(y, number[l])
	}
	return classes, y
}

// edgeList is what edges.csv holds.
type edgeList struct {
	number         map[string]int32
	source, target int // columns
	edges          [][2]int32
}

func (e *edgeList) header(fields []string) error {
	e.source, e.target = slices.Index(fields, "source"), slices.Index(fields, "target")
	if e.source < 0 || e.target < 0 {
		return fmt.Errorf("the header is %.80q, want columns source and target", strings.Join(fields, ","))
	}
	return nil
}

func (e *edgeList) row(fields []string) error {
	u, known := e.number[fields[e.source]]
	v, also := e.number[fields[e.target]]
	if !known || !also {
		return fmt.Errorf("an edge from %.80q to %.80q, which are not both among the nodes", fields[e.source], fields[e.target])
	}
	if len(e.edges) == maxEdges {
		return fmt.Errorf("more than %d edges", maxEdges)
	}
	e.edges = append(e.edges, [2]int32{u, v})
	return nil
}
