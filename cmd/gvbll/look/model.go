package look

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Inspected is the output of --json.
type Inspected struct {
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
	Classes       []classPrior     `json:"classes"`
	Training      model.Training   `json:"training"`
	Pool          *pool.Config     `json:"pool,omitempty"`       // the pool of heads, if there is one
	TrainingNodes int              `json:"training_nodes"`       // whose ids the model knows
	GraphSize     float32          `json:"graph_size,omitempty"` // mean number of nodes, of a model of graphs
	// Schema makes features of named values, nil where there are none.
	Schema *attributes.Schema `json:"schema,omitempty"`
}

// classPrior summarises the training posterior of one class's weights.
type classPrior struct {
	Name      string  `json:"name"`
	Norm      float64 `json:"norm"`      // Euclidean, of the means
	Deviation float64 `json:"deviation"` // root mean square of σ
}

// Print prints the description for people.
func (v *Inspected) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	t := v.Training
	fmt.Fprintf(w, "model\t%s (format %d)\n", v.ID, v.Format)
	fmt.Fprintf(w, "encoder\t%s, %d layers with %s between, %d features to %d dimensions, %d weights\n", v.Encoder, v.Layers, v.Activation, v.Features, v.Embedding, v.Weights)
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
		fmt.Fprintf(w, "serves with\ta pool of %d heads\n", len(v.Pool.Heads))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if v.Schema != nil {
		fmt.Fprintf(out, "\n")
		if err := PrintSchema(out, v.Schema); err != nil {
			return err
		}
	}
	if err := printPool(out, w, v.Pool); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nposterior\n")
	fmt.Fprintln(w, "CLASS\t‖M*‖\tσ*")
	for _, c := range v.Classes {
		fmt.Fprintf(w, "%s\t%.4f\t%.4f\n", c.Name, c.Norm, c.Deviation)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\ntensors of the encoder\n")
	fmt.Fprintln(w, "NAME\tSHAPE")
	names := make([]string, 0, len(v.Tensors))
	for name := range v.Tensors {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(w, "%s\t%s\n", name, strings.Trim(strings.ReplaceAll(fmt.Sprint(v.Tensors[name]), " ", " × "), "[]"))
	}
	return w.Flush()
}

// PrintSchema prints what was learned about attributes, one in a line.
func PrintSchema(out io.Writer, s *attributes.Schema) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ATTRIBUTE\tCOLUMNS\tKIND")
	for i := range s.Attributes {
		a := &s.Attributes[i]
		fmt.Fprintf(w, "%s\t%d\t%s\n", a.Name, a.Columns(), a)
	}
	return w.Flush()
}

// printPool prints the heads of a pool with their constants.
func printPool(out io.Writer, w *tabwriter.Writer, p *pool.Config) error {
	if p == nil {
		return nil
	}
	fmt.Fprintf(out, "\npool\n")
	fmt.Fprintln(w, "HEAD\tKIND\tCONSTANTS")
	for _, h := range p.Heads {
		// In JSON, as in the model file, a head has one field for its kind, which holds
		// the constants of that kind.
		b, err := json.Marshal(h)
		if err != nil {
			return err
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(b, &fields); err != nil {
			return err
		}
		delete(fields, "name")
		delete(fields, "shadow")
		shadow := ""
		if h.Shadow {
			shadow = ", scored alone"
		}
		for kind, constants := range fields {
			fmt.Fprintf(w, "%s\t%s%s\t%s\n", h.Name, kind, shadow, constants)
		}
	}
	return w.Flush()
}

// Inspect describes a model.
func Inspect(m *model.Model) Inspected {
	v := Inspected{
		ID: m.ID, Format: m.Format, Encoder: string(m.Meta.Encoder), Activation: string(m.NodeEncoder().Activation()),
		Features: m.NodeEncoder().In(), Layers: m.NodeEncoder().Depth(), GraphSize: m.GraphSize, Embedding: m.Prior.Dim, Tensors: map[string][]int{},
		Normalization: m.Normalization, Training: m.Training, TrainingNodes: m.KnownNodes(),
		Pool: m.Pool, Schema: m.Schema,
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
	for c, name := range m.Classes {
		p := classPrior{Name: name}
		for j := range m.Prior.Dim {
			i := j*m.Prior.Classes + c
			p.Norm += m.Prior.Mean[i] * m.Prior.Mean[i]
			p.Deviation += 1 / m.Prior.Precision[i]
		}
		p.Norm, p.Deviation = math.Sqrt(p.Norm), math.Sqrt(p.Deviation/float64(m.Prior.Dim))
		v.Classes = append(v.Classes, p)
	}
	return v
}
