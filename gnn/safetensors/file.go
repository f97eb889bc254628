package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// ReadFile reads the named file, see [Decode]. It must be a regular file: others may
// have no end, or no beginning until somebody writes.
func ReadFile(name string) (*File, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	f, err := Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
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
