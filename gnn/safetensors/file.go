package safetensors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile bounds a file that is held in memory.
const maxFile = 4 << 30

// ReadFile reads the named file, see [Decode]. It must be a regular file: others may
// have no end, or no beginning until somebody writes. The rest is read if its header is one.
func ReadFile(name string) (*File, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	f, err := read(in, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// read reads a file of the given size.
func read(in io.Reader, size int64) (*File, error) {
	if size > maxFile {
		return nil, fmt.Errorf("safetensors: %d bytes, at most %d are read", size, maxFile)
	}
	begin := make([]byte, min(size, 9)) // the header's length, and its first byte
	if _, err := io.ReadFull(in, begin); err != nil {
		return nil, err
	}
	if n := len(begin); n < 9 || begin[8] != '{' {
		return Decode(begin)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(in, b[copy(b, begin):]); err != nil {
		return nil, err
	}
	return Decode(b)
}

// WriteFile writes f to the named file, readable by all. The write is atomic:
// after a crash the file has either its old contents or all of f. The bytes are
// written to a temporary file in the same folder and synced to disk before the
// file is renamed.
func WriteFile(name string, f *File) error {
	b, err := f.Encode()
	if err != nil {
		return err
	}
	dir := filepath.Dir(name)
	temp, err := os.CreateTemp(dir, "."+filepath.Base(name)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = temp.Write(b)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return syncDir(dir)
}

// syncDir syncs a folder's entries to disk: without it a crash may undo a rename.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
