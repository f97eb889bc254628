package dataset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
)

// table returns the files of a table of 40 nodes. cell returns the value of a row in the column of this name; rows are
// labelled good and bad in turn.
func table(column string, cell func(row int) string) map[string]string {
	nodes := new(strings.Builder)
	fmt.Fprintf(nodes, "id,label,%s,country\n", column)
	for i := range 40 {
		fmt.Fprintf(nodes, "a%d,%s,%s,DE\n", i, []string{"good", "bad"}[i%2], quotedCell(cell(i)))
	}
	return map[string]string{"nodes.csv": nodes.String(), "edges.csv": "source,target\na1,a0\n"}
}

func quotedCell(text string) string {
	if strings.ContainsAny(text, ",\n") {
		return `"` + text + `"`
	}
	return text
}

// encoded opens and encodes a table, with all rows to train.
func encoded(t *testing.T, files map[string]string) (*Dataset, error) {
	t.Helper()
	d, err := Open(write(t, files))
	if err != nil {
		return nil, err
	}
	rows := make([]int32, len(d.Labels))
	for i := range rows {
		rows[i] = int32(i)
	}
	return d.Encoded(rows)
}

// clean are columns of each kind.
var clean = map[attributes.Kind]func(row int) string{
	attributes.Number:   func(i int) string { return fmt.Sprint(float64(i*37%100) + .5) },
	attributes.Boolean:  func(i int) string { return []string{"true", "false"}[i%2] },
	attributes.Time:     func(i int) string { return fmt.Sprintf("2025-%02d-1%d 08:30:00", 1+i%12, i%10) },
	attributes.Category: func(i int) string { return []string{"free", "gold", "team"}[i%3] },
}

// TestCorruption puts each class of corruption into a clean column of each kind, in one row, in a quarter of the rows and in
// all: it is read right, refused with an error that names the column, or said; it is never silent.
func TestCorruption(t *testing.T) {
	gaps := []string{"?", "NA", "N/A", "<NA>", "None", `\N`, "-", "NaT", "inf", "-inf", "#N/A"}
	forms := map[attributes.Kind][]string{
		attributes.Number:  {"0,5", "1,234.5", "1.234,5", "12%", "€ 12", "12 USD", "1 234", "twelve", "12-", "0x1F", "1_000", "1e999"},
		attributes.Boolean: {"yes", "2", "wahr", "truee"},
		attributes.Time:    {"0000-00-00 00:00:00", "2025-13-40 08:30:00", "01/02/2025", "01.02.2025", "20250201", "Jan 2, 2025", "1746433800", "soon"},
	}
	for kind, value := range clean {
		whole, err := encoded(t, table("x", value))
		if err != nil || whole.Table != nil && whole.Table[0].Kind != kind && kind != attributes.Number {
			t.Fatalf("%s: %v", kind, err)
		}
		for _, bad := range slices.Concat(gaps, forms[kind], []string{"", "NaN", "null"}) {
			for every, where := range map[int]func(i int) bool{
				40: func(i int) bool { return i == 7 }, 4: func(i int) bool { return i%4 == 3 }, 1: func(int) bool { return true },
			} {
				d, err := encoded(t, table("x", func(i int) string {
					if where(i) {
						return bad
					}
					return value(i)
				}))
				what := fmt.Sprintf("%s, %q in one of %d rows", kind, bad, every)
				switch {
				case err != nil:
					if !strings.Contains(err.Error(), `"x"`) {
						t.Errorf("%s: the error does not name the column: %v", what, err)
					}
				case d.Table == nil:
					t.Errorf("%s: read as plain numbers", what)
				case d.Table[0].Note != "", len(d.Notes) > 0: // said
				case kind == attributes.Category || every == 1: // a value as any other, and the table of kinds shows it
				case d.Table[0].Kind != kind:
					t.Errorf("%s: silently a %s", what, d.Table[0].Kind)
				default:
					if a := d.Schema.Attributes[0]; !strings.Contains("NaN null", bad) || math.Abs(a.Gaps-1/float64(every)) > .01 {
						t.Errorf("%s: silently %v", what, a)
					}
				}
			}
		}
	}
}

// TestInputs: what failed in silence once gives what is right, or an error that says what to do.
func TestInputs(t *testing.T) {
	same := func(a, b gnn.Vector) bool { return slices.Equal(a.Dense, b.Dense) && slices.Equal(a.Value, b.Value) }
	dates := func(zone string) func(int) string {
		return func(i int) string { return clean[attributes.Time](i) + zone }
	}
	want, err := encoded(t, table("opened", dates("")))
	if err != nil {
		t.Fatal(err)
	}
	for _, zone := range []string{"+00", "+0000", " UTC", "Z", "+00:00", ".000"} {
		got, err := encoded(t, table("opened", dates(zone)))
		if err != nil || got.Table[0].Kind != attributes.Time || !slices.EqualFunc(got.Features, want.Features, same) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
	comma, err := encoded(t, table("amount", func(i int) string { return fmt.Sprintf("%d,%02d", i*37%100, i) }))
	if err != nil || comma.Table[0].Kind != attributes.Number || comma.Table[0].Note != "with decimal commas" {
		t.Fatalf("decimal commas: %v", err)
	}
	lists, err := encoded(t, table("embedding", func(i int) string { return fmt.Sprintf("[1.0 2.5 %d.5]", i%5) }))
	if err != nil || lists.Table[0].Kind != attributes.Vector || lists.Schema.Attributes[0].Width != 3 || lists.Features[7].Dense[2] != 2.5 {
		t.Errorf("lists of numbers: %v", err)
	}
	dot, err := encoded(t, table("amount", func(i int) string { return fmt.Sprintf("%d.%02d", i*37%100, i) }))
	if err != nil || !slices.EqualFunc(comma.Features, dot.Features, same) {
		t.Errorf("decimal commas are not read as points: %v", err)
	}
	for _, c := range []struct {
		files map[string]string
		want  string
	}{
		{table("opened", func(i int) string { return []string{clean[attributes.Time](i), "2025-02-30 00:00:00"}[i/39] }), `column "opened": "2025-02-30 00:00:00" in row 40 is none of the dates`},
		{table("amount", func(i int) string { return "1,234" }), "a number in a form that is not read"},
		{table("time", func(i int) string { return []string{"1772323200", "2026-03-01T01:00:00Z"}[min(i, 1)] }), `line 3: column time: "2026-03-01T01:00:00Z", and "1772323200" in row 1: times of two units`},
		{table("time", func(i int) string { return []string{"1772323200", "1772323200000"}[i%2] }), "times of two units"},
		{table("time", func(i int) string { return []string{"2026", "2026-03-01"}[i%2] }), "times of two units"},
		{table("town", func(i int) string { return "Z\xfcrich" }), `line 2: "0,good,Z\xfcrich,DE" is not UTF-8: convert the file`},
		{table("town", func(i int) string { return fmt.Sprint("town ", i) }), `column "town": hardly a value comes 3 times in 40 training rows, such as "town 0": leave the column out`},
		{map[string]string{"nodes.csv": "\xff\xfei\x00d\x00", "edges.csv": ""}, "is UTF-16"},
		{map[string]string{"nodes.csv": "version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "edges.csv": ""}, "git lfs pull"},
	} {
		if _, err := encoded(t, c.files); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
}

// TestUnits: times have the unit that dataset.json gives, and one that cannot be right is an error that names the one that may be.
func TestUnits(t *testing.T) {
	for unit, one := range map[string]int64{"s": 1000, "us": 1, "days": 86400000, "ns": 0} {
		files := table("opened", func(i int) string {
			ms := int64(1746403200000) + int64(i)*86400000
			switch unit {
			case "us":
				return fmt.Sprint(ms * 1000)
			case "ns":
				return fmt.Sprint(ms * 1000000)
			}
			return fmt.Sprint(ms / one)
		})
		files["dataset.json"] = `{"columns": {"opened": "time"}}`
		if _, err := encoded(t, files); err == nil || !strings.Contains(err.Error(), fmt.Sprintf(`"unit": %q`, unit)) {
			t.Errorf("%s without a unit: %v", unit, err)
		}
		files["dataset.json"] = fmt.Sprintf(`{"columns": {"opened": {"kind": "time", "unit": %q}}}`, unit)
		d, err := encoded(t, files)
		if err != nil {
			t.Errorf("%s: %v", unit, err)
		} else if a := d.Schema.Attributes[0]; a.From != 1746403200000 || a.To != a.From+39*86400000 || !strings.HasPrefix(a.String(), "time in "+unit) {
			t.Errorf("%s: %+v", unit, a)
		}
	}
	files := table("opened", func(i int) string { return []string{"", fmt.Sprint(1746433800 + i)}[min(i, 1)] })
	if d, err := Open(write(t, files)); err != nil || !strings.Contains(d.Table[0].Note, `looks like times since 1970: if so, give "columns": {"opened": {"kind": "time", "unit": "s"}}`) {
		t.Errorf("numbers that look like times: %v", err)
	}
}

// TestCSVForms: quoted line breaks, semicolons, tabs and sep= are read, and columns that say too much are named.
func TestCSVForms(t *testing.T) {
	plain, err := Open(write(t, table("x", clean[attributes.Category])))
	if err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{";", "\t"} {
		for _, first := range []string{"", "sep=" + mark + "\n"} {
			files := table("x", clean[attributes.Category])
			files["nodes.csv"] = first + strings.ReplaceAll(files["nodes.csv"], ",", mark)
			if d, err := Open(write(t, files)); err != nil || !slices.EqualFunc(d.Table, plain.Table, sameColumn) {
				t.Errorf("%q and %q: %v", first, mark, err)
			}
		}
	}
	d, err := Open(write(t, table("note", func(i int) string { return "one\n\"\"two\"\"\n\nthree, four" })))
	if err != nil || len(d.Labels) != 40 || d.Table[0].Texts[39] != `one "two"  three, four` {
		t.Errorf("quoted line breaks: %v", err)
	}
	for want, cell := range map[string]func(int) string{
		`column "x" says the label`: func(i int) string { return []string{"good", "bad"}[i%2] }, `column "x" counts the rows`: func(i int) string { return fmt.Sprint(i) },
	} {
		if d, err := Open(write(t, table("x", cell))); err != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], want) {
			t.Errorf("%v, %+v, want it said that %s", err, d, want)
		}
	}
	files := table("x", clean[attributes.Category])
	whole := files["nodes.csv"]
	delete(files, "nodes.csv")
	half := strings.Index(whole, "a20,")
	files["nodes.csv/part-00000.csv"], files["nodes.csv/part-00001.csv"] = whole[:half], whole[:strings.Index(whole, "\n")+1]+whole[half:]
	files["nodes.csv/_SUCCESS"] = ""
	if d, err := Open(write(t, files)); err != nil || !slices.EqualFunc(d.Table, plain.Table, sameColumn) {
		t.Errorf("a folder of parts: %v", err)
	}
	files["nodes.csv/part-00001.csv"] = "id,label,y,country\n"
	if _, err := Open(write(t, files)); err == nil || !strings.Contains(err.Error(), "those of the first part") {
		t.Errorf("parts with other columns: %v", err)
	}
	many := new(strings.Builder)
	for i := range 300 {
		fmt.Fprintf(many, "b%d,%d.5,1,DE\n", i, i)
	}
	files = table("x", func(i int) string { return "1" })
	files["nodes.csv"] = "id,label,x,country\n" + many.String()
	files["edges.csv"] = "source,target\n"
	if d, err := Open(write(t, files)); err != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "the labels are 300 different numbers") {
		t.Errorf("a quantity as label: %v", err)
	}
}

// TestSaid: what a column, a class or a name is taken for and may not be is refused, or said in a line.
func TestSaid(t *testing.T) {
	in := func(bad string, every int, value func(int) string) func(int) string {
		return func(i int) string {
			if i%every == 3 {
				return bad
			}
			return value(i)
		}
	}
	number, date := clean[attributes.Number], clean[attributes.Time]
	as := func(format string) func(int) string {
		return func(i int) string { return fmt.Sprintf(format, i*37%100) }
	}
	files := func(more string, columns string, cell func(int) string) map[string]string {
		f := table(columns, cell)
		f["dataset.json"] = more
		return f
	}
	labels := func(change ...string) map[string]string {
		f := table("x", func(int) string { return "a" })
		f["nodes.csv"] = strings.NewReplacer(change...).Replace(f["nodes.csv"])
		return f
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"n.a.":                  {table("x", in("n.a.", 8, number)), `"n.a." is taken for a gap (5)`},
		"a long dash":           {table("x", in("—", 8, number)), `"—" is taken for a gap (5)`},
		"unknown":               {table("x", in("unknown", 8, number)), `35 of 40 values are numbers`},
		"a number for none":     {table("x", in("-999", 8, number)), "-999 comes 5 times, apart from all others"},
		"another":               {table("x", in("9999", 8, number)), "9999 comes 5 times, apart from all others"},
		"zeros":                 {table("x", as("%05d")), `"00000" begins with a zero: are these codes?`},
		"long ids":              {table("x", as("123456789012345678%02d")), "more digits than are kept"},
		"points":                {table("x", as("1.2%02d")), `"1.200" may have a point between thousands`},
		"dates without marks":   {table("x", func(i int) string { return fmt.Sprintf("2025%02d%02d", i%12+1, i%28+1) }), "looks like dates without marks"},
		"plain seconds":         {table("x", func(i int) string { return fmt.Sprint(1746433800 + i*i) }), `"unit": "s"`},
		"a minus behind":        {table("x", as("%d.5-")), "a number in a form that is not read"},
		"brackets":              {table("x", as("(%d.5)")), "a number in a form that is not read"},
		"a sign of Unicode":     {table("x", as("−%d.5")), "a number in a form that is not read"},
		"a comma and exponent":  {table("x", as("1,%02dE+05")), "a number in a form that is not read"},
		"the name of a month":   {table("x", as("10-Jan-20%02d")), "a date in a form that is not read"},
		"a time of day":         {table("x", func(i int) string { return fmt.Sprintf("%02d:30:00", i%24) }), "a date in a form that is not read"},
		"no such year":          {table("x", in("9999-12-31", 8, date)), `"9999-12-31" is one of 5 far times`},
		"the first of all":      {table("x", in("1970-01-01 00:00:00", 8, date)), `"1970-01-01 00:00:00" is one of 5 far times`},
		"half in seconds":       {table("x", in("1746433800", 4, date)), "30 of 40 values"},
		"capitals":              {table("x", func(i int) string { return []string{"DE", "de"}[i%3%2] }), `"DE" and "de" differ by capitals only`},
		"classes in capitals":   {labels("a7,bad", "a7,Bad"), `classes "Bad" and "bad" differ by capitals only`},
		"a recoded label":       {table("x", func(i int) string { return fmt.Sprint(i % 2) }), `column "x" says the label in every row`},
		"rows from 100":         {table("x", func(i int) string { return fmt.Sprintf("%d.0", i+100) }), `column "x" counts the rows`},
		"nothing":               {table("x", func(int) string { return "" }), "has no value in the rows that train"},
		"Time":                  {table("Time", func(i int) string { return fmt.Sprint(i * i) }), `column "Time" is an attribute: if it is the column time`},
		"a misspelt field":      {files(`{"unlabeled": ["bad"]}`, "x", number), `unknown field "unlabeled": give "unlabelled"`},
		"a label that is none":  {files(`{"unlabelled": ["nope"]}`, "x", number), `no node has the label "nope"`},
		"labels in other units": {table("time,label_time", func(i int) string { return fmt.Sprintf("%d,%d", 1772323200000+i, 1772323200+i) }), "give both times in one unit"},
	} {
		if strings.HasPrefix(name, "labels in") {
			c.files["nodes.csv"] = strings.ReplaceAll(c.files["nodes.csv"], `"`, "")
		}
		d, err := encoded(t, c.files)
		said := fmt.Sprint(err)
		if err == nil {
			said = strings.Join(d.Notes, "\n")
			for _, column := range d.Table {
				said += "\n" + column.Note
			}
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: it is said %q, want %q", name, said, c.want)
		}
	}
	// What is written with two characters for one, as some systems do, is the same.
	d, err := encoded(t, table("x", func(i int) string { return []string{"Zürich", "Zu\u0308rich"}[i%2] }))
	if err != nil || len(d.Schema.Attributes[0].Values) != 1 {
		t.Errorf("composed and decomposed: %v", err)
	}
}
