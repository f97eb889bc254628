package kafka

import (
	"bytes"
	"encoding/binary"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// maxWindow bounds the memory behind the output that zstd refers back to, which a frame
// of a few bytes may declare. It is the default limit of the zstd library, so no producer
// exceeds it without being told to.
const maxWindow = 128 << 20

var zstdReaders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		panic(err) // the options are wrong
	}
	return d
}}

// zstdReader returns itself to the pool when it is closed.
type zstdReader struct{ *zstd.Decoder }

// Close implements [io.Closer].
func (r zstdReader) Close() error {
	err := r.Reset(nil) // lets go of what it read from
	zstdReaders.Put(r.Decoder)
	return err
}

// unpacker returns a reader of what is packed by the codec. It takes no more memory for a
// length that packed declares than maxWindow or maxUnpacked; tooLarge is true if it would
// have to.
func unpacker(codec compress.Compression, packed []byte) (r io.ReadCloser, tooLarge bool) {
	switch codec {
	case compress.Zstd:
		d := zstdReaders.Get().(*zstd.Decoder)
		_ = d.Reset(bytes.NewReader(packed)) // an error is that of the first Read, too
		return zstdReader{d}, false
	case compress.Snappy:
		if snappyTooLarge(packed) {
			return nil, true
		}
	}
	return codec.Codec().NewReader(bytes.NewReader(packed)), false
}

// xerialMagic begins the framing of snappy blocks by the Java library: the magic, two
// versions of 4 bytes each, and then blocks with a length of 4 bytes before each.
const (
	xerialMagic  = "\x82SNAPPY\x00"
	xerialHeader = len(xerialMagic) + 8
)

// snappyTooLarge reports whether a block claims to have, or to unpack to, more than
// maxUnpacked: kafka-go takes memory for both before it looks. A block that claims more
// than there is, is left for the decoder to refuse.
func snappyTooLarge(packed []byte) bool {
	if !bytes.HasPrefix(packed, []byte(xerialMagic)) {
		return blockTooLarge(packed)
	}
	for rest := packed[min(xerialHeader, len(packed)):]; len(rest) >= 4; {
		claim := int64(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		n := min(claim, int64(len(rest)))
		if claim > maxUnpacked || blockTooLarge(rest[:n]) {
			return true
		}
		rest = rest[n:]
	}
	return false
}

// blockTooLarge reports whether a block of snappy claims to unpack to more than
// maxUnpacked. A claim that cannot be read is left for the decoder to refuse.
func blockTooLarge(block []byte) bool {
	n, err := snappy.DecodedLen(block)
	return err == nil && n > maxUnpacked
}
