package look

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/keys"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
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
// or nil if no node has any.
func tableOf(nodes []pipeline.Recorded) (table []attributes.Column) {
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
	return table
}

// DataSet returns the graph as a data set. What is to be known of it is said on w.
func (l *Log) DataSet(ctx context.Context, w io.Writer) (*dataset.Dataset, error) {
	cfg, _ := l.settings() // those of another program's engine say nothing of labels here
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{
		Features: l.features, Classes: l.classes, Labels: cfg.Labels,
		Partial: cfg.PartialUpdates, Keep: cfg.Keep, Pending: cfg.MaxPending, First: cfg.FirstReading,
	})
	if err != nil {
		return nil, err
	}
	if err := l.play(ctx, func(w *event.Window) error { h.Step(w); return h.Err() }); err != nil {
		return nil, err
	}
	d := exported(h, l.Names.Ledger, l.features, l.known, w)
	if cfg.Map != "" && d.Table != nil {
		m, err := wire.ParseMap(cfg.Map)
		if err != nil {
			return nil, err
		}
		if d.Keys, err = keys.Parse(m.Keys); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// exported returns the graph of a history as a data set. Labels of classes that no model of the ledger had were refused: they are none
// here. So that the table has times in all rows, a node without one has that of the node before it.
func exported(h *pipeline.History, name string, features int, known map[string]bool, w io.Writer) *dataset.Dataset {
	nodes, edges := h.Nodes(func(*pipeline.Recorded) bool { return true })
	d := &dataset.Dataset{Name: name, Dim: features, Sparse: true, Edges: edges, Time: make([]float64, len(nodes))}
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
	d.Table = tableOf(nodes)
	d.Given = &dataset.GivenSplit{Parts: parts, How: "context trains, the stream tests"}
	return d
}
