package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/topics/checkpoint"
)

func windows(t *testing.T, d *checkpoint.Dir) (list []int64) {
	t.Helper()
	entries, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Window)
	}
	return list
}

// TestDir: the newest are kept, what is half-written does not count and goes
// with the next start, and other files are left alone.
func TestDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "not", "there", "yet")
	d, err := checkpoint.Open(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	write := func(window int64) *checkpoint.Writer {
		t.Helper()
		w, err := d.Create(window)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("state")); err != nil {
			t.Fatal(err)
		}
		return w
	}
	if err := os.WriteFile(filepath.Join(path, "checkpoint-7.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, window := range []int64{9, 10, 200} {
		if err := write(window).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	write(300) // the process is killed here
	write(400).Abort()
	if got := windows(t, d); !slices.Equal(got, []int64{200, 10}) {
		t.Errorf("windows %v, want 200 and 10", got)
	}
	if d, err = checkpoint.Open(path, 1); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(path)
	if err != nil || len(files) != 3 {
		t.Errorf("%v (%v), want two checkpoints and the other file", files, err)
	}
	if err := write(500).Commit(); err != nil {
		t.Fatal(err)
	}
	if got := windows(t, d); !slices.Equal(got, []int64{500}) {
		t.Errorf("windows %v, want 500", got)
	}
	b, err := os.ReadFile(filepath.Join(path, "checkpoint-00000000000000000500.safetensors"))
	if err != nil || string(b) != "state" {
		t.Errorf("%q (%v)", b, err)
	}
	if _, err := checkpoint.Open(path, 0); err == nil {
		t.Error("none are to be kept, and nobody minds")
	}
}
