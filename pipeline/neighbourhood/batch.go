package neighbourhood

import "github.com/gvbll/gvbll/posterior/pool"

// maxRefreshed bounds the neighbours of a labelled node that heads learn from again.
const maxRefreshed = 4

// batch is scratch memory of [Features.FillBatch].
type batch struct {
	rowOf     map[int32]int32 // by node: its row
	refreshed map[int32]bool  // neighbours in Refresh
}

// FillBatch sets Pairs, Refresh and RefreshLabels of b, a batch of nodes whose labels have
// been set: the edges among the nodes, each once, and, if refresh is true, the distinct
// nodes among the first maxRefreshed labelled neighbours of each that are not in the
// batch. It reuses the memory of these fields.
func (f *Features) FillBatch(b *pool.Batch, nodes []int32, refresh bool) {
	m := &f.batch
	if m.rowOf == nil {
		m.rowOf, m.refreshed = make(map[int32]int32), make(map[int32]bool)
	}
	clear(m.rowOf)
	clear(m.refreshed)
	for i, v := range nodes {
		m.rowOf[v] = int32(i)
	}
	b.Pairs, b.RefreshLabels = b.Pairs[:0], b.RefreshLabels[:0]
	f.Reset(&b.Refresh)
	for i, v := range nodes {
		found := 0
		for _, u := range f.graph.Neighbours(v) {
			y := f.label[u]
			if y == None {
				continue
			}
			if j, in := m.rowOf[u]; in {
				if j > int32(i) {
					b.Pairs = append(b.Pairs, [2]int32{int32(i), j})
				}
			} else if refresh && found < maxRefreshed {
				found++
				if !m.refreshed[u] {
					m.refreshed[u] = true
					f.AppendFeatures(&b.Refresh, u)
					b.RefreshLabels = append(b.RefreshLabels, y)
				}
			}
		}
	}
}
