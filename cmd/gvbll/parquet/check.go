package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// budget is the memory that decoding a file may take, in bytes: the same as package
// dataset allows a data set of that size.
type budget struct{ limit, left int64 }

func newBudget(size int64) *budget {
	limit := 64*size + 16<<20
	return &budget{limit: limit, left: limit}
}

// claim takes bytes for n elements from the budget.
func (b *budget) claim(what string, n, bytes int64) error {
	if n < 0 || n > b.left/bytes {
		return fmt.Errorf("it declares %d %s, more than a file of its size may have", n, what)
	}
	b.left -= n * bytes
	return nil
}

// What an element takes in memory, at most.
const (
	structureBytes = 1 << 10 // of the footer, such as a column of a row group
	itemBytes      = 16      // of a list of numbers or texts in the footer
	valueBytes     = 8       // of a page, besides its bytes
)

// maxGroups bounds the groups of a schema, and so how deep it is nested.
const maxGroups = 10_000

// checkFooter compares the sizes in a file's footer with the file's size.
func checkFooter(file io.ReaderAt, size int64) error {
	// "PAR1", and at the end the footer, its length in 4 bytes and "PAR1" again.
	var end [8]byte
	if size < 12 {
		return fmt.Errorf("not a Parquet file: it has %d bytes", size)
	}
	if _, err := file.ReadAt(end[:], size-8); err != nil {
		return err
	}
	if string(end[4:]) != "PAR1" {
		var begin [23]byte
		if file.ReadAt(begin[:], 0); string(begin[:]) == "version https://git-lfs" {
			return errors.New("is a pointer of Git LFS, and not the file: fetch it with 'git lfs pull'")
		}
		return fmt.Errorf("not a Parquet file: it ends with %.4q", end[4:])
	}
	length := int64(binary.LittleEndian.Uint32(end[:]))
	if length > size-12 {
		return fmt.Errorf("its footer has %d bytes, the file %d", length, size)
	}
	b := newBudget(size)
	if err := b.claim("bytes in its footer", length, 2); err != nil {
		return err
	}
	footer := make([]byte, length)
	if _, err := file.ReadAt(footer, size-8-length); err != nil {
		return err
	}
	if _, err := walk(footer, b); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	var meta struct {
		Schema []format.SchemaElement `thrift:"2,required"`
	}
	if err := decode(footer, &meta); err != nil {
		return fmt.Errorf("its footer: %w", err)
	}
	groups := 0
	for i := range meta.Schema {
		if meta.Schema[i].NumChildren.V > 0 {
			groups++
		}
	}
	if groups > maxGroups {
		return fmt.Errorf("its footer: %d groups in the schema, want at most %d", groups, maxGroups)
	}
	return nil
}

// decode decodes a structure that has been walked over.
func decode(b []byte, to any) (err error) {
	defer damaged(&err)
	if err = thrift.Unmarshal(new(thrift.CompactProtocol), b, to); err != nil {
		err = errors.New(brief(err))
	}
	return err
}

// maxHeader bounds the header of a page. Writers leave out statistics that are long.
const maxHeader = 64 << 10

// checkPages compares the sizes in the headers of a row group's pages with the file's
// size. While a group is read, one page of each column is in memory.
func checkPages(file io.ReaderAt, size int64, group *format.RowGroup) error {
	b := newBudget(size)
	for i := range group.Columns {
		m := &group.Columns[i].MetaData
		start, length := m.DataPageOffset, m.TotalCompressedSize
		if m.DictionaryPageOffset != 0 {
			start = m.DictionaryPageOffset
		}
		if start < 0 || length < 0 || start > size || length > size-start {
			return fmt.Errorf("a column of %d bytes at %d, the file has %d", length, start, size)
		}
		if err := checkColumn(io.NewSectionReader(file, start, length), m.Codec, b); err != nil {
			return fmt.Errorf("column %.100q: %w", strings.Join(m.PathInSchema, "."), err)
		}
	}
	return nil
}

// checkColumn compares the headers of a column's pages with the bytes that there are.
func checkColumn(pages *io.SectionReader, codec format.CompressionCodec, b *budget) error {
	in := bufio.NewReaderSize(pages, maxHeader)
	var values int32 // of the largest page
	var bytes int64
	for left := pages.Size(); left > 0; {
		head, err := in.Peek(int(min(left, maxHeader)))
		if err != nil {
			return err
		}
		n, err := walk(head, b)
		var p format.PageHeader
		if err == nil {
			err = decode(head[:n], &p)
		}
		if err != nil {
			return fmt.Errorf("the header of a page: %w", err)
		}
		left -= int64(n)
		packed, second := int64(p.CompressedPageSize), &p.DataPageHeaderV2.V
		levels := int64(second.DefinitionLevelsByteLength) + int64(second.RepetitionLevelsByteLength) // before what is packed
		if packed < 0 || packed > left || levels < 0 || levels > packed {
			return fmt.Errorf("a page of %d bytes, %d of them levels, and the column has %d more", packed, levels, left)
		}
		left -= packed
		values = max(values, p.DataPageHeader.V.NumValues, p.DictionaryPageHeader.V.NumValues, second.NumValues)
		bytes = max(bytes, packed, int64(p.UncompressedPageSize))
		if bytes > b.left {
			return b.claim("bytes in a page", bytes, 1)
		}
		if _, err := in.Discard(n); err != nil {
			return err
		}
		body := make([]byte, packed)
		if _, err := io.ReadFull(in, body); err != nil {
			return err
		}
		if codec == format.Uncompressed || second.IsCompressed.Valid && !second.IsCompressed.V {
			continue
		}
		if err := checkUnpacked(codec, body[levels:], int64(p.UncompressedPageSize)); err != nil {
			return fmt.Errorf("a page: %s", brief(err))
		}
	}
	if err := b.claim("bytes in a page", bytes, 2); err != nil {
		return err
	}
	return b.claim("values in a page", int64(values), valueBytes)
}
