package attributes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/spelling"
)

// TestUnitsInServing: what an event says in another unit than training is refused with the unit that it seems to be in, for an
// attribute and for the event's own time; a time of the training rows' years never is.
func TestUnitsInServing(t *testing.T) {
	columns := []Column{{Name: "opened"}, {Name: "born", Kind: Time}}
	var times []int64
	for i := range 40 {
		columns[0].Texts = append(columns[0].Texts, fmt.Sprintf("2025-05-%02dT08:30:00Z", 1+i%28))
		columns[1].Texts = append(columns[1].Texts, fmt.Sprint(int64(i-20)*50_000_000_000)) // from 1938 to 1999
		times = append(times, 1774800000000)
	}
	e := NewEncoder(learned(t, columns, times))
	for _, c := range []struct {
		give func() error
		want string // "" for what is taken
	}{
		{func() error { return e.Number("opened", 1746433800000) }, ""},
		{func() error { return e.Text("opened", "2031-05-05 08:30") }, ""},
		{func() error { return e.Text("opened", "1746433800000.0") }, ""},
		{func() error { return e.Number("opened", 1746433800000000) }, "attribute opened: 1746433800000000 looks like microseconds"},
		{func() error { return e.Number("opened", 1746433800) }, "attribute opened: 1746433800 looks like seconds since 1970"},
		{func() error { return e.Text("opened", "20213") }, "attribute opened: 20213 looks like days"},
		{func() error { return e.Number("opened", 1746433800000000000) }, "is no time"},
		{func() error { return e.Number("born", 1_700_000_000) }, ""}, // the 20th of January 1970
		{func() error { return e.Number("born", -86400000) }, ""},
		{func() error { return e.Number("born", math.MaxFloat64) }, "is no time"},
		{func() error { return e.FitsTime(1774800000000) }, ""},
		{func() error { return e.FitsTime(0) }, ""},
		{func() error { return e.FitsTime(1774800000) }, "the event's time is 1774800000: it looks like seconds"},
		{func() error { return e.FitsTime(1774800000000000) }, "it looks like microseconds"},
		{func() error { return e.FitsTime(5) }, "it is not in milliseconds"},
	} {
		e.Begin(times[0])
		if err := c.give(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if err := NewEncoder(learned(t, []Column{{Name: "opened", Texts: columns[0].Texts}}, nil)).FitsTime(5); err != nil {
		t.Errorf("without ages: %v", err)
	}
}

// TestOneSpelling: a category has one column for 3, 3.0, "3.0" and " 3 ", as for True and true, whichever training had; so
// has a model from before, whose values are as the table wrote them.
func TestOneSpelling(t *testing.T) {
	texts := slices.Repeat([]string{"3.0", "1.0", "2.50", "", "True"}, 8)
	columns := []Column{{Name: "plan", Kind: Category, Texts: texts}}
	s := learned(t, columns, nil)
	if got := s.Attributes[0].Values; !slices.Equal(got, []string{"1", "2.50", "3", "true"}) {
		t.Fatalf("values %q", got)
	}
	before := &Schema{Attributes: []Attribute{{Name: "plan", Kind: Category, Values: []string{"1.0", "2.50", "3.0", "True"}, Others: .1, Gaps: .2}}}
	for _, s := range []*Schema{s, before} {
		e := NewEncoder(s)
		for want, give := range map[int][]any{0: {1.0, "1", "1.0"}, 1: {2.5, "2.50"}, 2: {3.0, "3", "3.0", " 3.0 ", "3\u00a0"}, 3: {true, "True", "true", "TRUE "}, -1: {"4", 2.51, "03", false}, -2: {"", "null", "None", "<NA>"}} {
			for _, v := range give {
				e.Begin(0)
				var err error
				switch v := v.(type) {
				case float64:
					err = e.Number("plan", v)
				case string:
					err = e.Text("plan", v)
				case bool:
					err = e.Bool("plan", v)
				}
				x := e.End()
				tally := e.TakeTally()
				if err != nil || want >= 0 && x.Dense[want] != 1 || tally.Others[0] != map[bool]int64{true: 1}[want == -1] || tally.Gaps[0] != map[bool]int64{true: 1}[want == -2] {
					t.Errorf("%v (%T) with values %q: %v, %v, want column %d", v, v, s.Attributes[0].Values, x.Dense, err, want)
				}
			}
		}
	}
}

// TestUnknownNames: a name that the schema lacks is no value of any attribute, is counted under its own name, and says which
// attribute it may be a misspelling of. Ten thousand names, and endless ones, are counted as others.
func TestUnknownNames(t *testing.T) {
	e := NewEncoder(&Schema{Attributes: []Attribute{{Name: "card_id", Kind: Category, Values: []string{"a"}}, {Name: "amount", Kind: Number, SD: 1}}})
	e.Begin(0)
	for _, name := range []string{"Amount", "amont", "cardId", "Amount", "other"} {
		if err := e.Number(name, 3); err != nil {
			t.Fatal(err)
		}
	}
	e.End()
	got := e.TakeTally()
	want := []spelling.Unknown{
		{Name: "Amount", Meant: "amount", Values: 2},
		{Name: "amont", Meant: "amount", Values: 1},
		{Name: "cardId", Meant: "card_id", Values: 1},
		{Name: "other", Values: 1},
	}
	if !slices.Equal(got.Unknown, want) || got.Gaps[1] != 1 {
		t.Errorf("the tally is %+v, want %+v", got, want)
	}
	e.Begin(0)
	for n := range 10_000 {
		e.Gap(fmt.Sprint("n", n))
	}
	e.Gap(strings.Repeat("n", 1<<20))
	e.Gap("amont")
	e.End()
	got = e.TakeTally()
	others := slices.IndexFunc(got.Unknown, func(u spelling.Unknown) bool { return u.Name == "(other)" })
	if len(got.Unknown) != 62 || got.Unknown[0] != want[1] || others < 0 || got.Unknown[others].Values != 10_001-60 {
		t.Errorf("of ten thousand names %d are told apart, as %v", len(got.Unknown), got.Unknown)
	}
}

// TestGive: a column of what events had gets the kind of a schema, in texts that are read to the same values.
func TestGive(t *testing.T) {
	s := &Schema{Attributes: []Attribute{{Name: "opened", Kind: Time, Unit: "s"}, {Name: "amount", Kind: Number, Comma: true}, {Name: "sum", Kind: Number, Log: true}}}
	for _, c := range []struct{ given, want Column }{
		{Column{Name: "opened", Texts: []string{"1746433800"}}, Column{Name: "opened", Kind: Time, Unit: "s", Texts: []string{"1746433800"}}},
		{Column{Name: "amount", Texts: []string{"0,5", "2.5", "7", "true"}}, Column{Name: "amount", Kind: Number, Texts: []string{"0.5", "2.5", "7", "1"}}},
		{Column{Name: "sum", Texts: []string{"false", ""}}, Column{Name: "sum", Kind: Log, Texts: []string{"0", ""}}},
	} {
		if !c.given.Give(s) || !c.given.IsGiven() || c.given.Kind != c.want.Kind || c.given.Unit != c.want.Unit || !slices.Equal(c.given.Texts, c.want.Texts) {
			t.Errorf("%+v, want %+v", c.given, c.want)
		}
	}
	if c := (Column{Name: "other"}); c.Give(s) || c.Give(nil) {
		t.Error("a column has a kind of a schema without it")
	}
}

// TestHostileSchemas: a schema of a model that says far more than there can be is refused, whatever it says.
func TestHostileSchemas(t *testing.T) {
	names := make([]Attribute, 100*maxAttributes)
	for i := range names {
		names[i] = Attribute{Name: fmt.Sprint(i), Kind: Boolean}
	}
	for what, list := range map[string][]Attribute{
		"attributes": names, "bytes of a name": {{Name: strings.Repeat("n", 1000*maxName), Kind: Boolean}},
		"values": {{Name: "a", Kind: Category, Values: make([]string, 1000*maxValues)}}, "a width": {{Name: "a", Kind: Vector, Width: 1000 * maxWidth}},
		"a width of all": {{Name: "a", Kind: Vector, Width: maxWidth}, {Name: "b", Kind: Vector, Width: maxWidth}, {Name: "c", Kind: Vector, Width: maxWidth}},
	} {
		if err := (&Schema{Attributes: list}).Check(); err == nil || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v, want a short error", what, err)
		}
	}
	if err := (&Schema{Attributes: names[:maxAttributes]}).Check(); err != nil {
		t.Error(err)
	}
}
