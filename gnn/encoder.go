package gnn

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// Kind names an architecture, in model files and flags.
type Kind string

// The encoders.
const (
	KindSAGE Kind = "graphsage" // Hamilton, Ying, Leskovec 2017, mean aggregation
	KindGCN  Kind = "gcn"       // Kipf, Welling 2017
	KindGAT  Kind = "gat"       // Veličković et al. 2018
	KindGIN  Kind = "gin"       // Xu et al. 2019
)

// Encoder maps the nodes of a graph to embeddings, z_v = g(x_v, G), with frozen
// weights: a [SAGE], [GCN], [GAT] or [GIN]. It is immutable and safe for
// concurrent use.
type Encoder interface {
	Kind() Kind
	// Activation is the function after every layer but the last.
	Activation() Activation
	// In is the dimension of the features.
	In() int
	// Out is d_e, the dimension of the embeddings.
	Out() int
	// Depth is the number of layers: an embedding depends on the nodes that many
	// hops away.
	Depth() int
	// Encode returns the embeddings of all nodes of a graph, len(x)×Out
	// row-major. Edge e carries a message from node src[e] to node dst[e], as in
	// PyTorch Geometric's edge_index; an undirected edge is given in both
	// directions. It panics when an edge names a node that is not there or
	// features do not fit.
	Encode(x []Vector, src, dst []int32) []float32
	// Tensors returns the weights under the names that PyTorch Geometric gives
	// them in a state dict.
	Tensors() map[string]safetensors.Tensor

	incremental
}

// Load makes an encoder from named weights. It is the inverse of [Encoder.Tensors];
// the Tensors method of each encoder documents the other names that it accepts.
// conv1, conv2 and so on are accepted for convs.0, convs.1, as in modules written
// by hand. The activation is an argument because tensors do not determine it. A
// tensor that is not part of such an encoder is an error: it would belong to a
// model that computes something else.
func Load(kind Kind, activation Activation, tensors map[string]safetensors.Tensor) (Encoder, error) {
	load := map[Kind]func(*stateDict, Activation) (Encoder, error){
		KindSAGE: loadSAGE, KindGCN: loadGCN, KindGAT: loadGAT, KindGIN: loadGIN,
	}[kind]
	if load == nil {
		return nil, fmt.Errorf("encoder %q: it is one of %s, %s, %s, %s", string(kind), KindSAGE, KindGCN, KindGAT, KindGIN)
	}
	d := newStateDict(tensors)
	switch {
	case kind == KindSAGE && d.has(d.conv(0)+"root"):
		load = loadSAGEKinds
	case kind == KindSAGE && d.hasPrefix(d.conv(0)+"convs.<"):
		load = loadHeteroSAGE
	}
	encoder, err := load(d, activation)
	if d.err != nil {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("encoder %q: %w", string(kind), err)
	}
	return encoder, nil
}

// shape is what all encoders have in common.
//
// Its incremental form is that of an encoder whose aggregates, if it has any, are sums of
// messages, the beginnings of self terms, and whose gather is all that its layers above need.
type shape struct {
	kind       Kind
	width      []int // depth+1 numbers: the features' dimension, then each layer's output
	activation Activation

	first           projection
	self, aggregate int // lengths of a row's parts
	base            int // layer
	maps            [][]linear
}

// newShape returns the shape of an encoder that will have the given number of
// layers and has none yet.
func newShape(kind Kind, in int, activation Activation, layers int) (shape, error) {
	if in < 1 {
		return shape{}, fmt.Errorf("input dimension %d, want at least 1", in)
	}
	if layers == 0 {
		return shape{}, errors.New("no layers, want at least 1")
	}
	activation, err := activation.check()
	return shape{kind: kind, width: []int{in}, activation: activation, maps: make([][]linear, layers)}, err
}

// named makes an encoder, and says in an error which one it is.
func named[L, E any](name string, make func(int, Activation, []L) (E, error), in int, activation Activation, layers []L) (E, error) {
	e, err := make(in, activation, layers)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return e, err
}

// Kind is the architecture.
func (s *shape) Kind() Kind { return s.kind }

// Activation follows every layer but the last.
func (s *shape) Activation() Activation { return s.activation }

// In is the dimension of the features.
func (s *shape) In() int { return s.width[0] }

// Out is d_e, the dimension of the embeddings.
func (s *shape) Out() int { return s.width[len(s.width)-1] }

// Depth is the number of layers, and so the radius in hops of the neighbourhood
// that an embedding depends on.
func (s *shape) Depth() int { return len(s.width) - 1 }

func (s *shape) widths() []int                    { return s.width }
func (s *shape) rowLayout() (self, aggregate int) { return s.self, s.aggregate }
func (s *shape) projection() projection           { return s.first }
func (s *shape) baseLayer() int                   { return s.base }
func (s *shape) linearMaps(l int) []linear        { return s.maps[l] }
func (s *shape) messageColumns() int              { return s.aggregate }

func (s *shape) resetAggregate(row []float32) { clear(row[s.self:]) }

func (s *shape) addMessage(row, neighbour []float32) {
	kernel.Add(row[s.self:], neighbour[:s.aggregate])
}

func (s *shape) addToHub(aggregate []float64, _, neighbour []float32) { addAll(aggregate, neighbour) }

func (s *shape) prefetchMessages(rows *kernel.Table[float32], neighbours []int32, from, to int) {
	kernel.Prefetch(rows, neighbours, from, to-from)
	kernel.Prefetch(rows, neighbours, s.self+from, to-from)
}

func (s *shape) exchangeMessages(rows *kernel.Table[float32], v int32, neighbours []int32, from, to int) {
	kernel.Exchange(rows, v, neighbours, from, s.self+from, to-from)
}

func (s *shape) finishSelf([]float32) {}

func (s *shape) precompute(int, *states) {}

// checkEdges panics unless src and dst are the edges of a graph of n nodes.
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

// rows is a matrix with a row of the given width for each node.
type rows struct {
	x     []float32
	width int
}

func newRows(n, width int) rows { return rows{make([]float32, n*width), width} }

// room is the storage of a batch encoder, used again by the next: most of what encodes a small
// graph would be memory that is taken and given back.
type room struct {
	spare       [][]float32
	dense       []float32
	start, near []int32

	// Of [Readout.Encode]:
	x        []Vector
	src, dst []int32
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// rows returns rows of zeros.
func (r *room) rows(n, width int) rows {
	large := func(x []float32) bool { return cap(x) >= n*width }
	i := slices.IndexFunc(r.spare, large)
	if i < 0 {
		return newRows(n, width)
	}
	x := r.spare[i][:n*width]
	r.spare = slices.Delete(r.spare, i, i+1)
	clear(x)
	return rows{x, width}
}

// free takes rows back.
func (r *room) free(x rows) {
	const most = 8
	if len(r.spare) == most {
		r.spare = slices.Delete(r.spare, 0, 1)
	}
	r.spare = append(r.spare, x.x)
}

// inEdges returns the sources of the edges into each node, in the order of the edges: those
// into i are near[start[i]:start[i+1]].
func (r *room) inEdges(n int, src, dst []int32) (start, near []int32) {
	checkEdges(n, src, dst)
	r.start, r.near = kernel.Resize(r.start, n+2), kernel.Resize(r.near, len(src))
	start, near = r.start, r.near
	clear(start)
	for _, i := range dst {
		start[i+2]++
	}
	for i := range n {
		start[i+2] += start[i+1]
	}
	for e, i := range dst {
		near[start[i+1]] = src[e]
		start[i+1]++
	}
	return start[:n+1], near
}

func (r rows) at(i int32) []float32 { return r.x[int(i)*r.width : (int(i)+1)*r.width] }
