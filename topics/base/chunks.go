package base

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"
	"math/bits"
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
	least, most := 1<<(bits-2), 1<<(bits+2)
	in := bufio.NewReaderSize(r, max(1<<20, 2*most))
	for {
		b, err := in.Peek(most)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(b) == 0 {
			return nil
		}
		n := len(b)
		var h uint64
		for i := least; i < len(b); i++ {
			if h = h<<1 + gear[b[i]]; h>>(64-bits) == 0 {
				n = i + 1
				break
			}
		}
		if err := f(b[:n]); err != nil {
			return err
		}
		if _, err := in.Discard(n); err != nil {
			return err
		}
	}
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
