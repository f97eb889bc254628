package look

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/attributes"
)

// PrintKeys prints what keys made of the table of a data set, and of its last row that trains.
func PrintKeys(w io.Writer, set *flags.DataSet) {
	if set.Raw == nil || len(set.Split.Train) == 0 {
		return
	}
	made, last := set.Edges[len(set.Raw.Edges):], set.Split.Train[len(set.Split.Train)-1]
	var to, values []string
	for _, e := range made {
		if e[0] == last {
			to = append(to, set.IDs.String(e[1]))
		}
	}
	for _, name := range set.Keys.Columns() {
		i := slices.IndexFunc(set.Table, func(c attributes.Column) bool { return c.Name == name })
		values = append(values, fmt.Sprintf("%s %.8s", name, set.Table[i].Texts[last]))
	}
	fmt.Fprintf(w, "keys made %d columns and %d edges; row %s, the last one that trains, has edges to %s; %s\n",
		len(values), len(made), set.IDs.String(last), strings.Join(to, ", "), strings.Join(values, ", "))
}
