package keys

import (
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// table has a row of words for each value of a key, found by its hash, at most max: the one that
// came longest ago makes room. A row begins with the rows that came before and after it, and the
// hash.
type table struct {
	rows             *kernel.Table[int64]
	max              int
	shards           [256][]int32 // by the hash's first byte: rows + 1 by hash, 0 for none; probed one after the other
	sizes            [256]int32   // how many rows a shard has
	oldest, youngest int32        // rows, or none
	frozen           snapshot.Freeze[int64]
}

// none is no row and no node.
const none = -1

const (
	links = iota // two int32: the row that came before, above the one that came after
	hash
	total // number of events
	fixed // words that every row has
)

func newTable(width, most int) *table {
	return &table{rows: kernel.NewTable[int64](width), max: most, oldest: none, youngest: none}
}

func (t *table) find(h int64) int32 {
	shard := t.shards[uint64(h)>>56]
	for i := int(h); len(shard) > 0; i++ {
		switch at := shard[i&(len(shard)-1)] - 1; {
		case at == none:
			return none
		case t.rows.Row(at)[hash] == h:
			return at
		}
	}
	return none
}

func (t *table) change(at int32) []int64 {
	row := t.rows.Row(at)
	t.frozen.Keep(at, row)
	return row
}

// touch makes the row of a hash, which find returned, the youngest, and returns it for writing: a new one is empty. dropped
// reports whether another made room for it.
func (t *table) touch(at int32, h int64) (row []int64, dropped bool) {
	switch {
	case at != none:
		t.unlink(at)
	case t.rows.Len() < t.max:
		at = int32(t.rows.Len())
		t.rows.Grow(1)
	default:
		at, dropped = t.oldest, true
		t.unlink(at)
		t.remove(at)
		clear(t.change(at))
	}
	row = t.change(at)
	if row[hash] != h {
		row[hash] = h
		t.enter(at)
	}
	t.append(at)
	return row, dropped
}

// enter puts a row with a new hash into its shard.
func (t *table) enter(at int32) {
	i := uint64(t.rows.Row(at)[hash]) >> 56
	if t.sizes[i]++; 4*int(t.sizes[i]) > 3*len(t.shards[i]) {
		old := t.shards[i]
		t.shards[i] = make([]int32, max(4, 2*len(old)))
		for _, row := range old {
			if row != 0 {
				t.place(row - 1)
			}
		}
	}
	t.place(at)
}

// place writes a row to the first free place from that of its hash on.
func (t *table) place(at int32) {
	h := t.rows.Row(at)[hash]
	shard := t.shards[uint64(h)>>56]
	i := int(h)
	for ; shard[i&(len(shard)-1)] != 0; i++ {
	}
	shard[i&(len(shard)-1)] = at + 1
}

// remove takes a row out of its shard, and closes the gap.
func (t *table) remove(at int32) {
	h := t.rows.Row(at)[hash]
	shard := t.shards[uint64(h)>>56]
	last := len(shard) - 1
	t.sizes[uint64(h)>>56]--
	gap := int(h) & last
	for ; shard[gap] != at+1; gap = (gap + 1) & last {
	}
	for i := (gap + 1) & last; shard[i] != 0; i = (i + 1) & last {
		home := int(t.rows.Row(shard[i] - 1)[hash]) & last
		if (i-home)&last >= (i-gap)&last { // it is found from its home on, so the gap may be its place
			shard[gap], gap = shard[i], i
		}
	}
	shard[gap] = 0
}

func pair(a, b int32) int64          { return int64(a)<<32 | int64(uint32(b)) }
func unpair(word int64) (a, b int32) { return int32(word >> 32), int32(uint32(word)) }

func (t *table) append(at int32) {
	t.rows.Row(at)[links] = pair(t.youngest, none)
	if t.youngest == none {
		t.oldest = at
	} else {
		setHalf(&t.change(t.youngest)[links], 0, uint32(at))
	}
	t.youngest = at
}

func (t *table) unlink(at int32) {
	before, after := unpair(t.change(at)[links])
	if before == none {
		t.oldest = after
	} else {
		setHalf(&t.change(before)[links], 0, uint32(after))
	}
	if after == none {
		t.youngest = before
	} else {
		setHalf(&t.change(after)[links], 1, uint32(before))
	}
}

// state declares the rows, the one that came longest ago first. check checks a row that was restored.
func (t *table) state(s *snapshot.Schema, name string, check func(row []int64) error) {
	n := s.Len(name, t.rows.Len(), t.max)
	s.Freeze(&t.frozen, n)
	next, room := t.oldest, make([]int64, t.rows.Width())
	now := func(at int32) []int64 { return t.rows.Row(at) }
	snapshot.GatherRows(s, name, t.rows, func() []int64 {
		copy(room, t.frozen.At(next, now))
		_, next = unpair(room[links])
		room[links] = 0
		return room
	}, nil, n, t.rows.Width())
	s.Check(func() error {
		for at := range int32(n) {
			row := t.rows.Row(at)
			if row[hash] == 0 || t.find(row[hash]) != none {
				return snapshot.Damaged("%s: a key has no hash, or is there twice", name)
			}
			if err := check(row); err != nil {
				return err
			}
			t.enter(at)
			t.append(at)
		}
		return nil
	})
}
