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
	"slices"
	"strings"
	"unicode/utf8"
)

// Format reads tables in a format that this package does not know.
type Format struct {
	Ending string // of the files' names, such as ".parquet"
	// Read calls header with the names of a table's columns, and then row with the
	// fields of each row, as many as there are columns, in the form that they have in
	// a csv table. Errors of both are returned with the row's number.
	Read func(file io.ReaderAt, size int64, header, row func(fields []string) error) error
	// Write begins a table of these columns, of which some hold numbers or nothing and the others texts. Its errors are
	// those of Write and Close.
	Write func(to io.Writer, columns []string, isNumber func(column string) bool) Rows
}

// folder holds a data set's tables: name.csv, name.csv.gz, or name and the ending of a
// format, after a common prefix.
type folder struct {
	files   fs.FS
	dir     string // the path of files, for messages
	name    string // of the data set
	prefix  string
	formats []Format
	memory  *budget // sized by the tables that are there
}

func newFolder(files fs.FS, dir, name, prefix string, formats []Format) (folder, error) {
	f := folder{files: files, dir: dir, name: name, prefix: prefix, formats: formats}
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return f, fmt.Errorf("%s: %w", dir, cause(err))
	}
	size := int64(0)
	for _, e := range entries {
		isTable := slices.ContainsFunc(f.endings(), func(ending string) bool { return strings.HasSuffix(e.Name(), ending) })
		if !isTable || !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		if info, err := fs.Stat(files, e.Name()); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
	}
	f.memory = newBudget(size)
	return f, nil
}

func (f folder) endings() []string {
	all := []string{".csv", ".csv.gz"}
	for _, format := range f.formats {
		all = append(all, format.Ending)
	}
	return all
}

// path returns the path of a file, without its ending, for messages.
func (f folder) path(name string) string { return filepath.Join(f.dir, f.prefix+name) }

func (f folder) has(name string) bool { return len(f.present(name)) > 0 }

// present returns the endings with which a table is there.
func (f folder) present(name string) []string {
	return slices.DeleteFunc(f.endings(), func(ending string) bool {
		_, err := fs.Stat(f.files, f.prefix+name+ending)
		return err != nil
	})
}

// open opens a table, and returns its path for messages and the ending of its name.
// Several forms at once are an error.
func (f folder) open(name string) (file fs.File, path, ending string, err error) {
	switch there := f.present(name); len(there) {
	case 0:
		return nil, "", "", fmt.Errorf("%s (%s): %w", f.path(name), strings.Join(f.endings(), ", "), fs.ErrNotExist)
	case 1:
		ending = there[0]
	default:
		return nil, "", "", fmt.Errorf("%s and %s are both there: keep one", f.path(name)+there[0], f.path(name)+there[1])
	}
	path = f.path(name) + ending
	info, err := fs.Stat(f.files, f.prefix+name+ending)
	if err == nil {
		if err = regular(info); err == nil {
			file, err = f.files.Open(f.prefix + name + ending)
		}
	}
	if err != nil {
		return nil, "", "", fmt.Errorf("%s: %w", path, cause(err))
	}
	return file, path, ending, nil
}

// lines calls each for every line of a csv table, without the white space around it,
// with its number from 1. Errors of each get the file and the line.
func (f folder) lines(name string, each func(line []byte, number int) error) error {
	file, path, _, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	return scan(file, path, each)
}

// scan calls each for every line of a file, which is packed if its path says so.
func scan(file io.Reader, path string, each func(line []byte, number int) error) (err error) {
	if strings.HasSuffix(path, ".gz") {
		if file, err = gzip.NewReader(bufio.NewReader(file)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	s := bufio.NewScanner(file)
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

// records calls header with the names of a table's columns, and row with the fields of
// every row, as many as the header has.
func (f folder) records(name string, header, row func(fields []string) error) error {
	parts, err := f.parts(name)
	switch {
	case err != nil:
		return err
	case parts == nil:
		return f.whole(name, header, row)
	}
	var columns []string // of the first part
	for _, part := range parts {
		if err := f.whole(part, func(fields []string) error {
			if columns == nil {
				columns = slices.Clone(fields)
				return header(fields)
			}
			if !slices.Equal(columns, fields) {
				return fmt.Errorf("the columns are %.80q, those of the first part %.80q", fields, columns)
			}
			return nil
		}, row); err != nil {
			return err
		}
	}
	return nil
}

// parts returns the names of the parts of a table that is a folder, as Spark writes one, without their endings; nil if it is a file.
func (f folder) parts(name string) (parts []string, err error) {
	there := f.present(name)
	if len(there) != 1 {
		return nil, nil
	}
	dir := f.prefix + name + there[0]
	if info, err := fs.Stat(f.files, dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	entries, err := fs.ReadDir(f.files, dir)
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), there[0]); ok && !strings.HasPrefix(base, "_") && !strings.HasPrefix(base, ".") {
			info, err := e.Info()
			if err != nil {
				return nil, err
			}
			f.memory.grow(info.Size())
			parts = append(parts, name+there[0]+"/"+base)
		}
	}
	if err == nil && len(parts) == 0 {
		err = fmt.Errorf("%s has no file that ends in %s", f.path(name)+there[0], there[0])
	}
	return parts, err
}

func (f folder) whole(name string, header, row func(fields []string) error) error {
	file, path, ending, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	i := slices.IndexFunc(f.formats, func(format Format) bool { return format.Ending == ending })
	if i < 0 {
		return ReadCSV(file, path, header, row)
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	at, ok := file.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("%s: not a file that can be read at any place", path)
	}
	if err := f.formats[i].Read(at, info.Size(), valid(header), valid(row)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// valid returns a function of fields that refuses those that are not UTF-8.
func valid(f func(fields []string) error) func(fields []string) error {
	return func(fields []string) error {
		for _, text := range fields {
			if !utf8.ValidString(text) {
				return notUTF8([]byte(text))
			}
		}
		return f(fields)
	}
}

// cause drops the path of a file system's error; the message has it already.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
