package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxFile bounds a file that is held in memory.
const maxFile = 4 << 30

// ErrForeign is in the errors of [ReadFile] about files that are no safetensors: they say what it is instead.
var ErrForeign = errors.New("not a safetensors file")

// ReadFile reads the named file, see [Decode]. It must be a regular file: others may
// have no end, or no beginning until somebody writes. The rest is read if its header is one. Errors do not name the file.
func ReadFile(name string) (*File, error) {
	if info, err := os.Stat(name); err != nil {
		return nil, errors.Unwrap(err) // without the path
	} else if info.IsDir() {
		return nil, fmt.Errorf("a folder, %w", ErrForeign)
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	in, err := os.Open(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	return read(in, info.Size())
}

func read(in io.Reader, size int64) (*File, error) {
	if size > maxFile {
		return nil, fmt.Errorf("safetensors: %d bytes, at most %d are read", size, maxFile)
	}
	begin := make([]byte, min(size, 512)) // the header's length, and its first bytes
	if _, err := io.ReadFull(in, begin); err != nil {
		return nil, err
	}
	if len(begin) < 9 || begin[8] != '{' {
		return nil, fmt.Errorf("%s, %w", kindOf(begin), ErrForeign)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(in, b[copy(b, begin):]); err != nil {
		return nil, err
	}
	return Decode(b)
}

// kindOf says what a file is that begins with the given bytes, as far as they tell.
func kindOf(begin []byte) string {
	for _, k := range []struct{ magic, is string }{
		{"PK\x03\x04", "a zip archive"},
		{"\x80", "a pickle of Python, such as torch.save wrote before 1.6"},
		{"\x89HDF", "an HDF5 file"},
		{"PAR1", "a Parquet table"},
		{"\x93NUMPY", "an array of NumPy"},
		{"\x1f\x8b", "compressed by gzip"},
		{"version https://git-lfs", "a pointer of Git LFS: 'git lfs pull' gets the file"},
		{"{", "JSON"},
		{"<", "HTML or XML"},
	} {
		if !bytes.HasPrefix(begin, []byte(k.magic)) {
			continue
		}
		first := begin[min(len(begin), 30):min(len(begin), 200)] // of a zip: the name of its first file
		switch {
		case k.magic == "PK\x03\x04" && bytes.Contains(first, []byte(".npy")):
			return "arrays of NumPy (.npz)"
		case k.magic == "PK\x03\x04" && (bytes.Contains(first, []byte("data.pkl")) || bytes.Contains(first, []byte(".format_version"))):
			return "what torch.save writes (.pt)"
		}
		return k.is
	}
	line, _, _ := bytes.Cut(begin, []byte("\n"))
	isText := !bytes.ContainsFunc(begin, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' })
	switch {
	case len(begin) == 0:
		return "an empty file"
	case isText && bytes.ContainsAny(line, ",;\t"):
		return "a table of text"
	case isText:
		return "text"
	}
	return "bytes that nothing is known of"
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
