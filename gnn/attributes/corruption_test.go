package attributes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// meaning is what a corrupted text stands for.
type meaning int

const (
	theSame meaning = iota // the value, in another spelling
	aGap                   // none
	unclear                // nobody knows: a value like others only where all texts are
)

// corruption turns the text of a value into another.
type corruption struct {
	of    []Kind // nil for all
	means meaning
	text  func(clean string) string
}

func always(text string) func(string) string { return func(string) string { return text } }

// corruptions are those of the reports that asked for this test, by name.
var corruptions = map[string]corruption{
	"empty": {nil, aGap, always("")}, "NaN": {nil, aGap, always("NaN")}, "null": {nil, aGap, always("null")}, "None": {nil, aGap, always("None")},
	`\N`: {nil, aGap, always(`\N`)}, "<NA>": {nil, aGap, always("<NA>")}, "NA": {nil, aGap, always("NA")}, "N/A": {nil, aGap, always("N/A")},
	"?": {nil, aGap, always("?")}, "-": {nil, aGap, always("-")}, "inf": {nil, aGap, always("inf")}, "#N/A": {nil, aGap, always("#N/A")},
	"unknown":       {nil, unclear, always("unknown")},
	"error":         {nil, unclear, always("#REF!")},
	"blanks around": {nil, theSame, func(v string) string { return "  " + v + "\t" }},
	"in quotes":     {nil, unclear, func(v string) string { return `"` + v + `"` }},
	"another's row": {nil, unclear, always("2026-03-01T10:00:00Z;12.5;x")},
	"comma":         {[]Kind{Number}, unclear, func(v string) string { return strings.Replace(v, ".", ",", 1) }},
	"thousands":     {[]Kind{Number}, unclear, func(v string) string { return "1," + fmt.Sprintf("%06.2f", 123.25) }},
	"apostrophes":   {[]Kind{Number}, unclear, always("1'234.5")}, "percent": {[]Kind{Number}, unclear, func(v string) string { return v + "%" }},
	"currency": {[]Kind{Number}, unclear, func(v string) string { return "€" + v }}, "a unit": {[]Kind{Number}, unclear, func(v string) string { return v + " kg" }},
	"hexadecimal": {[]Kind{Number}, unclear, always("0x1F")}, "parentheses": {[]Kind{Number}, unclear, func(v string) string { return "(" + v + ")" }},
	"an exponent": {[]Kind{Number}, theSame, func(v string) string { return v + "e0" }}, "a plus": {[]Kind{Number}, theSame, func(v string) string { return "+" + v }},
	"wide digits": {[]Kind{Number}, unclear, always("１２．５")},
	"capitals":    {[]Kind{Boolean}, theSame, strings.ToUpper}, "a letter": {[]Kind{Boolean}, theSame, func(v string) string { return v[:1] }},
	"yes": {[]Kind{Boolean}, unclear, always("yes")}, "2": {[]Kind{Boolean}, unclear, always("2")},
	"no zone":    {[]Kind{Time}, theSame, func(v string) string { return strings.TrimSuffix(v, "Z") }},
	"+00":        {[]Kind{Time}, theSame, func(v string) string { return strings.TrimSuffix(v, "Z") + "+00" }},
	" UTC":       {[]Kind{Time}, theSame, func(v string) string { return strings.Replace(strings.TrimSuffix(v, "Z"), "T", " ", 1) + " UTC" }},
	"no seconds": {[]Kind{Time}, theSame, func(v string) string { return strings.TrimSuffix(v, ":00Z") }},
	"slashes":    {[]Kind{Time}, theSame, func(v string) string { return strings.ReplaceAll(v, "-", "/") }},
	"day first":  {[]Kind{Time}, unclear, always("31/12/2025")}, "seconds": {[]Kind{Time}, unclear, always("1766000000")},
	"microseconds": {[]Kind{Time}, unclear, always("1766000000000000")}, "days": {[]Kind{Time}, unclear, always("20440")},
	"no such day": {[]Kind{Time}, unclear, always("2025-02-30T10:00:00Z")}, "a year": {[]Kind{Time}, unclear, always("2025")},
	"milliseconds": {[]Kind{Time}, theSame, func(v string) string {
		at, _ := time.Parse(time.RFC3339, v)
		return fmt.Sprint(at.UnixMilli())
	}},
	"a number fewer": {[]Kind{Vector}, unclear, always("1 2")}, "a word": {[]Kind{Vector}, unclear, always("1 2 x")},
	"in brackets":        {[]Kind{Vector}, theSame, func(v string) string { return "[" + strings.ReplaceAll(v, " ", ", ") + "]" }},
	"another's capitals": {[]Kind{Category}, unclear, strings.ToLower},
	"as a float":         {[]Kind{Category}, unclear, func(v string) string { return v + ".0" }},
}

// clean are columns of 200 values of each kind.
func clean(kind Kind) (texts []string) {
	for i := range 200 {
		texts = append(texts, map[Kind]string{
			Number:   fmt.Sprintf("%d.25", (i*37)%101+1),
			Boolean:  []string{"true", "false"}[i*7%11%2],
			Category: []string{"Berlin", "Paris", "Rome", "Oslo"}[i*13%17%4],
			Time:     time.Date(2025, 1, 1+i, i%24, 30, 0, 0, time.UTC).Format(time.RFC3339),
			Text:     fmt.Sprintf("item %d of the shop %d", i, i*i%97),
			Vector:   fmt.Sprintf("%d %d.5 %d", i, i%7, i*3%5),
		}[kind])
	}
	return texts
}

// TestCorruption puts each class of corruption into a clean column of each kind, in one row, in 3 % of the rows, and in half of them. The
// column is refused with its name and the value or its row; or all rows have the vectors that they mean; or what is not so is said. And in serving,
// what an event spells so is refused, right, or counted. Never is it silent.
func TestCorruption(t *testing.T) {
	tried := map[string]int{}
	for _, kind := range []Kind{Number, Boolean, Category, Time, Text, Vector} {
		for name, c := range corruptions {
			if c.of != nil && !slices.Contains(c.of, kind) {
				continue
			}
			for _, rows := range []int{1, 6, 100} {
				verdict := corrupted(t, kind, c, rows)
				tried[verdict]++
				if verdict == "silent" {
					t.Errorf("%s in %d of 200 rows of a %s is silent", name, rows, kind)
				}
			}
			if verdict := served(t, kind, c); verdict == "silent" {
				t.Errorf("%s in an event's %s is silent", name, kind)
			}
		}
	}
	if tried["right"] < 100 || tried["refused"] < 50 || tried["said"] < 20 {
		t.Errorf("verdicts %v: too few of a kind for a test of all", tried)
	}
}

// vectorsOf returns the vectors of a column's rows.
func vectorsOf(t *testing.T, columns []Column) (list [][]float32, err error) {
	t.Helper()
	var rows []int32
	for i := range columns[0].Texts {
		rows = append(rows, int32(i))
	}
	s, err := Learn(columns, nil, rows)
	if err != nil {
		return nil, err
	}
	e := NewEncoder(s)
	for i := range rows {
		x, err := EncodeRow(e, columns, nil, i)
		if err != nil {
			return nil, err
		}
		list = append(list, slices.Clone(x.Dense))
		e.Reset()
	}
	return list, nil
}

// corrupted returns what becomes of a column of which so many rows are corrupted.
func corrupted(t *testing.T, kind Kind, c corruption, rows int) string {
	t.Helper()
	texts, meant := clean(kind), clean(kind)
	for i := range rows {
		row := 199 - i*199/max(rows, 2)
		if texts[row] = c.text(texts[row]); c.means == aGap {
			meant[row] = ""
		}
	}
	list := []Column{{Name: "column", Texts: texts}}
	err := Infer(list)
	var got [][]float32
	if err == nil {
		got, err = vectorsOf(t, list)
	}
	if err != nil {
		if !strings.Contains(err.Error(), "column") || !strings.ContainsAny(err.Error(), "0123456789") {
			t.Errorf("a %s is refused without its name, value or row: %v", kind, err)
		}
		return "refused"
	}
	if list[0].Note != "" {
		return "said"
	}
	wanted := []Column{{Name: "column", Kind: kind, Texts: meant}}
	want, err := vectorsOf(t, wanted)
	if list[0].Kind == kind && err == nil && c.means != unclear && slices.EqualFunc(got, want, slices.Equal[[]float32]) {
		return "right"
	}
	if kind == Text || kind == Category && list[0].Kind == Category && c.means == unclear {
		return "right" // any text may be one: what is seldom is of all others, whose share the table of kinds prints
	}
	return "silent"
}

// served returns what becomes of an event with a corrupted value.
func served(t *testing.T, kind Kind, c corruption) string {
	t.Helper()
	columns := []Column{{Name: "column", Kind: kind, Texts: append(clean(kind), "")}}
	var rows []int32
	for i := range columns[0].Texts {
		rows = append(rows, int32(i))
	}
	s, err := Learn(columns, nil, rows)
	if err != nil {
		t.Fatal(err)
	}
	e := NewEncoder(s)
	encode := func(text string) ([]float32, error) {
		e.Begin(0)
		err := e.Text("column", text)
		return slices.Clone(e.End().Dense), err
	}
	value := columns[0].Texts[7]
	want, err := encode(value)
	if c.means == aGap {
		want, err = encode("")
	}
	if err != nil {
		t.Fatal(err)
	}
	e.TakeTally()
	got, err := encode(c.text(value))
	tally := e.TakeTally()
	switch {
	case err != nil:
		if !strings.Contains(err.Error(), "column") {
			t.Errorf("an event is refused without the attribute's name: %v", err)
		}
		return "refused"
	case tally.Gaps[0]+tally.Others[0]+tally.Clipped[0] > 0:
		return "said"
	case c.means != unclear && slices.Equal(got, want), kind == Text:
		return "right"
	}
	return "silent"
}
