package table

import "github.com/gvbll/gvbll/gnn/dataset"

// surroundings are what a system without an encoder sees: the graph of the protocol, and
// the labels that were revealed.
type surroundings struct {
	stream   *replay
	near     [][]int32 // distinct neighbours, by node
	grows    bool      // near has the nodes that have arrived, as the strict protocol has it
	label    []int32   // by node, or dataset.Unlabelled
	revealed []int32   // nodes with a label, in the order in which labels came
}

// newSurroundings returns those before the first step: training and warm-up nodes are
// there, with their labels that have come.
func newSurroundings(stream *replay, protocol string) *surroundings {
	s := &surroundings{stream: stream, grows: protocol == strict, label: make([]int32, len(stream.x))}
	for v := range s.label {
		s.label[v] = dataset.Unlabelled
	}
	if s.grows {
		s.near = make([][]int32, len(stream.x))
	} else {
		s.near = stream.neighbours()
	}
	s.arrive(0, stream.context.nodes)
	s.reveal(stream.early(0, stream.context.nodes))
	return s
}

// arrive adds the nodes from lo to below hi.
func (s *surroundings) arrive(lo, hi int) {
	if !s.grows {
		return
	}
	for v := lo; v < hi; v++ {
		for _, u := range s.stream.links[v] {
			s.near[v], s.near[u] = append(s.near[v], u), append(s.near[u], int32(v))
		}
	}
}

// reveal reveals the labels of nodes.
func (s *surroundings) reveal(nodes []int32) {
	for _, v := range nodes {
		if y, comes := s.stream.comes(int(v)); comes {
			s.label[v] = y
			s.revealed = append(s.revealed, v)
		}
	}
}

// shares returns the share of each class among the labels, each counted once more than it
// is there.
func (s *surroundings) shares(classes int) []float64 {
	pi := make([]float64, classes)
	each := 1 / float64(len(s.revealed)+classes)
	for c := range pi {
		pi[c] = each
	}
	for _, v := range s.revealed {
		pi[s.label[v]] += each
	}
	return pi
}
