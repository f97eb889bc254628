// Package posteriortest has what the tests of several packages of the posterior use.
package posteriortest

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// Shared returns the path of a file or folder of the folder shared, which lies in the
// working directory or above it. It skips the test if there is none.
func Shared(tb testing.TB, name string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		path := filepath.Join(dir, "shared", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
		if dir == filepath.Dir(dir) {
			tb.Skipf("no shared/%s above the working directory", name)
		}
		dir = filepath.Dir(dir)
	}
}

// Golden reads a file of golden values, which Python computed, into dst. It skips the
// test if there is no such file.
func Golden(t *testing.T, name string, dst any) {
	t.Helper()
	b, err := os.ReadFile(Shared(t, filepath.Join("goldens", name)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, dst); err != nil {
		t.Fatal(err)
	}
}

// WantClose fails unless got is within tol of want, relative to 1 or to want if that is
// larger.
func WantClose(t *testing.T, what string, got, want []float64, tol float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tol*max(1, math.Abs(want[i]))) {
			t.Fatalf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

// WantPanic fails unless f panics.
func WantPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if recover() == nil {
			t.Errorf("%s: no panic", name)
		}
	}()
	f()
}
