package train

// readout computes the embeddings of graphs from the states of their nodes, as
// [gnn.Readout] does, and the gradients of the states.
type readout[T float] struct {
	start []int32 // the nodes of the targets, one graph after the other
	size  T
	width int // of the states
	z     []T // graphs × 2·width
}

// graphNodes lists the nodes of the given graphs, and where those of each begin.
func (d *Data) graphNodes(graphs []int32) (nodes, start []int32) {
	start = []int32{0}
	for _, g := range graphs {
		for v := d.Graphs[g]; v < d.Graphs[g+1]; v++ {
			nodes = append(nodes, v)
		}
		start = append(start, int32(len(nodes)))
	}
	return nodes, start
}

func newReadout[T float](start []int32, size float32, width int) *readout[T] {
	return &readout[T]{start: start, size: T(size), width: width, z: make([]T, (len(start)-1)*2*width)}
}

func (r *readout[T]) forward(h []T) []T {
	w := r.width
	for i := range len(r.start) - 1 {
		mean, sum := r.z[2*i*w:][:w], r.z[(2*i+1)*w:][:w]
		clear(sum)
		for v := r.start[i]; v < r.start[i+1]; v++ {
			axpy(sum, 1, h[int(v)*w:][:w])
		}
		n := T(max(r.start[i+1]-r.start[i], 1))
		for k, s := range sum {
			mean[k], sum[k] = s/n, s/r.size
		}
	}
	return r.z
}

// backward sets the gradient of the states, dh, from that of z.
func (r *readout[T]) backward(dh, dz []T) {
	w := r.width
	clear(dh)
	for i := range len(r.start) - 1 {
		n := T(max(r.start[i+1]-r.start[i], 1))
		for v := r.start[i]; v < r.start[i+1]; v++ {
			row := dh[int(v)*w:][:w]
			axpy(row, 1/n, dz[2*i*w:][:w])
			axpy(row, 1/r.size, dz[(2*i+1)*w:][:w])
		}
	}
}
