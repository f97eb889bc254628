package look

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
)

// Keyed returns what one of the keys makes of an event, in a line: to which events it has edges, and the columns.
func Keyed(d keys.Declared, name, key string, to []string, column func(name string) string) string {
	line := fmt.Sprintf("%s %s:", name, key)
	if d[name].Link != nil {
		line += " edges to " + strings.Join(to, ", ")
		if len(to) == 0 {
			line = strings.TrimSuffix(line, "to ") + "to none"
		}
	}
	var list []string
	for _, c := range (keys.Declared{name: d[name]}).Columns() {
		text := column(c)
		if text == "" {
			text = "a gap"
		}
		list = append(list, c+" "+text)
	}
	if len(list) > 0 && d[name].Link != nil {
		line += ";"
	}
	return strings.TrimSuffix(line+" "+strings.Join(list, ", "), " ")
}

// KeyText returns a value of a column, "" for a gap.
func KeyText(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// PrintKeys prints what keys made of the table of a data set, and of its last row that trains.
func PrintKeys(w io.Writer, set *flags.DataSet) {
	if set.Raw == nil || len(set.Split.Train) == 0 {
		return
	}
	v := set.Split.Train[len(set.Split.Train)-1]
	fmt.Fprintf(w, "keys made %d columns and %d edges; of row %s\n", len(set.Keys.Columns()), len(set.Edges)-len(set.Raw.Edges), set.IDs.String(v))
	text := func(table []attributes.Column, name string, v int32) string {
		i := slices.IndexFunc(table, func(c attributes.Column) bool { return c.Name == name })
		return table[i].Texts[v]
	}
	for _, name := range set.Keys.Names() {
		key := text(set.Raw.Table, name, v)
		var to []string
		for _, e := range set.Edges[len(set.Raw.Edges):] {
			if e[0] == v && text(set.Raw.Table, name, e[1]) == key {
				to = append(to, set.IDs.String(e[1]))
			}
		}
		fmt.Fprintf(w, "  %s\n", Keyed(set.Keys, name, key, to, func(c string) string {
			x, err := strconv.ParseFloat(text(set.Table, c, v), 64)
			if err != nil {
				x = math.NaN()
			}
			return KeyText(x)
		}))
	}
}
