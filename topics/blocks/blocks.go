// Package blocks keeps blocks of bytes in files, for an engine whose state does not fit
// into memory (pipeline.Blocks). The files are a cache: a process begins without any, and
// removes those that a killed one left behind. A checkpoint keeps the blocks that it refers
// to by links, so that neither copies a byte, and the last one to need a block frees it.
package blocks

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The folder of a process is prefix and a random number. It has a file lock, which the
// process holds locked, and a file for each block, with the block's number as its name.
const (
	prefix   = "blocks-"
	lockFile = "lock"
)

// Store is a set of blocks. Its methods may be called by several goroutines.
//
// A block is written while the caller goes on, one at a time. Until then it is read from
// memory. If it cannot be written, this is the error of every later call: what was stored is
// lost.
type Store struct {
	dir  string
	lock *os.File

	// idle has an element while no block is being written.
	idle chan struct{}

	mu      sync.Mutex // guards the rest
	from    string     // the folder to claim from
	next    int64      // no block has this number or a higher one
	files   map[int64]*os.File
	writing int64  // the block that is being written, or none
	bytes   []byte // its bytes; only replaced while idle is empty
	err     error  // of writing it
}

const none = -1

// swept are the folders that this process has swept: a thousand cells have a store each there, and each would look at those of all.
var swept sync.Map

// Open returns an empty store, with a folder of its own in dir. The first of a process there removes the folders of
// processes that have ended.
func Open(dir string) (*Store, error) {
	s := &Store{dir: filepath.Join(dir, prefix+rand.Text()), files: make(map[int64]*os.File), writing: none, idle: make(chan struct{}, 1)}
	s.idle <- struct{}{}
	return s, s.makeFolder()
}

// makeFolder makes the folder, and locks it.
func (s *Store) makeFolder() error {
	dir := filepath.Dir(s.dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// No other process looks for folders without an owner while this one has made its
	// folder and not locked it yet.
	all, err := lock(dir, syscall.LOCK_EX)
	if err != nil {
		return err
	}
	defer all.Close()
	if _, is := swept.Load(dir); !is {
		if err := sweep(dir); err != nil {
			return err
		}
		swept.Store(dir, true)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(s.dir, lockFile)
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	_ = s.lock.Close() // nil at first
	s.lock, err = lock(name, syscall.LOCK_EX)
	return err
}

// create creates the file of a block. If somebody has removed the folder, it is made anew.
func (s *Store) create(number int64) (*os.File, error) {
	f, err := os.OpenFile(s.path(number), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.makeFolder(); err != nil {
		return nil, err
	}
	return os.OpenFile(s.path(number), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
}

// sweep removes the folders that no process holds locked.
func sweep(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil {
		return err
	}
	for _, folder := range left {
		f, err := lock(filepath.Join(folder, lockFile), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			continue
		case err == nil:
			defer f.Close()
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	return nil
}

// lock opens and locks a file or a folder. Closing it, or the end of the process, unlocks
// it.
func lock(path string, how int) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return f, nil
}

// Close removes the store with its blocks. Links to these stay.
func (s *Store) Close() error {
	_ = s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	return errors.Join(os.RemoveAll(s.dir), s.lock.Close())
}

// From frees all blocks. Those of the folder, which Link made, can then be claimed.
func (s *Store) From(folder string) {
	_ = s.settle() // what was stored is not needed any more
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	s.from, s.err = folder, nil
}

// drop frees all blocks.
func (s *Store) drop() {
	for number := range s.files {
		s.free(number)
	}
}

func (s *Store) free(number int64) {
	if f := s.files[number]; f != nil { // nil if it could not be written
		_ = f.Close()
		delete(s.files, number)
		_ = os.Remove(s.path(number)) // what is left is removed with the folder
	}
}

func (s *Store) path(number int64) string { return filepath.Join(s.dir, name(number)) }

func name(number int64) string { return strconv.FormatInt(number, 10) }

// Write stores a block and returns its number, which no block of this store had before. It
// waits until the block before is written.
func (s *Store) Write(block []byte) (int64, error) {
	<-s.idle
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		s.idle <- struct{}{}
		return 0, s.err
	}
	number := s.next
	s.next++
	s.writing, s.bytes = number, append(s.bytes[:0], block...)
	go s.write(number)
	return number, nil
}

// write writes the file of a block.
func (s *Store) write(number int64) {
	f, err := s.create(number)
	if err == nil {
		if _, err = f.Write(s.bytes); err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	} else {
		s.add(number, f)
	}
	s.mu.Lock()
	s.writing = none
	s.mu.Unlock()
	s.idle <- struct{}{}
}

// settle waits until all blocks are written.
func (s *Store) settle() error {
	<-s.idle
	s.idle <- struct{}{}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// add adds the open file of a block.
func (s *Store) add(number int64, f *os.File) {
	expectRandom(f)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[number] = f
	s.next = max(s.next, number+1)
}

// ReadAt fills p with the bytes of a block from an offset on.
func (s *Store) ReadAt(number int64, p []byte, offset int64) error {
	s.mu.Lock()
	f, err := s.files[number], s.err
	if number == s.writing {
		defer s.mu.Unlock()
		if copy(p, s.bytes[offset:]) < len(p) {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	_, err = f.ReadAt(p, offset)
	return err
}

// Prefetch makes the system read n bytes of a block, and does not wait for them.
func (s *Store) Prefetch(number, offset int64, n int) {
	s.mu.Lock()
	f := s.files[number]
	s.mu.Unlock()
	if f != nil {
		willNeed(f, offset, int64(n))
	}
}

// Free removes a block.
func (s *Store) Free(number int64) {
	s.mu.Lock()
	for number == s.writing {
		s.mu.Unlock()
		_ = s.settle() // the error is that of the next call
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	s.free(number)
}

// Claim takes over a block of the folder that From named, and returns its length.
func (s *Store) Claim(number int64) (int64, error) {
	s.mu.Lock()
	from, twice := filepath.Join(s.from, name(number)), s.files[number] != nil
	s.mu.Unlock()
	if twice {
		return 0, fmt.Errorf("block %d is claimed twice", number)
	}
	if err := os.Link(from, s.path(number)); err != nil {
		return 0, err
	}
	f, err := os.Open(from) // errors name what stays behind
	if err != nil {
		return 0, err
	}
	s.add(number, f)
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Link makes links to blocks in a folder, which it creates.
func (s *Store) Link(folder string, numbers []int64) error {
	if err := s.settle(); err != nil {
		return err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	for _, number := range numbers {
		to := filepath.Join(folder, name(number))
		err := os.Link(s.path(number), to)
		if errors.Is(err, fs.ErrNotExist) {
			if err = s.restore(number); err == nil {
				err = os.Link(s.path(number), to)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restore copies a block, whose file somebody has removed, from the open file.
func (s *Store) restore(number int64) error {
	f, err := s.create(number)
	if err != nil {
		return err
	}
	s.mu.Lock()
	removed := s.files[number]
	s.mu.Unlock()
	_, err = io.Copy(f, io.NewSectionReader(removed, 0, math.MaxInt64))
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Name returns the path of a block's file; of one that was claimed, that in the folder which From
// named.
func (s *Store) Name(number int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[number]; f != nil {
		return f.Name()
	}
	return s.path(number)
}
