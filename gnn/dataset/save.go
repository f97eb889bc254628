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
		name  string
		write func(begin func(columns []string, isNumber func(string) bool) Rows) error
	}
	tables := []table{{"nodes", d.writeNodes}, {"edges", d.writeEdges}}
	if d.Graphs != nil {
		tables = []table{{"graphs", d.writeNodes}, {"nodes", d.writeGraphNodes}, {"edges", d.writeGraphEdges}}
	}
	format := append(in, Format{Ending: ".csv", Write: writeCSV})[0]
	for _, t := range tables {
		if err := create(filepath.Join(dir, t.name+format.Ending), func(to io.Writer) error {
			var rows Rows
			err := t.write(func(columns []string, isNumber func(string) bool) Rows {
				rows = format.Write(to, columns, isNumber)
				return rows
			})
			return errors.Join(err, rows.Close())
		}); err != nil {
			return err
		}
	}
	return create(filepath.Join(dir, "dataset.json"), d.writeDescription)
}

// csvRows writes a table in csv.
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

func (d *Dataset) writeNodes(begin func([]string, func(string) bool) Rows) error {
	row := []string{"id", "label"}
	numbers := map[string]bool{"time": true}
	if d.Time != nil {
		row = append(row, "time")
	}
	if d.LabelTime != nil {
		row = append(row, "label_time")
	}
	var parts []Part // that the table has: those in order are in dataset.json
	if d.Given != nil && !d.Given.InOrder {
		parts = d.Given.Parts
		row = append(row, "split")
	}
	if d.Context != nil {
		row = append(row, "context")
	}
	switch {
	case d.Graphs != nil:
	case d.Table != nil:
		columns, _ := d.columns()
		row = append(row, columns...)
		for i, column := range columns {
			numbers[column] = d.Table[i].IsGiven() && d.Table[i].Kind == attributes.Number
		}
	case d.Sparse:
		row = append(row, "features")
	default:
		for j := range d.Dim {
			row = append(row, "x"+strconv.Itoa(j))
			numbers[row[len(row)-1]] = true
		}
	}
	w := begin(row, func(column string) bool { return numbers[column] })
	ids := d.IDs.cells(len(d.Labels))
	for v, x := range d.Features {
		row = append(row[:0], ids[v], spelling.OneLine(d.ClassOf(int32(v))))
		if d.Time != nil {
			row = append(row, formatTime(d.Time[v]))
		}
		if d.LabelTime != nil {
			row = append(row, formatLabelTime(d.LabelTime[v]))
		}
		if parts != nil {
			row = append(row, parts[v].String())
		}
		if d.Context != nil {
			row = append(row, strconv.FormatBool(d.Context[v]))
		}
		for i := range d.Table {
			row = append(row, spelling.OneLine(d.Table[i].Texts[v]))
		}
		if d.Sparse && d.Table == nil && d.Graphs == nil {
			pairs := make([]string, len(x.Index))
			for k, j := range x.Index {
				pairs[k] = strconv.Itoa(int(j)) + ":" + exact(x.Value[k])
			}
			row = append(row, strings.Join(pairs, " "))
		}
		for _, value := range x.Dense {
			if d.Table == nil {
				row = append(row, exact(value))
			}
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// reserved are the columns of a table of nodes that are no attributes.
var reserved = []string{"id", "label", "time", "year", "split", "context", "features", "label_time"}

// columns returns the columns of the attributes, and which of them have another name than the attribute: that would be read as
// another, or as none.
func (d *Dataset) columns() (columns []string, names map[string]string) {
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

func (d *Dataset) writeEdges(begin func([]string, func(string) bool) Rows) error {
	header := []string{"source", "target"}
	if d.Kinds != nil {
		header = append(header, "kind", "weight", "directed")
	}
	w := begin(header, func(column string) bool { return column == "weight" })
	ids := d.IDs.cells(len(d.Labels))
	for i, e := range d.Edges {
		row := []string{ids[e[0]], ids[e[1]]}
		if d.Kinds != nil {
			kind := d.Kinds[d.Marks[i].Kind]
			row = append(row, kindCell(kind.Name), exact(d.Marks[i].Weight), strconv.FormatBool(kind.Directed))
		}
		if err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dataset) writeDescription(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	text := description{Name: d.Name, Classes: d.Classes, Split: d.Given.sizes()}
	columns, names := d.columns()
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
