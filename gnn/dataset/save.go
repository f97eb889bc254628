package dataset

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
		files = []file{{"graphs.csv", d.writeNodes}, {"nodes.csv", d.writeGraphNodes}, {"edges.csv", d.writeGraphEdges}, {"dataset.json", d.writeDescription}}
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
		for i := range d.Table {
			row = append(row, d.Table[i].Name)
		}
	case d.Sparse:
		row = append(row, "features")
	default:
		for j := range d.Dim {
			row = append(row, "x"+strconv.Itoa(j))
		}
	}
	w.Write(row)
	for v, x := range d.Features {
		row = append(row[:0], d.IDs.String(int32(v)), d.ClassOf(int32(v)))
		if d.Time != nil {
			row = append(row, formatTime(d.Time[v]))
		}
		if parts != nil {
			row = append(row, parts[v].String())
		}
		if d.Context != nil {
			row = append(row, strconv.FormatBool(d.Context[v]))
		}
		for i := range d.Table {
			row = append(row, strings.Map(oneLine, d.Table[i].Texts[v]))
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

// oneLine replaces line breaks, which a table does not have, by spaces.
func oneLine(r rune) rune {
	if r == '\n' || r == '\r' {
		return ' '
	}
	return r
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
	for i, e := range d.Edges {
		row := []string{d.IDs.String(e[0]), d.IDs.String(e[1])}
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
	return e.Encode(description{Name: d.Name, Classes: d.Classes, Split: d.Given.sizes()})
}
