package base_test

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/topics/base"
)

// TestHome: the first ledger that writes into a folder owns it. One of the same name on another cluster, or created anew, has a
// folder of its own beside. A folder of 1.0.0, which says nothing of an owner, is of the ledger that names a base there.
func TestHome(t *testing.T) {
	dir := t.TempDir()
	s, err := base.Open(dir, "g.ledger")
	if err != nil {
		t.Fatal(err)
	}
	first, second := base.Owner{Cluster: "A", Topic: "1", Ledger: "g.ledger"}, base.Owner{Cluster: "B", Topic: "2", Ledger: "g.ledger"}
	again := base.Owner{Cluster: "A", Topic: "3", Ledger: "g.ledger"}
	for _, c := range []struct {
		of   base.Owner
		want string
	}{{first, ""}, {second, "g.ledger-B-2"}, {first, ""}, {again, "g.ledger-A-3"}, {second, "g.ledger-B-2"}} {
		home, name, err := c.of.Home(t.Context(), s, nil)
		if err != nil || name != c.want || home.String() != filepath.Join(dir, cmp.Or(name, "g.ledger")) {
			t.Errorf("the home of %v is %v, %q (%v), want %q", c.of, home, name, err, c.want)
		}
		if owner, err := base.OwnerOf(t.Context(), home); err != nil || *owner != c.of {
			t.Errorf("the owner of %v is %v (%v)", home, owner, err)
		}
	}

	old, err := base.Open(dir, "old.ledger")
	if err != nil {
		t.Fatal(err)
	}
	name, _ := write(t, old, 5, []byte("state"), nil)
	if _, at, err := second.Home(t.Context(), old, nil); err != nil || at == "" {
		t.Errorf("a ledger that names no base there gets %q (%v)", at, err)
	}
	if _, at, err := first.Home(t.Context(), old, []base.Name{name}); err != nil || at != "" {
		t.Errorf("the ledger that names the base gets %q (%v)", at, err)
	}
	if _, at, err := second.Home(t.Context(), old, []base.Name{name}); err != nil || at == "" {
		t.Errorf("another ledger that names it, too, gets %q (%v)", at, err)
	}
	owner := filepath.Join(dir, "old.ledger", "owner")
	for _, length := range []int64{1, 6 << 30} { // cut short, and with a hole behind it
		if err := os.Truncate(owner, length); err != nil {
			t.Fatal(err)
		}
		if _, _, err := first.Home(t.Context(), old, nil); err == nil {
			t.Errorf("an owner of %d bytes is believed", length)
		}
	}
}

// TestWhole: a base of which a part or the list is gone is missing.
func TestWhole(t *testing.T) {
	dir := t.TempDir()
	s, err := base.Open(dir, "g.ledger")
	if err != nil {
		t.Fatal(err)
	}
	name, _ := write(t, s, 5, []byte("state"), nil)
	if _, err := base.Whole(t.Context(), s, name); err != nil {
		t.Error(err)
	}
	objects, _ := s.List(t.Context())
	slices.Reverse(objects) // the part first
	for _, o := range objects {
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if _, err := base.Whole(t.Context(), s, name); !base.Useless(err) {
			t.Errorf("without %s: %v, want %v", o, err, fs.ErrNotExist)
		}
	}
}
