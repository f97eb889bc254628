// Package payments writes the generated payments as a data set and as events.
package payments

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// Save writes the folder of [dataset.Payments], with the file events.jsonl beside the
// tables: the same as events in the order of their times, labels among them.
func Save(dir string, c dataset.PaymentsConfig) (*dataset.Dataset, error) {
	d, known, err := dataset.Payments(c)
	if err != nil {
		return nil, flags.SettingError(err)
	}
	if err := d.Save(dir); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		return nil, err
	}
	return d, errors.Join(writeEvents(f, d, known), f.Close())
}

// paymentEvent is a node event, or a label, in JSON.
type paymentEvent struct {
	ID         string         `json:"id,omitempty"`
	Features   map[string]any `json:"features,omitempty"`
	Indices    []int          `json:"indices,omitzero"`
	Neighbours []neighbour    `json:"neighbours,omitempty"`
	Context    bool           `json:"context,omitempty"`
	Node       string         `json:"node,omitempty"`
	Class      string         `json:"class,omitempty"`
	Time       int64          `json:"time"`
}

type neighbour struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Weight float32 `json:"weight"`
}

// writeEvents writes the events in the order of their times: payments, each after the nodes
// that it names, and labels when they are known. Payments before the stream are context.
func writeEvents(to io.Writer, d *dataset.Dataset, known []int64) error {
	near := make([][]neighbour, len(d.Labels))
	for e, ends := range d.Edges {
		m := d.Marks[e]
		near[ends[0]] = append(near[ends[0]], neighbour{d.IDs.String(ends[1]), d.Kinds[m.Kind].Name, m.Weight})
	}
	var labels []int32 // nodes that have one, by its time
	for v := range d.Labels {
		if d.Labels[v] != dataset.Unlabelled {
			labels = append(labels, int32(v))
		}
	}
	slices.SortStableFunc(labels, func(a, b int32) int { return cmp.Compare(known[a], known[b]) })
	out := bufio.NewWriter(to) // its Flush returns the error of any line
	lines := json.NewEncoder(out)
	label := func(v int32) {
		_ = lines.Encode(paymentEvent{Node: d.IDs.String(v), Class: d.ClassOf(v), Time: known[v]})
	}
	for v := range d.Labels {
		at := int64(d.Time[v])
		for ; len(labels) > 0 && known[labels[0]] <= at; labels = labels[1:] {
			label(labels[0])
		}
		n := paymentEvent{ID: d.IDs.String(int32(v)), Neighbours: near[v], Context: d.Given.Parts[v] != dataset.InTest, Time: at}
		if d.Context[v] {
			n.Indices = []int{}
		} else {
			n.Features = make(map[string]any)
			for _, column := range d.Table {
				switch text := column.Texts[v]; {
				case text == "":
				case column.Kind == attributes.Category:
					n.Features[column.Name] = text
				default: // a number or a boolean
					n.Features[column.Name] = json.RawMessage(text)
				}
			}
		}
		_ = lines.Encode(n)
	}
	for _, v := range labels {
		label(v)
	}
	return out.Flush()
}
