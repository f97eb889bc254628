package parquet

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

// checkUnpacked returns an error if a packed page unpacks to more bytes than its header
// says. The library unpacks pages whatever their size.
func checkUnpacked(codec format.CompressionCodec, packed []byte, size int64) error {
	var r io.Reader
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(packed)
		if err == nil && int64(n) > size {
			err = errLarger
		}
		return err
	case format.Gzip:
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return err
		}
		r = z
	case format.Zstd:
		z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(uint64(max(size, 1<<20))))
		if err != nil {
			return err
		}
		defer z.Close()
		r = z
	case format.Brotli:
		r = brotli.NewReader(bytes.NewReader(packed))
	default:
		return fmt.Errorf("packed with %v: write the file with snappy, gzip, zstd or no compression", codec)
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, size+1))
	if err == nil && n > size {
		err = errLarger
	}
	return err
}

var errLarger = errors.New("unpacks to more than it says")
