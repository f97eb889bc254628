package base

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/gvbll/gvbll/topics/checkpoint"
)

// AwayError says that a store does not answer now, or not as it should. It may later.
type AwayError struct{ Err error }

func (e *AwayError) Error() string { return e.Err.Error() }
func (e *AwayError) Unwrap() error { return e.Err }

// Store holds the objects of one graph's bases. Its methods may be called by several goroutines.
type Store interface {
	// Put stores an object, whole or not at all. One of the same name is replaced.
	Put(ctx context.Context, name string, b []byte) error
	// Get returns an object of at most so many bytes, and reads no more. A missing one is [fs.ErrNotExist].
	Get(ctx context.Context, name string, most int64) ([]byte, error)
	// List returns the names of all objects, ascending.
	List(ctx context.Context) ([]string, error)
	// Delete removes an object, if it is there.
	Delete(ctx context.Context, name string) error
	// Beside returns the store of another name at the same address.
	Beside(name string) Store
	// String is where the objects are, for people.
	String() string
}

// Open returns the store at an address, a folder or s3://BUCKET/PREFIX, in which each ledger has a folder of its name.
func Open(address, ledger string) (Store, error) {
	path, isFile := strings.CutPrefix(address, "file://")
	if strings.HasPrefix(address, "s3://") {
		return openBucket(address, ledger)
	}
	if scheme, _, is := strings.Cut(address, "://"); is && !isFile {
		return nil, fmt.Errorf("%s: %q is not a kind of store: give a folder, or s3://BUCKET/PREFIX", address, scheme)
	}
	return folder(filepath.Join(path, ledger)), nil
}

// readObject reads an object that is said to have size bytes.
func readObject(r io.Reader, size, most int64) ([]byte, error) {
	if size <= most {
		var b bytes.Buffer
		b.Grow(int(max(size, 0)) + bytes.MinRead)
		_, err := b.ReadFrom(io.LimitReader(r, most+1))
		if err != nil || int64(b.Len()) <= most {
			return b.Bytes(), err
		}
	}
	return nil, fmt.Errorf("%w: it has %d bytes or more, and at most %d are its own", errDamaged, max(size, most+1), most)
}

// folder is a folder of files, which this user alone may read, as they hold the graph's features and labels.
type folder string

func (d folder) String() string { return string(d) }

func (d folder) Beside(name string) Store {
	return folder(filepath.Join(filepath.Dir(string(d)), filepath.Base(name)))
}

func (d folder) Put(_ context.Context, name string, b []byte) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(string(d)) // names may be those of a list, and links may lead elsewhere
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Create(partial + name)
	if err != nil {
		return err
	}
	_ = f.Chmod(0o600)
	defer func() {
		if err != nil {
			_ = root.Remove(partial + name)
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := root.Rename(partial+name, name); err != nil {
		return err
	}
	return checkpoint.SyncPath(string(d))
}

// partial begins the names of files that are being written.
const partial = "partial-"

func (d folder) Get(_ context.Context, name string, most int64) ([]byte, error) {
	f, size, err := openIn(string(d), name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readObject(f, size, most)
}

// openIn opens a regular file of a folder, and of no other one.
func openIn(dir, name string) (f *os.File, size int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	if f, err = root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0); err != nil { // a pipe would wait for its other end
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", f.Name())
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (d folder) List(context.Context) (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d folder) Delete(_ context.Context, name string) error {
	root, err := os.OpenRoot(string(d))
	if err == nil {
		err = root.Remove(name)
		_ = root.Close()
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
