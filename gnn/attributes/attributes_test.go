package attributes

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// payments is a table as people have them: a heavy-tailed amount, an age with gaps, two
// categories, a boolean, a time and a text. Three countries have two rows each.
func payments(n int) (columns []Column, times []int64) {
	rng := rand.New(rand.NewPCG(1, 2))
	columns = []Column{{Name: "amount"}, {Name: "age"}, {Name: "country"}, {Name: "plan"}, {Name: "new"}, {Name: "opened"}, {Name: "note"}}
	for i := range n {
		age := ""
		if i%8 != 0 {
			age = strconv.Itoa(18 + i%60)
		}
		country := fmt.Sprintf("C%02d", i%20)
		if i < 6 {
			country = fmt.Sprintf("R%d", i%3)
		}
		at := int64(1700000000000) + int64(i)*60000
		for j, text := range []string{
			strconv.FormatFloat(math.Exp(2*rng.NormFloat64()), 'g', -1, 64), age, country, []string{"free", "gold", "team"}[i%3],
			[]string{"true", "False"}[i%2], "2023-11-1" + strconv.Itoa(i%5) + "T08:30:00Z", fmt.Sprintf("paid for item %d by card", i),
		} {
			columns[j].Texts = append(columns[j].Texts, text)
		}
		times = append(times, at)
	}
	return columns, times
}

func learned(t *testing.T, columns []Column, times []int64) *Schema {
	t.Helper()
	if err := Infer(columns); err != nil {
		t.Fatal(err)
	}
	s, err := Learn(columns, times, rows(len(columns[0].Texts)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rows(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

// shareBelow returns the share of values below one, and half of those equal to it.
func shareBelow(values []float64, than float64) (f float64) {
	for _, v := range values {
		if v < than {
			f++
		} else if v == than {
			f += .5
		}
	}
	return f / float64(len(values))
}

// TestKinds: kinds are inferred, and what is learned is what the table has.
func TestKinds(t *testing.T) {
	columns, times := payments(400)
	s := learned(t, columns, times)
	var got []string
	for i := range s.Attributes {
		got = append(got, s.Attributes[i].Name+": "+s.Attributes[i].String())
	}
	for i, want := range []string{
		"amount: number, ", "age: number, 18 to 77, median 47", "country: category, 20 values (C00, C01, C02, …), 1.5 % others",
		"plan: category, 3 values (free, gold, team)", "new: boolean", "opened: time", "note: text",
	} {
		if !strings.HasPrefix(got[i], want) {
			t.Errorf("%s, want %s", got[i], want)
		}
	}
	if s.Attributes[1].Gaps != .125 || !strings.HasSuffix(got[1], "12.5 % gaps") {
		t.Errorf("age %+v, want gaps", s.Attributes[1])
	}
	if want := 2 + 3 + 21 + 3 + 1 + 5 + textWidth; s.Width() != want || s.Sparse {
		t.Errorf("width %d, sparse %t, want %d dense columns", s.Width(), s.Sparse, want)
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var again Schema
	if err := json.Unmarshal(text, &again); err != nil || again.Check() != nil {
		t.Fatal(err, again.Check())
	}
	if diff := cmp.Diff(s, &again); diff != "" {
		t.Errorf("through JSON, -before +after\n%s", diff)
	}
}

// TestEncode: the columns of a row are those of a plain computation.
func TestEncode(t *testing.T) {
	columns, times := payments(400)
	s := learned(t, columns, times)
	e := NewEncoder(s)
	const row = 9 // age 27, country C09, free, False, the 14th
	x, err := EncodeRow(e, columns, times, row)
	if err != nil {
		t.Fatal(err)
	}
	dense := x.Dense
	amount, _ := strconv.ParseFloat(columns[0].Texts[row], 64)
	opened, _ := spelling.Date(columns[5].Texts[row])
	age := math.Log1p(float64(times[row]-opened) / 1000)
	var ages, amounts []float64
	for i := range rows(400) {
		if v, err := strconv.ParseFloat(columns[1].Texts[i], 64); err == nil {
			ages = append(ages, v)
		}
		v, _ := strconv.ParseFloat(columns[0].Texts[i], 64)
		amounts = append(amounts, v)
	}
	var want []float64
	for i, of := range []struct {
		all []float64
		v   float64
	}{{amounts, amount}, {ages, 27}} {
		f := shareBelow(of.all, of.v)
		want = append(want, (math.Log(f/(1-f))-s.Attributes[i].Mean)/s.Attributes[i].SD, (-math.Log(f*(1-f))-2)/.84)
	}
	want = append(want, 0)
	country := make([]float64, 21)
	country[9] = 1
	want = append(append(want, country...), 1, 0, 0, 0)
	hour, day := 2*math.Pi*8/24, 2*math.Pi*2/7 // half past eight on a Tuesday
	want = append(want, (age-s.Attributes[5].Mean)/s.Attributes[5].SD, math.Sin(hour), math.Cos(hour), math.Sin(day), math.Cos(day))
	for j, v := range want {
		if off := math.Abs(float64(dense[j]) - v); off > 1e-6 && (j > 3 || off > .03) { // ranks are linear between knots
			t.Errorf("column %d is %v, want %v", j, dense[j], v)
		}
	}
	sum := 0.0
	for _, v := range dense[len(want):] {
		sum += float64(v * v)
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("the text has the squared length %v, want 1", sum)
	}
}

// TestServing: what a producer sends of a row has the bits of the table's row, whatever the
// types; gaps and unseen values are predicted and counted, and a wrong kind is named.
func TestServing(t *testing.T) {
	columns, times := payments(400)
	s := learned(t, columns, times)
	e := NewEncoder(s)
	want, err := EncodeRow(e, columns, times, 9)
	if err != nil {
		t.Fatal(err)
	}
	amount, _ := strconv.ParseFloat(columns[0].Texts[9], 64)
	opened, _ := spelling.Date(columns[5].Texts[9])
	e.Begin(times[9])
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	must(e.Text("note", columns[6].Texts[9]))
	must(e.Number("opened", float64(opened)))
	must(e.Bool("new", false))
	must(e.Text("plan", "free"))
	must(e.Text("country", "R0"))
	must(e.Text("country", "C09")) // the last one counts
	must(e.Text("age", "27.0"))
	must(e.Number("amount", amount))
	must(e.Text("iban", "DE00"))
	if diff := cmp.Diff(want, e.End()); diff != "" {
		t.Errorf("sent as values, -table +sent\n%s", diff)
	}
	e.TakeTally()
	e.Begin(0)
	e.Gap("country")
	must(e.Number("amount", 1e300))
	must(e.Text("plan", "platinum"))
	e.End()
	got := e.TakeTally()
	if got.Rows != 1 || len(got.Unknown) != 0 || !slices.Equal(got.Gaps, []int64{0, 1, 1, 0, 1, 1, 1}) || got.Others[3] != 1 || got.Clipped[0] != 1 || got.Sum[0] < 3 {
		t.Errorf("counted %+v", got)
	}
	e.Begin(0)
	for want, err := range map[string]error{
		`attribute amount: "abc" is no number`:          e.Text("amount", "abc"),
		"attribute new: 7 is no boolean":                e.Number("new", 7),
		`attribute opened: "soon" is no time`:           e.Text("opened", "soon"),
		"attribute age: a list of numbers is no number": e.Vector("age", []float32{1}),
		"attribute amount: a number is infinite":        e.Number("amount", math.Inf(1)),
		`attribute new: "perhaps" is no boolean`:        e.Text("new", "perhaps"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestTypo: a column of numbers with a word in it is not taken for a category.
func TestTypo(t *testing.T) {
	c := Column{Name: "amount", Texts: slices.Repeat([]string{"1.5"}, 40)}
	c.Texts[7] = "1,5"
	if err := Infer([]Column{c}); err == nil || !strings.Contains(err.Error(), `column "amount": "1,5" in row 8 is a number in a form that is not read`) {
		t.Error(err)
	}
}

// FuzzSchema: a schema that is accepted encodes whatever comes to finite columns.
func FuzzSchema(f *testing.F) {
	columns, times := payments(40)
	if err := Infer(columns); err != nil {
		f.Fatal(err)
	}
	s, err := Learn(columns, times, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	if err != nil {
		f.Fatal(err)
	}
	text, _ := json.Marshal(s)
	f.Add(string(text), "amount", "1e400", -3.5)
	f.Add(string(text), "opened", "2023-11-14", 1.7e12)
	f.Add(`{"attributes":[{"name":"z","kind":"vector","width":2}]}`, "z", "[1, 2]", 0.)
	f.Fuzz(func(t *testing.T, schema, name, value string, number float64) {
		var s Schema
		if json.Unmarshal([]byte(schema), &s) != nil || s.Check() != nil {
			return
		}
		e := NewEncoder(&s)
		e.Begin(int64(number))
		if e.Text(name, value) != nil {
			e.Begin(int64(number))
		}
		x := e.End()
		if err := x.Validate(s.Width()); err != nil {
			t.Fatal(err)
		}
		kept := e.Keep(nil)
		if !e.Resume(int64(number), kept) || cmp.Diff(x, e.End()) != "" {
			t.Fatalf("kept as %x, %v comes back", kept, x)
		}
		e.Begin(1)
		_ = e.Number(name, number)
		if err := e.End().Validate(s.Width()); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzResume: whatever is given for a row that was kept, what is accepted encodes to finite
// columns, and is kept as something that comes back.
func FuzzResume(f *testing.F) {
	columns, times := payments(40)
	if err := Infer(columns); err != nil {
		f.Fatal(err)
	}
	s, err := Learn(columns, times, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	if err != nil {
		f.Fatal(err)
	}
	e := NewEncoder(s)
	for row := range 5 {
		if _, err := EncodeRow(e, columns, times, row); err != nil {
			f.Fatal(err)
		}
		f.Add(e.Keep(nil), int64(row))
	}
	f.Fuzz(func(t *testing.T, kept []byte, at int64) {
		if !e.Resume(at, kept) {
			return
		}
		x := e.End()
		if err := x.Validate(s.Width()); err != nil {
			t.Fatal(err)
		}
		if !e.Resume(at, e.Keep(nil)) || cmp.Diff(x, e.End()) != "" {
			t.Fatalf("%x was accepted, and does not come back", kept)
		}
		e.Reset()
	})
}

func BenchmarkEncode12(b *testing.B) {
	columns, times := payments(400)
	more, _ := payments(400)
	for i := range more[:5] {
		more[i].Name += " 2"
	}
	columns = append(columns[:6], more[:5]...)
	if err := Infer(columns); err != nil {
		b.Fatal(err)
	}
	rows := make([]int32, 400)
	for i := range rows {
		rows[i] = int32(i)
	}
	s, err := Learn(columns, times, rows)
	if err != nil {
		b.Fatal(err)
	}
	e := NewEncoder(s)
	for b.Loop() {
		e.Reset()
		e.Begin(times[9])
		for i := range columns {
			if c := &columns[i]; c.Kind == Number {
				_ = e.Number(c.Name, 12.5)
			} else {
				_ = e.Text(c.Name, c.Texts[9])
			}
		}
		e.End()
	}
}
