package neighbourhood

import "github.com/gvbll/gvbll/posterior/pool"

// maxReplayed returns how many rows a batch replays at most. What they cost is proportional to the
// classes, and where these are many to their square.
func maxReplayed(classes int) int { return 4096 * 24 / (classes * max(classes, 24)) }

// maxLooks bounds the node numbers that are looked at for one row to replay, where few nodes
// have a label.
const maxLooks = 16

// FillBatch sets Pairs, Replay, ReplayLabels and Known of b, a batch of nodes whose labels have
// been set: the edges among the nodes, each once, and the next labelled nodes of the sweep that are
// not in the batch, as many for each node as a head asks for. It reuses the memory of these fields.
func (f *Features) FillBatch(b *pool.Batch, nodes []int32) {
	f.fillPairs(b, nodes)
	b.ReplayLabels, b.ReplayNodes, b.Known = b.ReplayLabels[:0], b.ReplayNodes[:0], f.known
	f.Reader.Reset(&b.Replay)
	// A sweep that comes to its beginning again would replay a row twice.
	for looks, rows := len(f.label), min(len(nodes)*f.wants.replay, maxReplayed(f.classes)); rows > 0; rows-- {
		v, looked := f.sweep(min(looks, maxLooks))
		looks -= looked
		if v != None {
			f.Reader.Append(&b.Replay, v)
			b.ReplayLabels, b.ReplayNodes = append(b.ReplayLabels, f.label[v]), append(b.ReplayNodes, v)
		}
	}
}

// fillPairs sets Pairs: each edge between two of the nodes once.
func (f *Features) fillPairs(b *pool.Batch, nodes []int32) {
	if f.rowOf == nil {
		f.rowOf = make(map[int32]int32)
	}
	clear(f.rowOf)
	for i, v := range nodes {
		f.rowOf[v] = int32(i)
	}
	b.Pairs = b.Pairs[:0]
	for i, v := range nodes {
		for _, u := range f.graph.Neighbours(v) {
			if j, is := f.rowOf[u]; is && j > int32(i) {
				b.Pairs = append(b.Pairs, [2]int32{int32(i), j})
			}
		}
	}
}

// sweep returns the next labelled node that is not in the batch, or None if there is none among
// the next numbers, at most so many, and how many it has looked at.
func (f *Features) sweep(most int) (v int32, looked int) {
	for looked < most {
		looked++
		if int(f.next) >= len(f.label) {
			f.next = 0
		}
		v, f.next = f.next, f.next+1
		if _, in := f.rowOf[v]; f.label[v] != None && !in {
			return v, looked
		}
	}
	return None, looked
}
