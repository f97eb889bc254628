package look

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// inspected is the output of --json.
type inspected struct {
	ID            string           `json:"id"`
	Format        int              `json:"format"`
	Encoder       string           `json:"encoder"`
	Activation    string           `json:"activation"`
	Features      int              `json:"features"`
	Layers        int              `json:"layers"`
	Embedding     int              `json:"embedding"`
	Tensors       map[string][]int `json:"tensors"` // the encoder's, with their shapes
	Weights       int              `json:"weights"` // numbers in them
	Normalization string           `json:"normalization"`
	Temperature   int              `json:"temperature_hidden"` // units; 0 for τ = 1
	Classes       []string         `json:"classes"`
	Training      model.Training   `json:"training"`
	Pool          *pool.Config     `json:"pool,omitempty"`       // the pool of heads, if there is one
	TrainingNodes int              `json:"training_nodes"`       // whose ids the model knows
	GraphSize     float32          `json:"graph_size,omitempty"` // mean number of nodes, of a model of graphs
	// Schema makes features of named values, nil where there are none.
	Schema *attributes.Schema `json:"schema,omitempty"`
}

// Print prints the description for people.
func (v *inspected) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	t := v.Training
	fmt.Fprintf(w, "model\t%s (format %d)\n", v.ID, v.Format)
	fmt.Fprintf(w, "encoder\t%s, %d layers with %s between, %d features to %d dimensions, %d weights\n", v.Encoder,
		v.Layers, v.Activation, v.Features, v.Embedding, v.Weights)
	fmt.Fprintf(w, "classes\t%s\n", takes(v.Classes, event.Numbered(v.Classes)))
	fmt.Fprintf(w, "features\tnormalised by %s\n", v.Normalization)
	if v.GraphSize > 0 {
		fmt.Fprintf(w, "classifies\tgraphs, of %.1f nodes on average, by the mean and the sum of their nodes\n", v.GraphSize)
	}
	if v.Temperature > 0 {
		fmt.Fprintf(w, "temperature\ta perceptron of %d hidden units\n", v.Temperature)
	} else {
		fmt.Fprintf(w, "temperature\t1\n")
	}
	fmt.Fprintf(w, "trained on\t%d nodes of %s (%s), seed %d\n", t.Nodes, t.DataSet, t.Split, t.Seed)
	fmt.Fprintf(w, "for\t%d epochs, to a loss of %.4f nats a node and an accuracy of %.4f\n", t.Epochs, t.Loss, t.Accuracy)
	fmt.Fprintf(w, "with\t%s\n", t.Settings)
	if v.Pool == nil {
		fmt.Fprintf(w, "serves with\tthe paper's head\n")
	} else {
		fmt.Fprintf(w, "serves with\ta pool of %d heads; --json has their constants\n", len(v.Pool.Heads))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if v.Schema != nil {
		fmt.Fprintf(out, "\n")
		if err := PrintSchema(out, v.Schema, nil); err != nil {
			return err
		}
		if v.Schema.Keys != nil {
			text, err := json.Marshal(v.Schema.Keys)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "\nkeys of events, of which it makes attributes and edges\n%s\n", text)
		}
	}
	fmt.Fprintf(out, "\ntensors of the encoder\n")
	fmt.Fprintln(w, "NAME\tSHAPE")
	for _, name := range slices.Sorted(maps.Keys(v.Tensors)) {
		fmt.Fprintf(w, "%s\t%s\n", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(v.Tensors[name]), " ", " × "), "[]"))
	}
	return w.Flush()
}

// PrintSchema prints what was learned about attributes, one in a line. table, unless nil, is what it was learned from: then
// there are examples, and lines of what was not certain.
func PrintSchema(out io.Writer, s *attributes.Schema, table []attributes.Column) error {
	names, kinds := len("ATTRIBUTE"), len("KIND")
	for i := range s.Attributes {
		names = max(names, utf8.RuneCountInString(s.Attributes[i].Name))
		kinds = max(kinds, utf8.RuneCountInString(s.Attributes[i].String()))
	}
	left := columns - names - len("  COLUMNS  ") // for the kinds, and for the examples behind them
	header := "ATTRIBUTE\tCOLUMNS\tKIND"
	if table != nil {
		left -= len("  EXAMPLES")
		header += "\tEXAMPLES"
	}
	kinds = min(kinds, max(left, 20))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, header)
	for i := range s.Attributes {
		a := &s.Attributes[i]
		line := fmt.Sprintf("%s\t%d\t%s", a.Name, a.Columns(), cut(a.String(), kinds))
		if table != nil {
			line += "\t" + examples(&table[i], len("EXAMPLES")+left-kinds)
		}
		fmt.Fprintln(w, line)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range table {
		if table[i].Note != "" {
			fmt.Fprintf(out, "%s: %s\n", table[i].Name, table[i].Note)
		}
	}
	return nil
}

// examples returns the first values of a column, at most three and as many as fit into a width, or of the first what fits.
func examples(c *attributes.Column, width int) (list string) {
	known := make(map[string]bool)
	for _, text := range c.Texts {
		if len(known) == 3 {
			break
		}
		if text = strings.Join(strings.Fields(text), " "); spelling.IsGap(text) {
			continue
		}
		if runes := []rune(text); len(runes) > 16 {
			text = string(runes[:16]) + "…"
		}
		switch more := list + ", " + text; {
		case known[text]:
		case list == "":
			list = cut(text, max(width, len("EXAMPLES")))
		case utf8.RuneCountInString(more) <= width:
			list = more
		}
		known[text] = true
	}
	return list
}

// Inspect describes a model.
func Inspect(m *model.Model) inspected {
	v := inspected{
		ID: m.ID, Format: m.Format, Encoder: string(m.Meta.Encoder), Activation: string(m.NodeEncoder().Activation()),
		Features: m.NodeEncoder().In(), Layers: m.NodeEncoder().Depth(), GraphSize: m.GraphSize, Embedding: m.Prior.Dim,
		Tensors:       map[string][]int{},
		Normalization: m.Normalization, Training: m.Training, TrainingNodes: m.KnownNodes(),
		Pool: m.Pool, Schema: m.Schema, Classes: m.Classes,
	}
	if m.Temperature != nil {
		v.Temperature = m.Temperature.Hidden
	}
	for name, t := range m.NodeEncoder().Tensors() {
		v.Tensors[name] = t.Shape
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		v.Weights += n
	}
	return v
}
