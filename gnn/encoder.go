package gnn

import (
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

// Activation is the function between layers.
type Activation string

// The activations. The empty Activation is ReLU.
const (
	ReLU Activation = "relu"
	ELU  Activation = "elu"
)

// Encoder maps the nodes of a graph to embeddings, z_v = g(x_v, G), with frozen
// weights. It does not change and may be shared.
type Encoder interface {
	Kind() Kind
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
}

// Load is the inverse of [Encoder.Tensors]. The activation is not told by any
// tensor's name. A tensor that is no part of such an encoder is an error: it
// would belong to a model that computes something else.
func Load(kind Kind, activation Activation, tensors map[string]safetensors.Tensor) (Encoder, error) {
	switch kind {
	case KindSAGE:
		return LoadSAGE(tensors)
	}
	return nil, fmt.Errorf("encoder %q: it is one of graphsage, gcn, gat, gin", kind)
}
