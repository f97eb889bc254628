package base

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gvbll/gvbll/topics/checkpoint"
)

// Store holds the objects of one graph's bases. Its methods may be called by several goroutines.
type Store interface {
	// Put stores an object, whole or not at all. One of the same name is replaced.
	Put(ctx context.Context, name string, b []byte) error
	// Get returns an object. A missing one is [fs.ErrNotExist].
	Get(ctx context.Context, name string) ([]byte, error)
	// List returns the names of all objects, ascending.
	List(ctx context.Context) ([]string, error)
	// Delete removes an object, if it is there.
	Delete(ctx context.Context, name string) error
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

// folder is a folder of files, which this user alone may read, as they hold the graph's features and labels.
type folder string

func (d folder) String() string { return string(d) }

func (d folder) Put(_ context.Context, name string, b []byte) (err error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(string(d), partial+name))
	if err != nil {
		return err
	}
	_ = f.Chmod(0o600)
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(string(d), name)); err != nil {
		return err
	}
	return checkpoint.SyncPath(string(d))
}

// partial begins the names of files that are being written.
const partial = "partial-"

func (d folder) Get(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), name))
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
	if err := os.Remove(filepath.Join(string(d), name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
