package event

import (
	"os"
	"strings"
	"testing"
)

// TestReasonsAreDocumented: docs/hostile-input.md has a row with a remedy for every
// reason, and the description of the wire format refers to it.
func TestReasonsAreDocumented(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	table := read("hostile-input.md")
	for _, reason := range Reasons() {
		if !strings.Contains(table, "| `"+string(reason)+"` |") {
			t.Errorf("hostile-input.md has no row for %s", reason)
		}
	}
	if !strings.Contains(read("wire-format.md"), "(hostile-input.md)") {
		t.Error("wire-format.md does not refer to hostile-input.md")
	}
}
