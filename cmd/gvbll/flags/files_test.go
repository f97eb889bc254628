package flags

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputsAreChecked: whether a file or a folder can be written is known before the work, and nothing is left of the check: neither a
// file that was not there, nor a change of one that was.
func TestOutputsAreChecked(t *testing.T) {
	dir := t.TempDir()
	fresh, there := filepath.Join(dir, "fresh"), filepath.Join(dir, "there")
	must(t, os.WriteFile(there, []byte("kept"), 0o600))
	for _, path := range []string{"", "-", fresh, there} {
		must(t, CheckOutput("--out", path))
	}
	if b, err := os.ReadFile(there); string(b) != "kept" {
		t.Errorf("a file that was there has %q (%v), want what it had", b, err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "no", "such"), filepath.Join(there, "below")} {
		if err := CheckOutput("--out", path); err == nil || !strings.HasPrefix(err.Error(), "--out: ") || !strings.HasSuffix(err.Error(), "give a file that can be written") {
			t.Errorf("%s: error %v, want one that names the flag and the remedy", path, err)
		}
	}
	made := filepath.Join(dir, "made", "deeper")
	must(t, CheckFolder("--state-dir", "", 0o700))
	must(t, CheckFolder("--state-dir", made, 0o700))
	if i, err := os.Stat(made); err != nil || i.Mode().Perm() != 0o700 {
		t.Errorf("the folder that was made is %v (%v), want one for its owner alone", i, err)
	}
	if err := CheckFolder("--state-dir", there, 0o700); err == nil || !strings.HasPrefix(err.Error(), "--state-dir: ") {
		t.Errorf("a file where a folder is needed: error %v, want one that names the flag", err)
	}
	for folder, want := range map[string]int{made: 0, dir: 2} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != want {
			t.Errorf("%s has %v (%v), want %d entries", folder, left, err, want)
		}
	}
}

// TestWriteFile: a file is written in place of what it had, or the output.
func TestWriteFile(t *testing.T) {
	path, want := filepath.Join(t.TempDir(), "out.json"), "{\n  \"a\": 1\n}\n"
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x"), 100), 0o600))
	var out bytes.Buffer
	write := func(w io.Writer) error { return PrintJSON(w, map[string]int{"a": 1}) }
	must(t, WriteFile(&out, path, write))
	if b, err := os.ReadFile(path); string(b) != want || out.Len() > 0 {
		t.Errorf("the file has %q (%v), and the output %q, want %q and nothing", b, err, out.String(), want)
	}
	must(t, WriteFile(&out, "-", write))
	if out.String() != want {
		t.Errorf("the output is %q, want %q", out.String(), want)
	}
	if err := WriteFile(&out, path, func(w io.Writer) error { return PrintJSON(w, func() {}) }); err == nil {
		t.Error("a function was written as JSON")
	}
}

// TestMapsAreBounded: a map is read with its hash before it, and a file that is too long or no map is refused by its name.
func TestMapsAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map")
	write := func(text string) { must(t, os.WriteFile(path, []byte(text), 0o600)) }
	for text, want := range map[string]string{
		"dance\n":                              path + ": ",
		strings.Repeat("#", maxConfig+1):       "has more than 1048576 bytes",
		strings.Repeat("# x\n", 8*maxConfig/4): "has more than 1048576 bytes",
	} {
		write(text)
		if _, err := OpenMap(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q of %d bytes: error %v, want %q", text, len(text), err, want)
		}
	}
	if _, err := OpenMap(filepath.Join(path, "none")); err == nil {
		t.Error("a map that is not there was read")
	}
}
