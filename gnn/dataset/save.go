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

	"github.com/gvbll/gvbll/gnn/spelling"
)

// Save writes the data set into a folder as nodes.csv, edges.csv and
// dataset.json, and graphs.csv if it is one of graphs, from which [Open] reads an equal one: features have as many
// digits as tell a float32 from all others. Save creates the folder; it is an error if any of the files exists.
func (d *Dataset) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type file struct {
		name  string
		write func(io.Writer) error
	}
	files := []file{{"nodes.csv", d.writeNodes}, {"edges.csv", d.writeEdges}, {"dataset.json", d.writeDescription}}
	if d.Graphs != nil {
		files = []file{
			{"graphs.csv", d.writeNodes},
			{"nodes.csv", d.writeGraphNodes},
			{"edges.csv", d.writeGraphEdges},
			{"dataset.json", d.writeDescription},
		}
	}
	for _, file := range files {
		if err := create(filepath.Join(dir, file.name), file.write); err != nil {
			return err
		}
	}
	return nil
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

func (d *Dataset) writeNodes(to io.Writer) error {
	w := csv.NewWriter(to)
	row := []string{"id", "label"}
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
	case d.Sparse:
		row = append(row, "features")
	default:
		for j := range d.Dim {
			row = append(row, "x"+strconv.Itoa(j))
		}
	}
	w.Write(row)
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
		w.Write(row)
	}
	w.Flush()
	return w.Error()
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

func (d *Dataset) writeEdges(to io.Writer) error {
	w := csv.NewWriter(to)
	header := []string{"source", "target"}
	if d.Kinds != nil {
		header = append(header, "kind", "weight", "directed")
	}
	w.Write(header)
	ids := d.IDs.cells(len(d.Labels))
	for i, e := range d.Edges {
		row := []string{ids[e[0]], ids[e[1]]}
		if d.Kinds != nil {
			kind := d.Kinds[d.Marks[i].Kind]
			row = append(row, kind.Name, exact(d.Marks[i].Weight), strconv.FormatBool(kind.Directed))
		}
		w.Write(row)
	}
	w.Flush()
	return w.Error()
}

func (d *Dataset) writeDescription(to io.Writer) error {
	e := json.NewEncoder(to)
	e.SetIndent("", "  ")
	text := description{Name: d.Name, Classes: d.Classes, Split: d.Given.sizes()}
	_, text.Attributes = d.columns()
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
