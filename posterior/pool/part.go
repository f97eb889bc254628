package pool

import "fmt"

// Part is some of the rows of a batch: those that one of several processes has served. Each
// process knows the graph, and all nodes of the batch in their order, so together they can
// make the batch that one process would have made; see [Batch.Merge].
type Part struct {
	// Batch has the rows at Positions of the whole batch. Its Pairs are of positions, and
	// the first of a pair is that of a row of this part. They ascend by it.
	Batch
	Positions []int32 // ascending
}

// Merge makes b the whole batch of which parts have all rows, and reuses the memory of b. It
// is an error if they have a row twice or lack one.
func (b *Batch) Merge(parts []*Part) error {
	b.reset()
	for _, p := range parts {
		b.N += p.N
	}
	rows := make([]partRow, b.N)
	for _, p := range parts {
		if len(p.Positions) != p.N || p.Replay.N > 0 {
			return fmt.Errorf("pool: a part of %d rows at %d positions with %d rows to replay", p.N, len(p.Positions), p.Replay.N)
		}
		for i, at := range p.Positions {
			if at < 0 || int(at) >= b.N || rows[at].part != nil {
				return fmt.Errorf("pool: row %d of %d stands twice in the parts of a batch, or another one is missing", at, b.N)
			}
			rows[at] = partRow{p, i}
		}
		b.X.like(&p.X)
		b.S.like(&p.S)
		b.Replay.X.like(&p.Replay.X)
		b.Replay.S.like(&p.Replay.S)
	}
	used := make(map[*Part]*int, len(parts)) // pairs that have been taken
	for _, p := range parts {
		used[p] = new(int)
	}
	for at, r := range rows {
		b.take(r, int32(at), used[r.part])
	}
	for _, p := range parts {
		if n := *used[p]; n != len(p.Pairs) {
			return fmt.Errorf("pool: %d pairs of a part of a batch, %d of its rows", len(p.Pairs), n)
		}
	}
	for _, pair := range b.Pairs {
		if pair[1] <= pair[0] || int(pair[1]) >= b.N {
			return fmt.Errorf("pool: a pair of rows %d and %d, of %d", pair[0], pair[1], b.N)
		}
	}
	return nil
}

// partRow is row i of a part.
type partRow struct {
	part *Part
	i    int
}

// take appends row r at a position, with its pairs, of which so many of its part have been taken.
func (b *Batch) take(r partRow, at int32, pairs *int) {
	p := r.part
	b.Rows.appendRow(&p.Rows, r.i)
	b.Labels = append(b.Labels, p.Labels[r.i])
	b.LogProbs = appendRow(b.LogProbs, p.LogProbs, r.i, p.N)
	for ; *pairs < len(p.Pairs) && p.Pairs[*pairs][0] == at; *pairs++ {
		b.Pairs = append(b.Pairs, p.Pairs[*pairs])
	}
}

// reset removes all rows.
func (b *Batch) reset() {
	b.Rows.reset()
	b.Replay.reset()
	b.Labels, b.LogProbs, b.Pairs, b.ReplayLabels = b.Labels[:0], b.LogProbs[:0], b.Pairs[:0], b.ReplayLabels[:0]
}

func (r *Rows) reset() {
	r.N = 0
	for _, x := range []*Features{&r.X, &r.S} {
		*x = Features{Dense: x.Dense[:0], Start: nil, Index: x.Index[:0], Value: x.Value[:0]}
	}
	r.Degree, r.Labelled, r.Second, r.Kinds = r.Degree[:0], r.Labelled[:0], r.Second[:0], r.Kinds[:0]
	r.Embedded.Z, r.Embedded.Tau = r.Embedded.Z[:0], r.Embedded.Tau[:0]
}

// like makes f, which has no rows, sparse if another one is.
func (f *Features) like(other *Features) {
	if other.Start != nil && f.Start == nil {
		f.Start = []int{0}
	}
}

// appendRow appends row i of another one, and leaves N as it is.
func (r *Rows) appendRow(from *Rows, i int) {
	r.X.appendRow(&from.X, i, from.N)
	r.S.appendRow(&from.S, i, from.N)
	r.Degree = appendRow(r.Degree, from.Degree, i, from.N)
	r.Labelled = appendRow(r.Labelled, from.Labelled, i, from.N)
	r.Second = appendRow(r.Second, from.Second, i, from.N)
	r.Kinds = appendRow(r.Kinds, from.Kinds, i, from.N)
	r.Embedded.Z = appendRow(r.Embedded.Z, from.Embedded.Z, i, from.N)
	r.Embedded.Tau = appendRow(r.Embedded.Tau, from.Embedded.Tau, i, from.N)
}

func (f *Features) appendRow(from *Features, i, n int) {
	if from.Start == nil {
		f.Dense = appendRow(f.Dense, from.Dense, i, n)
		return
	}
	lo, hi := from.Start[i], from.Start[i+1]
	f.Index, f.Value = append(f.Index, from.Index[lo:hi]...), append(f.Value, from.Value[lo:hi]...)
	f.Start = append(f.Start, len(f.Index))
}

// appendRow appends row i of n rows of the same length.
func appendRow[T any](to, from []T, i, n int) []T {
	width := len(from) / n
	return append(to, from[i*width:(i+1)*width]...)
}
