package neighbourhood

import "github.com/gvbll/gvbll/posterior/pool"

// refreshed is the most neighbours of a labelled node that are learned from
// again.
const refreshed = 4

// meeting is what [Vicinity.Meet] works with and gives.
type meeting struct {
	place map[int32]int32 // by node: where it is in the batch
	again map[int32]bool  // nodes to refresh
	pairs [][2]int32
	rows  pool.Rows
	known []int32 // their labels
}

// Meet sets what a batch of nodes, whose labels are known by now, brings beside
// its rows: the edges among them, and, if refresh is asked for, of each node the
// first few neighbours that were labelled before, each once. What it sets holds
// until it is next called.
func (s *Vicinity) Meet(b *pool.Batch, nodes []int32, refresh bool) {
	m := &s.meeting
	if m.place == nil {
		m.place, m.again = make(map[int32]int32), make(map[int32]bool)
	}
	clear(m.place)
	clear(m.again)
	for i, v := range nodes {
		m.place[v] = int32(i)
	}
	m.pairs, m.known = m.pairs[:0], m.known[:0]
	s.Reset(&m.rows)
	for i, v := range nodes {
		found := 0
		for _, u := range s.graph.Neighbours(v) {
			y := s.label[u]
			if y == None {
				continue
			}
			if j, in := m.place[u]; in {
				if j > int32(i) {
					m.pairs = append(m.pairs, [2]int32{int32(i), j})
				}
			} else if refresh && found < refreshed {
				found++
				if !m.again[u] {
					m.again[u] = true
					s.AppendFeatures(&m.rows, u)
					m.known = append(m.known, y)
				}
			}
		}
	}
	b.Pairs, b.Refresh, b.RefreshLabels = m.pairs, m.rows, m.known
}
