package flags

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// OpenInput opens a file for reading, or standard input for -.
func (p Process) OpenInput(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(p.In), nil
	}
	return os.Open(path)
}

// CheckOutput returns an error if the file that a flag names cannot be written, so that
// this is known before the work. It changes nothing. No file, or -, is in order.
func CheckOutput(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	_, err := os.Stat(path)
	there := err == nil
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w: give a file that can be written", flag, err)
	}
	if !there {
		err = os.Remove(path)
	}
	return errors.Join(err, f.Close())
}

// CheckFolder makes the folder that a flag names, "" for none, with the mode, and returns an error if
// no file can be written there, so that this is known before the work.
func CheckFolder(flag, path string, mode os.FileMode) error {
	if path == "" {
		return nil
	}
	err := os.MkdirAll(path, mode)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(path, ".gvbll-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w: give a folder that can be written", flag, err)
	}
	return nil
}

// PrintJSON writes v as indented JSON and a newline.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteFile has a function write a file, or to out for -.
func WriteFile(out io.Writer, path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(out)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(write(w), w.Flush(), f.Close())
}
