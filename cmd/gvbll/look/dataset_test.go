package look

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestExportedIDs: no two nodes have the same id in a table, whatever their types are.
func TestExportedIDs(t *testing.T) {
	number := func(n int64) event.ID { return event.ID{Num: n} }
	text := func(s string) event.ID { return event.ID{Str: s} }
	for _, c := range []struct {
		ids  []event.ID
		want string
		says string
	}{
		{[]event.ID{number(7), number(-1)}, `7 -1`, ""},
		{[]event.ID{text("7"), text("a")}, `7 a`, ""},
		{[]event.ID{number(7), text("8"), text(`"7"`)}, `7 8 "7"`, ""},
		{[]event.ID{number(7), text("7"), text(`"7"`), text("07"), text("a"), number(8), text("8")}, `7 "7" ""7"" 07 a 8 "8"`, "2 ids are there as a number and as a text, such as 7 and \"7\": the texts are written in quotes\n"},
	} {
		var said strings.Builder
		nodes := make([]pipeline.Recorded, len(c.ids))
		for i, id := range c.ids {
			nodes[i].ID = id
		}
		ids := exportedIDs(nodes, &said)
		var got []string
		for v := range nodes {
			got = append(got, ids.String(int32(v)))
		}
		if strings.Join(got, " ") != c.want || said.String() != c.says {
			t.Errorf("%v is exported as %q with %q, want %s with %q", c.ids, got, said.String(), c.want, c.says)
		}
	}
}
