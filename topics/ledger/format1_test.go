package ledger

import (
	"os"
	"strings"
	"testing"
)

// TestFormat1: a ledger that an earlier version wrote in format 1 can still be read.
func TestFormat1(t *testing.T) {
	b, err := os.ReadFile("testdata/format1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		r, err := Decode([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if r.Version != 1 || r.Window != int64(i) || !strings.HasPrefix(r.Settings, "engine=5 lambda=0.99 ") || r.Configuration != "" || r.Chain == "" {
			t.Errorf("line %d is read as %+v, want window %d in format 1 with settings and chain", i, r, i)
		}
	}
}
