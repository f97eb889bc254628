// Package gvbll has what is tested of the whole tree: who imports whom, what ARCHITECTURE.md names, which decoders are fuzzed, which bounds are crossed.
package gvbll

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestArchitecturePaths: every file and folder that a table of ARCHITECTURE.md
// names exists. A name is relative to the project or to a folder that was named
// before it in the same row.
func TestArchitecturePaths(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	must(t, err)
	quoted := regexp.MustCompile("`([a-z][a-z_]*(?:/[a-z_/]+)?(?:\\.go)?)`")
	checked := 0
	for row := range strings.Lines(string(page)) {
		if !strings.HasPrefix(row, "|") {
			continue
		}
		folders := []string{""}
		for _, m := range quoted.FindAllStringSubmatch(row, -1) {
			at := slices.IndexFunc(folders, func(folder string) bool {
				_, err := os.Stat(path.Join(folder, m[1]))
				return err == nil
			})
			switch isPath := strings.ContainsAny(m[1], "/."); {
			case at >= 0:
				name := path.Join(folders[at], m[1])
				folders = append([]string{name, path.Dir(name)}, folders...)
			case isPath:
				t.Errorf("%s does not exist, but is named in: %s", m[1], row)
			}
			checked++
		}
	}
	if checked < 80 {
		t.Errorf("found %d names, want at least 80: has the form of the tables changed?", checked)
	}
}
