package dataset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// inferKinds infers the kinds of attributes. A column that names a key stays without a kind, and is no
// attribute, unless dataset.json gives it one.
func inferKinds(d *Dataset) error {
	var places []int
	var table []attributes.Column
	for i := range d.Table {
		if c := &d.Table[i]; c.Kind != "" || !d.Keys.Has(c.Name) {
			places, table = append(places, i), append(table, *c)
		}
	}
	err := attributes.Infer(table)
	for i, at := range places {
		d.Table[at] = table[i]
	}
	return err
}

// checkKeys returns an error if the data set lacks what its keys need.
func checkKeys(d *Dataset) error {
	for _, name := range d.Keys.Inputs() {
		if !slices.ContainsFunc(d.Table, func(c attributes.Column) bool { return c.Name == name }) {
			return fmt.Errorf("keys: there is no column %.40q", name)
		}
	}
	for _, name := range d.Keys.Columns() {
		if slices.ContainsFunc(d.Table, func(c attributes.Column) bool { return c.Name == name }) {
			return fmt.Errorf("keys make a column %.80q, which is there already: leave one of them out", name)
		}
	}
	if d.milliseconds() == nil {
		return fmt.Errorf("keys need the time of each event, as a date or in milliseconds since 1970: give it in a column time")
	}
	for _, name := range d.Keys.Names() {
		if d.Keys[name].Labels != "" && d.LabelTime == nil {
			return fmt.Errorf("key %.40q tells a share of labels, which count once they have come: give their times in a column "+
				"label_time, or leave \"labels\" out", name)
		}
	}
	return nil
}

// keyed returns the data set with the attributes and edges that its keys make. The nodes come by their times, and labels
// at theirs, as in a stream.
func (d *Dataset) keyed() (*Dataset, error) {
	if d.Keys == nil {
		return d, nil
	}
	columns := make([]attributes.Column, len(d.Keys.Columns()))
	for i, name := range d.Keys.Columns() {
		columns[i] = attributes.Column{Name: name, Kind: attributes.Number, Texts: make([]string, len(d.Labels))}
	}
	to := *d
	to.Raw, to.Edges, to.Table = d, slices.Clone(d.Edges), nil
	for _, c := range d.Table {
		if c.Kind != "" {
			to.Table = append(to.Table, c)
		}
	}
	to.Table = append(to.Table, columns...)
	var kinds []string // of the new edges
	if err := d.play(func(v int32, values []float64, links []keys.To) {
		for i, x := range values {
			if !math.IsNaN(x) {
				columns[i].Texts[v] = strconv.FormatFloat(x, 'g', -1, 64)
			}
		}
		for _, l := range links {
			to.Edges, kinds = append(to.Edges, [2]int32{v, l.Node}), append(kinds, l.Kind)
		}
	}); err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	return &to, to.mark(kinds)
}

// play calls each for all nodes, in the order of their times, with what they get.
func (d *Dataset) play(each func(v int32, values []float64, links []keys.To)) error {
	state, err := keys.New(d.Keys, d.Classes)
	if err != nil {
		return err
	}
	read := d.Keys.Inputs()
	var amounts []string
	for _, k := range d.Keys {
		amounts = append(amounts, k.Amounts...)
	}
	var comes []int32 // nodes by the times of their labels
	for v := range d.LabelTime {
		if d.Labels[v] != Unlabelled {
			comes = append(comes, int32(v))
		}
	}
	slices.SortStableFunc(comes, func(a, b int32) int { return cmp.Compare(d.LabelTime[a], d.LabelTime[b]) })
	for _, v := range d.arrivals() {
		for len(comes) > 0 && d.LabelTime[comes[0]] < d.Time[v] {
			state.Label(comes[0], Unlabelled, d.Labels[comes[0]])
			comes = comes[1:]
		}
		state.Begin(int64(d.Time[v]))
		for _, c := range d.Table {
			if !slices.Contains(read, c.Name) {
				continue
			}
			text := c.Texts[v]
			if _, isNumber := spelling.Number(text); !isNumber && !spelling.IsGapWord(text) && slices.Contains(amounts, c.Name) {
				return fmt.Errorf("keys: the amount %.40q in row %d of %.40q is no number: write it plainly, as 1234.5", text, v+1, c.Name)
			}
			state.Text(c.Name, text)
		}
		values, links := state.End()
		each(v, values, links)
		state.Enter(v)
	}
	return nil
}

// mark gives the last edges these kinds.
func (d *Dataset) mark(kinds []string) error {
	own := len(d.Edges) - len(kinds)
	declared, plain := d.Keys.Kinds()
	if d.Kinds == nil && len(declared) == 0 {
		return nil
	}
	all := append(slices.Clone(d.Kinds), declared...)
	if plain || d.Kinds == nil && own > 0 {
		all = append(all, gnn.EdgeKind{})
	}
	slices.SortFunc(all, func(a, b gnn.EdgeKind) int { return strings.Compare(a.Name, b.Name) })
	all = slices.Compact(all)
	if err := all.Check(all.Means()); err != nil {
		return fmt.Errorf("%s: keys: %w", d.Name, err)
	}
	named := func(name string) uint8 {
		return uint8(slices.IndexFunc(all, func(k gnn.EdgeKind) bool { return k.Name == name }))
	}
	marks := make([]Mark, len(d.Edges))
	for i := range marks {
		switch {
		case i >= own:
			marks[i] = Mark{Kind: named(kinds[i-own]), Weight: 1}
		case d.Kinds == nil:
			marks[i] = Mark{Kind: named(""), Weight: 1}
		default:
			marks[i] = Mark{Kind: named(d.Kinds[d.Marks[i].Kind].Name), Weight: d.Marks[i].Weight}
		}
	}
	d.Kinds, d.Marks = apart(all, marks)
	return nil
}
