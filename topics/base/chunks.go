package base

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"slices"
)

// chunk is some bytes of a file, and where they are stored.
type chunk struct {
	sum    sum
	part   int32 // index in the base's parts
	offset int32 // there
	length int32
}

// sum is the first half of a SHA-256: nobody finds other bytes for one, nor two of the same.
type sum [sha256.Size / 2]byte

func sumOf(b []byte) sum {
	all := sha256.Sum256(b)
	return sum(all[:len(sum{})])
}

// A chunk ends where the bytes before its end say so, and not at a multiple of anything. So where
// bytes are put in or taken out, the chunks behind them are the same as before. The more bytes there are,
// the longer are the chunks, so that there are about mostChunks at most, of
// which a writer has a map in memory; from fewBits on, as shorter ones would take more to list than they spare.
const (
	fewBits    = 10
	mostChunks = 1 << 21
)

// chunkBits returns the logarithm of the mean length of the chunks of so many bytes.
func chunkBits(total int64) int { return max(fewBits, bits.Len64(uint64(total/mostChunks))) }

// split calls f with each chunk of r, valid during the call. The chunks depend on the bytes alone.
func split(r io.Reader, bits int, f func([]byte) error) error {
	most := 1 << (bits + 2)
	in := bufio.NewReaderSize(r, max(1<<20, 2*most))
	tensors := tensorsOf(in)
	for at := int64(0); ; {
		b, err := in.Peek(most)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(b) == 0 {
			return nil
		}
		for len(tensors) > 1 && tensors[0].Place[1] <= at {
			tensors = tensors[1:]
		}
		t := &tensors[0]
		if left := t.Place[1] - at; left > 0 {
			b = b[:min(int64(len(b)), left)]
		}
		n := t.cut(b, at-t.Place[0], bits)
		if err := f(b[:n]); err != nil {
			return err
		}
		if _, err := in.Discard(n); err != nil {
			return err
		}
		at += int64(n)
	}
}

// tensor is one of a safetensors file, or what stands before them, or a file of another kind.
type tensor struct {
	DType string
	Shape []int64
	Place [2]int64 `json:"data_offsets"`
}

// tensorsOf returns the tensors of the file that begins with what in has, in its order, behind one for the header.
func tensorsOf(in *bufio.Reader) []tensor {
	list := make([]tensor, 1)
	length, err := in.Peek(8)
	if err != nil || binary.LittleEndian.Uint64(length) > uint64(in.Size()-8) {
		return list
	}
	begin := 8 + int(binary.LittleEndian.Uint64(length))
	header, _ := in.Peek(begin)
	var tensors map[string]json.RawMessage
	if json.Unmarshal(header[8:], &tensors) != nil {
		return list
	}
	list[0].Place[1] = int64(begin)
	for _, text := range tensors {
		var t tensor
		if json.Unmarshal(text, &t) == nil && t.Place[0] < t.Place[1] {
			t.Place[0] += int64(begin)
			t.Place[1] += int64(begin)
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(x, y tensor) int { return cmp.Compare(x.Place[1], y.Place[1]) })
	return list
}

// cut returns how long the chunk is that begins with b, at an offset of the tensor. Rows are cut alike, and the last third of each
// apart: of GraphSAGE's, it alone changes when a neighbour comes. Integers are cut finer, since lists of neighbours grow
// here and there.
func (t *tensor) cut(b []byte, at int64, bits int) int {
	if len(t.Shape) == 2 && t.Shape[0] > 0 {
		if row := (t.Place[1] - t.Place[0]) / t.Shape[0]; 1<<(bits-1) <= row && row <= 1<<(bits+2) {
			end := 2 * row / 3
			if at %= row; at >= end {
				end = row
			}
			return min(len(b), int(end-at))
		}
	}
	if len(t.Shape) == 1 && t.DType == "I32" {
		bits -= 2
	}
	var h uint64
	for i := 1 << (bits - 2); i < min(len(b), 1<<(bits+2)); i++ {
		if h = h<<1 + gear[b[i]]; h>>(64-bits) == 0 {
			return i + 1
		}
	}
	return min(len(b), 1<<(bits+2))
}

// gear has a random number for each value of a byte. A hash is the sum of those of the last 64 bytes, each
// shifted by how far back it is (Xia and others, Ddelta, 2014).
var gear = func() (g [256]uint64) {
	x := uint64(0)
	for i := range g { // SplitMix64
		x += 0x9e3779b97f4a7c15
		z := x
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		g[i] = z ^ z>>31
	}
	return g
}()
