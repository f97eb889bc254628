package look

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/gvbll/gvbll/gnn/attributes"
)

// TestPrintSchema: as many examples are shown as fit into a terminal, and long kinds and values are cut.
func TestPrintSchema(t *testing.T) {
	long := strings.Repeat("z", 60)
	s := &attributes.Schema{Attributes: []attributes.Attribute{
		{Name: "plan", Kind: attributes.Category, Values: []string{"free", "team"}},
		{Name: "shop", Kind: attributes.Category, Values: []string{long, "supermarkets and grocery stores"}, Gaps: .25},
	}}
	table := []attributes.Column{
		{Name: "plan", Texts: []string{"team", "", "team", "free", "trial", "basic"}},
		{Name: "shop", Texts: []string{long, "supermarkets and grocery stores"}, Note: "a guess"},
	}
	for _, c := range []struct {
		attributes []attributes.Attribute
		table      []attributes.Column
		want       string
	}{
		{s.Attributes[:1], table[:1], `
ATTRIBUTE  COLUMNS  KIND                             EXAMPLES
plan       2        category, 2 values (free, team)  team, free, trial
`},
		{s.Attributes, table, `
ATTRIBUTE  COLUMNS  KIND                                                EXAMPLES
plan       2        category, 2 values (free, team)                     team
shop       3        category, 2 values (zzzzzzzzzzzzzzzzzzzzzzzzzzzzz…  zzzzzzz…
shop: a guess
`},
		{s.Attributes[1:], nil, `
ATTRIBUTE  COLUMNS  KIND
shop       3        category, 2 values (zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz…
`},
	} {
		var out bytes.Buffer
		if err := PrintSchema(&out, &attributes.Schema{Attributes: c.attributes}, c.table); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want[1:] {
			t.Errorf("got\n%s\nwant%s", &out, c.want)
		}
		for line := range strings.Lines(out.String()) {
			if w := uniseg.StringWidth(strings.TrimSuffix(line, "\n")); w > 80 {
				t.Errorf("%d columns: %s", w, line)
			}
		}
	}
}
