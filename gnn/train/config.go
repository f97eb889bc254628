package train

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn"
)

// Data is a graph to train on.
type Data struct {
	X        []gnn.Vector // features by node: all dense, or sparse, or some of each
	Src, Dst []int32      // edges; an undirected edge is given in both directions
	// Mean and Weight say in which mean of its target an edge counts, and with which weight,
	// see [gnn.KindsEncoder]; nil for an encoder that hears all edges alike.
	Mean   []uint8
	Weight []float32
	Labels []int32 // classes by node; read for the nodes in Train only
	Train  []int32 // the nodes whose loss is minimised, each once
	// Graphs, unless nil, are where the nodes of each graph begin, and the end of the last: then
	// Labels and Train are of graphs, and embeddings are those of [gnn.Readout] with
	// Size, 2·Out numbers.
	Graphs []int32
	Size   float32
}

// rows is the number of what has labels: nodes, or graphs.
func (d *Data) rows() int {
	if d.Graphs != nil {
		return len(d.Graphs) - 1
	}
	return len(d.X)
}

// Config says how to train. Check it with [Config.Validate].
type Config struct {
	Encoder      gnn.Kind       // empty for graphsage
	Activation   gnn.Activation // between layers; empty for relu, elu for gat
	Heads        int            // attention heads of gat; 0 for 4
	Means        int            // over kinds of edges, 1 for a gcn of edges with weights; 0 if all edges are alike
	In           int            // dimension of the features
	Hidden       []int          // widths of the hidden layers; empty for an encoder of one layer
	Out          int            // d_e, dimension of the embeddings
	Epochs       int            // passes over the data, at most
	LearningRate float64        // Adam's, of encoder and head
	WeightDecay  float64        // an L2 term of the loss, on the encoder's weights but not its biases
	Dropout      float64        // probability in [0, 1) that a feature or hidden unit is dropped
	Seed         uint64         // of initial weights, dropout and the head's draws
}

// Validate returns an error that lists every problem of the configuration.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	c = c.withDefaults()
	check(slices.Contains([]gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN}, c.Encoder),
		"encoder is %q, want graphsage, gcn, gat or gin", string(c.Encoder))
	check(c.Activation == gnn.ReLU || c.Activation == gnn.ELU, "activation is %q, want relu or elu", string(c.Activation))
	if c.Encoder == gnn.KindGAT {
		check(c.Heads >= 1, "attention heads are %d, want at least 1", c.Heads)
		for l, width := range c.Hidden {
			check(c.Heads < 1 || width%c.Heads == 0, "width of hidden layer %d is %d, want a multiple of its %d heads", l, width, c.Heads)
		}
	}
	check(c.Means == 0 || c.Encoder == gnn.KindSAGE || c.Means == 1 &&
		c.Encoder == gnn.KindGCN, "encoder %s does not tell kinds of edges apart, graphsage does", c.Encoder)
	check(c.In >= 1, "dimension of features is %d, want at least 1", c.In)
	for l, width := range c.Hidden {
		check(width >= 1, "width of hidden layer %d is %d, want at least 1", l, width)
	}
	check(c.Out >= 1, "dimension of embeddings is %d, want at least 1", c.Out)
	check(c.Epochs >= 1, "epochs are %d, want at least 1", c.Epochs)
	check(c.LearningRate > 0 && !math.IsInf(c.LearningRate, 0), "learning rate is %v, want a positive number", c.LearningRate)
	check(c.WeightDecay >= 0 && !math.IsInf(c.WeightDecay, 0), "weight decay is %v, want at least 0", c.WeightDecay)
	check(c.Dropout >= 0 && c.Dropout < 1, "dropout is %v, want at least 0 and below 1", c.Dropout)
	return errors.Join(errs...)
}

// withDefaults fills in the encoder, its activation and its number of heads:
// those of the architectures' papers.
func (c Config) withDefaults() Config {
	c.Encoder = cmp.Or(c.Encoder, gnn.KindSAGE)
	if c.Activation == "" {
		c.Activation = gnn.ReLU
		if c.Encoder == gnn.KindGAT {
			c.Activation = gnn.ELU
		}
	}
	c.Heads = cmp.Or(c.Heads, 4)
	return c
}

// check returns an error when the data do not fit together. The range of labels
// is the head's to check.
func (d *Data) check(dim int) error {
	n := len(d.X)
	if n > math.MaxInt32 || len(d.Src) > math.MaxInt32 {
		return fmt.Errorf("%d nodes and %d edges, want at most %d of each", n, len(d.Src), math.MaxInt32)
	}
	if len(d.Src) != len(d.Dst) {
		return fmt.Errorf("%d sources of edges, %d targets", len(d.Src), len(d.Dst))
	}
	if rows := d.rows(); len(d.Labels) != rows || d.Graphs != nil &&
		(d.Graphs[0] != 0 || int(d.Graphs[rows]) != n || !slices.IsSorted(d.Graphs) || !(d.Size > 0)) {
		return fmt.Errorf("%d labels, want one for each of %d nodes, or of graphs that have all nodes", len(d.Labels), rows)
	}
	if len(d.Train) == 0 {
		return errors.New("no training nodes, want at least 1")
	}
	for i, x := range d.X {
		if err := x.Validate(dim); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
	}
	if (d.Mean != nil || d.Weight != nil) && (len(d.Mean) != len(d.Src) || len(d.Weight) != len(d.Src)) {
		return fmt.Errorf("%d means and %d weights of %d edges", len(d.Mean), len(d.Weight), len(d.Src))
	}
	for e := range d.Src {
		if uint(d.Src[e]) >= uint(n) || uint(d.Dst[e]) >= uint(n) {
			return fmt.Errorf("edge %d goes from node %d to %d, want nodes below %d", e, d.Src[e], d.Dst[e], n)
		}
	}
	seen := make([]bool, d.rows())
	for _, v := range d.Train {
		if uint(v) >= uint(len(seen)) || seen[v] {
			return fmt.Errorf("training node %d is listed twice or is not below %d", v, len(seen))
		}
		seen[v] = true
	}
	return nil
}

// labelsOf returns the nodes' labels.
func (d *Data) labelsOf(nodes []int32) []int32 {
	labels := make([]int32, len(nodes))
	for i, v := range nodes {
		labels[i] = d.Labels[v]
	}
	return labels
}
