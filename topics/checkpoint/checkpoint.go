// Package checkpoint keeps a worker's newest checkpoints in a directory. Whenever the
// process or the machine stops, a file is complete or does not exist: it is written under
// another name, synced and renamed, and then the directory is synced. Detecting bytes
// that were damaged later is left to the reader of the file.
package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gvbll/gvbll/topics/crash"
)

// A checkpoint is a file and, if its state refers to other files, a folder of links to
// these. The folder gets its name before the file does, and is removed after it.
const (
	prefix  = "checkpoint-"
	suffix  = ".safetensors"
	blocks  = ".blocks"  // in place of suffix: the folder
	partial = ".partial" // follows the name of what is being written
	spool   = "base-"    // in place of prefix: of a state that goes elsewhere, and is removed then
)

// Dir is a directory of the checkpoints of one ledger, locked against other writers.
type Dir struct {
	path string
	keep int
	lock *os.File
}

// Folder returns the path of a ledger's directory in the one that its workers were given,
// which may hold those of other graphs. id tells ledgers of one name apart, such as those of
// two clusters, or one that was deleted and its successor; "" if it is not known.
func Folder(path, ledger, id string) string {
	return filepath.Join(path, strings.TrimSuffix(ledger+"@"+id, "@"))
}

// Find returns the checkpoints in the directory that a ledger's workers were given, newest
// first: those in the directories of ledgers of this name. Whether one is of this ledger is
// for the ledger to say.
func Find(path, ledger string) (list []Entry, err error) {
	for _, name := range []string{ledger, ledger + "@*"} {
		folders, e := filepath.Glob(filepath.Join(escape(path), name))
		err = errors.Join(err, e)
		for _, folder := range folders {
			more, e := entriesIn(folder)
			err = errors.Join(err, e)
			list = append(list, more...)
		}
	}
	sortEntries(list)
	return list, err
}

// escape returns a path as a pattern that matches this path alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// sortEntries sorts the newest first.
func sortEntries(list []Entry) {
	slices.SortStableFunc(list, func(a, b Entry) int { return cmp.Compare(b.Window, a.Window) })
}

// Entry is one checkpoint.
type Entry struct {
	Path   string
	Window int64 // the first that is not in the state
}

// Open creates the directory if it does not exist, for this user alone, as the state has
// the graph's features and labels, and locks it until Close or the end of the process. It
// removes what a killed process left
// half-written or half-removed. When a checkpoint is added, the newest keep of them stay,
// at least 1.
func Open(path string, keep int) (d *Dir, err error) {
	if keep < 1 {
		return nil, fmt.Errorf("%d checkpoints to keep: keep at least 1", keep)
	}
	lock, err := create(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close()
		}
	}()
	files, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		name := filepath.Join(path, f.Name())
		left := strings.HasPrefix(f.Name(), spool) || strings.HasPrefix(f.Name(), prefix) && strings.HasSuffix(name, partial)
		if file, is := strings.CutSuffix(name, blocks); is && strings.HasPrefix(f.Name(), prefix) {
			_, err := os.Stat(file + suffix)
			left = errors.Is(err, os.ErrNotExist)
		}
		if left {
			if err := os.RemoveAll(name); err != nil {
				return nil, err
			}
		}
	}
	return &Dir{path, keep, lock}, nil
}

// create creates the directory if it does not exist, and locks it.
func create(path string) (lock *os.File, err error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	if lock, err = os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%s: another worker writes its checkpoints there: give each worker a folder of its own (%w)", path, err)
	}
	return lock, nil
}

// Close unlocks the directory.
func (d *Dir) Close() error { return d.lock.Close() }

// Blocks returns the path of the folder with the files that the checkpoint at path refers
// to. It does not exist if there are none.
func Blocks(path string) string { return strings.TrimSuffix(path, suffix) + blocks }

// entriesIn returns the checkpoints in the directory at path, newest first.
func entriesIn(path string) ([]Entry, error) {
	files, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, f := range files {
		number, hasPrefix := strings.CutPrefix(f.Name(), prefix)
		number, hasSuffix := strings.CutSuffix(number, suffix)
		window, err := strconv.ParseInt(number, 10, 64)
		if hasPrefix && hasSuffix && err == nil && window >= 0 {
			list = append(list, Entry{filepath.Join(path, f.Name()), window})
		}
	}
	sortEntries(list)
	return list, nil
}

// OpenFile opens a checkpoint for reading and returns its size in bytes. The caller closes
// the file.
func OpenFile(path string) (f *os.File, size int64, err error) {
	// Before it is opened, because opening a pipe waits for its other end.
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is not a regular file: give a checkpoint", path)
	}
	if f, err = os.Open(path); err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// List returns the checkpoints, newest first.
func (d *Dir) List() ([]Entry, error) { return entriesIn(d.path) }

// Writer writes one checkpoint. It ends with Commit or Abort.
type Writer struct {
	dir  *Dir
	file *os.File
	name string
}

// Create begins a checkpoint of the state before the window. If somebody has removed the directory,
// it is made anew.
func (d *Dir) Create(window int64) (*Writer, error) { return d.create(prefix, window) }

// Spool is Create for a state that is no checkpoint. It is removed with [Remove].
func (d *Dir) Spool(window int64) (*Writer, error) { return d.create(spool, window) }

// Remove removes the file of a state, and its folder.
func Remove(path string) error { return errors.Join(os.Remove(path), os.RemoveAll(Blocks(path))) }

func (d *Dir) create(prefix string, window int64) (*Writer, error) {
	crash.Point(crash.BeforeCheckpoint)
	if _, err := os.Stat(d.path); errors.Is(err, os.ErrNotExist) {
		lock, err := create(d.path)
		if err != nil {
			return nil, err
		}
		_ = d.lock.Close()
		d.lock = lock
	}
	name := filepath.Join(d.path, fmt.Sprintf("%s%020d%s", prefix, window, suffix))
	f, err := os.OpenFile(name+partial, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{dir: d, file: f, name: name}, nil
}

// Blocks returns the path of a folder for the files that the checkpoint refers to. It does
// not exist yet.
func (w *Writer) Blocks() string { return Blocks(w.name) + partial }

// Name returns the path that the file has after Commit.
func (w *Writer) Name() string { return w.name }

// Write writes the next bytes.
func (w *Writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	crash.Point(crash.InCheckpoint)
	return n, err
}

// Sync flushes the bytes to the disk, so that Commit is quick.
func (w *Writer) Sync() error {
	crash.Point(crash.BeforeSync)
	err := errors.Join(w.file.Sync(), syncAll(w.Blocks()))
	crash.Point(crash.AfterSync)
	return err
}

// Commit makes the checkpoint the newest, and removes the oldest beyond the number to
// keep.
func (w *Writer) Commit() (err error) {
	defer func() {
		if err != nil {
			w.Abort()
		}
	}()
	if err := cmp.Or(w.Sync(), w.file.Close()); err != nil {
		return err
	}
	crash.Point(crash.BeforeRename)
	// A checkpoint of this window that could not be used may be there.
	if err := os.RemoveAll(Blocks(w.name)); err != nil {
		return err
	}
	if err := os.Rename(w.Blocks(), Blocks(w.name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(w.name+partial, w.name); err != nil {
		return err
	}
	crash.Point(crash.AfterRename)
	if err := SyncPath(w.dir.path); err != nil {
		return err
	}
	crash.Point(crash.AfterDirSync)
	err = w.dir.prune()
	crash.Point(crash.AfterPrune)
	return err
}

// Abort removes what was written.
func (w *Writer) Abort() {
	_ = w.file.Close()
	_ = os.Remove(w.name + partial)
	_ = os.RemoveAll(w.Blocks())
}

// prune removes all but the newest checkpoints.
func (d *Dir) prune() error {
	list, err := d.List()
	if err != nil {
		return err
	}
	for _, e := range list[min(d.keep, len(list)):] {
		err = errors.Join(err, Remove(e.Path))
	}
	return err
}

// syncAll flushes the files of a folder and its entries to the disk. The folder may be
// missing.
func syncAll(folder string) error {
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		err = errors.Join(err, SyncPath(filepath.Join(folder, f.Name())))
	}
	return errors.Join(err, SyncPath(folder))
}

// SyncPath flushes a file, or the entries of a directory, to the disk.
func SyncPath(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
