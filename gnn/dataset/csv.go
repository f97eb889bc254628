package dataset

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readCSV calls header with the fields of a table's first line and row with those of
// every other line, as many as the header has, without the spaces around them. Empty
// lines are skipped. A field may be quoted but not contain a line break, so that no
// record takes more memory than maxLine.
func readCSV(file io.Reader, path string, header, row func(fields []string) error) error {
	width := -1
	err := scan(file, path, func(line []byte, number int) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // the byte order mark, which spreadsheets write
		}
		if len(line) == 0 {
			return nil
		}
		fields, err := split(line)
		switch {
		case err != nil:
			return err
		case width < 0:
			width = len(fields)
			return header(fields)
		case len(fields) != width:
			return fmt.Errorf("%d fields, the header has %d", len(fields), width)
		}
		return row(fields)
	})
	if err == nil && width < 0 {
		err = fmt.Errorf("%s is empty, want a header", path)
	}
	return err
}

// maxFields is the most fields of a line: the features, id, label, year, and
// room for commas inside quotes.
const maxFields = maxDim + 1024

// split returns the fields of a line. encoding/csv is used only where there are
// quotes: its reader's buffer costs more than most lines.
func split(line []byte) (fields []string, err error) {
	// A field takes sixteen times a comma's memory, and more in the map of a
	// header.
	if n := bytes.Count(line, []byte(",")); n >= maxFields {
		return nil, fmt.Errorf("%d commas, want fewer than %d", n, maxFields)
	}
	if bytes.IndexByte(line, '"') < 0 {
		fields = strings.Split(string(line), ",")
	} else if fields, err = csv.NewReader(bytes.NewReader(line)).Read(); err != nil {
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
