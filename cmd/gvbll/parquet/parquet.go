// Package parquet reads tables of data sets from Parquet files, as pandas, polars, DuckDB
// and Spark write them.
//
// The library that decodes a file believes the sizes that the file declares. So check.go
// first compares all of them with the size of the file.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// Format is that of tables whose files end in .parquet.
var Format = dataset.Format{Ending: ".parquet", Read: read, Write: write}

// read calls header with the names of a file's columns, and row with the fields of each
// row: numbers in decimal, lists as their items with spaces between, a missing value or NaN as
// nothing, and dates and timestamps as 2026-03-01T12:00:00Z, but those that nodes arrive by in
// milliseconds since 1970.
func read(file io.ReaderAt, size int64, header, row func(fields []string) error) error {
	if err := checkFooter(file, size); err != nil {
		return err
	}
	f, err := open(file, size)
	if err != nil {
		return err
	}
	columns, names, err := columnsOf(f.Schema())
	if err != nil {
		return err
	}
	if err := header(names); err != nil {
		return err
	}
	t := table{columns: columns, fields: make([]string, len(names)), row: row}
	for i, group := range f.RowGroups() {
		if group.NumRows() == 0 { // which the library cannot read; its columns may have no pages
			continue
		}
		if err := checkPages(file, size, &f.Metadata().RowGroups[i]); err != nil {
			return err
		}
		if err := t.read(group); err != nil {
			return err
		}
	}
	return nil
}

// open opens a file whose footer has been checked.
func open(file io.ReaderAt, size int64) (f *parquet.File, err error) {
	defer damaged(&err)
	f, err = parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("not a Parquet file that can be read: %s", brief(err))
	}
	return f, nil
}

// damaged turns a panic of the library, which it has for some damaged files, into an error.
func damaged(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("the file is damaged: %s", brief(r))
	}
}

// brief returns a message of the library as one line of bounded length.
func brief(message any) string {
	line, _, _ := strings.Cut(fmt.Sprint(message), "\n")
	return strings.ToValidUTF8(line[:min(len(line), 200)], "")
}

// column is a leaf of the schema.
type column struct {
	field int  // the index of the table's column that it belongs to, -1 if it is ignored
	list  bool // a row may have several values
	text  func(parquet.Value) string
}

// pandasIndex begins the name of the column in which pandas saves an index.
const pandasIndex = "__index_level_"

// columnsOf returns the leaves of a schema, and the names of the table's columns.
func columnsOf(schema *parquet.Schema) (columns []column, names []string, err error) {
	defer damaged(&err)
	for _, field := range schema.Fields() {
		c := column{field: len(names), list: field.Repeated()}
		if strings.HasPrefix(field.Name(), pandasIndex) {
			c.field = -1
		} else {
			names = append(names, field.Name())
		}
		leaf := parquet.Node(field)
		for !leaf.Leaf() { // a list is a group in a group
			inner := leaf.Fields()
			if len(inner) != 1 || !leaf.Repeated() && !inner[0].Repeated() {
				return nil, nil, fmt.Errorf("column %.40q is a structure: give each of its fields a column", field.Name())
			}
			leaf = inner[0]
			c.list = true
		}
		if c.text, err = texts(leaf.Type(), field.Name()); err != nil {
			return nil, nil, fmt.Errorf("column %.40q %w", field.Name(), err)
		}
		columns = append(columns, c)
	}
	return columns, names, nil
}

// texts returns the function that turns values of a type, in a column of that name, into text.
func texts(t parquet.Type, name string) (func(parquet.Value) string, error) {
	instant := date
	if name == "time" || name == "year" || name == "label_time" {
		instant = milliseconds
	}
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch l := logical.(type) {
	case *format.DateType:
		return func(v parquet.Value) string { return instant(int64(v.Int32()), 24*time.Hour) }, nil
	case *format.TimestampType:
		unit := l.Unit.Value.Duration()
		return func(v parquet.Value) string { return instant(v.Int64(), unit) }, nil
	case *format.IntType:
		if !l.IsSigned && t.Kind() == parquet.Int64 {
			return func(v parquet.Value) string { return strconv.FormatUint(v.Uint64(), 10) }, nil
		}
		if !l.IsSigned {
			return func(v parquet.Value) string { return strconv.FormatUint(uint64(v.Uint32()), 10) }, nil
		}
	case *format.DecimalType:
		if l.Scale < 0 || l.Scale > maxScale {
			return nil, fmt.Errorf("has a decimal scale of %d, at most %d are read", l.Scale, maxScale)
		}
		return decimals(t.Kind(), int(l.Scale)), nil
	case *format.NullType: // all of its values are missing
		return func(parquet.Value) string { return "" }, nil
	case nil, *format.StringType, *format.EnumType, *format.JsonType:
	default:
		return nil, fmt.Errorf("has the type %s: give numbers, texts, timestamps or lists of numbers", brief(l))
	}
	switch t.Kind() {
	case parquet.Boolean:
		return func(v parquet.Value) string { return strconv.FormatBool(v.Boolean()) }, nil
	case parquet.Int32:
		return func(v parquet.Value) string { return strconv.Itoa(int(v.Int32())) }, nil
	case parquet.Int64:
		return func(v parquet.Value) string { return strconv.FormatInt(v.Int64(), 10) }, nil
	case parquet.Float:
		return func(v parquet.Value) string { return float(float64(v.Float()), 32) }, nil
	case parquet.Double:
		return func(v parquet.Value) string { return float(v.Double(), 64) }, nil
	case parquet.Int96: // nanoseconds of the day, and the Julian day, as Spark and Impala write timestamps
		return func(v parquet.Value) string {
			at := v.Int96()
			const epoch = 2_440_588
			ms := (int64(at[2])-epoch)*86_400_000 + (int64(at[1])<<32|int64(at[0]))/1_000_000
			return instant(ms, time.Millisecond)
		}, nil
	case parquet.ByteArray:
		return func(v parquet.Value) string { return strings.TrimSpace(string(v.ByteArray())) }, nil
	}
	return nil, fmt.Errorf("has the type %s: give numbers, texts, timestamps or lists of numbers", brief(t))
}

// maxScale bounds the digits behind the point of a decimal.
const maxScale = 76

// decimals returns the function that turns decimals of a scale into text.
func decimals(kind parquet.Kind, scale int) func(parquet.Value) string {
	return func(v parquet.Value) string {
		n := new(big.Int)
		switch kind {
		case parquet.Int32:
			n.SetInt64(int64(v.Int32()))
		case parquet.Int64:
			n.SetInt64(v.Int64())
		default: // two's complement, the high byte first
			b := v.ByteArray()
			if n.SetBytes(b); len(b) > 0 && b[0] >= 0x80 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
			}
		}
		sign, digits := "", n.String()
		if n.Sign() < 0 {
			sign, digits = "-", digits[1:]
		}
		if scale > 0 {
			digits = strings.Repeat("0", max(scale+1-len(digits), 0)) + digits
			digits = digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
		}
		return sign + digits
	}
}

// float returns the shortest text that reads back as the same number of that many bits.
func float(x float64, bits int) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, bits)
}

// date returns a time of n units as a date, to the millisecond.
func date(n int64, unit time.Duration) string {
	at := time.UnixMicro(n / int64(max(time.Microsecond/unit, 1)))
	if unit >= time.Millisecond {
		at = time.UnixMilli(n * unit.Milliseconds())
	}
	return at.UTC().Truncate(time.Millisecond).Format(time.RFC3339Nano)
}

// milliseconds returns a time of n units in milliseconds.
func milliseconds(n int64, unit time.Duration) string {
	if unit >= time.Millisecond {
		return strconv.FormatInt(n*unit.Milliseconds(), 10)
	}
	return strconv.FormatFloat(float64(n)/float64(time.Millisecond/unit), 'f', -1, 64)
}

// table reads rows.
type table struct {
	columns []column
	fields  []string
	row     func(fields []string) error
	number  int    // of rows so far
	items   []byte // of a list
}

// read reads the rows of a group whose pages have been checked.
func (t *table) read(group parquet.RowGroup) error {
	rows := group.Rows()
	defer rows.Close()
	batch := make([]parquet.Row, 16)
	for {
		n, err := t.fill(rows, batch)
		for _, values := range batch[:n] {
			t.number++
			if err := t.convert(values); err != nil {
				return fmt.Errorf("row %d: %w", t.number, err)
			}
			if err := t.row(t.fields); err != nil {
				return fmt.Errorf("row %d: %w", t.number, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("row %d: %s", t.number+1, brief(err))
		case n == 0:
			return fmt.Errorf("row %d: the file is damaged: it has fewer rows than it says", t.number+1)
		}
	}
}

// fill reads the next rows.
func (t *table) fill(rows parquet.Rows, batch []parquet.Row) (n int, err error) {
	defer damaged(&err)
	for i := range batch {
		batch[i] = batch[i][:0]
	}
	return rows.ReadRows(batch)
}

// convert sets fields to those of a row, whose values are in the order of the columns.
func (t *table) convert(values parquet.Row) (err error) {
	defer damaged(&err)
	clear(t.fields)
	for len(values) > 0 {
		at := values[0].Column()
		n := slices.IndexFunc(values, func(v parquet.Value) bool { return v.Column() != at })
		if n < 0 {
			n = len(values)
		}
		if c := t.columns[at]; c.field >= 0 {
			t.fields[c.field] = t.field(c, values[:n])
		}
		values = values[n:]
	}
	return nil
}

// field returns the text of a field.
func (t *table) field(c column, values []parquet.Value) string {
	t.items = t.items[:0]
	for _, v := range values {
		switch {
		case v.IsNull() && c.list && len(values) > 1: // of a list of several, which is then no vector
			t.items = append(t.items, "nan "...)
			continue
		case v.IsNull():
			continue
		case !c.list:
			return c.text(v)
		}
		t.items = append(append(t.items, c.text(v)...), ' ')
	}
	return strings.TrimSuffix(string(t.items), " ")
}
