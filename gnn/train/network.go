package train

import "math/rand/v2"

// network computes the embeddings of some nodes of a graph, the targets, and
// the gradients of the weights from those of the embeddings. All it works with
// is taken once, when it is made.
//
// A layer is h' = [mean over neighbours of h_j·Neighᵀ] + h_i·Selfᵀ + Bias: the
// state is multiplied first, where it is sparse, and the narrower product
// aggregated.
type network[T float] struct {
	w        *weights[T]
	dropout  dropout[T]
	features sparse[T]
	layers   []pass[T]
	out      *pass[T]  // the last layer
	means    sparse[T] // row i: i's neighbours, each with 1 / i's degree
}

// pass is what one layer works with. It is computed for the first outputs of
// the network's nodes, from the states of the first inputs.
type pass[T float] struct {
	*layer[T]
	inputs, outputs int

	input     sparse[T] // inputs×in: states after activation and dropout
	projected []T       // inputs×2·out: input times the weights. The second half of a row is there for the nodes below outputs only
	state     []T       // outputs×out: before activation

	// For backward; see reserveGradients.

	byUnit     sparse[T] // transpose of input
	split      []int     // by unit, the end in byUnit of the nodes below outputs
	spread     sparse[T] // transpose of the network's means for the nodes below outputs: inputs×outputs
	dProjected []T
	grad       []T // of state
	dInput     []T // the gradients of one row's entries
}

// newNetwork returns the network with weights w for the given targets, row by
// row. Only what the targets hang on is computed: after each layer down from
// the last, what the layer above needs and its neighbours.
func newNetwork[T float](w *weights[T], data Data, targets []int32, chance float64) *network[T] {
	depth := len(w.layers)
	into := inEdges(data)

	// nodes begins with the targets, then come their neighbours, and so on;
	// the number needed after layer l, counting from 1, is need[l].
	nodes := append([]int32(nil), targets...)
	local := make([]int32, len(data.X)) // place in nodes, plus 1
	for i, v := range nodes {
		local[v] = int32(i) + 1
	}
	need := make([]int, depth+1)
	need[depth] = len(nodes)
	expanded := 0
	for l := depth - 1; l >= 0; l-- {
		for end := len(nodes); expanded < end; expanded++ {
			neighbours, _ := into.row(int(nodes[expanded]))
			for _, u := range neighbours {
				if local[u] == 0 {
					nodes = append(nodes, u)
					local[u] = int32(len(nodes))
				}
			}
		}
		need[l] = len(nodes)
	}

	n := &network[T]{w: w, dropout: newDropout[T](chance), features: features[T](data.X, nodes)}
	n.means = sparse[T]{start: make([]int, 1, need[1]+1)}
	for _, v := range nodes[:need[1]] {
		neighbours, _ := into.row(int(v))
		for _, u := range neighbours {
			n.means.index = append(n.means.index, local[u]-1)
			n.means.value = append(n.means.value, 1/T(len(neighbours)))
		}
		n.means.start = append(n.means.start, len(n.means.index))
	}

	n.layers = make([]pass[T], depth)
	for l := range n.layers {
		layer := &w.layers[l]
		inputs, outputs := need[l], need[l+1]
		entries := inputs * layer.in
		if l == 0 {
			entries = len(n.features.index)
		}
		n.layers[l] = pass[T]{
			layer: layer, inputs: inputs, outputs: outputs,
			input:     newSparse[T](inputs, entries),
			projected: make([]T, inputs*2*layer.out),
			state:     make([]T, outputs*layer.out),
		}
	}
	if chance == 0 {
		n.layers[0].input = n.features
	}
	n.out = &n.layers[depth-1]
	return n
}

// reserveGradients takes what backward works with, which a network that only
// embeds does not need.
func (n *network[T]) reserveGradients() {
	for l := range n.layers {
		p := &n.layers[l]
		p.byUnit = newSparse[T](p.in, len(p.input.index))
		p.split = make([]int, p.in)
		p.dProjected = make([]T, len(p.projected))
		p.grad = make([]T, len(p.state))
		p.dInput = make([]T, p.in)
		means := n.means
		means.start = means.start[:p.outputs+1]
		p.spread = newSparse[T](p.inputs, means.start[p.outputs])
		means.transpose(&p.spread, p.outputs, make([]int, p.inputs))
	}
}

// inEdges lists the sources of the edges into each node, in the order of the
// edges. There are no values.
func inEdges(data Data) sparse[float32] {
	s := sparse[float32]{start: make([]int, len(data.X)+1), index: make([]int32, len(data.Src)), value: make([]float32, len(data.Src))}
	for _, v := range data.Dst {
		s.start[v+1]++
	}
	for v := range data.X {
		s.start[v+1] += s.start[v]
	}
	next := append([]int(nil), s.start...)
	for e, v := range data.Dst {
		s.index[next[v]] = data.Src[e]
		next[v]++
	}
	return s
}

// forward returns the targets' embeddings, len(targets)×Out, which hold until
// the next call. The source, for dropout, may be nil if there is none.
func (n *network[T]) forward(source *rand.PCG) []T {
	for l := range n.layers {
		p := &n.layers[l]
		switch {
		case l > 0:
			n.dropout.rectified(&p.input, n.layers[l-1].state, p.in, source)
		case n.dropout.chance > 0:
			n.dropout.sparse(&p.input, &n.features, source)
		}
		p.forward(&n.means)
	}
	return n.out.state
}

func (p *pass[T]) forward(means *sparse[T]) {
	width := 2 * p.out
	for i := range p.inputs {
		row := p.projected[i*width : (i+1)*width]
		if i >= p.outputs {
			row = row[:p.out]
		}
		clear(row)
		index, value := p.input.row(i)
		gather(row, index, value, p.both, width)
	}
	for i := range p.outputs {
		state := p.state[i*p.out : (i+1)*p.out]
		self := p.projected[i*width+p.out : (i+1)*width]
		for j := range state {
			state[j] = self[j] + p.bias[j]
		}
		index, value := means.row(i)
		gather(state, index, value, p.projected, width)
	}
}

// backward sets the gradients of the weights from n.out.grad, for the states
// of the last call of forward.
func (n *network[T]) backward() {
	for l := len(n.layers) - 1; l >= 0; l-- {
		p := &n.layers[l]
		p.backward()
		if l > 0 {
			p.backwardInput(n.layers[l-1].grad, n.dropout.scale)
		}
	}
}

func (p *pass[T]) backward() {
	width := 2 * p.out
	dBias := p.dBias
	clear(dBias)
	for i := range p.outputs {
		grad := p.grad[i*p.out:][:len(dBias)]
		for j := range dBias {
			dBias[j] += grad[j]
		}
		copy(p.dProjected[i*width+p.out:(i+1)*width], grad)
	}
	for i := range p.inputs {
		row := p.dProjected[i*width : i*width+p.out]
		clear(row)
		index, value := p.spread.row(i)
		gather(row, index, value, p.grad, p.out)
	}
	p.input.transpose(&p.byUnit, p.outputs, p.split)
	for k := range p.in {
		row := p.dBoth[k*width : (k+1)*width]
		clear(row)
		index, value := p.byUnit.row(k)
		own := p.split[k] - p.byUnit.start[k]
		if own == len(index) {
			gather(row, index, value, p.dProjected, width)
			continue
		}
		gather(row[:p.out], index, value, p.dProjected, width)
		gather(row[p.out:], index[:own], value[:own], p.dProjected[p.out:], width)
	}
}

// backwardInput sets grad, the gradients of the states that the input was made
// from. Where the input is zero the state was negative or left out, and its
// gradient is zero: only the others are computed.
func (p *pass[T]) backwardInput(grad []T, scale T) {
	clear(grad)
	width := 2 * p.out
	for i := range p.inputs {
		row := p.dProjected[i*width : (i+1)*width]
		if i >= p.outputs {
			row = row[:p.out]
		}
		index, _ := p.input.row(i)
		dots(p.dInput, index, row, p.both, width)
		for t, k := range index {
			grad[i*p.in+int(k)] = scale * p.dInput[t]
		}
	}
}
