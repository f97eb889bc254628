package train

import (
	"math"
	"math/rand/v2"

	"github.com/gvbll/gvbll/gnn"
)

// layer holds a layer's parameters. Each architecture's is in the file of its name.
type layer[T float] interface {
	// params lists the parameters, the same slices on every call.
	params() []param[T]
	// coefficients returns the matrix A of the sums over neighbours, with a row
	// for each of the first n nodes of the neighbourhood: its entries are the
	// coefficients of the node's sum, by source. Of gat's matrix only the
	// positions of the entries are used: the values are computed by each forward.
	coefficients(hood *neighbourhood, n int) sparse[T]
	// pass binds the layer to a graph: its input is x, its coefficients a, and
	// it is computed for the first outputs of x's rows.
	pass(x *input[T], a sparse[T], outputs int, drop *dropout[T]) pass[T]
	// width is the number of outputs.
	width() int
}

// pass computes a layer and its gradients.
type pass[T float] interface {
	// forward sets state, outputs×width, the layer's output before the
	// activation.
	forward(state []T)
	// backward sets the gradients of the parameters, and of the input unless
	// its grad is nil, from the gradient of the state that the last forward set.
	backward(grad []T)
}

// param is a slice of parameters and its gradient.
type param[T float] struct {
	value, grad []T
	decays      bool // subject to weight decay
}

func newParam[T float](n int, decays bool) param[T] {
	return param[T]{value: make([]T, n), grad: make([]T, n), decays: decays}
}

// glorot draws weights uniformly from ±√(6/(in+out)) (Glorot and Bengio:
// Understanding the difficulty of training deep feedforward neural networks,
// 2010, eq. 16).
func (p param[T]) glorot(rng *rand.Rand, in, out int) {
	limit := math.Sqrt(6 / float64(in+out))
	for i := range p.value {
		p.value[i] = T(limit * (2*float64(rng.Float64()) - 1))
	}
}

// model is an encoder in training.
type model[T float] struct {
	kind       gnn.Kind
	activation gnn.Activation
	in         int
	kinds      bool // edges have kinds or weights
	layers     []layer[T]
}

// newModel returns a model with random weights and zero biases.
func newModel[T float](cfg Config) *model[T] {
	rng := rand.New(rand.NewPCG(cfg.Seed, 1))
	m := &model[T]{kind: cfg.Encoder, activation: cfg.Activation, in: cfg.In, kinds: cfg.Means > 0}
	in := cfg.In
	for l := range len(cfg.Hidden) + 1 {
		out, last := cfg.Out, l == len(cfg.Hidden)
		if !last {
			out = cfg.Hidden[l]
		}
		switch cfg.Encoder {
		case gnn.KindSAGE:
			m.layers = append(m.layers, newSAGE[T](rng, in, out, max(cfg.Means, 1)))
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

// encoder returns the encoder with the model's weights, or an error if one is not
// finite.
func (m *model[T]) encoder() (gnn.Encoder, error) {
	switch m.kind {
	case gnn.KindSAGE:
		if m.kinds {
			return gnn.NewSAGEKinds(m.in, m.activation, exportLayers(m, exportKinds[T])...)
		}
		return gnn.NewSAGE(m.in, m.activation, exportLayers(m, exportSAGE[T])...)
	case gnn.KindGCN:
		c, err := gnn.NewGCN(m.in, m.activation, exportLayers(m, exportGCN[T])...)
		if m.kinds && err == nil {
			c = c.Weighed()
		}
		return c, err
	case gnn.KindGAT:
		return gnn.NewGAT(m.in, m.activation, exportLayers(m, (*gat[T]).export)...)
	default:
		return gnn.NewGIN(m.in, m.activation, exportLayers(m, (*gin[T]).export)...)
	}
}

// exportLayers returns the model's layers as package gnn has them.
func exportLayers[L layer[T], G any, T float](m *model[T], export func(L) G) (layers []G) {
	for _, l := range m.layers {
		layers = append(layers, export(l.(L)))
	}
	return layers
}

// params lists the parameters of all layers.
func (m *model[T]) params() (list []param[T]) {
	for _, l := range m.layers {
		list = append(list, l.params()...)
	}
	return list
}

// network computes a model's embeddings of some nodes of a graph, the targets, and
// the gradients of its weights from the gradient of the embeddings. It allocates
// when it is made, not when it runs.
type network[T float] struct {
	model    *model[T]
	drop     *dropout[T]
	features sparse[T] // before dropout; or
	dense    []T       // instead, rows×In
	layers   []boundLayer[T]
	readout  *readout[T] // where the targets are graphs, or nil
}

// boundLayer is a layer bound to a graph, with its input and output. It is computed
// for the first outputs of the network's nodes from the states of the first inputs.
type boundLayer[T float] struct {
	pass        pass[T]
	input       input[T]
	state, grad []T // outputs×width: the output before the activation, and its gradient
}

// newNetwork returns the network of a model for the given targets, a row each, in
// that order. It computes only the states on which the targets depend. With learn,
// backward may be called.
func newNetwork[T float](m *model[T], data Data, targets []int32, drop *dropout[T], learn bool) *network[T] {
	depth := len(m.layers)
	n := &network[T]{model: m, drop: drop, layers: make([]boundLayer[T], depth)}
	if data.Graphs != nil {
		nodes, start := data.graphNodes(targets)
		targets, n.readout = nodes, newReadout[T](start, data.Size, m.layers[depth-1].width())
	}
	hood := newNeighbourhood(data, targets, depth)
	dense, sparse := features[T](data.X, hood.nodes, m.in)
	n.dense = dense
	coeff := m.layers[0].coefficients(hood, hood.needed[1])
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
		s.pass = layer.pass(&s.input, coeff.top(outputs), outputs, drop)
		in = layer.width()
	}
	return n
}

// forward returns the targets' embeddings, a row each, valid until the next call.
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
	if n.readout != nil {
		return n.readout.forward(n.last().state)
	}
	return n.last().state
}

func (n *network[T]) last() *boundLayer[T] { return &n.layers[len(n.layers)-1] }

// backward sets the gradients of the weights from that of the embeddings, for the states
// of the last forward.
func (n *network[T]) backward(dz []float64) {
	if n.readout != nil {
		convert(n.readout.z, dz)
		n.readout.backward(n.last().grad, n.readout.z)
	} else {
		convert(n.last().grad, dz)
	}
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
