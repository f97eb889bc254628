package serve_test

import (
	"fmt"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestChain: the hash depends on predictions, on what is learned, on refusals and on where
// windows are cut.
func TestChain(t *testing.T) {
	chain := func(windows ...string) event.Hash {
		all := stepped(t, pipeline.Config{}, windows...)
		return all[len(all)-1].Chain
	}
	const node, label = "node 1 x=1,0", "label 1 red"
	seen := map[event.Hash]string{{}: "nothing"}
	for _, windows := range [][]string{
		{node},
		{node, label},
		{node + "\n" + label},
		{node, "label 1 blue"},
		{"node 2 x=1,0", "label 2 red"},
		{"node 1 x=2,0", label},
		{node, label, ""},
		{node, label, "label 1 green"},
	} {
		h, name := chain(windows...), fmt.Sprintf("%q", windows)
		if other, same := seen[h]; same {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		if h != chain(windows...) {
			t.Errorf("%s has different hashes when repeated", name)
		}
		seen[h] = name
	}
}
