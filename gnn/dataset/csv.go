package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// ReadCSV calls header with the fields of a table's first line and row with those of
// every other record, as many as the header has, without the spaces around them. Empty
// lines are skipped. A quoted field may have line breaks, which become spaces. Fields end in a comma; or in what a first line
// such as sep=; names; or, where the header has no comma, in its semicolons or tabs. No record takes more memory than maxLine.
func ReadCSV(file io.Reader, path string, header, row func(fields []string) error) error {
	width, mark := -1, byte(0)
	var open []byte // a record with a quote that is not closed yet
	began := 0
	err := scan(file, path, func(line []byte, number int) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // the byte order mark, which spreadsheets write
			if rest, named := bytes.CutPrefix(line, []byte("sep=")); named && len(rest) <= 1 {
				mark = append(rest, '\t')[0] // a tab is trimmed
				return nil
			}
			if bytes.HasPrefix(line, []byte(lfsPointer)) {
				return errLFS
			}
		}
		if len(line) == 0 && open == nil {
			return nil
		}
		if !utf8.Valid(line) {
			return notUTF8(line)
		}
		odd := bytes.Count(line, []byte(`"`))%2 == 1
		switch wasOpen := open != nil; {
		case wasOpen && len(open)+len(line) > maxLine:
			return fmt.Errorf("a quoted field from line %d on is not closed", began)
		case wasOpen:
			if open = append(append(open, ' '), line...); !odd {
				return nil
			}
			line, open = open, nil
		case odd:
			open, began = slices.Clone(line), number
			return nil
		}
		if mark == 0 {
			mark = markOf(line)
		}
		fields, err := split(line, mark)
		switch {
		case err != nil && began > 0:
			return fmt.Errorf("the record from line %d on: %w", began, err)
		case err != nil:
			return err
		case width < 0:
			width, began = len(fields), 0
			return header(fields)
		case len(fields) != width:
			return fmt.Errorf("%d fields, the header has %d", len(fields), width)
		}
		began = 0
		return row(fields)
	})
	switch {
	case err != nil:
		return err
	case open != nil:
		return fmt.Errorf("%s line %d: a quoted field is not closed", path, began)
	case width < 0:
		return fmt.Errorf("%s is empty, want a header", path)
	}
	return nil
}

func markOf(header []byte) byte {
	for _, mark := range []byte{',', ';', '\t'} {
		if bytes.IndexByte(header, mark) >= 0 {
			return mark
		}
	}
	return ','
}

// lfsPointer begins what Git has in the place of a file that it keeps elsewhere.
const lfsPointer = "version https://git-lfs"

var errLFS = errors.New("is a pointer of Git LFS, and not the file: fetch it with 'git lfs pull'")

func notUTF8(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return errors.New("is UTF-16, as Excel's \"Unicode text\": save it as \"CSV UTF-8\", or convert it: iconv -f utf-16 -t utf-8")
	}
	at := 0
	for r, n := utf8.DecodeRune(text); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(text[at:]) {
		at += n
	}
	return fmt.Errorf("%.40q is not UTF-8: convert the file: iconv -f latin1 -t utf-8", text[max(at-8, 0):min(at+8, len(text))])
}

// maxFields is the most fields of a line: the features, id, label, year, and
// room for commas inside quotes.
const maxFields = maxDim + 1024

// split returns the fields of a line. encoding/csv is used only where there are
// quotes: its reader's buffer costs more than most lines.
func split(line []byte, mark byte) (fields []string, err error) {
	// A field takes sixteen times a comma's memory, and more in the map of a
	// header.
	if n := bytes.Count(line, []byte{mark}); n >= maxFields {
		return nil, fmt.Errorf("%d commas, want fewer than %d", n, maxFields)
	}
	if bytes.IndexByte(line, '"') < 0 {
		fields = strings.Split(string(line), string(rune(mark)))
	} else if fields, err = quoted(line, mark); err != nil {
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			err = fmt.Errorf("column %d: %w", bad.Column, bad.Err)
		}
		return nil, err
	}
	for i, field := range fields {
		fields[i] = strings.TrimSpace(field)
	}
	return fields, nil
}

func quoted(line []byte, mark byte) ([]string, error) {
	r := csv.NewReader(bytes.NewReader(line))
	r.Comma = rune(mark)
	return r.Read()
}

// unique returns an error when a column has no name or the name of another.
func unique(header []string) error {
	seen := make(map[string]bool, len(header))
	for i, name := range header {
		switch {
		case name == "":
			return fmt.Errorf("column %d of the header has no name (pandas writes its index so: give index=False)", i+1)
		case seen[name]:
			return fmt.Errorf("column %.40q occurs twice in the header", name)
		}
		seen[name] = true
	}
	return nil
}
