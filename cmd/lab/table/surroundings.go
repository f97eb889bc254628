package table

import "github.com/gvbll/gvbll/cmd/gvbll/backtest"

// surroundings are what a system without an encoder sees: the graph of the protocol, and
// the labels that were revealed.
type surroundings struct {
	*backtest.Known
	stream *replay
	grows  bool // Near has the nodes that have arrived, as the strict protocol has it
}

// newSurroundings returns those before the first step: training and warm-up nodes are
// there, with their labels that have come.
func newSurroundings(stream *replay, protocol string) *surroundings {
	s := &surroundings{Known: backtest.NewKnown(stream.x), stream: stream, grows: protocol == strict}
	if !s.grows {
		s.Near = stream.neighbours()
	}
	s.arrive(0, stream.context.nodes)
	s.reveal(stream.early(0, stream.context.nodes))
	return s
}

// arrive adds the nodes from lo to below hi.
func (s *surroundings) arrive(lo, hi int) {
	for v := lo; s.grows && v < hi; v++ {
		s.Link(int32(v), s.stream.links[v])
	}
}

// reveal reveals the labels of nodes.
func (s *surroundings) reveal(nodes []int32) {
	for _, v := range nodes {
		if y, comes := s.stream.comes(int(v)); comes {
			s.Reveal(v, y)
		}
	}
}
