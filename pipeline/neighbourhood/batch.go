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
	f.fill(b, nodes, refresh, func(int) bool { return true }, func(int32) {})
}

// FillPart sets the same fields, and Refreshed, of the part of a batch of nodes that has the
// rows at part.Positions.
func (f *Features) FillPart(part *pool.Part, nodes []int32, refresh bool) {
	next := 0
	part.Refreshed = part.Refreshed[:0]
	f.fill(&part.Batch, nodes, refresh, func(i int) bool {
		in := next < len(part.Positions) && int(part.Positions[next]) == i
		if in {
			next++
		}
		return in
	}, func(refreshed int32) { part.Refreshed = append(part.Refreshed, refreshed) })
}

// fill is FillBatch for the rows that in reports, which is asked for each in their order. It
// calls each with the number of rows of Refresh that come with the row.
func (f *Features) fill(b *pool.Batch, nodes []int32, refresh bool, in func(row int) bool, each func(refreshed int32)) {
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
	f.Reader.Reset(&b.Refresh)
	for i, v := range nodes {
		here := in(i)
		if !here && !refresh {
			continue
		}
		before, found := b.Refresh.N, 0
		for _, u := range f.graph.Neighbours(v) {
			y := f.label[u]
			if y == None {
				continue
			}
			if j, is := m.rowOf[u]; is {
				if here && j > int32(i) {
					b.Pairs = append(b.Pairs, [2]int32{int32(i), j})
				}
			} else if refresh && found < maxRefreshed {
				found++
				if m.refreshed[u] {
					continue
				}
				m.refreshed[u] = true // also if it comes with a row of another part
				if here {
					f.Reader.AppendFeatures(&b.Refresh, u)
					b.RefreshLabels = append(b.RefreshLabels, y)
				}
			}
		}
		if here {
			each(int32(b.Refresh.N - before))
		}
	}
}
