package kafka

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// packedBytes returns a batch whose records are packed, as they are.
func packedBytes(t *testing.T, codec compress.Compression, packed []byte) []byte {
	return altered(packedAt(t, 1, compress.None, Record{Value: []byte("a")}), func(b []byte) []byte {
		b[attributesAt+1] |= byte(codec)
		return append(b[:recordsAt], packed...)
	})
}

// zstdFrame returns a frame that declares a window of 2^log bytes and unpacks to blocks
// of 128 KiB of one letter each (RFC 8878, 3.1.1).
func zstdFrame(log, blocks int) []byte {
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log-10) << 3}
	for i := range blocks {
		header := uint32(128<<10)<<3 | 1<<1 // a run of one byte
		if i == blocks-1 {
			header |= 1 // the last
		}
		frame = append(frame, byte(header), byte(header>>8), byte(header>>16), 'a')
	}
	return frame
}

// TestLyingLengths: a batch of a few bytes that declares a large window, block or result
// takes no memory for it.
func TestLyingLengths(t *testing.T) {
	block := binary.AppendUvarint(nil, 4<<30-1) // the length that it claims to unpack to
	framed := func(claim uint32, block []byte) []byte {
		b := append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
		return append(binary.BigEndian.AppendUint32(b, claim), block...)
	}
	tooMuch := "unpack to more than 64 MB"
	for _, test := range []struct {
		name   string
		codec  compress.Compression
		packed []byte
		why    string
		most   uint64 // MiB of memory
	}{
		{"zstd with a window of 512 MiB", compress.Zstd, zstdFrame(29, 1), tooMuch, 1},
		{"zstd with a window of 2 TiB", compress.Zstd, zstdFrame(41, 1), tooMuch, 1},
		{"zstd with the largest window, and much in it", compress.Zstd, zstdFrame(27, 4000), tooMuch, 400},
		{"a window behind a frame", compress.Zstd, append(zstdFrame(20, 1), zstdFrame(30, 1)...), tooMuch, 10},
		{"snappy that claims 4 GiB", compress.Snappy, block, tooMuch, 1},
		{"snappy in frames that claims 4 GiB", compress.Snappy, framed(uint32(len(block)), block), tooMuch, 1},
		{"a frame that claims 4 GiB", compress.Snappy, framed(4<<30-1, block), tooMuch, 1},
		{"a frame that is cut", compress.Snappy, framed(1000, snappy.Encode(nil, []byte("hello"))), "not snappy", 1},
		{"a frame without a length", compress.Snappy, framed(0, nil)[:xerialHeader+2], "not snappy", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := packedBytes(t, test.codec, test.packed)
			b, ok := nextBatch(&raw)
			if !ok || b.damaged != "" {
				t.Fatalf("the batch is damaged: %s", b.damaged)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, why := b.unpack(&share{})
			runtime.ReadMemStats(&after)
			if !strings.Contains(why, test.why) {
				t.Errorf("%q, want %q", why, test.why)
			}
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > test.most {
				t.Errorf("%d MiB of memory for %d bytes, want at most %d", took, len(test.packed), test.most)
			}
		})
	}
}

// TestLargestWindow: what zstd packs at its highest level, with the largest window that
// its library reads by itself, is unpacked, and so is a stream of several frames.
func TestLargestWindow(t *testing.T) {
	record := packedAt(t, 1, compress.None, Record{Value: []byte(strings.Repeat("abc", 1000))})[recordsAt:]
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(maxWindow), zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{record[:1000], record[1000:]} {
		w.Reset(&packed)
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	raw := packedBytes(t, compress.Zstd, packed.Bytes())
	b, _ := nextBatch(&raw)
	if got, why := b.unpack(&share{}); !bytes.Equal(got, record) {
		t.Errorf("%d bytes (%s), want the %d that were packed", len(got), why, len(record))
	}
}
