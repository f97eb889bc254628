package dataset

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// folder holds a data set's tables: name.csv or name.csv.gz, after a common prefix.
type folder struct {
	files  fs.FS
	dir    string // the path of files, for messages
	name   string // of the data set
	prefix string
	memory *budget // sized by the tables that are there
}

func newFolder(files fs.FS, dir, name, prefix string) (folder, error) {
	f := folder{files: files, dir: dir, name: name, prefix: prefix}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return f, fmt.Errorf("%s: %w", dir, cause(err))
	}
	size := int64(0)
	for _, e := range entries {
		if name := strings.TrimSuffix(e.Name(), ".gz"); !strings.HasSuffix(name, ".csv") || !strings.HasPrefix(name, prefix) {
			continue
		}
		if info, err := fs.Stat(files, e.Name()); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	f.memory = newBudget(size)
	return f, nil
}

// path returns the path of a file, without its ending, for messages.
func (f folder) path(name string) string { return filepath.Join(f.dir, f.prefix+name) }

// has reports whether a table is there, gzipped or not.
func (f folder) has(name string) bool {
	for _, ending := range []string{".csv", ".csv.gz"} {
		if _, err := fs.Stat(f.files, f.prefix+name+ending); err == nil {
			return true
		}
	}
	return false
}

// open opens a table and returns its path for messages. Both forms at once are an
// error.
func (f folder) open(name string) (file fs.File, path string, err error) {
	packed, plain := f.path(name)+".csv.gz", f.path(name)+".csv"
	file, err = f.files.Open(f.prefix + name + ".csv.gz")
	if errors.Is(err, fs.ErrNotExist) {
		if file, err = f.files.Open(f.prefix + name + ".csv"); err == nil {
			return file, plain, nil
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s (or .csv): %w", packed, cause(err))
	}
	if _, err := fs.Stat(f.files, f.prefix+name+".csv"); err == nil {
		file.Close()
		return nil, "", fmt.Errorf("%s and %s are both there: keep one", plain, packed)
	}
	return file, packed, nil
}

// lines calls each for every line of a table, without the white space around it,
// with its number from 1. Errors of each get the file and the line.
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

// cause drops the path of a file system's error; the message has it already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
