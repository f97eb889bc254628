package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/wire"
)

// ofOneKind returns features as the data set has all of them: sparse or dense.
func ofOneKind(x gnn.Vector, d *dataset.Dataset) gnn.Vector {
	if d.Sparse || x.Dense != nil {
		return x
	}
	dense := make([]float32, d.Dim)
	for k, j := range x.Index {
		dense[j] = x.Value[k]
	}
	return gnn.Vector{Dense: dense}
}

// exportedIDs returns the ids of nodes.
func exportedIDs(nodes []pipeline.Recorded) (ids dataset.IDs) {
	numbers, texts := 0, 0
	for i := range nodes {
		id := nodes[i].ID
		ids.Numbers, ids.Texts = append(ids.Numbers, id.Num), append(ids.Texts, id.Str)
		if id.Str == "" {
			numbers++
		} else {
			texts++
		}
	}
	if texts == 0 {
		ids.Texts = nil
	}
	if numbers == 0 {
		ids.Numbers = nil
	}
	return ids
}

// tableOf returns the attributes of nodes as columns, in the order in which their names came,
// or nil if no node has any. Their kinds are those of the schema; or, where it has none, those that their values show beyond
// doubt. Values of which nobody could say the kind are of a category, which is said on w.
func tableOf(nodes []pipeline.Recorded, schema *attributes.Schema, w io.Writer) (table []attributes.Column) {
	at := make(map[string]int)
	for i := range nodes {
		for k := range nodes[i].Named {
			a := &nodes[i].Named[k]
			if a.Kind == event.Nested {
				continue
			}
			if _, known := at[a.Name]; !known {
				at[a.Name] = len(table)
				table = append(table, attributes.Column{Name: a.Name, Texts: make([]string, len(nodes))})
			}
			table[at[a.Name]].Texts[i] = a.String()
		}
	}
	for i := range table {
		c := &table[i]
		if c.Give(schema) {
			continue
		}
		inferred := []attributes.Column{*c}
		if err := attributes.Infer(inferred); err != nil {
			c.Kind = attributes.Category
			fmt.Fprintf(w, "%v; it is a category in dataset.json\n", err)
		} else if inferred[0].Note == "" {
			c.Kind = inferred[0].Kind
		}
	}
	return table
}

// DataSet returns the graph as a data set. What is to be known of it is said on w. serving is the model that serves, which knows what
// edges are directed, and what was refused; or nil.
func (l *Log) DataSet(ctx context.Context, serving *model.Model, w io.Writer) (*dataset.Dataset, error) {
	cfg, _ := l.settings() // those of another program's engine say nothing of labels here
	of := pipeline.HistoryConfig{
		Features: l.features, Classes: l.classes, Settings: cfg,
	}
	var edges kindsOfEvents
	var made keys.Declared
	if serving != nil {
		edges.kinds, edges.known = slices.Clone(serving.Kinds), len(serving.Kinds)
		if serving.Schema != nil { // without what keys make: who reads the data set makes it again
			schema := *serving.Schema
			made, schema.Keys, of.Schema = schema.Keys, nil, &schema
		}
	}
	h, err := edges.record(&of, func(visit func(*event.Window) error) error { return l.play(ctx, visit) })
	if err != nil {
		return nil, err
	}
	if serving == nil && len(edges.kinds) > 1 {
		fmt.Fprintf(w, "kinds of edges are taken to be undirected unless an event says \"in\": give --model to know\n")
	}
	d := exported(h, l.Names.Ledger, &of, l.known, w)
	if d.Table != nil && serving == nil && l.refused > 0 {
		fmt.Fprintf(w, "%d events were refused, and those of them whose features the model did not take are nodes "+
			"here: give --model\n", l.refused)
	}
	if cfg.Reading.Map != "" && d.Table != nil && made == nil {
		m, err := wire.ParseMap(cfg.Reading.Map)
		if err != nil {
			return nil, err
		}
		if made, err = keys.Parse(m.Keys); err != nil {
			return nil, err
		}
	}
	d.Keys = made
	return d, nil
}

// kindsOfEvents finds the kinds of edges that events name, beside those of a model.
type kindsOfEvents struct {
	kinds gnn.EdgeKinds // none where all edges are alike
	known int           // kinds of the model, whose direction is certain
	err   error
}

// record returns the history of the windows that play plays; it has all kinds that come, for which they are played again where
// there are more than are known.
func (k *kindsOfEvents) record(of *pipeline.HistoryConfig, play func(func(*event.Window) error) error) (*pipeline.History, error) {
	for {
		of.Kinds = slices.Clone(k.kinds)
		h, err := pipeline.NewHistory(*of)
		if err != nil {
			return nil, err
		}
		if err := play(func(w *event.Window) error {
			k.note(w)
			h.Step(w)
			return errors.Join(h.Err(), k.err)
		}); err != nil {
			return nil, err
		}
		if slices.Equal(of.Kinds, k.kinds) {
			return h, nil
		}
	}
}

// note notes the kinds of a window.
func (k *kindsOfEvents) note(w *event.Window) {
	for i := range w.Nodes {
		n := &w.Nodes[i]
		if n.Marks == nil && n.Neighbours != nil {
			k.add(event.Mark{})
		}
		for _, e := range n.Edges {
			k.add(e.Mark)
		}
		for _, m := range n.Marks {
			k.add(m)
		}
	}
}

func (k *kindsOfEvents) add(m event.Mark) {
	if k.kinds == nil && m.Kind == "" && (m.Weight == 0 || m.Weight == 1) {
		return
	}
	if k.kinds == nil {
		k.kinds = gnn.EdgeKinds{{}} // of the edges without a kind
	}
	i := slices.IndexFunc(k.kinds, func(kind gnn.EdgeKind) bool { return kind.Name == m.Kind })
	if i < 0 {
		i = len(k.kinds)
		k.kinds = append(k.kinds, gnn.EdgeKind{Name: strings.Clone(m.Kind)})
	}
	if m.In && m.Kind != "" && i >= k.known {
		k.kinds[i].Directed = true
	}
	if k.kinds.Means() > gnn.MaxMeans {
		k.err = fmt.Errorf("edges of more than %d kinds came, a directed one counted twice, such as %.40q", gnn.MaxMeans, m.Kind)
	}
}

// exported returns the graph of a history as a data set. Labels of classes that no model of the ledger had were refused: they are none
// here. So that the table has times in all rows, a node without one has that of the node before it.
func exported(h *pipeline.History, name string, of *pipeline.HistoryConfig, known map[string]bool, w io.Writer) *dataset.Dataset {
	nodes, edges := h.Nodes(func(*pipeline.Recorded) bool { return true })
	d := &dataset.Dataset{Name: name, Dim: of.Features, Sparse: true, Time: make([]float64, len(nodes))}
	var marks []dataset.Mark
	for _, e := range edges {
		d.Edges = append(d.Edges, [2]int32{e.Source, e.Target})
		kind, _ := of.Kinds.At(int(e.AtSource))
		marks = append(marks, dataset.Mark{Kind: uint8(max(slices.Index(of.Kinds, kind), 0)), Weight: e.Weight})
	}
	if of.Kinds != nil {
		d.Mark(of.Kinds, marks)
	}
	d.IDs = exportedIDs(nodes)
	parts := make([]dataset.Part, len(nodes))
	context := make([]bool, len(nodes))
	last, untimed, refused := 0., 0, 0
	number := make(map[int32]int32) // of classes that are kept, by those of the history
	for c, class := range h.Classes() {
		if known[class] {
			number[int32(c)] = int32(len(d.Classes))
			d.Classes = append(d.Classes, class)
		}
	}
	for i := range nodes {
		if last == 0 {
			last = float64(nodes[i].Time) // the first that there is
		}
		d.Sparse = d.Sparse && nodes[i].Features.Dense == nil
	}
	timed := last != 0
	for i := range nodes {
		n := &nodes[i]
		d.Features = append(d.Features, ofOneKind(n.Features, d))
		switch d.Time[i] = float64(n.Window); {
		case n.Time != 0:
			last = float64(n.Time)
			d.Time[i] = last
		case timed:
			untimed++
			d.Time[i] = last
		}
		class, isKnown := number[n.Class]
		if n.Class >= 0 && !isKnown {
			refused++
		}
		if parts[i] = dataset.InTest; n.Context {
			parts[i] = dataset.InTrain
		}
		if !isKnown {
			class, parts[i] = dataset.Unlabelled, dataset.InNone
			context[i] = n.Context
		}
		d.Labels = append(d.Labels, class)
	}
	if untimed > 0 {
		fmt.Fprintf(w, "%d nodes came without an event time, and have that of the node before here\n", untimed)
	}
	if refused > 0 {
		fmt.Fprintf(w, "%d labels are left out: they are of classes that no model of the ledger has\n", refused)
	}
	if slices.Contains(context, true) {
		d.Context = context
	}
	d.Table = tableOf(nodes, of.Schema, w)
	d.Given = &dataset.GivenSplit{Parts: parts, How: "context trains, the stream tests"}
	return d
}
