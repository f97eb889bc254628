package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// folder holds a data set's tables: name.csv or name.csv.gz, after a prefix that
// they share.
type folder struct {
	dir, prefix string
	memory      *budget
}

// newFolder allows for memory by the tables that are there.
func newFolder(dir, prefix string) (folder, error) {
	f := folder{dir: dir, prefix: prefix}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return f, fmt.Errorf("%s: %w", dir, cause(err))
	}
	size := int64(0)
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".gz"); !strings.HasSuffix(name, ".csv") || !strings.HasPrefix(name, prefix) {
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	f.memory = newBudget(size)
	return f, nil
}

// name is the prefix's, or the folder's, or the folder's parent's where it is
// OGB's "raw".
func (f folder) name() string {
	if name := strings.TrimRight(f.prefix, "-_. "); name != "" {
		return name
	}
	dir := f.dir
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	if filepath.Base(dir) == "raw" {
		dir = filepath.Dir(dir)
	}
	return filepath.Base(dir)
}

// path is a table's without its ending.
func (f folder) path(name string) string { return filepath.Join(f.dir, f.prefix+name) }

// has tells whether a table is there, packed or not.
func (f folder) has(name string) bool {
	for _, ending := range []string{".csv", ".csv.gz"} {
		if _, err := os.Stat(f.path(name) + ending); err == nil {
			return true
		}
	}
	return false
}

// open returns a table and its path.
func (f folder) open(name string) (file *os.File, path string, err error) {
	packed, plain := f.path(name)+".csv.gz", f.path(name)+".csv"
	file, err = os.Open(packed)
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = os.Open(plain); err == nil {
			return file, plain, nil
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s (or .csv): %w", packed, cause(err))
	}
	if _, err := os.Stat(plain); err == nil {
		file.Close()
		return nil, "", fmt.Errorf("%s and %s are both there: keep one", plain, packed)
	}
	return file, packed, nil
}

// lines calls each for every line of a table, with its number from 1.
func (f folder) lines(name string, each func(line []byte, number int) error) error {
	file, path, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 64<<10), maxLine)
	number := 0
	for s.Scan() {
		number++
		if err := each(bytes.TrimSpace(s.Bytes()), number); err != nil {
			return fmt.Errorf("%s line %d: %w", path, number, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s line %d: %w", path, number+1, err)
	}
	return nil
}

// cause leaves out the path, which the message has already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
