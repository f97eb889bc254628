package parquet

import (
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// ordered is a group whose fields have an order, which those of the library are sorted by name in.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

// Fields implements [parquet.Node].
func (o ordered) Fields() []parquet.Field { return o.fields }

// writer writes a table of numbers and texts, of which any may be missing.
type writer struct {
	to       *parquet.GenericWriter[any]
	columns  []string
	isNumber []bool
	row      parquet.Row
}

// write implements the Write of a [dataset.Format].
func write(to io.Writer, columns []string, isNumber func(string) bool) dataset.Rows {
	group := make(parquet.Group, len(columns))
	r, place := &writer{columns: columns}, make(map[string]int, len(columns))
	for i, name := range columns {
		place[name] = i
		r.isNumber = append(r.isNumber, isNumber(name))
		group[name] = parquet.Optional(parquet.String())
		if isNumber(name) {
			group[name] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
		}
	}
	fields := group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int { return place[a.Name()] - place[b.Name()] })
	r.to = parquet.NewGenericWriter[any](to, parquet.NewSchema("table", ordered{group, fields}), parquet.Compression(&parquet.Snappy),
		parquet.MaxRowsPerRowGroup(rowsOfGroup))
	return r
}

// rowsOfGroup bounds the rows that a writer holds, and those that a reader must.
const rowsOfGroup = 1 << 16

// Write implements [dataset.Rows].
func (r *writer) Write(row []string) error {
	r.row = r.row[:0]
	for i, text := range row {
		value := parquet.ByteArrayValue([]byte(text))
		switch v, ok := spelling.Number(text); {
		case text == "" || r.isNumber[i] && spelling.IsGap(text):
			r.row = append(r.row, parquet.NullValue().Level(0, 0, i))
			continue
		case r.isNumber[i] && !ok:
			return fmt.Errorf("column %.40q: %.40q is no number", r.columns[i], text)
		case r.isNumber[i]:
			value = parquet.DoubleValue(v)
		}
		r.row = append(r.row, value.Level(0, 1, i))
	}
	_, err := r.to.WriteRows([]parquet.Row{r.row})
	return err
}

// Close implements [dataset.Rows].
func (r *writer) Close() error { return r.to.Close() }
