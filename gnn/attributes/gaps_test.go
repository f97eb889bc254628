package attributes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
)

// gapTable has attributes of every kind but lists, with gaps, and copies of two of them: one in another unit and one
// under other names.
func gapTable(rng *rand.Rand) (columns []attributes.Column, rows []int32) {
	columns = []attributes.Column{
		{Name: "amount", Kind: attributes.Number},
		{Name: "cents", Kind: attributes.Number},
		{Name: "country", Kind: attributes.Category},
		{Name: "land", Kind: attributes.Category},
		{Name: "new", Kind: attributes.Boolean},
		{Name: "opened", Kind: attributes.Time},
		{Name: "other", Kind: attributes.Number},
	}
	for i := range int32(300) {
		amount, country := rng.ExpFloat64(), rng.IntN(5)
		values := []string{
			fmt.Sprint(amount), fmt.Sprint(-100 * amount), fmt.Sprintf("C%d", country), fmt.Sprintf("land %d", country), fmt.Sprint(rng.IntN(2) == 0),
			fmt.Sprintf("2026-01-%02d", 1+rng.IntN(28)), fmt.Sprint(amount + 2*rng.ExpFloat64()),
		}
		if rng.IntN(4) == 0 {
			values[4] = ""
		}
		for j := range columns {
			columns[j].Texts = append(columns[j].Texts, values[j])
		}
		rows = append(rows, i)
	}
	return columns, rows
}

// TestGapped: a row with gaps in place of attributes is the row that would have been encoded without them, also as a sparse
// vector; and an attribute is given exactly if that changes the row.
func TestGapped(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 51))
	columns, rows := gapTable(rng)
	s, err := attributes.Learn(columns, nil, rows)
	if err != nil {
		t.Fatal(err)
	}
	from := s.Places()
	for _, sparse := range []bool{false, true} {
		s := *s
		s.Sparse = sparse
		e := attributes.NewEncoder(&s)
		for row := range 100 {
			x, err := attributes.EncodeRow(e, columns, nil, row)
			if err != nil {
				t.Fatal(err)
			}
			var gaps []int
			e.Begin(0)
			for i := range columns {
				if rng.IntN(2) == 0 {
					gaps = append(gaps, i)
				} else if err := e.Text(columns[i].Name, columns[i].Texts[row]); err != nil {
					t.Fatal(err)
				}
			}
			want := e.End()
			rng.Shuffle(len(gaps), func(i, j int) { gaps[i], gaps[j] = gaps[j], gaps[i] })
			if got := s.Gapped(x, from, gaps); !sameVector(got, want) {
				t.Fatalf("row %d without %v: %+v, want %+v", row, gaps, got, want)
			}
			for i := range columns {
				furthest, given := s.Given(x, from, i)
				if given == sameVector(s.Gapped(x, from, []int{i}), x) || given && furthest == 0 && !s.Sparse && columns[i].Kind != attributes.Boolean {
					t.Fatalf("row %d: %s is given: %t, by %v", row, columns[i].Name, given, furthest)
				}
			}
		}
	}
}

func sameVector(a, b gnn.Vector) bool {
	return slices.Equal(a.Dense, b.Dense) && slices.Equal(a.Index, b.Index) && slices.Equal(a.Value, b.Value)
}

// TestLike: a copy of a column is like it, in another unit, with the other sign, or under other names; a column that has half
// of another's variance is not. What is usual is the median.
func TestLike(t *testing.T) {
	columns, rows := gapTable(rand.New(rand.NewPCG(51, 52)))
	s, err := attributes.Learn(columns, nil, rows)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "amount", "", "country", "", "", ""} {
		if got := s.Attributes[i].Like; got != want {
			t.Errorf("%s is like %q, want %q", s.Attributes[i].Name, got, want)
		}
	}
	var usual float64
	if _, err := fmt.Sscan(s.Attributes[0].Usual(), &usual); err != nil || usual < .55 || usual > .85 { // ln 2
		t.Errorf("the median of exponential variables is said to be %q", s.Attributes[0].Usual())
	}
	if got := s.Attributes[2].Usual(); got != "" {
		t.Errorf("the median of a category is said to be %q", got)
	}
	s.Attributes[0].Like = "other"
	if err := s.Check(); err == nil {
		t.Error("an attribute may be like one behind it")
	}
}
