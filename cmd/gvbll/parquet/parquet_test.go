package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

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

// TestSpark: decimals of each form, timestamps of 96 bits, and a row group without rows are read, as Spark writes them.
func TestSpark(t *testing.T) {
	type spark struct {
		Cents int32            `parquet:"cents,decimal(2:9)"`
		Long  int64            `parquet:"long,decimal(3:18)"`
		At    deprecated.Int96 `parquet:"at"`
	}
	// 2025-05-05T08:30:00Z is 30,600 s into the Julian day 2,460,801.
	const nanos = 30_600_000_000_000
	b := written(t, spark{-105, 5, deprecated.Int96{nanos & (1<<32 - 1), nanos >> 32, 2_460_801}})
	got, err := rows(b)
	if diff := cmp.Diff([][]string{{"cents", "long", "at"}, {"-1.05", "0.005", "2025-05-05T08:30:00Z"}}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	for text, want := range map[string]string{"\x04\x08": "10.32", "\xff": "-0.01", "": "0.00"} {
		if got := decimals(parquet.ByteArray, 2)(parquet.ByteArrayValue([]byte(text))); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	var empty bytes.Buffer
	w := parquet.NewGenericWriter[spark](&empty)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := rows(empty.Bytes()); err != nil || len(got) != 1 {
		t.Errorf("a table without rows: %q, %v", got, err)
	}
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

// TestRefuses: what is no Parquet file is called so, an error of the table keeps its words
// and gets the row.
func TestRefuses(t *testing.T) {
	whole := written(t, struct{ X int32 }{1}, struct{ X int32 }{2})
	footer := binary.LittleEndian.Uint32(whole[len(whole)-8:])
	short := binary.LittleEndian.AppendUint32(bytes.Clone(whole[:len(whole)-9]), footer-1)
	for what, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":     {nil, "not a Parquet file: it has 0 bytes"},
		"text":      {[]byte("id,label,x\na,b,1\n"), `not a Parquet file: it ends with "b,1\n"`},
		"footer":    {append(whole[:len(whole)-8:len(whole)-8], "\xff\xff\xff\xffPAR1"...), "its footer has 4294967295 bytes, the file"},
		"cut short": {append(short, "PAR1"...), "its footer: it is cut short"},
	} {
		if _, err := rows(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", what, err, c.want)
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

// TestBounds: structures and lists that are nested without end, the header of a page without end, and a decimal of a million digits are
// refused.
func TestBounds(t *testing.T) {
	for want, kind := range map[string]thrift.Type{"more than 16 structures in each other": thrift.STRUCT, "more than 16 lists in each other": thrift.LIST} {
		deep := bytes.Repeat([]byte{1<<4 | byte(kind)}, 10_000*maxNesting)
		if _, err := walk(deep, newBudget(int64(len(deep)))); err == nil || err.Error() != want {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	long := binary.AppendUvarint([]byte{1<<4 | byte(thrift.BINARY)}, 100*maxHeader)
	long = append(long, make([]byte, 100*maxHeader+1)...)
	column := io.NewSectionReader(bytes.NewReader(long), 0, int64(len(long)))
	if err := checkColumn(column, format.Uncompressed, newBudget(int64(len(long)))); err == nil || !strings.Contains(err.Error(), "the header of a page") {
		t.Errorf("a header of %d bytes: %v", len(long), err)
	}
	const digits = 10_000 * maxScale
	if _, err := texts(parquet.Decimal(digits, digits, parquet.ByteArrayType).Type(), "x"); err == nil || !strings.Contains(err.Error(), "at most 76 are read") {
		t.Errorf("%d digits: %v", digits, err)
	}
}

// TestDeepSchema: a schema whose groups are nested without end is refused before the
// library descends into it.
func TestDeepSchema(t *testing.T) {
	const groups = maxGroups + 1
	b := append([]byte("PAR1"), make([]byte, groups*structureBytes/64)...) // a file so large that the budget allows the groups
	start := len(b)
	b = append(b, 2<<4|byte(thrift.LIST), 15<<4|byte(thrift.STRUCT)) // field 2, a list of structures
	b = binary.AppendUvarint(b, groups)
	for range groups {
		b = append(b, 4<<4|byte(thrift.BINARY), 1, 'a', 1<<4|5, 2, 0) // the name a, one child
	}
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)-start))
	if _, err := rows(append(b, "PAR1"...)); err == nil || !strings.Contains(err.Error(), "10001 groups in the schema, want at most 10000") {
		t.Errorf("got %v, want an error about the groups", err)
	}
}

// TestUnpacked: a page may unpack to as many bytes as its header says, and not to more.
func TestUnpacked(t *testing.T) {
	zeros := make([]byte, 1<<20)
	for _, codec := range []compress.Codec{&parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Brotli} {
		packed, err := codec.Encode(nil, zeros)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkUnpacked(codec.CompressionCodec(), packed, int64(len(zeros))); err != nil {
			t.Errorf("%v: got %v for a sound page", codec, err)
		}
		if err := checkUnpacked(codec.CompressionCodec(), packed, int64(len(zeros))-1); err != errLarger {
			t.Errorf("%v: got %v for a page that is larger than it says, want %v", codec, err, errLarger)
		}
	}
	if err := checkUnpacked(format.Lz4Raw, nil, 0); err == nil || !strings.Contains(err.Error(), "write the file with snappy") {
		t.Errorf("LZ4_RAW: got %v, want an error with the remedy", err)
	}
}

// TestHostileSizes: every size that the headers of pages declare is compared with the file
// before memory is taken for it.
func TestHostileSizes(t *testing.T) {
	type two struct {
		Text string
		X    int64
	}
	whole := written(t, two{"a", 1}, two{"b", 2})
	if took := allocated(func() { _, _ = rows(whole) }); took > 16<<20 {
		t.Fatalf("%d MiB allocated for a sound file", took>>20)
	}
	// Numbers in headers are varints: a longer one does not fit in place, but a continuation
	// bit makes one of what follows.
	for at := range whole {
		for _, flip := range []byte{0x80, 0xff, 0x10} {
			b := bytes.Clone(whole)
			b[at] ^= flip
			if took := allocated(func() { _, _ = rows(b) }); took > 64<<20 {
				t.Errorf("byte %d xor %#x: %d MiB allocated for %d bytes", at, flip, took>>20, len(b))
			}
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// FuzzRead: any bytes give rows of as many fields as the header, or a short error of one
// line, and take memory in proportion to their number.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.parquet")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("PAR1\x15\x00\x01\x00\x00\x00PAR1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= 8 { // a footer's length is seldom right by chance
			copy(b[len(b)-4:], "PAR1")
			if n := binary.LittleEndian.Uint32(b[len(b)-8:]); int64(n) > int64(len(b)) {
				binary.LittleEndian.PutUint32(b[len(b)-8:], n%uint32(len(b)))
			}
		}
		var table [][]string
		var err error
		if took := allocated(func() { table, err = rows(b) }); took > 256<<20 {
			t.Errorf("%d MiB allocated for %d bytes", took>>20, len(b))
		}
		if err != nil && (strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000) {
			t.Errorf("error %q, want a short line", err)
		}
		for _, row := range table {
			if len(row) != len(table[0]) {
				t.Fatalf("a row of %d fields, the header has %d", len(row), len(table[0]))
			}
		}
	})
}

// TestBombs: a file of some kilobytes that has a hundred million values, as runs of one value or packed a thousandfold, is refused
// before it takes much memory.
func TestBombs(t *testing.T) {
	type row struct {
		ID    int64  `parquet:"id,delta"`
		Label string `parquet:"label,dict"`
		X     string `parquet:"x,dict,zstd"`
	}
	for what, c := range map[string]struct{ rows, length int }{"many rows": {3 << 20, 1}, "long values": {200_000, 4096}} {
		t.Run(what, func(t *testing.T) {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[row](&b, parquet.Compression(&parquet.Zstd))
			x, some := strings.Repeat("0", c.length-1)+"1", make([]row, 0, 1<<14)
			for i := range c.rows {
				if some = append(some, row{int64(i), "a", x}); len(some) == cap(some) || i == c.rows-1 {
					if _, err := w.Write(some); err != nil {
						t.Fatal(err)
					}
					some = some[:0]
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			for name, text := range map[string]string{"nodes.parquet": b.String(), "edges.csv": "source,target\n"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			took := allocated(func() { _, err = dataset.Open(dir, Format) })
			t.Logf("%d KiB, %d MiB allocated: %v", b.Len()>>10, took>>20, err)
			if most := uint64(512 << 20); err == nil || took > most || strings.Contains(err.Error(), "\n") {
				t.Errorf("%d MiB allocated for %d KiB, want at most %d and a line: %v", took>>20, b.Len()>>10, most>>20, err)
			}
		})
	}
}
