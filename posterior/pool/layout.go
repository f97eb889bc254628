package pool

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Layout says which fields the batches of a pool have, and how long they are: what it takes
// to write a [Batch] as bytes and to read it back.
//
// The bytes are little-endian, without padding: counts are 32-bit, numbers are float32 and
// temperatures float64. A batch is the number n of rows, their labels, how many of them were
// served, the log probabilities of these, and the rows; where rows have the numbers of their nodes, how many have
// one, and these, for all three kinds of rows; then the number of pairs, and these; then
// the number of rows to replay, their labels, and the rows, and the same of those that are taken.
// Rows are the fields that are needed, in the order of [Rows]. Sparse features are the number of entries of each row, all indices, and all
// values.
type Layout struct {
	Shape    Shape
	Need     Need // fields of Rows
	Sparse   bool // X and S
	LogProbs int  // numbers a row
	Numbered bool // rows have the numbers of their nodes
}

// Layout returns that of the batches that the pool learns.
func (p *Pool) Layout() Layout {
	return Layout{
		Shape: p.shape, Need: p.needs, Sparse: p.cfg.Scale() != Standard, LogProbs: p.LogProbsPerRow(),
		Numbered: p.fitted != none,
	}
}

// replayed is the layout of Batch.Replay, and taken that of Batch.Taken.
func (l Layout) replayed() Layout { return l.only(^NeedEmbedded) }
func (l Layout) taken() Layout    { return l.only(NeedX) }

func (l Layout) only(fields Need) Layout {
	l.Need &= fields
	return l
}

// AppendBatch appends a batch as bytes. Fields that are not needed are left out.
func (l Layout) AppendBatch(b []byte, x *Batch) []byte {
	b = appendCount(b, x.N)
	b = appendInts(b, x.Labels)
	b = appendCount(b, len(x.LogProbs)/max(l.LogProbs, 1))
	b = appendFloats(b, x.LogProbs)
	b = l.appendRows(b, &x.Rows)
	if l.Numbered {
		for _, nodes := range [][]int32{x.Nodes, x.ReplayNodes, x.TakenNodes} {
			b = appendInts(appendCount(b, len(nodes)), nodes)
		}
	}
	b = appendCount(b, len(x.Pairs))
	for _, pair := range x.Pairs {
		b = appendInts(b, pair[:])
	}
	b = appendCount(b, x.Replay.N)
	b = appendInts(b, x.ReplayLabels)
	b = appendCount(b, x.Known)
	b = l.replayed().appendRows(b, &x.Replay)
	b = appendCount(b, x.Taken.N)
	b = appendInts(b, x.TakenLabels)
	if x.Taken.N == 0 {
		return b
	}
	return l.taken().appendRows(b, &x.Taken)
}

func (l Layout) appendRows(b []byte, rows *Rows) []byte {
	if l.Need&NeedX != 0 {
		b = l.appendFeatures(b, &rows.X)
	}
	if l.Need&NeedS != 0 {
		b = l.appendFeatures(b, &rows.S)
	}
	if l.Need&needDegree != 0 {
		b = appendInts(b, rows.Degree)
	}
	if l.Need&NeedLabelled != 0 {
		b = appendFloats(b, rows.Labelled)
	}
	if l.Need&NeedSecond != 0 {
		b = appendFloats(b, rows.Second)
	}
	if l.Need&NeedKinds != 0 {
		b = appendFloats(b, rows.Kinds)
	}
	if l.Need&NeedEmbedded != 0 {
		b = appendFloats(b, rows.Embedded.Z)
		for _, tau := range rows.Embedded.Tau {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(tau))
		}
	}
	return b
}

func (l Layout) appendFeatures(b []byte, f *Features) []byte {
	if !l.Sparse {
		return appendFloats(b, f.Dense)
	}
	for i, end := range f.Start[1:] {
		b = appendCount(b, end-f.Start[i])
	}
	from, to := f.Start[0], f.Start[len(f.Start)-1]
	return appendFloats(appendInts(b, f.Index[from:to]), f.Value[from:to])
}

func appendCount(b []byte, n int) []byte { return binary.LittleEndian.AppendUint32(b, uint32(n)) }

func appendInts(b []byte, list []int32) []byte {
	for _, x := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func appendFloats(b []byte, list []float32) []byte {
	at := len(b)
	b = slices.Grow(b, 4*len(list))[:at+4*len(list)]
	for i, x := range list {
		binary.LittleEndian.PutUint32(b[at+4*i:], math.Float32bits(x))
	}
	return b
}

// ReadBatch reads what AppendBatch wrote, and returns the bytes after it. A batch that it
// returns can be learned. The batch shares no memory with b, and takes memory in proportion
// to b, whatever the bytes.
func (l Layout) ReadBatch(b []byte) (x Batch, rest []byte, err error) {
	r := &batchReader{b: b}
	r.batch(l, &x)
	if r.err != nil {
		return Batch{}, nil, fmt.Errorf("pool: batch: %w", r.err)
	}
	return x, r.b, nil
}

// batchReader reads what AppendBatch writes. After the first error it returns nothing.
type batchReader struct {
	b   []byte
	err error
}

// batch reads a batch.
func (r *batchReader) batch(l Layout, x *Batch) {
	x.N = r.count(4)
	x.Labels = r.labels(x.N, l.Shape.Classes)
	served := r.count(4 * max(l.LogProbs, 1))
	r.check(served <= x.N, "%d rows of %d were served", served, x.N)
	x.LogProbs = r.floats(served, l.LogProbs)
	r.rows(l, &x.Rows)
	if l.Numbered {
		for _, nodes := range []*[]int32{&x.Nodes, &x.ReplayNodes, &x.TakenNodes} {
			if *nodes = r.ints(r.count(4)); len(*nodes) == 0 {
				*nodes = nil
			}
		}
	}
	x.Pairs = make([][2]int32, r.count(8))
	ends := r.ints(2 * len(x.Pairs))
	for i := range len(ends) / 2 {
		pair := [2]int32(ends[2*i:])
		if x.Pairs[i] = pair; min(pair[0], pair[1]) < 0 || int(max(pair[0], pair[1])) >= x.N {
			r.check(false, "a pair of the rows %d of %d", pair, x.N)
		}
	}
	x.Replay.N = r.count(4)
	x.ReplayLabels = r.labels(x.Replay.N, l.Shape.Classes)
	x.Known = int(r.uint32())
	r.rows(l.replayed(), &x.Replay)
	x.Taken.N = r.count(4)
	x.TakenLabels = r.labels(x.Taken.N, l.Shape.Classes)
	r.rows(l.taken(), &x.Taken)
}

// check records an error unless ok, or unless there is one already. In loops it is called
// for what is not ok alone, since args take memory.
func (r *batchReader) check(ok bool, format string, args ...any) {
	if !ok && r.err == nil {
		r.b, r.err = nil, fmt.Errorf(format, args...)
	}
}

// take returns the bytes of n rows of so many numbers of size bytes.
func (r *batchReader) take(n, width, size int) []byte {
	if n == 0 || width == 0 {
		return nil
	}
	r.check(n <= len(r.b)/size/width, "%d bytes left for %d rows of %d numbers", len(r.b), n, width)
	if r.err != nil {
		return nil
	}
	taken := r.b[:n*width*size]
	r.b = r.b[len(taken):]
	return taken
}

// count reads a number of things that take at least size bytes each.
func (r *batchReader) count(size int) int {
	n := int(r.uint32())
	r.check(n <= len(r.b)/size, "%d bytes left for %d entries", len(r.b), n)
	if r.err != nil {
		return 0
	}
	return n
}

func (r *batchReader) uint32() uint32 {
	if b := r.take(1, 1, 4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *batchReader) ints(n int) []int32 {
	b := r.take(n, 1, 4)
	list := make([]int32, len(b)/4)
	for i := range list {
		list[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return list
}

// floats reads n rows of so many numbers, which must be finite.
func (r *batchReader) floats(n, width int) []float32 {
	b := r.take(n, width, 4)
	list := make([]float32, len(b)/4)
	for i := range list {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if list[i] = x; float32(x-x) != 0 { // NaN and the infinities
			r.check(false, "a number is %v", x)
		}
	}
	return list
}

func (r *batchReader) labels(n, classes int) []int32 {
	list := r.ints(n)
	for _, y := range list {
		if y < 0 || int(y) >= classes {
			r.check(false, "label %d of %d classes", y, classes)
		}
	}
	return list
}

// rows reads the fields of rows.N rows.
func (r *batchReader) rows(l Layout, rows *Rows) {
	n := rows.N
	if l.Need&NeedX != 0 {
		rows.X = r.features(l, n)
	}
	if l.Need&NeedS != 0 {
		rows.S = r.features(l, n)
	}
	if l.Need&needDegree != 0 {
		rows.Degree = r.ints(n)
		for _, d := range rows.Degree {
			if d < 0 {
				r.check(false, "a node of %d neighbours", d)
			}
		}
	}
	if l.Need&NeedLabelled != 0 {
		rows.Labelled = r.floats(n, l.Shape.Classes)
	}
	if l.Need&NeedSecond != 0 {
		rows.Second = r.floats(n, l.Shape.Classes)
	}
	if l.Need&NeedKinds != 0 {
		rows.Kinds = r.floats(n, l.Shape.Means*l.Shape.Classes)
	}
	if l.Need&NeedEmbedded != 0 {
		rows.Embedded.Z = r.floats(n, l.Shape.Embedding)
		rows.Embedded.Tau = r.temperatures(n)
	}
}

func (r *batchReader) temperatures(n int) []float64 {
	b := r.take(n, 1, 8)
	list := make([]float64, len(b)/8)
	for i := range list {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if list[i] = x; !(x > 0 && x <= math.MaxFloat64) {
			r.check(false, "a temperature is %v", x)
		}
	}
	return list
}

func (r *batchReader) features(l Layout, n int) (f Features) {
	if !l.Sparse {
		f.Dense = r.floats(n, l.Shape.Features)
		return f
	}
	lengths := r.ints(n)
	f.Start = make([]int, 1, len(lengths)+1)
	for _, length := range lengths {
		r.check(length >= 0 && int(length) <= l.Shape.Features, "%d entries of %d features", length, l.Shape.Features)
		f.Start = append(f.Start, f.Start[len(f.Start)-1]+int(length))
	}
	f.Index = r.ints(f.Start[len(lengths)])
	f.Value = r.floats(len(f.Index), 1)
	if r.err != nil {
		return f
	}
	for i, from := range f.Start[:n] {
		last := int32(-1)
		for _, j := range f.Index[from:f.Start[i+1]] {
			if j <= last || int(j) >= l.Shape.Features {
				r.check(false, "feature %d after feature %d, of %d", j, last, l.Shape.Features)
			}
			last = j
		}
	}
	return f
}
