// Package base stores bases: states of a graph from which any worker can begin. A base is a list of chunks,
// and chunks lie in parts, objects of a store that later bases share: a base costs what changed since the
// one before. Its list is stored after its parts, so a base is there whole or not at all. A base is named by a hash
// of its files, and nothing of it is returned that has another one.
package base

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/topics/crash"
)

// Name names a base: the first window that is not in its state, and the SHA-256 of its content, see [Base.sum].
// Its text is the name of the object that has the base's list.
type Name struct {
	Window int64
	Sum    string
}

// Objects are lists of bases, and parts that were stored for a base before a window.
const (
	listPrefix = "base-"
	partPrefix = "part-"
)

// String returns the name's text.
func (n Name) String() string { return fmt.Sprintf("%s%020d-%s", listPrefix, n.Window, n.Sum) }

// MarshalText implements encoding.TextMarshaler.
func (n Name) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Name) UnmarshalText(text []byte) (err error) {
	rest, _ := strings.CutPrefix(string(text), listPrefix)
	window, sum, _ := strings.Cut(rest, "-")
	n.Window, err = strconv.ParseInt(window, 10, 64)
	if n.Sum = sum; err != nil || n.Window < 1 || len(sum) != 2*sha256.Size || n.String() != string(text) {
		return fmt.Errorf("%.100q does not name a base", text)
	}
	return nil
}

// File is a file of a base.
type File struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Source is a file to be stored.
type Source struct {
	File
	io.Reader
}

// part is an object with chunks.
type part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// partBytes is the length of a part, or somewhat less, and maxList bounds a list: of mostChunks chunks, it has half of that.
const (
	partBytes = 8 << 20
	maxList   = 128 << 20
)

// maxPart returns how many bytes a part of a base of files has at most: it holds one chunk at least.
func maxPart(files []File) int64 {
	total := int64(0)
	for _, f := range files {
		total += max(f.Bytes, 0)
	}
	return max(partBytes, int64(1)<<(chunkBits(total)+2))
}

// Base is a stored base.
type Base struct {
	Name   Name
	files  []File
	parts  []part
	chunks []chunk
	store  Store
	// dir has the parts once they are fetched. If it is verified, they have been compared with the hashes.
	dir      string
	verified bool
}

// Version is the format of lists.
const Version = 1

// header is the first line of a list. The chunks follow it, see appendChunks.
type header struct {
	Version int    `json:"v"`
	Files   []File `json:"files"`
	Parts   []part `json:"parts"`
	Chunks  int    `json:"chunks"`
}

// Write stores a base of the files by calls of put for each of its objects, and returns its name and how many bytes it stored.
// before is the base whose chunks need not be stored again, nil for none.
func Write(window int64, files []Source, before *Base, put func(name string, b []byte) error) (Name, int64, error) {
	b := &Base{Name: Name{Window: window}}
	total, stored := int64(0), int64(0)
	for _, f := range files {
		b.files = append(b.files, f.File)
		total += f.Bytes
	}
	known := make(map[sum]chunk)
	if before != nil {
		b.parts = before.worthKeeping(known)
	}
	var next []byte // the next part
	flush := func() error {
		if len(next) == 0 {
			return nil
		}
		all := sha256.Sum256(next)
		p := part{fmt.Sprintf("%s%020d-%x", partPrefix, window, all[:16]), int64(len(next))}
		if err := put(p.Name, next); err != nil {
			return err
		}
		stored += p.Bytes
		b.parts, next = append(b.parts, p), next[:0]
		return nil
	}
	for _, f := range files {
		length := int64(0)
		err := split(f, chunkBits(total), func(bytes []byte) error {
			length += int64(len(bytes))
			c := chunk{sum: sumOf(bytes), part: int32(len(b.parts)), offset: int32(len(next)), length: int32(len(bytes))}
			if old, is := known[c.sum]; is && old.length == c.length {
				b.chunks = append(b.chunks, old)
				return nil
			}
			if len(next)+len(bytes) > partBytes {
				if err := flush(); err != nil {
					return err
				}
				c.part, c.offset = int32(len(b.parts)), 0
			}
			next = append(next, bytes...)
			known[c.sum] = c
			b.chunks = append(b.chunks, c)
			return nil
		})
		if err == nil && length != f.Bytes {
			err = fmt.Errorf("%s: %d bytes, want %d", f.Name, length, f.Bytes)
		}
		if err != nil {
			return b.Name, stored, err
		}
	}
	if err := flush(); err != nil {
		return b.Name, stored, err
	}
	b.dropUnused()
	b.Name.Sum = b.sum()
	list := b.encode()
	return b.Name, stored + int64(len(list)), put(b.Name.String(), list)
}

// NameOf returns the name that a base of the files has.
func NameOf(window int64, files []Source) (Name, error) {
	name, _, err := Write(window, files, nil, func(string, []byte) error { return nil })
	return name, err
}

// worthKeeping adds the chunks that a later base may use to known, and returns the parts: chunks of parts of which
// less than half is used are stored once more, so that all parts of a base are at most twice its bytes, or
// what one base changed more.
func (b *Base) worthKeeping(known map[sum]chunk) []part {
	used := b.used()
	for _, c := range b.chunks {
		if p := b.parts[c.part]; 2*used[c.part] >= p.Bytes {
			known[c.sum] = c
		}
	}
	return slices.Clone(b.parts)
}

// used returns how many bytes of each part are of the base.
func (b *Base) used() []int64 {
	used, seen := make([]int64, len(b.parts)), make(map[[2]int32]bool)
	for _, c := range b.chunks {
		if at := [2]int32{c.part, c.offset}; !seen[at] {
			seen[at] = true
			used[c.part] += int64(c.length)
		}
	}
	return used
}

// dropUnused drops the parts of which nothing is used.
func (b *Base) dropUnused() {
	used, number := b.used(), make([]int32, len(b.parts))
	kept := b.parts[:0]
	for i, p := range b.parts {
		if number[i] = int32(len(kept)); used[i] > 0 {
			kept = append(kept, p)
		}
	}
	b.parts = kept
	for i := range b.chunks {
		b.chunks[i].part = number[b.chunks[i].part]
	}
}

// sum returns the SHA-256 of the files' names and lengths, and of the lengths and hashes of their chunks. It does not depend
// on where these are stored.
func (b *Base) sum() string {
	h := sha256.New()
	head, err := json.Marshal(b.files)
	if err != nil {
		panic(err) // strings and numbers only
	}
	h.Write(head)
	var length [4]byte
	for i := range b.chunks {
		c := &b.chunks[i]
		binary.BigEndian.PutUint32(length[:], uint32(c.length))
		h.Write(length[:])
		h.Write(c.sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// encode returns the list: the header's line, and for each chunk its hash, its length, and 0 if it follows the
// one before in its part, or else its part's number from 1 on and its offset there.
func (b *Base) encode() []byte {
	out, err := json.Marshal(header{Version, b.files, b.parts, len(b.chunks)})
	if err != nil {
		panic(err) // strings and numbers only
	}
	out = append(out, '\n')
	part, end := int32(-1), int32(0)
	for _, c := range b.chunks {
		out = append(out, c.sum[:]...)
		out = binary.AppendUvarint(out, uint64(c.length))
		if c.part == part && c.offset == end {
			out = append(out, 0)
		} else {
			out = binary.AppendUvarint(out, uint64(c.part)+1)
			out = binary.AppendUvarint(out, uint64(c.offset))
		}
		part, end = c.part, c.offset+c.length
	}
	return out
}

// errDamaged says that a list is not one that was stored.
var errDamaged = errors.New("it is damaged")

// decode reads a list, and checks all that a reader relies on except for the sum.
func (b *Base) decode(list []byte) error {
	line, rest, ok := bytes.Cut(list, []byte{'\n'})
	var h header
	if !ok || json.Unmarshal(line, &h) != nil {
		return fmt.Errorf("%w: it has no header", errDamaged)
	}
	if h.Version != Version {
		return fmt.Errorf("it has format %d, and this program reads format %d", h.Version, Version)
	}
	if least := len(sum{}) + 2; h.Chunks < 0 || h.Chunks > len(rest)/least {
		return fmt.Errorf("%w: %d chunks in %d bytes", errDamaged, h.Chunks, len(rest))
	}
	b.files, b.parts, b.chunks = h.Files, h.Parts, make([]chunk, h.Chunks)
	seen, most := make(map[string]bool), maxPart(b.files)
	for _, p := range b.parts { // which become files
		if !strings.HasPrefix(p.Name, partPrefix) || filepath.Base(p.Name) != p.Name || seen[p.Name] || p.Bytes > most {
			return fmt.Errorf("%w: part %.100q of %d bytes", errDamaged, p.Name, p.Bytes)
		}
		seen[p.Name] = true
	}
	total := int64(0)
	var last chunk
	number := func() (x uint64) {
		x, n := binary.Uvarint(rest)
		if n <= 0 || x > 1<<31-1 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return x
	}
	for i := range b.chunks {
		c := &b.chunks[i]
		rest = rest[copy(c.sum[:], rest):]
		c.length, c.part, c.offset = int32(number()), last.part, last.offset+last.length
		if p := number(); p > 0 {
			c.part, c.offset = int32(p)-1, int32(number())
		}
		if !ok || int(c.part) >= len(b.parts) || c.length < 1 || c.offset < 0 || int64(c.offset)+int64(c.length) > b.parts[c.part].Bytes {
			return fmt.Errorf("%w: chunk %d", errDamaged, i)
		}
		total += int64(c.length)
		last = *c
	}
	for _, f := range b.files {
		if f.Bytes < 0 || f.Bytes > total {
			return fmt.Errorf("%w: file %q of %d bytes", errDamaged, f.Name, f.Bytes)
		}
		total -= f.Bytes
	}
	if total != 0 || len(rest) > 0 {
		return fmt.Errorf("%w: bytes of no file", errDamaged)
	}
	return nil
}

// Find reads a base's list, and compares it with the base's name.
func Find(ctx context.Context, s Store, name Name) (*Base, error) {
	b := &Base{Name: name, store: s}
	err := again(func() error {
		list, err := s.Get(ctx, name.String(), maxList)
		if errors.Is(err, fs.ErrNotExist) {
			err = errMissing
		}
		if err == nil {
			err = b.decode(list)
		}
		if err == nil && b.sum() != name.Sum {
			err = errDamaged
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Useless reports whether an error of Find says that the base is missing or damaged: trying again is of no use.
func Useless(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged) }

// again calls f up to three times until it succeeds, since what it gets may be damaged on the way, and up to eight times where it is
// cut: of a hundred parts by a line that cuts one answer in ten, three tries would fail one fetch in ten. A store that does not answer
// was asked several times.
func again(f func() error) (err error) {
	for try := range 8 {
		var silent net.Error
		if err = f(); err == nil || errors.Is(err, fs.ErrNotExist) || errors.As(err, &silent) && silent.Timeout() ||
			try >= 2 && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
	}
	return err
}

// errMissing says that there is no list.
var errMissing = fmt.Errorf("it is missing (%w)", fs.ErrNotExist)

// Files returns the files.
func (b *Base) Files() []File { return b.files }

// Open returns a file of a base that was fetched. Reading from it returns an error if the bytes are not those that were stored. It may
// be used by several goroutines.
func (b *Base) Open(name string) (io.ReaderAt, int64, error) {
	r := &reader{base: b, chunks: b.chunks}
	for _, f := range b.files {
		for end := int64(0); end < f.Bytes; {
			end += int64(r.chunks[len(r.ends)].length)
			r.ends = append(r.ends, end)
		}
		if n := len(r.ends); f.Name == name {
			r.chunks = r.chunks[:n]
			return r, f.Bytes, nil
		} else {
			r.chunks, r.ends = r.chunks[n:], nil
		}
	}
	return nil, 0, fmt.Errorf("%s has no file %q", b.Name, name)
}

// Copy copies a file of a base that was fetched to one in a folder, under the last part of its name.
func (b *Base) Copy(name string, to *os.Root) error {
	r, size, err := b.Open(name)
	if err != nil {
		return err
	}
	f, err := to.OpenFile(path.Base(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.NewSectionReader(r, 0, size), make([]byte, 1<<20))
	return errors.Join(err, f.Close())
}

// reader reads a file.
type reader struct {
	base   *Base
	chunks []chunk
	ends   []int64 // of the chunks, in the file
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(p []byte, offset int64) (n int, err error) {
	i := sort.Search(len(r.ends), func(i int) bool { return r.ends[i] > offset })
	open := make(map[int32]*os.File) // by part: a later base's chunks lie here and there in few of them
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	for i < len(r.chunks) && n < len(p) {
		// Whole chunks that follow each other in a part are read at once.
		first, last, end := i, r.chunks[i], offset+int64(len(p)-n)
		skip := offset - (r.ends[i] - int64(last.length))
		for i++; skip == 0 && i < len(r.chunks) && r.ends[i] <= end && r.chunks[i].part == last.part &&
			r.chunks[i].offset == last.offset+last.length; i++ {
			last = r.chunks[i]
		}
		var c int
		err := again(func() (err error) { c, err = r.read(open, p[n:], r.chunks[first:i], skip); return err })
		if err != nil {
			return n, err
		}
		n, offset = n+c, offset+int64(c)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read reads the bytes of chunks that follow each other in a part, or of one without the first skip of them as far as p has room.
func (r *reader) read(open map[int32]*os.File, p []byte, list []chunk, skip int64) (n int, err error) {
	name, last := r.base.parts[list[0].part].Name, list[len(list)-1]
	f := open[last.part]
	if f == nil {
		if f, _, err = openIn(r.base.dir, name); err != nil {
			return 0, err
		}
		open[last.part] = f
	}
	from, length := int64(list[0].offset), int(last.offset+last.length-list[0].offset)
	if r.base.verified {
		n, err = f.ReadAt(p[:min(len(p), length-int(skip))], from+skip)
		return n, err
	}
	b, cut := p, skip > 0 || length > len(p)
	if cut {
		b = make([]byte, length)
	}
	b = b[:length]
	if _, err := f.ReadAt(b, from); err != nil {
		return 0, fmt.Errorf("its part %s: %w", name, err)
	}
	if !intact(b, list) {
		return 0, fmt.Errorf("its part %s: %w", name, errDamaged)
	}
	if cut {
		length = copy(p, b[skip:])
	}
	return length, nil
}

// intact reports whether bytes that begin with the first chunk have the hashes of the chunks, which are in the order of their offsets.
func intact(b []byte, list []chunk) bool {
	return !slices.ContainsFunc(list, func(c chunk) bool {
		at := c.offset - list[0].offset
		return int(at+c.length) > len(b) || sumOf(b[at:][:c.length]) != c.sum
	})
}

// Sweep deletes the bases before a window that are not to be kept, and then the parts of before it that none of these needs. It
// leaves what is of later windows, of which another worker may be storing a base.
func Sweep(ctx context.Context, s Store, keep []Name, before int64) error {
	needed := make(map[string]bool)
	prefixes := []string{listPrefix, partPrefix}
	for _, name := range keep {
		needed[name.String()] = true
		b, err := Find(ctx, s, name)
		if err != nil {
			prefixes = prefixes[:1] // nobody knows which parts it needs
			continue
		}
		for _, p := range b.parts {
			needed[p.Name] = true
		}
	}
	names, err := s.List(ctx)
	if err != nil {
		return err
	}
	end := fmt.Sprintf("%020d", before)
	for _, prefix := range prefixes {
		for _, name := range names {
			if rest, is := strings.CutPrefix(strings.TrimPrefix(name, partial), prefix); !is || needed[name] || rest >= end {
				continue
			}
			if err := s.Delete(ctx, name); err != nil {
				return err
			}
			crash.Point(crash.InSweep)
		}
	}
	return nil
}
