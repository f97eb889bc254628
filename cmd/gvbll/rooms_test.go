package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestRooms holds the imports to ARCHITECTURE.md: who must not know whom,
// directly or through others.
func TestRooms(t *testing.T) {
	const module = "github.com/gvbll/gvbll/"
	for _, room := range []struct {
		name   string
		absent []string
	}{
		{"topics/...", []string{"gnn", "posterior", "pipeline/model", "cmd"}},
		{"pipeline/...", []string{"topics", "cmd"}},
		{"gnn/...", []string{"topics", "posterior", "pipeline", "cmd"}},
		{"posterior/...", []string{"topics", "gnn", "pipeline", "cmd"}},
	} {
		out, err := exec.Command("go", "list", "-deps", module+room.name).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := strings.Fields(string(out))
		for _, d := range deps {
			for _, a := range room.absent {
				if d == module+a || strings.HasPrefix(d, module+a+"/") {
					t.Errorf("%s depends on %s", room.name, d)
				}
			}
			if !strings.HasPrefix(room.name, "topics") && (strings.Contains(d, "segmentio/kafka-go") || strings.Contains(d, "twmb/franz-go")) {
				t.Errorf("%s knows Kafka: %s", room.name, d)
			}
		}
	}
	// The engine itself: no clock, no chance.
	out, err := exec.Command("go", "list", "-f", "{{join .Imports \"\\n\"}}", module+"pipeline").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range strings.Fields(string(out)) {
		switch d {
		case "time", "sync", "math/rand", "math/rand/v2", "crypto/rand", "os":
			t.Errorf("the engine imports %s", d)
		}
	}
}
