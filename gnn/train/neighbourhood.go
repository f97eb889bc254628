package train

import "slices"

// neighbourhood is the part of a graph on which the embeddings of some targets
// depend. Its nodes are renumbered by their distance in hops from the targets: the
// targets first, then their neighbours, and so on. So the nodes whose states are
// needed after a layer are a prefix, longer for lower layers.
type neighbourhood struct {
	nodes  []int32
	needed []int // needed[l] is the number of nodes whose states are needed after l layers
	// sources lists, for the first needed[1] nodes, the sources of the edges
	// into each, in the order of the edges, repeats and loops included.
	sources [][]int32
	// inDegree sums, for every node, the weights of the edges into it in the whole graph,
	// 1 each if there are none, repeats included, loops not.
	inDegree []float64
	// edges lists the numbers of those edges in the data, if it has means.
	edges  [][]int32
	mean   []uint8
	weight []float32
}

func newNeighbourhood(data Data, targets []int32, depth int) *neighbourhood {
	start, sources, edges := inEdges(data)
	h := &neighbourhood{nodes: slices.Clone(targets), needed: make([]int, depth+1), mean: data.Mean, weight: data.Weight}
	local := make([]int32, len(data.X)) // by node: its number here plus 1, or 0
	for i, v := range h.nodes {
		local[v] = int32(i) + 1
	}
	h.needed[depth] = len(h.nodes)
	expanded := 0
	for l := depth - 1; l >= 0; l-- {
		for end := len(h.nodes); expanded < end; expanded++ {
			v := h.nodes[expanded]
			from := sources[start[v]:start[v+1]]
			for i, u := range from {
				if local[u] == 0 {
					h.nodes = append(h.nodes, u)
					local[u] = int32(len(h.nodes))
				}
				from[i] = local[u] - 1
			}
			h.sources = append(h.sources, from)
			if edges != nil {
				h.edges = append(h.edges, edges[start[v]:start[v+1]])
			}
		}
		h.needed[l] = len(h.nodes)
	}
	h.inDegree = make([]float64, len(h.nodes))
	for e, v := range data.Dst {
		if i := local[v]; i > 0 && data.Src[e] != v {
			w := 1.0
			if data.Weight != nil {
				w = float64(data.Weight[e])
			}
			h.inDegree[i-1] += w
		}
	}
	return h
}

// edge returns the mean and the weight of the t-th edge into node i.
func (h *neighbourhood) edge(i, t int) (mean int, weight float64) {
	if h.mean == nil {
		return 0, 1
	}
	e := h.edges[i][t]
	return int(h.mean[e]), float64(h.weight[e])
}

// inEdges lists the sources of the edges into each node v, in the order of the
// edges: sources[start[v]:start[v+1]]. edges are their numbers, nil if data has no means.
func inEdges(data Data) (start, sources, edges []int32) {
	start, sources = make([]int32, len(data.X)+1), make([]int32, len(data.Src))
	for _, v := range data.Dst {
		start[v+1]++
	}
	for v := range data.X {
		start[v+1] += start[v]
	}
	if data.Mean != nil {
		edges = make([]int32, len(sources))
	}
	next := slices.Clone(start)
	for e, v := range data.Dst {
		sources[next[v]] = data.Src[e]
		if edges != nil {
			edges[next[v]] = int32(e)
		}
		next[v]++
	}
	return start, sources, edges
}
