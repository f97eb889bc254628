package blocks_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gvbll/gvbll/topics/blocks"
)

func open(t *testing.T, dir string) *blocks.Store {
	t.Helper()
	s, err := blocks.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func write(t *testing.T, s *blocks.Store, block string) int64 {
	t.Helper()
	number, err := s.Write([]byte(block))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// check checks that a store has the block.
func check(t *testing.T, s *blocks.Store, number int64, want string) {
	t.Helper()
	got := make([]byte, len(want)-1)
	s.Prefetch(number, 1, len(got))
	if err := s.ReadAt(number, got, 1); err != nil || string(got) != want[1:] {
		t.Errorf("block %d is ?%s, error %v, want %s", number, got, err, want)
	}
}

// folders returns the names in a directory.
func folders(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		names = append(names, f.Name())
	}
	return names
}

// TestStore: blocks are read back until they are freed. Links to them outlive that and the
// store. Another store claims them, and neither numbers a block like one that it has.
func TestStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := open(t, dir)
	a, b, c := write(t, s, "first"), write(t, s, "second"), write(t, s, "third")
	check(t, s, b, "second")
	if err := s.ReadAt(a, make([]byte, 9), 0); err == nil {
		t.Error("more bytes are read than a block has")
	}
	kept := filepath.Join(dir, "kept")
	if err := s.Link(kept, []int64{a, c}); err != nil {
		t.Fatal(err)
	}
	s.Free(a)
	if err := s.ReadAt(a, make([]byte, 1), 0); err == nil {
		t.Error("a block is read after it was freed")
	}
	check(t, s, c, "third")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	if n := write(t, s, "lost by From"); n == c {
		t.Fatalf("a new store begins with number %d: the test needs another one", n)
	}
	s.From(kept)
	for number, want := range map[int64]string{a: "first", c: "third"} {
		if n, err := s.Claim(number); err != nil || n != int64(len(want)) {
			t.Fatalf("claiming block %d: %d bytes, error %v, want %d", number, n, err, len(want))
		}
		check(t, s, number, want)
	}
	for _, number := range []int64{a, b} {
		if _, err := s.Claim(number); err == nil {
			t.Errorf("block %d is claimed again, or though it was not kept", number)
		}
	}
	if n := write(t, s, "fourth"); n == a || n == c {
		t.Errorf("a new block has number %d, which is taken", n)
	}
	check(t, s, a, "first")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left := folders(t, dir); len(left) != 1 || left[0] != "kept" {
		t.Errorf("%v is left, want the links alone", left)
	}
}

// TestWriteFails: a block that cannot be written is the error of every later call.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	own := filepath.Join(dir, folders(t, dir)[0])
	if err := os.RemoveAll(own); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil { // nothing can be written below it
		t.Fatal(err)
	}
	number := write(t, s, "block") // it is written while the caller goes on
	want := syscall.ENOTDIR
	if _, err := s.Write([]byte("another")); !errors.Is(err, want) {
		t.Errorf("the next block: error %v, want %v", err, want)
	}
	if err := s.ReadAt(number, make([]byte, 1), 0); !errors.Is(err, want) {
		t.Errorf("reading the block: error %v, want %v", err, want)
	}
	if err := s.Link(filepath.Join(dir, "kept"), nil); !errors.Is(err, want) {
		t.Errorf("linking: error %v, want %v", err, want)
	}
	s.Free(number)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestFolderRemoved: somebody removes the folder of a running process. Blocks are read and written
// as before, a checkpoint gets all of them, and nobody sweeps the folder that was made anew.
func TestFolderRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	before := write(t, s, "before")
	check(t, s, before, "before")
	if err := s.Link(filepath.Join(t.TempDir(), "settled"), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	check(t, s, before, "before")
	kept := filepath.Join(t.TempDir(), "kept")
	if err := s.Link(kept, []int64{before}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	after := write(t, s, "after")
	other := open(t, dir) // sweeps
	check(t, s, after, "after")
	if err := s.Link(filepath.Join(dir, "kept"), []int64{before, after}); err != nil {
		t.Fatal(err)
	}
	other.From(kept)
	if n, err := other.Claim(before); err != nil || n != int64(len("before")) {
		t.Fatalf("claiming what was kept: %d bytes, error %v", n, err)
	}
	check(t, other, before, "before")
	if name := other.Name(before); !strings.HasPrefix(name, kept) {
		t.Errorf("the block's name is %s, want that in the folder which stays, %s", name, kept)
	}
	for _, s := range []*blocks.Store{s, other} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOpenSweeps: Open removes the folder of a process that was killed, whose lock the
// system has released, and leaves those of living ones alone.
func TestOpenSweeps(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"blocks-1", "blocks-2"} { // the second was killed before it had a lock
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "7"), bytes.Repeat([]byte("x"), 10), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "blocks-1", "lock"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	number := write(t, s, "block")
	other := open(t, dir)
	check(t, s, number, "block")
	if all := folders(t, dir); len(all) != 2 {
		t.Errorf("there are %v, want the folders of the two stores", all)
	}
	for _, s := range []*blocks.Store{s, other} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all := folders(t, dir); len(all) != 0 {
		t.Errorf("%v is left", all)
	}
}

// TestOpenSweepsOnce: a process looks once for what others have left, however many stores it opens in a folder.
func TestOpenSweepsOnce(t *testing.T) {
	dir := t.TempDir()
	defer open(t, dir).Close()
	if err := os.Mkdir(filepath.Join(dir, "blocks-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	defer open(t, dir).Close()
	if left := folders(t, dir); len(left) != 3 {
		t.Errorf("a second store has looked for folders, and left %q", left)
	}
}

// TestOnlyTheOwnerReads: folders, blocks and links, which have what was served, are for
// their user alone.
func TestOnlyTheOwnerReads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blocks")
	s := open(t, dir)
	defer s.Close()
	number := write(t, s, "block")
	links := filepath.Join(dir, "links")
	if err := s.Link(links, []int64{number}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %o, want none for others", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
