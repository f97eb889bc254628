package serve

import (
	"fmt"
	"iter"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/store"
)

// Pending keeps predictions as they were served, until their label comes or they expire:
// there are at most bound, and the oldest makes room for a new one.
//
// A prediction has an entry in the queue, of 48 bytes, and a row of numbers, which is in
// memory or, if the prediction is one of those that have waited longest, in a block; see
// [rows]. Observers have tables of their own, by slot.
//
// Which nodes are pending depends on nothing that was served. A node is put when its window
// enters, and has no row until that is served.
//
// A prediction that is removed keeps its slot and its row until it is released, at the end of the
// window: its node may be about to be served, and its label is about to be scored.
//
// Invariant: the predictions with a row in memory that are not removed are those from inMemory
// on, in the order of the queue, that have a row.
type Pending struct {
	Nodes    *store.Queue[int32, Served] // by node number
	Bound    int                         // of nodes
	rows     *rows
	inMemory int32 // slot of the oldest prediction whose row is in memory, none if there is none

	// Of predictions that are removed and not released:
	removed  []int32         // their slots
	loose    int             // number of those whose row is in memory
	inBlocks map[place]int32 // the slots of those whose row is in a block
}

// Served is a prediction without its row.
type Served struct {
	window  int64
	Time    int64 // event time of the arrival
	tau     float64
	row     place
	Head    uint8 // the head that served, by place
	removed bool
}

// PendingConfig bounds what waits.
type PendingConfig struct {
	Max    int    // predictions
	Memory int64  // bytes of their rows in memory, others are in blocks; 0 for all in memory
	Blocks Blocks // nil if all is in memory
}

// NewPending returns an empty store of embeddings of dim numbers and outputs of width.
func NewPending(dim, width int, cfg PendingConfig) *Pending {
	return &Pending{
		Nodes: store.NewNodeQueue[Served](), Bound: cfg.Max, rows: newRows(dim, width, cfg), inMemory: none,
		inBlocks: make(map[place]int32),
	}
}

// Err returns the first error of the blocks, nil for none. After an error rows are lost.
func (p *Pending) Err() error {
	if err := p.rows.err; err != nil {
		return fmt.Errorf("predictions that wait for their label: %w; start the worker again: it goes on from a "+
			"checkpoint that is whole, or replays the ledger", err)
	}
	return nil
}

// Close frees all blocks.
func (p *Pending) Close() { p.rows.close() }

// AppendBlocks appends the numbers of the blocks, as the store has them.
func (p *Pending) AppendBlocks(list []int64) []int64 { return p.rows.numbers(list) }

// Reserve preallocates the empty tables for this many predictions, at most bound.
func (p *Pending) Reserve(nodes int) { p.rows.reserve(min(nodes, p.Bound)) }

// all are the nodes that are pending, in the order of a restored snapshot.
func (p *Pending) all() iter.Seq[int32] {
	return func(yield func(v int32) bool) {
		for i := range int32(p.Nodes.Len()) {
			if !yield(p.Nodes.At(i).Key) {
				return
			}
		}
	}
}

// Put keeps a place for the prediction of node v, and returns its slot, and the node whose older
// one expired to make room, if one did.
func (p *Pending) Put(v int32, s Served) (slot, old int32, expired bool) {
	if p.Nodes.Len() == p.Bound {
		old, expired = p.Nodes.At(p.Nodes.Oldest()).Key, true
		p.Drop(old)
	}
	s.row = unserved
	return p.Nodes.Put(v, s), old, expired
}

// fill keeps what was served for the node in a slot that put returned, which must not be released.
func (p *Pending) fill(slot int32, tau float64, head uint8, z, outputs []float32) {
	if p.rows.inMemory()-p.loose >= p.rows.most {
		p.spill()
	}
	s := &p.Nodes.Change(slot).Value
	s.tau, s.Head, s.row = tau, head, p.rows.add(z, outputs)
	if s.removed {
		p.loose++
		return
	}
	if p.inMemory == none {
		p.inMemory = slot
	}
}

// nextRow returns the slot of the first prediction from a slot on that has a row, or none.
func (p *Pending) nextRow(slot int32) int32 {
	for slot != none {
		e := p.Nodes.At(slot)
		if e.Value.row != unserved {
			break
		}
		slot = e.Next
	}
	return slot
}

// at returns what was served for the node in a slot. The slices are valid until the next
// call of at or put.
func (p *Pending) at(slot int32) (s *Served, z, outputs []float32) {
	e := p.Nodes.At(slot)
	z, outputs = p.rows.at(e.Value.row, e.Key)
	return &e.Value, z, outputs
}

// Waits reports whether node v is pending.
func (p *Pending) Waits(v int32) bool { return p.Nodes.Get(v) != nil }

// Drop makes node v not pending any more, if it is.
func (p *Pending) Drop(v int32) {
	slot, ok := p.Nodes.SlotOf(v)
	if !ok {
		return
	}
	if slot == p.inMemory {
		p.inMemory = p.nextRow(p.Nodes.At(slot).Next)
	}
	p.Nodes.Detach(v)
	s := &p.Nodes.Change(slot).Value
	s.removed = true
	switch {
	case s.row == unserved:
	case s.row >= 0:
		p.loose++
	default:
		p.inBlocks[s.row] = slot
	}
	p.removed = append(p.removed, slot)
}

// Release forgets the predictions that were removed.
func (p *Pending) Release() {
	for _, slot := range p.removed {
		switch row := p.Nodes.At(slot).Value.row; {
		case row == unserved:
		case row >= 0:
			p.loose--
			p.rows.free(row)
		default:
			delete(p.inBlocks, row)
			p.rows.free(row)
		}
		p.Nodes.Release(slot)
	}
	p.removed = p.removed[:0]
}

// prefetch announces that what was served for node v will be asked for soon.
func (p *Pending) prefetch(v int32) {
	if s := p.Nodes.Get(v); s != nil {
		p.rows.prefetch(s.row)
	}
}

// spill moves a block of rows to the store: those that have been in memory longest. Before
// them come the rows of blocks that have become sparse, in up to half of the new block. So
// a row is written again at most as often as another one is freed, and the blocks of a
// stream that goes on are half full or more, taken together.
func (p *Pending) spill() {
	r := p.rows
	to, n := r.newBlock(), int32(0)
	b := r.buffer[:0]
	for {
		from, old, ok := r.nextSparse(r.perBlock/2 - n)
		if !ok {
			break
		}
		for i := range r.perBlock {
			row, at := r.rowIn(old, i), r.placeOf(from, i)
			if slot, ok := p.slotAt(nodeOf(row), at); ok {
				s := &p.Nodes.Change(slot).Value
				s.row = r.placeOf(to, n)
				if s.removed {
					delete(p.inBlocks, at)
					p.inBlocks[s.row] = slot
				}
				b = append(b, row...)
				n++
			}
		}
		r.release(from)
	}
	for ; n < r.perBlock && p.inMemory != none; n++ {
		e := p.Nodes.Change(p.inMemory)
		b = r.appendRow(b, e.Key, e.Value.row)
		r.free(e.Value.row)
		e.Value.row = r.placeOf(to, n)
		p.inMemory = p.nextRow(e.Next)
	}
	r.write(to, b)
	r.buffer = b
}

// slotAt returns the slot of the prediction whose row is at a place in a block, where it has the
// number v. There is none if it was released.
func (p *Pending) slotAt(v int32, there place) (slot int32, ok bool) {
	if slot, ok = p.Nodes.SlotOf(v); ok && p.Nodes.At(slot).Value.row == there {
		return slot, true
	}
	slot, ok = p.inBlocks[there]
	return slot, ok
}

// state declares the predictions. When restoring, nodes must be below n, windows before the
// given one, and temperatures those that tau gives for the embeddings.
func (p *Pending) state(s *snapshot.Schema, n int, window int64, by heads.Serving, classes int, tau func(z []float32) float64) {
	store.DeclareNodes(s, "pending.node", p.Nodes, p.Bound, n)
	store.DeclareField(s, "pending.window", p.Nodes, func(x *Served) *int64 { return &x.window })
	store.DeclareField(s, "pending.time", p.Nodes, func(x *Served) *int64 { return &x.Time })
	store.DeclareField(s, "pending.temperature", p.Nodes, func(x *Served) *float64 { return &x.tau })
	count := p.Nodes.Len() // restored already
	inBlocks := s.Len("pending.place", count-p.rows.inMemory(), count)
	if inBlocks > 0 {
		next := p.Nodes.Walk()
		places := snapshot.Column(s, "pending.place", func() int32 {
			_, e := next()
			return int32(e.Value.row)
		}, inBlocks)
		s.Check(func() error {
			for i, x := range places {
				if x >= 0 || place(x) == unserved {
					return snapshot.Damaged("a row in a block has the place %d", x)
				}
				p.Nodes.At(int32(i)).Value.row = place(x)
			}
			return nil
		})
		p.rows.State(s)
	}
	if !s.Saving() && inBlocks < count {
		p.inMemory = int32(inBlocks)
		for i := range int32(count - inBlocks) {
			p.Nodes.At(p.inMemory + i).Value.row = place(i)
		}
	}
	inMemory := count - inBlocks
	store.DeclareRows(s, "pending.embedding", &p.rows.z, p.walkInMemory(), inMemory, heads.IsFinite, p.rows.z.Width())
	width := p.rows.outputs.Width()
	each := classes
	if width%classes != 0 {
		each = width // not all are of a class
	}
	store.DeclareRows(s, by.OutputsName(), &p.rows.outputs, p.walkInMemory(), inMemory, by.Valid, width/each, each)
	s.Check(func() error {
		for i := range int32(count) {
			e := p.Nodes.At(i)
			if x := e.Value; x.window < 0 || x.window >= window {
				return snapshot.Damaged("node %d was served in window %d, the next is %d", e.Key, x.window, window)
			}
			if e.Value.row < 0 {
				continue
			}
			if err := p.checkTemperature(i, p.rows.z.Row(int32(e.Value.row)), tau); err != nil {
				return err
			}
		}
		return p.checkBlocks(inBlocks, by.Valid, tau)
	})
}

// DeclareHeads declares the place of the head that served each prediction, at most last, with a name.
func (p *Pending) DeclareHeads(s *snapshot.Schema, name string, last uint8) {
	store.DeclareField(s, name, p.Nodes, func(x *Served) *uint8 { return &x.Head })
	s.Check(func() error {
		for i := range int32(p.Nodes.Len()) {
			if by := p.Nodes.At(i).Value.Head; by > last {
				return snapshot.Damaged("a node was served by head %d", by)
			}
		}
		return nil
	})
}

// walkInMemory returns a function that returns the next row in memory at each call, in the
// order of the queue as it is now.
func (p *Pending) walkInMemory() func() (row int32) {
	next := p.Nodes.WalkFrom(p.inMemory)
	return func() int32 {
		_, e := next()
		return int32(e.Value.row)
	}
}

// checkTemperature checks that a restored prediction's temperature is that of its
// embedding.
func (p *Pending) checkTemperature(slot int32, z []float32, tau func(z []float32) float64) error {
	e := p.Nodes.At(slot)
	if want := tau(z); e.Value.tau != want {
		return snapshot.Damaged("node %d was served at temperature %v, want %v", e.Key, e.Value.tau, want)
	}
	return nil
}

// checkBlocks claims the restored blocks, and checks that they have a valid row for each of
// the predictions in them.
func (p *Pending) checkBlocks(predictions int, valid func(output float32) bool, tau func(z []float32) float64) error {
	found := 0
	err := p.rows.claim(func(v int32, at place, z, outputs []float32) (bool, error) {
		slot, ok := p.slotAt(v, at)
		if !ok {
			return false, nil
		}
		found++
		for _, x := range z {
			if !heads.IsFinite(x) {
				return false, snapshot.Damaged("the embedding of node %d has an element %v", v, x)
			}
		}
		for _, x := range outputs {
			if !valid(x) {
				return false, snapshot.Damaged("what was served for node %d has an element %v", v, x)
			}
		}
		return true, p.checkTemperature(slot, z, tau)
	})
	if err == nil && found != predictions {
		err = snapshot.Damaged("the blocks have %d of %d predictions", found, predictions)
	}
	return err
}
