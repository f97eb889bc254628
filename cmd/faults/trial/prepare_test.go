package trial

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// writing is a cluster that needs its folder until it has ended, and writes to it as it ends.
type writing struct {
	t   *testing.T
	dir string
}

func (w writing) addresses() []string       { return nil }
func (w writing) disturb(*rand.Rand) string { return "" }
func (w writing) calm()                     {}

func (w writing) close() {
	if _, err := os.ReadFile(filepath.Join(w.dir, "pid")); err != nil {
		w.t.Errorf("the cluster's process is not known any more: %v", err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "data"), nil, 0o600); err != nil {
		w.t.Error(err)
	}
}

// TestEnd: the cluster ends while its folder is there, and leaves nothing behind. After a
// trial that failed, the folder stays.
func TestEnd(t *testing.T) {
	for _, failed := range []error{nil, errors.New("a node is lost")} {
		dir := filepath.Join(t.TempDir(), "trial")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "pid"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s := &Setup{Cluster: writing{t, dir}, Dir: dir}
		if err := s.End(failed); !errors.Is(err, failed) {
			t.Errorf("the trial ended with %v, and End returns %v", failed, err)
		}
		_, err := os.Stat(dir)
		if kept := err == nil; kept != (failed != nil) {
			t.Errorf("after %v the folder is kept: %t", failed, kept)
		}
	}
}
