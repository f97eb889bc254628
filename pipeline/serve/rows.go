package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/store"
)

// rows has a row for each pending prediction: its embedding and the serving's outputs, as
// served. There are at most `most` in memory. Others are in immutable blocks of perBlock
// rows each, where a row begins with the number of its node and ends with a checksum. In a block,
// the rows of predictions that are not pending any more stay until all are, or until pending.spill
// moves the others to a new block.
type rows struct {
	z, outputs store.SlotTable[float32] // the rows in memory
	vacant     []int32                  // those of them that are not used
	most       int

	store    Blocks
	perBlock int32
	blocks   []block
	unused   []int32 // elements of blocks that have no block
	sparse   []int32 // elements of blocks that became half empty; they may be released since
	err      error   // the first one of store

	buffer []byte    // the block that is being written
	old    []byte    // a block that was read
	bytes  []byte    // a row that was read
	floats []float32 // its numbers
}

// place says where a row is: its number in memory, or ^(block·perBlock + row) in a block.
type place int32

// unserved is the place of a prediction that has no row yet, see [Pending]. It is no place in a block:
// blocks have fewer than 2³¹-1 rows.
const unserved = place(math.MinInt32)

// block is a block of rows.
type block struct {
	number int64  // in the store, none for no block
	used   int32  // rows of pending predictions
	sum    uint32 // CRC-32C of its rows' checksums
}

// blockBytes is the size of a block, or somewhat less: a few milliseconds to write, and few
// enough files for the predictions of months. If there is little memory for rows, a block is
// an eighth of it, since two are in memory while rows are moved.
const (
	blockBytes    = 8 << 20
	maxBlockBytes = 8 * blockBytes // of a restored block, which another program may have written
)

func newRows(dim, width int, cfg PendingConfig) *rows {
	r := &rows{
		z: store.NewSlotTable[float32](dim), outputs: store.NewSlotTable[float32](width), most: math.MaxInt,
		store: noBlocks{}, floats: make([]float32, dim+width),
	}
	r.bytes = make([]byte, 4*(1+dim+width+1))
	if cfg.Memory > 0 {
		size := int64(len(r.bytes))
		r.store = cfg.Blocks
		r.setPerBlock(max(min(blockBytes, cfg.Memory/8)/size, 1))
		r.most = int(max(cfg.Memory/size-2*int64(r.perBlock), int64(r.perBlock)))
	}
	return r
}

// setPerBlock sets the rows of a block. At least that many must fit into memory.
func (r *rows) setPerBlock(n int64) {
	r.perBlock = int32(n)
	r.most = max(r.most, int(n))
}

func (r *rows) reserve(n int) {
	r.z.Reserve(min(n, r.most))
	r.outputs.Reserve(min(n, r.most))
}

// inMemory returns the number of rows in memory.
func (r *rows) inMemory() int { return r.z.Len() - len(r.vacant) }

// add stores a row in memory.
func (r *rows) add(z, outputs []float32) place {
	i := int32(r.z.Len())
	if last := len(r.vacant) - 1; last >= 0 {
		i, r.vacant = r.vacant[last], r.vacant[:last]
	}
	r.z.Set(i, z)
	r.outputs.Set(i, outputs)
	return place(i)
}

// at returns the row of node v, valid until the next call of at or add.
func (r *rows) at(p place, v int32) (z, outputs []float32) {
	if p >= 0 {
		return r.z.Row(int32(p)), r.outputs.Row(int32(p))
	}
	b, i := r.split(p)
	err := r.read(b, r.bytes, i*int64(len(r.bytes)), func(row []byte) bool { return nodeOf(row) == v && isWhole(row) })
	if err != nil {
		r.fail(err)
		clear(r.bytes)
	}
	return r.decode(r.bytes)
}

// sumBytes is the size of a row's checksum, its CRC-32C.
const sumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// isWhole reports whether a row has its checksum.
func isWhole(row []byte) bool {
	end := len(row) - sumBytes
	return crc32.Checksum(row[:end], castagnoli) == binary.LittleEndian.Uint32(row[end:])
}

// sumOf returns the checksum of a block's rows, which costs less than one of their bytes.
func (r *rows) sumOf(block []byte) (sum uint32) {
	for end := len(r.bytes); end <= len(block); end += len(r.bytes) {
		sum = crc32.Update(sum, castagnoli, block[end-sumBytes:end])
	}
	return sum
}

// read fills p with the bytes of a block from an offset on, which must be whole.
func (r *rows) read(b int32, p []byte, offset int64, whole func([]byte) bool) error {
	number := r.blocks[b].number
	err := r.store.ReadAt(number, p, offset)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || err == nil && !whole(p) {
		err = errors.New("it is not what was written: check the disk")
	}
	if err != nil {
		err = fmt.Errorf("%s from byte %d on: %w", r.store.Name(number), offset, err)
	}
	return err
}

// decode returns the numbers of a row of a block, valid until the next call.
func (r *rows) decode(row []byte) (z, outputs []float32) {
	safetensors.Fill(r.floats, row[4:])
	dim := r.z.Width()
	return r.floats[:dim], r.floats[dim:]
}

// free is called when the row's prediction is not pending any more.
func (r *rows) free(p place) {
	if p >= 0 {
		r.vacant = append(r.vacant, int32(p))
		return
	}
	i, _ := r.split(p)
	b := &r.blocks[i]
	b.used--
	switch b.used {
	case 0:
		r.release(i)
	case r.perBlock / 2:
		r.sparse = append(r.sparse, i)
	}
}

// prefetch announces a call of at.
func (r *rows) prefetch(p place) {
	if p < 0 {
		b, i := r.split(p)
		r.store.Prefetch(r.blocks[b].number, i*int64(len(r.bytes)), len(r.bytes))
	}
}

// fail records an error of the store, which is not used any more. State is lost: see
// [pipeline.Engine.Err].
func (r *rows) fail(err error) {
	if r.err == nil {
		r.err, r.store = err, noBlocks{}
	}
}

// The rest is about blocks, which pending.spill moves rows to.

func (r *rows) placeOf(block, row int32) place { return ^place(block*r.perBlock + row) }

func (r *rows) split(p place) (block int32, row int64) {
	return int32(^p) / r.perBlock, int64(int32(^p) % r.perBlock)
}

// newBlock returns the number of a block for [rows.write].
func (r *rows) newBlock() int32 {
	if last := len(r.unused) - 1; last >= 0 {
		b := r.unused[last]
		r.unused = r.unused[:last]
		return b
	}
	r.blocks = append(r.blocks, block{number: none})
	return int32(len(r.blocks) - 1)
}

// appendRow appends a row in memory, with the number of its node, as it is in a block.
func (r *rows) appendRow(b []byte, v int32, p place) []byte {
	from := len(b)
	b = binary.LittleEndian.AppendUint32(b, uint32(v))
	b = safetensors.Append(b, r.z.Row(int32(p))...)
	b = safetensors.Append(b, r.outputs.Row(int32(p))...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[from:], castagnoli))
}

// rowIn returns a row of a block's bytes.
func (r *rows) rowIn(block []byte, i int32) []byte {
	return block[int(i)*len(r.bytes):][:len(r.bytes)]
}

// nodeOf returns the node of a row of a block.
func nodeOf(row []byte) int32 { return int32(binary.LittleEndian.Uint32(row)) }

// write writes a block that is full of rows in use.
func (r *rows) write(b int32, bytes []byte) {
	number, err := r.store.Write(bytes)
	if err != nil {
		r.fail(err)
		number = none
	}
	r.blocks[b] = block{number: number, used: r.perBlock, sum: r.sumOf(bytes)}
}

// nextSparse returns a sparse block, if there is one whose rows in use are at most room,
// with its bytes, which are valid until the next call.
func (r *rows) nextSparse(room int32) (b int32, bytes []byte, ok bool) {
	for last := len(r.sparse) - 1; last >= 0; last-- {
		b := r.sparse[last]
		x := r.blocks[b]
		if x.number == none || x.used > r.perBlock/2 { // released meanwhile, and perhaps used again
			r.sparse = r.sparse[:last]
			continue
		}
		if x.used > room {
			break
		}
		r.sparse = r.sparse[:last]
		if err := r.readAll(b); err != nil {
			r.fail(err)
			clear(r.old)
		}
		return b, r.old, true
	}
	return none, nil, false
}

// readAll reads a whole block into r.old.
func (r *rows) readAll(b int32) error {
	r.old = kernel.Resize(r.old, int(r.perBlock)*len(r.bytes))
	return r.read(b, r.old, 0, func(all []byte) bool {
		for i := range r.perBlock {
			if !isWhole(r.rowIn(all, i)) {
				return false
			}
		}
		return r.sumOf(all) == r.blocks[b].sum
	})
}

// release frees a block.
func (r *rows) release(b int32) {
	r.store.Free(r.blocks[b].number)
	r.blocks[b] = block{number: none}
	r.unused = append(r.unused, b)
}

// close frees all blocks.
func (r *rows) close() {
	for b := range r.blocks {
		if r.blocks[b].number != none {
			r.release(int32(b))
		}
	}
}

// numbers appends the numbers of the blocks, as the store has them.
func (r *rows) numbers(list []int64) []int64 {
	for _, b := range r.blocks {
		if b.number != none {
			list = append(list, b.number)
		}
	}
	return list
}

// State declares the blocks, without their rows.
func (r *rows) State(s *snapshot.Schema) {
	const width = 2
	perBlock := int64(r.perBlock)
	snapshot.Value(s, "pending.perBlock", &perBlock)
	var list []int64
	for _, b := range r.blocks {
		list = append(list, b.number, int64(b.sum))
	}
	list = snapshot.Array(s, "pending.blocks", list, s.Len("pending.blocks", len(r.blocks), math.MaxInt32), width)
	s.Check(func() error {
		n := len(list) / width
		if perBlock < 1 || perBlock > maxBlockBytes/int64(len(r.bytes)) || int64(n)*perBlock > math.MaxInt32 {
			return snapshot.Damaged("%d blocks of %d rows", n, perBlock)
		}
		r.setPerBlock(perBlock)
		for i := range int32(n) {
			number, sum := list[width*i], list[width*i+1]
			if number < none || sum != int64(uint32(sum)) {
				return snapshot.Damaged("block %d with checksum %d", number, sum)
			}
			r.blocks = append(r.blocks, block{number: number, sum: uint32(sum)})
			if number == none {
				r.unused = append(r.unused, i)
			}
		}
		return nil
	})
}

// claim claims the restored blocks. It verifies their checksums and calls each for all of
// their rows, which reports whether the row is that of a pending prediction.
func (r *rows) claim(each func(v int32, at place, z, outputs []float32) (bool, error)) error {
	for i := range r.blocks {
		b := &r.blocks[i]
		if b.number == none {
			continue
		}
		n, err := r.store.Claim(b.number)
		if err != nil {
			return err
		}
		if want := int64(r.perBlock) * int64(len(r.bytes)); n != want {
			return snapshot.Damaged("%s has %d bytes, and %d were written: check the disk", r.store.Name(b.number), n, want)
		}
		if err := r.readAll(int32(i)); err != nil {
			return err
		}
		for k := range r.perBlock {
			row := r.rowIn(r.old, k)
			z, outputs := r.decode(row)
			ok, err := each(nodeOf(row), r.placeOf(int32(i), k), z, outputs)
			if err != nil {
				return err
			}
			if ok {
				b.used++
			}
		}
		if b.used == 0 {
			return snapshot.Damaged("block %d has no row that is needed", b.number)
		}
		if b.used <= r.perBlock/2 {
			r.sparse = append(r.sparse, int32(i))
		}
	}
	return nil
}
