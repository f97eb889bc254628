package train

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// layer is a layer's parameters. Each encoder has its own, in the file of its
// name.
type layer[T float] interface {
	// params lists the parameters. The slices do not change.
	params() []param[T]
	// mixing returns the matrix that sums over neighbours: row i, for the first
	// n nodes of the neighbourhood, has what i takes of whom.
	aggregation(hood *neighbourhood, n int) sparse[T]
	// pass returns what one network works with: the layer fed x, computed for
	// the first outputs of its rows.
	pass(x *input[T], mix sparse[T], outputs int, drop *dropout[T]) pass[T]
	// width is the number of outputs.
	width() int
}

// pass computes a layer and its gradients.
type pass[T float] interface {
	// forward sets state, outputs×width, before activation.
	forward(state []T)
	// backward sets the gradients of the parameters, and of the input if it
	// asks for it, from those of the state that forward set last.
	backward(grad []T)
}

// param is a slice of parameters with its gradient.
type param[T float] struct {
	value, grad []T
	decays      bool // weight decay holds it
}

func newParam[T float](n int, decays bool) param[T] {
	return param[T]{value: make([]T, n), grad: make([]T, n), decays: decays}
}

// glorot draws weights uniformly from ±sqrt(6/(in+out)) (Glorot and Bengio:
// Understanding the difficulty of training deep feedforward neural networks,
// 2010, eq. 16).
func (p param[T]) glorot(rng *rand.Rand, in, out int) {
	limit := math.Sqrt(6 / float64(in+out))
	for i := range p.value {
		p.value[i] = T(limit * (2*rng.Float64() - 1))
	}
}

// model is the layers of an encoder in training, and what stands between them.
type model[T float] struct {
	kind       gnn.Kind
	activation gnn.Activation
	in         int
	layers     []layer[T]
}

// newModel draws a model to begin with. Biases begin at zero.
func newModel[T float](cfg Config) *model[T] {
	rng := rand.New(rand.NewPCG(cfg.Seed, 1))
	m := &model[T]{kind: cfg.Encoder, activation: cfg.Activation, in: cfg.In}
	in := cfg.In
	for l := range len(cfg.Hidden) + 1 {
		out, last := cfg.Out, l == len(cfg.Hidden)
		if !last {
			out = cfg.Hidden[l]
		}
		switch cfg.Encoder {
		case gnn.KindSAGE:
			m.layers = append(m.layers, newSAGE[T](rng, in, out))
		case gnn.KindGCN:
			m.layers = append(m.layers, newGCN[T](rng, in, out))
		case gnn.KindGAT:
			m.layers = append(m.layers, newGAT[T](rng, in, out, cfg.Heads, !last))
		case gnn.KindGIN:
			m.layers = append(m.layers, newGIN[T](rng, in, out))
		}
		in = out
	}
	return m
}

// importModel returns the model that computes what the encoder does.
func importModel[T float](enc gnn.Encoder) *model[T] {
	m := &model[T]{kind: enc.Kind(), activation: enc.Activation(), in: enc.In()}
	in := enc.In()
	add := func(l layer[T]) {
		m.layers = append(m.layers, l)
		in = l.width()
	}
	switch enc := enc.(type) {
	case *gnn.SAGE:
		for _, l := range enc.Layers() {
			add(importSAGE[T](l, in))
		}
	case *gnn.GCN:
		for _, l := range enc.Layers() {
			add(importGCN[T](l, in))
		}
	case *gnn.GAT:
		for _, l := range enc.Layers() {
			add(importGAT[T](l, in))
		}
	case *gnn.GIN:
		for _, l := range enc.Layers() {
			add(importGIN[T](l, in))
		}
	default:
		panic(fmt.Sprintf("train: no layers for an encoder %T", enc))
	}
	return m
}

// encoder returns the encoder with these weights.
func (m *model[T]) encoder() (gnn.Encoder, error) {
	switch m.kind {
	case gnn.KindSAGE:
		return gnn.NewSAGE(m.in, m.activation, exportLayers(m, (*sage[T]).export)...)
	case gnn.KindGCN:
		return gnn.NewGCN(m.in, m.activation, exportLayers(m, (*gcn[T]).export)...)
	case gnn.KindGAT:
		return gnn.NewGAT(m.in, m.activation, exportLayers(m, (*gat[T]).export)...)
	default:
		return gnn.NewGIN(m.in, m.activation, exportLayers(m, (*gin[T]).export)...)
	}
}

// exportLayers returns the layers as package gnn has them.
func exportLayers[L layer[T], G any, T float](m *model[T], export func(L) G) (layers []G) {
	for _, l := range m.layers {
		layers = append(layers, export(l.(L)))
	}
	return layers
}

func (m *model[T]) params() (list []param[T]) {
	for _, l := range m.layers {
		list = append(list, l.params()...)
	}
	return list
}

// network computes the embeddings of some nodes of a graph, the targets, and
// the gradients of the model's weights from those of the embeddings. All it
// works with is taken once, when it is made.
type network[T float] struct {
	model    *model[T]
	drop     *dropout[T]
	features sparse[T] // as they are, for dropout to take from
	dense    []T       // instead of features
	layers   []boundLayer[T]
}

// stage is a layer, what it is fed, and what comes of it. It is computed for
// the first outputs of the network's nodes, from the states of the first
// inputs.
type boundLayer[T float] struct {
	pass        pass[T]
	input       input[T]
	state, grad []T // outputs×width, before activation
}

// newNetwork returns the network of a model for the given targets, row by row.
// Only what the targets hang on is computed. With learn it can go backward.
func newNetwork[T float](m *model[T], data Data, targets []int32, drop *dropout[T], learn bool) *network[T] {
	depth := len(m.layers)
	hood := newNeighbourhood(data, targets, depth)
	n := &network[T]{model: m, drop: drop, layers: make([]boundLayer[T], depth)}
	dense, sparse := features[T](data.X, hood.nodes, m.in)
	n.dense = dense
	mix := m.layers[0].aggregation(hood, hood.needed[1])
	in := m.in
	for l, layer := range m.layers {
		s := &n.layers[l]
		inputs, outputs := hood.needed[l], hood.needed[l+1]
		s.input = input[T]{rows: inputs, width: in}
		switch {
		case l > 0:
			s.input.dense = make([]T, inputs*in)
			if learn {
				s.input.grad = make([]T, inputs*in)
			}
		case sparse == nil:
			s.input.dense = dense
			if drop.chance > 0 {
				s.input.dense = make([]T, len(dense))
			}
		default:
			n.features, s.input.sparse = *sparse, sparse
			if drop.chance > 0 {
				dropped := newSparse[T](inputs, len(sparse.index))
				s.input.sparse = &dropped
			}
			if learn {
				s.input.columns = newSparse[T](in, len(sparse.index))
			}
		}
		s.state = make([]T, outputs*layer.width())
		s.grad = make([]T, len(s.state))
		s.pass = layer.pass(&s.input, mix.top(outputs), outputs, drop)
		in = layer.width()
	}
	return n
}

// forward returns the targets' embeddings, len(targets)×Out, which hold until
// the next call.
func (n *network[T]) forward() []T {
	for l := range n.layers {
		s := &n.layers[l]
		switch {
		case l > 0:
			n.drop.activated(s.input.dense, n.layers[l-1].state, n.model.activation)
		case n.drop.chance == 0:
		case n.dense != nil:
			n.drop.dense(s.input.dense, n.dense)
		default:
			n.drop.sparse(s.input.sparse, &n.features)
		}
		s.pass.forward(s.state)
	}
	return n.last().state
}

func (n *network[T]) last() *boundLayer[T] { return &n.layers[len(n.layers)-1] }

// backward sets the gradients of the weights from last().grad, for the states
// of the last call of forward.
func (n *network[T]) backward() {
	for l := len(n.layers) - 1; l >= 0; l-- {
		s := &n.layers[l]
		s.pass.backward(s.grad)
		if l > 0 {
			below := &n.layers[l-1]
			copy(below.grad, s.input.grad)
			n.drop.backward(below.grad, s.input.dense, n.model.activation)
		}
	}
}
