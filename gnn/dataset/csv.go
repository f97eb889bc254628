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
)

// openCSV reads a table of nodes and a table of edges, see [Open].
func openCSV(f folder) (*Dataset, error) {
	d := &Dataset{Name: f.name}
	n := nodeTable{memory: f.memory, number: make(map[string]int32), x: features{memory: f.memory}}
	err := f.records("nodes", n.header, n.row)
	if err != nil {
		return nil, err
	}
	if len(n.labels) == 0 {
		return nil, fmt.Errorf("%s.csv has no nodes", f.path("nodes"))
	}
	d.Dim, d.Year = n.dim, n.years
	if d.Features, d.Sparse, err = n.x.finish(n.dim); err != nil {
		return nil, fmt.Errorf("%s.csv: %w", f.path("nodes"), err)
	}
	if d.Classes, d.Labels = classesOf(n.labels); len(d.Classes) > maxClasses {
		return nil, fmt.Errorf("%s.csv: %d distinct labels, want at most %d", f.path("nodes"), len(d.Classes), maxClasses)
	}
	if err := f.describe(d, n.labels); err != nil {
		return nil, err
	}
	e := edgeList{memory: f.memory, number: n.number}
	if err := f.records("edges", e.header, e.row); err != nil {
		return nil, err
	}
	d.Edges = e.edges
	return d, nil
}

// records calls header with the fields of a table's first line and row with
// those of every other line, as many as the header has, without the spaces
// around them. Empty lines are skipped. A field may be quoted but not contain a
// line break, so that no record takes more memory than maxLine.
func (f folder) records(name string, header, row func(fields []string) error) error {
	width := -1
	err := f.lines(name, func(line []byte, number int) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // the byte order mark, which spreadsheets write
		}
		if len(line) == 0 {
			return nil
		}
		fields, err := split(line)
		switch {
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
		err = fmt.Errorf("%s.csv is empty, want a header", f.path(name))
	}
	return err
}

// maxFields is the most fields of a line: the features, id, label, year, and
// room for commas inside quotes.
const maxFields = maxDim + 1024

// split returns the fields of a line. encoding/csv is used only where there are
// quotes: its reader's buffer costs more than most lines.
func split(line []byte) (fields []string, err error) {
	// A field takes sixteen times a comma's memory, and more in the map of a
	// header.
	if n := bytes.Count(line, []byte(",")); n >= maxFields {
		return nil, fmt.Errorf("%d commas, want fewer than %d", n, maxFields)
	}
	if bytes.IndexByte(line, '"') < 0 {
		fields = strings.Split(string(line), ",")
	} else if fields, err = csv.NewReader(bytes.NewReader(line)).Read(); err != nil {
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			err = fmt.Errorf("column %d: %w", bad.Column, bad.Err)
		}
		return nil, err
	}
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
	}
	return fields, nil
}

// unique returns an error when a column has no name or the name of another.
func unique(header []string) error {
	seen := make(map[string]bool, len(header))
	for i, name := range header {
		switch {
		case name == "":
			return fmt.Errorf("column %d of the header has no name (pandas writes its index so: give index=False)", i+1)
		case seen[name]:
			return fmt.Errorf("column %.40q occurs twice in the header", name)
		}
		seen[name] = true
	}
	return nil
}

// nodeTable reads nodes.csv.
type nodeTable struct {
	id, label, year int      // columns; year is -1 if there is none
	pairs           int      // the column of sparse features, -1 if they are dense
	features        []int    // the columns of dense features, in order
	names           []string // of all columns, for messages

	memory *budget
	number map[string]int32 // a node's number by its id
	labels []string         // by node
	years  []int32          // by node
	x      features
	dim    int // of the features; if sparse, one more than the largest index so far

	// Storage for the features of one row.
	dense []float32
	index []uint32
	value []float32
}

func (t *nodeTable) header(fields []string) error {
	t.id, t.label = slices.Index(fields, "id"), slices.Index(fields, "label")
	t.year, t.pairs = slices.Index(fields, "year"), slices.Index(fields, "features")
	t.names = fields
	if t.id < 0 || t.label < 0 {
		return fmt.Errorf("the header is %.80q, want columns id and label", strings.Join(fields, ","))
	}
	if err := unique(fields); err != nil {
		return err
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
	id, label := fields[t.id], fields[t.label]
	if _, twice := t.number[id]; twice {
		return fmt.Errorf("id %.80q occurs twice: give each node its own", id)
	}
	if len(t.number) == maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	if label == "" {
		return errors.New("column label is empty: give every node a label, or leave the node out")
	}
	// The bytes of id and label, their string headers, and the map's entry.
	if err := t.memory.claim(len(id) + len(label) + 80); err != nil {
		return err
	}
	t.number[strings.Clone(id)] = int32(len(t.number))
	t.labels = append(t.labels, strings.Clone(label))
	if t.year >= 0 {
		year, err := parseInt(fields[t.year], minYear, maxYear)
		if err != nil {
			return fmt.Errorf("column year: %w", err)
		}
		t.years = append(t.years, int32(year))
	}
	if t.pairs >= 0 {
		if err := t.parsePairs(fields[t.pairs]); err != nil {
			return fmt.Errorf("column features: %w", err)
		}
		return t.x.addSparse(t.index, t.value)
	}
	t.dense = t.dense[:0]
	for j, c := range t.features {
		v, err := parseFeature(fields[c], j)
		if err != nil {
			return fmt.Errorf("column %.40q: %w", t.names[c], err)
		}
		t.dense = append(t.dense, v)
	}
	return t.x.add(t.dense)
}

// parsePairs sets t.index and t.value to the features of index:value pairs.
func (t *nodeTable) parsePairs(text string) error {
	t.index, t.value = t.index[:0], t.value[:0]
	last := -1
	for pair := range strings.FieldsSeq(text) {
		at, value, ok := strings.Cut(pair, ":")
		if !ok {
			return fmt.Errorf("%.40q, want index:value", pair)
		}
		j, err := parseInt(at, 0, maxDim-1)
		if err != nil {
			return fmt.Errorf("a feature's index: %w", err)
		}
		if j <= last {
			return fmt.Errorf("feature %d after %d, want them ascending", j, last)
		}
		last = j
		v, err := parseFeature(value, j)
		if err != nil {
			return err
		}
		if v != 0 {
			t.index, t.value = append(t.index, uint32(j)), append(t.value, v)
		}
	}
	t.dim = max(t.dim, last+1, 1)
	return nil
}

// classesOf returns the distinct labels, ordered as numbers if all of them are
// finite numbers, else alphabetically, and every label's number in that order.
func classesOf(labels []string) (classes []string, y []int32) {
	value := make(map[string]float64)
	numbers := true
	for _, l := range labels {
		if _, known := value[l]; known {
			continue
		}
		v, err := strconv.ParseFloat(l, 64)
		numbers = numbers && err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
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

// edgeList reads edges.csv.
type edgeList struct {
	memory         *budget
	number         map[string]int32 // a node's number by its id
	source, target int              // columns
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
	if !known {
		return fmt.Errorf("source %.80q is not an id of the node table", fields[e.source])
	}
	v, known := e.number[fields[e.target]]
	if !known {
		return fmt.Errorf("target %.80q is not an id of the node table", fields[e.target])
	}
	if len(e.edges) == maxEdges {
		return fmt.Errorf("more than %d edges", maxEdges)
	}
	e.edges = append(e.edges, [2]int32{u, v})
	return e.memory.claim(edgeBytes)
}
