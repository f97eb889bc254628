package gnn

import (
	"errors"
	"fmt"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Kind names an architecture, as model files and flags do.
type Kind string

// The encoders.
const (
	KindSAGE Kind = "graphsage" // Hamilton, Ying, Leskovec 2017, mean aggregation
	KindGCN  Kind = "gcn"       // Kipf, Welling 2017
	KindGAT  Kind = "gat"       // Veličković et al. 2018
	KindGIN  Kind = "gin"       // Xu et al. 2019
)

// Encoder maps the nodes of a graph to embeddings, z_v = g(x_v, G), with frozen
// weights: a [SAGE], [GCN], [GAT] or [GIN]. It does not change and may be
// shared.
type Encoder interface {
	Kind() Kind
	// Activation follows every layer but the last.
	Activation() Activation
	// In is the dimension of the features.
	In() int
	// Out is d_e, the dimension of the embeddings.
	Out() int
	// Depth is the number of layers: how many hops away a node is seen.
	Depth() int
	// Encode returns the embeddings of all nodes of a graph, len(x)×Out
	// row-major. Edge e goes from node src[e] to node dst[e] and carries a
	// message that way. That is what PyTorch Geometric makes of an edge_index.
	// For an undirected graph give each edge in both directions. Encode panics
	// when an edge names no node or features do not fit.
	Encode(x []Vector, src, dst []int32) []float32
	// Tensors returns the weights under the names that PyTorch Geometric gives
	// them in a state dict.
	Tensors() map[string]safetensors.Tensor

	incremental
}

// Load is the inverse of [Encoder.Tensors]; each encoder's method says which
// names it takes. Hand-written modules' conv1, conv2 and so on may stand for
// convs.0, convs.1. The activation is not told by any tensor's name. A tensor
// that is no part of such an encoder is an error: it would belong to a model
// that computes something else.
func Load(kind Kind, activation Activation, tensors map[string]safetensors.Tensor) (Encoder, error) {
	load := map[Kind]func(*stateDict, Activation) (Encoder, error){
		KindSAGE: loadSAGE, KindGCN: loadGCN, KindGAT: loadGAT, KindGIN: loadGIN,
	}[kind]
	if load == nil {
		return nil, fmt.Errorf("encoder %q: it is one of %s, %s, %s, %s", string(kind), KindSAGE, KindGCN, KindGAT, KindGIN)
	}
	d := newStateDict(tensors)
	encoder, err := load(d, activation)
	if d.err != nil {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("encoder %q: %w", string(kind), err)
	}
	return encoder, nil
}

// shape is what all encoders have: how wide they are, and the activation.
type shape struct {
	width      []int // depth+1 of them: the features' dimension, then each layer's output
	activation Activation
}

// newShape returns the shape of an encoder that has no layers yet, of so many
// to come.
func newShape(in int, activation Activation, layers int) (shape, error) {
	if in < 1 {
		return shape{}, fmt.Errorf("input dimension %d, want at least 1", in)
	}
	if layers == 0 {
		return shape{}, errors.New("no layers, want at least 1")
	}
	activation, err := activation.check()
	return shape{width: []int{in}, activation: activation}, err
}

// Activation follows every layer but the last.
func (s *shape) Activation() Activation { return s.activation }

// In is the dimension of the features.
func (s *shape) In() int { return s.width[0] }

// Out is d_e, the dimension of the embeddings.
func (s *shape) Out() int { return s.width[len(s.width)-1] }

// Depth is the number of layers: how many hops away a node is seen.
func (s *shape) Depth() int { return len(s.width) - 1 }

func (s *shape) widths() []int { return s.width }

// checkEdges panics when the edges are no edges of a graph of n nodes.
func checkEdges(n int, src, dst []int32) {
	if len(src) != len(dst) {
		panic(fmt.Sprintf("gnn: %d sources of edges, %d targets", len(src), len(dst)))
	}
	for e := range src {
		if uint(src[e]) >= uint(n) || uint(dst[e]) >= uint(n) {
			panic(fmt.Sprintf("gnn: edge from %d to %d in a graph of %d nodes", src[e], dst[e], n))
		}
	}
}

// rows is one row of the given width a node.
type rows struct {
	x     []float32
	width int
}

func newRows(n, width int) rows { return rows{make([]float32, n*width), width} }

func (r rows) at(i int32) []float32 { return r.x[int(i)*r.width : (int(i)+1)*r.width] }
