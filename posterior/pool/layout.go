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
	c := &batchCodec{b: b}
	c.batch(l, x)
	return c.b
}

// ReadBatch reads what AppendBatch wrote, and returns the bytes after it. A batch that it
// returns can be learned. The batch shares no memory with b, and takes memory in proportion
// to b, whatever the bytes.
func (l Layout) ReadBatch(b []byte) (x Batch, rest []byte, err error) {
	c := &batchCodec{b: b, reads: true}
	c.batch(l, &x)
	if c.err != nil {
		return Batch{}, nil, fmt.Errorf("pool: batch: %w", c.err)
	}
	return x, c.b, nil
}

// batchCodec writes a batch, or reads one. After the first error it reads nothing.
type batchCodec struct {
	b     []byte // what was written, or is still to be read
	reads bool
	err   error
}

func (c *batchCodec) batch(l Layout, x *Batch) {
	c.count(&x.N, 4)
	c.labels(&x.Labels, x.N, l.Shape.Classes)
	served := len(x.LogProbs) / max(l.LogProbs, 1)
	c.count(&served, 4*max(l.LogProbs, 1))
	c.check(served <= x.N, "%d rows of %d were served", served, x.N)
	c.floats(&x.LogProbs, served, l.LogProbs)
	c.rows(l, &x.Rows)
	if l.Numbered {
		for _, nodes := range []*[]int32{&x.Nodes, &x.ReplayNodes, &x.TakenNodes} {
			n := len(*nodes)
			c.count(&n, 4)
			if c.ints(nodes, n); c.reads && n == 0 {
				*nodes = nil
			}
		}
	}
	c.pairs(x)
	c.count(&x.Replay.N, 4)
	c.labels(&x.ReplayLabels, x.Replay.N, l.Shape.Classes)
	c.uint32(&x.Known)
	c.rows(l.replayed(), &x.Replay)
	c.count(&x.Taken.N, 4)
	c.labels(&x.TakenLabels, x.Taken.N, l.Shape.Classes)
	c.rows(l.taken(), &x.Taken)
}

func (c *batchCodec) pairs(x *Batch) {
	n := len(x.Pairs)
	c.count(&n, 8)
	var ends []int32
	for _, pair := range x.Pairs {
		ends = append(ends, pair[:]...)
	}
	if c.ints(&ends, 2*n); !c.reads {
		return
	}
	x.Pairs = make([][2]int32, len(ends)/2)
	for i := range x.Pairs {
		pair := [2]int32(ends[2*i:])
		if x.Pairs[i] = pair; min(pair[0], pair[1]) < 0 || int(max(pair[0], pair[1])) >= x.N {
			c.check(false, "a pair of the rows %d of %d", pair, x.N)
		}
	}
}

// check records an error of reading unless ok, or unless there is one already. In loops it is called
// for what is not ok alone, since args take memory.
func (c *batchCodec) check(ok bool, format string, args ...any) {
	if !ok && c.reads && c.err == nil {
		c.b, c.err = nil, fmt.Errorf(format, args...)
	}
}

// take returns the bytes of n rows of so many numbers of size bytes.
func (c *batchCodec) take(n, width, size int) []byte {
	if n == 0 || width == 0 {
		return nil
	}
	c.check(n <= len(c.b)/size/width, "%d bytes left for %d rows of %d numbers", len(c.b), n, width)
	if c.err != nil {
		return nil
	}
	taken := c.b[:n*width*size]
	c.b = c.b[len(taken):]
	return taken
}

// count declares a number of things that take at least size bytes each.
func (c *batchCodec) count(n *int, size int) {
	if c.uint32(n); !c.reads {
		return
	}
	c.check(*n <= len(c.b)/size, "%d bytes left for %d entries", len(c.b), *n)
	if c.err != nil {
		*n = 0
	}
}

func (c *batchCodec) uint32(n *int) {
	if !c.reads {
		c.b = binary.LittleEndian.AppendUint32(c.b, uint32(*n))
	} else if b := c.take(1, 1, 4); b != nil {
		*n = int(binary.LittleEndian.Uint32(b))
	}
}

func (c *batchCodec) ints(list *[]int32, n int) {
	if !c.reads {
		for _, x := range *list {
			c.b = binary.LittleEndian.AppendUint32(c.b, uint32(x))
		}
		return
	}
	b := c.take(n, 1, 4)
	*list = make([]int32, len(b)/4)
	for i := range *list {
		(*list)[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
}

// floats declares n rows of so many numbers, which must be finite.
func (c *batchCodec) floats(list *[]float32, n, width int) {
	if !c.reads {
		at := len(c.b)
		c.b = slices.Grow(c.b, 4*len(*list))[:at+4*len(*list)]
		for i, x := range *list {
			binary.LittleEndian.PutUint32(c.b[at+4*i:], math.Float32bits(x))
		}
		return
	}
	b := c.take(n, width, 4)
	*list = make([]float32, len(b)/4)
	for i := range *list {
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		if (*list)[i] = x; float32(x-x) != 0 { // NaN and the infinities
			c.check(false, "a number is %v", x)
		}
	}
}

func (c *batchCodec) labels(list *[]int32, n, classes int) {
	c.ints(list, n)
	for _, y := range *list {
		if y < 0 || int(y) >= classes {
			c.check(false, "label %d of %d classes", y, classes)
		}
	}
}

// rows declares the fields of rows.N rows.
func (c *batchCodec) rows(l Layout, rows *Rows) {
	n, needs := rows.N, func(field Need) bool { return l.Need&field != 0 }
	if needs(NeedX) {
		c.features(l, &rows.X, n)
	}
	if needs(NeedS) {
		c.features(l, &rows.S, n)
	}
	if needs(needDegree) {
		c.ints(&rows.Degree, n)
		for _, d := range rows.Degree {
			if d < 0 {
				c.check(false, "a node of %d neighbours", d)
			}
		}
	}
	if needs(NeedLabelled) {
		c.floats(&rows.Labelled, n, l.Shape.Classes)
	}
	if needs(NeedSecond) {
		c.floats(&rows.Second, n, l.Shape.Classes)
	}
	if needs(NeedKinds) {
		c.floats(&rows.Kinds, n, l.Shape.Means*l.Shape.Classes)
	}
	if needs(NeedEmbedded) {
		c.floats(&rows.Embedded.Z, n, l.Shape.Embedding)
		c.temperatures(&rows.Embedded.Tau, n)
	}
}

func (c *batchCodec) temperatures(list *[]float64, n int) {
	if !c.reads {
		for _, tau := range *list {
			c.b = binary.LittleEndian.AppendUint64(c.b, math.Float64bits(tau))
		}
		return
	}
	b := c.take(n, 1, 8)
	*list = make([]float64, len(b)/8)
	for i := range *list {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
		if (*list)[i] = x; !(x > 0 && x <= math.MaxFloat64) {
			c.check(false, "a temperature is %v", x)
		}
	}
}

func (c *batchCodec) features(l Layout, f *Features, n int) {
	if !l.Sparse {
		c.floats(&f.Dense, n, l.Shape.Features)
		return
	}
	if !c.reads {
		c.appendSparse(f)
		return
	}
	var lengths []int32
	c.ints(&lengths, n)
	f.Start = make([]int, 1, len(lengths)+1)
	for _, length := range lengths {
		c.check(length >= 0 && int(length) <= l.Shape.Features, "%d entries of %d features", length, l.Shape.Features)
		f.Start = append(f.Start, f.Start[len(f.Start)-1]+int(length))
	}
	c.ints(&f.Index, f.Start[len(lengths)])
	if c.floats(&f.Value, len(f.Index), 1); c.err != nil {
		return
	}
	for i, from := range f.Start[:n] {
		last := int32(-1)
		for _, j := range f.Index[from:f.Start[i+1]] {
			if j <= last || int(j) >= l.Shape.Features {
				c.check(false, "feature %d after feature %d, of %d", j, last, l.Shape.Features)
			}
			last = j
		}
	}
}

func (c *batchCodec) appendSparse(f *Features) {
	if f.Start == nil { // no rows
		return
	}
	for i, end := range f.Start[1:] {
		length := end - f.Start[i]
		c.uint32(&length)
	}
	from, to := f.Start[0], f.Start[len(f.Start)-1]
	index, value := f.Index[from:to], f.Value[from:to]
	c.ints(&index, 0)
	c.floats(&value, 0, 0)
}
