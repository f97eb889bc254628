package look

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
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

// exportedIDs returns the ids of nodes as a table has them, each once. In a table the number 7
// and the text "7" look alike: where a graph has both, the text is written in quotes, and so
// are texts that begin with one. That is said on w.
func exportedIDs(nodes []pipeline.Recorded, w io.Writer) (ids dataset.IDs) {
	numbers := make(map[string]bool)
	for i := range nodes {
		if id := nodes[i].ID; id.Str == "" {
			ids.Numbers = append(ids.Numbers, id.Num)
			numbers[id.String()] = true
		}
	}
	if len(ids.Numbers) == len(nodes) {
		return ids
	}
	var alike []string
	for i := range nodes {
		if text := nodes[i].ID.Str; numbers[text] {
			alike = append(alike, text)
		}
	}
	if len(alike) > 0 {
		fmt.Fprintf(w, "%d ids are there as a number and as a text, such as %s and %q: the texts are written in quotes\n", len(alike), alike[0], alike[0])
	}
	ids.Numbers = nil
	for i := range nodes {
		text := nodes[i].ID.String()
		if nodes[i].ID.Str != "" && len(alike) > 0 && (numbers[text] || text[0] == '"') {
			text = `"` + text + `"`
		}
		ids.Texts = append(ids.Texts, text)
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
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: l.features, Classes: l.classes, Labels: cfg.Labels, Partial: cfg.PartialUpdates, Keep: cfg.Keep, Pending: cfg.MaxPending})
	if err != nil {
		return nil, err
	}
	if err := l.play(ctx, func(w *event.Window) error { h.Step(w); return h.Err() }); err != nil {
		return nil, err
	}
	nodes, edges := h.Nodes(func(*pipeline.Recorded) bool { return true })
	d := &dataset.Dataset{Name: l.Names.Ledger, Dim: l.features, Sparse: true, Classes: h.Classes(), Edges: edges, Time: make([]float64, len(nodes))}
	d.IDs = exportedIDs(nodes, w)
	parts := make([]dataset.Part, len(nodes))
	context := make([]bool, len(nodes))
	timed := false
	for i := range nodes {
		timed = timed || nodes[i].Time != 0
		d.Sparse = d.Sparse && nodes[i].Features.Dense == nil
	}
	for i := range nodes {
		n := &nodes[i]
		d.Features, d.Labels = append(d.Features, ofOneKind(n.Features, d)), append(d.Labels, n.Class)
		if d.Time[i] = float64(n.Window); timed {
			d.Time[i] = float64(n.Time)
		}
		if parts[i] = dataset.InTest; n.Context {
			parts[i] = dataset.InTrain
		}
		if n.Class < 0 {
			d.Labels[i], parts[i] = dataset.Unlabelled, dataset.InNone
			context[i] = n.Context
		}
	}
	if slices.Contains(context, true) {
		d.Context = context
	}
	d.Table = tableOf(nodes)
	d.Given = &dataset.GivenSplit{Parts: parts, How: "context trains, the stream tests"}
	return d, nil
}
