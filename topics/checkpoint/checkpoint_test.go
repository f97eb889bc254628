package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gvbll/gvbll/topics/checkpoint"
)

// reopen opens the directory as the next process does.
func reopen(d *checkpoint.Dir, path string, keep int) (*checkpoint.Dir, error) {
	if err := d.Close(); err != nil {
		return nil, err
	}
	return checkpoint.Open(path, keep)
}

// windows returns the windows of the listed checkpoints, newest first.
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

// TestOnlyTheOwnerReads: directory and checkpoints, which have the graph's labels, are for
// their user alone, and a pipe in place of a checkpoint is not waited for.
func TestOnlyTheOwnerReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d, err := checkpoint.Open(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	w, err := d.Create(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]os.FileMode{path: 0o700, filepath.Dir(path): 0o700, list[0].Path: 0o600} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", file, got, want)
		}
	}
	pipe := filepath.Join(path, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := checkpoint.OpenFile(pipe); err == nil {
		t.Error("a pipe is opened")
	}
}

// TestDir: the newest checkpoints are kept and older ones removed. A checkpoint that was not
// committed is never listed, and is removed when the directory is opened again. Other files
// are left alone.
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
	write(300) // never ended, as if the process were killed
	write(400).Abort()
	if got := windows(t, d); !slices.Equal(got, []int64{200, 10}) {
		t.Errorf("the checkpoints are before windows %v, want 200 and 10", got)
	}
	if d, err = reopen(d, path, 1); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(path)
	if err != nil || len(files) != 4 {
		t.Errorf("after opening again there are %v (error %v), want two checkpoints, the lock and the other file", files, err)
	}
	if err := write(500).Commit(); err != nil {
		t.Fatal(err)
	}
	if got := windows(t, d); !slices.Equal(got, []int64{500}) {
		t.Errorf("the checkpoints are before windows %v, want 500", got)
	}
	b, err := os.ReadFile(filepath.Join(path, "checkpoint-00000000000000000500.safetensors"))
	if err != nil || string(b) != "state" {
		t.Errorf("the checkpoint contains %q (error %v), want %q", b, err, "state")
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil { // somebody tidies up
		t.Fatal(err)
	}
	if err := write(600).Commit(); err != nil {
		t.Fatal(err)
	}
	if got := windows(t, d); !slices.Equal(got, []int64{600}) {
		t.Errorf("in a directory that was made anew, the checkpoints are before windows %v, want 600", got)
	}
	if _, err := checkpoint.Open(path, 1); err == nil {
		t.Error("the directory that was made anew is not locked")
	}
	if _, err := checkpoint.Open(path, 0); err == nil {
		t.Error("Open accepts to keep 0 checkpoints")
	}
}

// TestBlocks: the folder with what a checkpoint refers to comes and goes with it, also when
// the process is killed in between.
func TestBlocks(t *testing.T) {
	path := t.TempDir()
	d, err := checkpoint.Open(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	create := func(window int64, block string) *checkpoint.Writer {
		t.Helper()
		w, err := d.Create(window)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(w.Blocks(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.Blocks(), "7"), []byte(block), 0o644); err != nil {
			t.Fatal(err)
		}
		return w
	}
	for i, block := range []string{"first", "second", "third", "third again"} {
		if err := create(min(int64(i), 2), block).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	create(8, "aborted").Abort()
	create(9, "never ended")
	if err := os.Mkdir(checkpoint.Blocks(filepath.Join(path, "checkpoint-00000000000000000000.safetensors")), 0o755); err != nil {
		t.Fatal(err) // half of an old one that was being removed
	}
	if d, err = reopen(d, path, 2); err != nil {
		t.Fatal(err)
	}
	list, err := d.List()
	if err != nil || len(list) != 2 {
		t.Fatalf("there are %v (error %v), want two checkpoints", list, err)
	}
	for i, want := range []string{"third again", "second"} {
		b, err := os.ReadFile(filepath.Join(checkpoint.Blocks(list[i].Path), "7"))
		if err != nil || string(b) != want {
			t.Errorf("the checkpoint before window %d refers to %q (error %v), want %q", list[i].Window, b, err, want)
		}
	}
	if files, err := filepath.Glob(filepath.Join(path, "checkpoint-*")); err != nil || len(files) != 4 {
		t.Errorf("there are %v (error %v), want two files and two folders", files, err)
	}
}

// TestFolders: each ledger has a folder of its own, which one process writes into.
func TestFolders(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a[b]*")
	write := func(folder string, window int64) {
		t.Helper()
		d, err := checkpoint.Open(folder, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		w, err := d.Create(window)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	write(checkpoint.Folder(root, "g.ledger", "01"), 7)
	write(checkpoint.Folder(root, "g.ledger", "02"), 5)
	write(checkpoint.Folder(root, "g.ledger", ""), 9)
	write(checkpoint.Folder(root, "other.ledger", "03"), 8)
	list, err := checkpoint.Find(root, "g.ledger")
	if err != nil {
		t.Fatal(err)
	}
	var windows []int64
	for _, e := range list {
		windows = append(windows, e.Window)
	}
	if !slices.Equal(windows, []int64{9, 7, 5}) {
		t.Errorf("found the checkpoints before windows %v, want 9 7 5", windows)
	}
	if list, err := checkpoint.Find(filepath.Join(root, "missing"), "g.ledger"); err != nil || list != nil {
		t.Errorf("in a folder that does not exist found %v with error %v, want nothing", list, err)
	}

	folder := checkpoint.Folder(root, "g.ledger", "01")
	first, err := checkpoint.Open(folder, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checkpoint.Open(folder, 1); err == nil || !strings.Contains(err.Error(), "another worker") {
		t.Errorf("opened twice: error %v, want that another worker writes there", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	write(folder, 8)
}
