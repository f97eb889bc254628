package parquet

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/gvbll/gvbll/gnn/dataset"
)

// TestSameAsCSV: tables that pandas, pyarrow, polars and DuckDB write (testdata/make.py)
// hold the same data set as their csv form: with an index of pandas that is no column, a
// dictionary of labels, missing values, timestamps, booleans, several row groups, every
// encoding, and lists of any and of a fixed length. Other columns of edges do no harm.
func TestSameAsCSV(t *testing.T) {
	for twin, names := range map[string][]string{"csv": {"pandas", "arrow", "polars", "duckdb"}, "lists-csv": {"lists", "fixed"}} {
		want, err := dataset.Open(filepath.Join("testdata", twin))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			got, err := dataset.Open(filepath.Join("testdata", name), Format)
			want.Name = name
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: error %v (-csv +parquet):\n%s", name, err, diff)
			}
		}
	}
}

// rows reads a file and returns its header and its rows.
func rows(b []byte) (table [][]string, err error) {
	each := func(fields []string) error {
		table = append(table, append([]string(nil), fields...))
		return nil
	}
	return table, read(bytes.NewReader(b), int64(len(b)), each, each)
}

// written returns a file with the given rows.
func written[T any](t testing.TB, values ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[T](&b)
	if _, err := w.Write(values); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTypes: the text of values of each type, and an error that names the column for those
// that a table cannot have.
func TestTypes(t *testing.T) {
	type all struct {
		U32  uint32    `parquet:"u32"`
		U64  uint64    `parquet:"u64"`
		I32  int32     `parquet:"i32"`
		F32  float32   `parquet:"f32"`
		Day  int32     `parquet:"day,date"`
		Nano int64     `parquet:"nano,timestamp(nanosecond)"`
		Text *string   `parquet:"text,optional"`
		List []float32 `parquet:"list,list"`
		Flat []int32   `parquet:"flat"`
	}
	word := " two words "
	got, err := rows(written(t, all{1<<32 - 1, 1<<64 - 1, -1, .1, 1, 1_500_000, &word, []float32{1, .5}, []int32{7}}, all{}))
	want := [][]string{
		{"u32", "u64", "i32", "f32", "day", "nano", "text", "list", "flat"},
		{"4294967295", "18446744073709551615", "-1", "0.1", "1970-01-02T00:00:00Z", "1970-01-01T00:00:00.001Z", "two words", "1 0.5", "7"},
		{"0", "0", "0", "0", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "", "", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
	for want, b := range map[string][]byte{
		`column "id" has the type UUID`: written(t, struct {
			ID [16]byte `parquet:"id,uuid"`
		}{}),
		`column "price" has the type DECIMAL`: written(t, struct {
			Price int64 `parquet:"price,decimal(2:18)"`
		}{}),
		`column "place" is a structure`: written(t, struct {
			Place struct{ X, Y int32 } `parquet:"place"`
		}{}),
		`column "by" is a structure`: written(t, struct {
			By map[string]int32 `parquet:"by"`
		}{}),
	} {
		if _, err := rows(b); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line with %q", err, want)
		}
	}
}

// TestRefuses: what is no Parquet file is called so, bytes that flip give an error or other values, and an
// error of the table keeps its words and gets the row.
func TestRefuses(t *testing.T) {
	whole := written(t, struct{ X int32 }{1}, struct{ X int32 }{2})
	for what, b := range map[string][]byte{"empty": nil, "text": []byte("id,label,x\na,b,1\n"), "cut short": whole[:len(whole)-9]} {
		if _, err := rows(b); err == nil || !strings.Contains(err.Error(), "not a Parquet file that can be read: ") {
			t.Errorf("%s: got %v, want an error that says what it is not", what, err)
		}
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 1
		if _, err := rows(b); err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("byte %d flipped: error %q, want a short line", at, err)
		}
	}
	n := 0
	err := read(bytes.NewReader(whole), int64(len(whole)), func([]string) error { return nil }, func([]string) error {
		if n++; n == 2 {
			return fmt.Errorf("not this one")
		}
		return nil
	})
	if err == nil || err.Error() != "row 2: not this one" {
		t.Errorf("got error %v, want that of row 2", err)
	}
}
