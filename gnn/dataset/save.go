package dataset

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// Rows writes a table by its rows, which have as many texts as it has columns. Close ends it.
type Rows interface {
	Write(row []string) error
	Close() error
}

// Save writes the data set into a folder as tables of nodes and edges, in csv or the format, and
// dataset.json, and a table of graphs if it is one of graphs, from which [Open] reads an equal one: features have as many
// digits as tell a float32 from all others. Save creates the folder; it is an error if any of the files exists.
func (d *Dataset) Save(dir string, in ...Format) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type table struct {
		name    string
		rows    int
		columns []column
	}
	nodes := table{"nodes", len(d.Labels), nodeColumnsOf(d)}
	tables := []table{nodes, {"edges", len(d.Edges), edgeColumnsOf(d)}}
	if d.Graphs != nil {
		nodes.name = "graphs"
		tables = append([]table{nodes}, table{"nodes", len(d.Graphs.X), nodeColumnsOfGraphs(d)},
			table{"edges", len(d.Graphs.Src) / 2, edgeColumnsOfGraphs(d)})
	}
	format := append(in, Format{Ending: ".csv", Write: writeCSV})[0]
	for _, t := range tables {
		if err := create(filepath.Join(dir, t.name+format.Ending), func(to io.Writer) error {
			return writeTable(to, format, t.rows, t.columns)
		}); err != nil {
			return err
		}
	}
	return create(filepath.Join(dir, "dataset.json"), func(to io.Writer) error { return writeDescription(d, to) })
}

// column is a column of a table that is written: cell returns its text in a row.
type column struct {
	name     string
	isNumber bool
	cell     func(row int) string
}

func writeTable(to io.Writer, format Format, rows int, columns []column) (err error) {
	row, numbers := make([]string, len(columns)), make(map[string]bool)
	for i, c := range columns {
		row[i], numbers[c.name] = c.name, c.isNumber
	}
	w := format.Write(to, slices.Clone(row), func(column string) bool { return numbers[column] })
	for r := 0; r < rows && err == nil; r++ {
		for i, c := range columns {
			row[i] = c.cell(r)
		}
		err = w.Write(row)
	}
	return errors.Join(err, w.Close())
}

type csvRows struct{ *csv.Writer }

func writeCSV(to io.Writer, columns []string, _ func(string) bool) Rows {
	w := csv.NewWriter(to)
	w.Write(columns) // an error is that of Close
	return csvRows{w}
}

func (r csvRows) Close() error {
	r.Flush()
	return r.Error()
}

// create writes a file that must not exist, for this user alone: it may have what a graph was fed.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is there already: give another folder, or remove it", path)
	} else if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

func nodeColumnsOf(d *Dataset) []column {
	ids := d.IDs.cells(len(d.Labels))
	list := []column{
		{"id", false, func(v int) string { return ids[v] }},
		{"label", false, func(v int) string { return spelling.OneLine(d.ClassOf(int32(v))) }},
	}
	add := func(name string, isNumber bool, cell func(v int) string) {
		list = append(list, column{name, isNumber, cell})
	}
	if d.Time != nil {
		add("time", true, func(v int) string { return formatTime(d.Time[v]) })
	}
	if d.LabelTime != nil {
		add("label_time", false, func(v int) string { return formatLabelTime(d.LabelTime[v]) })
	}
	if d.Given != nil && !d.Given.InOrder { // a split in order is in dataset.json
		add("split", false, func(v int) string { return d.Given.Parts[v].String() })
	}
	if d.Context != nil {
		add("context", false, func(v int) string { return strconv.FormatBool(d.Context[v]) })
	}
	switch {
	case d.Graphs != nil:
	case d.Table != nil:
		names, _ := attributeColumns(d)
		for i, name := range names {
			c := &d.Table[i]
			add(name, c.IsGiven() && c.Kind == attributes.Number, func(v int) string { return spelling.OneLine(c.Texts[v]) })
		}
	case d.Sparse:
		add("features", false, func(v int) string {
			pairs := make([]string, len(d.Features[v].Index))
			for k, j := range d.Features[v].Index {
				pairs[k] = strconv.Itoa(int(j)) + ":" + exact(d.Features[v].Value[k])
			}
			return strings.Join(pairs, " ")
		})
	default:
		list = append(list, featureColumns(d.Features, d.Dim)...)
	}
	return list
}

func featureColumns(x []gnn.Vector, dim int) (list []column) {
	for j := range dim {
		list = append(list, column{"x" + strconv.Itoa(j), true, func(v int) string { return exact(x[v].Dense[j]) }})
	}
	return list
}

// reserved are the columns of a table of nodes that are no attributes.
var reserved = []string{"id", "label", "time", "year", "split", "context", "features", "label_time"}

// attributeColumns returns the columns of the attributes, and which of them have another name than the attribute: that would be
// read as another, or as none.
func attributeColumns(d *Dataset) (columns []string, names map[string]string) {
	taken := make(map[string]bool)
	for i := range d.Table {
		taken[d.Table[i].Name] = true
	}
	for i := range d.Table {
		name := d.Table[i].Name
		if column := name; slices.Contains(reserved, name) || name != strings.TrimSpace(name) ||
			strings.ContainsFunc(name, unicode.IsControl) || name == "\ufeff" {
			for n := 0; column == name || taken[column]; n++ {
				column = fmt.Sprintf("attribute %d", i+n)
			}
			if names == nil {
				names = make(map[string]string)
			}
			taken[column], names[column] = true, name
			name = column
		}
		columns = append(columns, name)
	}
	return columns, names
}

// exact returns the shortest text that reads back as the same float32.
func exact(v float32) string { return strconv.FormatFloat(float64(v), 'g', -1, 32) }

func edgeColumnsOf(d *Dataset) []column {
	ids := d.IDs.cells(len(d.Labels))
	list := []column{
		{"source", false, func(e int) string { return ids[d.Edges[e][0]] }},
		{"target", false, func(e int) string { return ids[d.Edges[e][1]] }},
	}
	if d.Kinds != nil {
		kind := func(e int) gnn.EdgeKind { return d.Kinds[d.Marks[e].Kind] }
		list = append(list,
			column{"kind", false, func(e int) string {
				if name := kind(e).Name; !isOdd(name) {
					return name
				}
				return quote(kind(e).Name)
			}},
			column{"weight", true, func(e int) string { return exact(d.Marks[e].Weight) }},
			column{"directed", false, func(e int) string { return strconv.FormatBool(kind(e).Directed) }})
	}
	return list
}

// nodeColumnsOfGraphs are those of the nodes of graphs, which are numbered.
func nodeColumnsOfGraphs(d *Dataset) []column {
	ids := d.IDs.cells(len(d.Labels))
	graph := 0
	return append([]column{
		{"id", false, strconv.Itoa},
		{"graph", false, func(v int) string { // nodes come in order
			for int32(v) >= d.Graphs.Start[graph+1] {
				graph++
			}
			return ids[graph]
		}},
	}, featureColumns(d.Graphs.X, d.Dim)...)
}

func edgeColumnsOfGraphs(d *Dataset) []column {
	return []column{
		{"source", false, func(e int) string { return strconv.Itoa(int(d.Graphs.Src[2*e])) }},
		{"target", false, func(e int) string { return strconv.Itoa(int(d.Graphs.Dst[2*e])) }},
	}
}

func writeDescription(d *Dataset, to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	text := description{Name: d.Name, Classes: d.Classes, Split: d.Given.sizes()}
	columns, names := attributeColumns(d)
	text.Attributes = names
	for i, column := range columns {
		if c := &d.Table[i]; c.IsGiven() {
			if text.Columns == nil {
				text.Columns = make(map[string]attributes.Given)
			}
			text.Columns[column] = attributes.Given{Kind: c.Kind, Unit: c.Unit}
		}
	}
	if columns != nil && names == nil && text.Columns == nil { // a table of plain numbers would be one without names
		text.Attributes = map[string]string{columns[0]: columns[0]}
	}
	if d.Keys != nil {
		keyed, err := json.Marshal(d.Keys)
		if err != nil {
			return err
		}
		text.Keys = keyed
	}
	if d.Time != nil {
		text.Time = "any"
	}
	if d.Sparse && d.Table == nil && d.Graphs == nil {
		text.Dim = d.Dim
	}
	return e.Encode(text)
}
