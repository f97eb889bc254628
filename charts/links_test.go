package charts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinks: every relative link of the pages leads to a file that is there, and to a heading of it.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```")
	linked, mark := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`), regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	known := make(map[string][]string)
	headings := func(page string) []string {
		if known[page] != nil {
			return known[page]
		}
		for _, h := range found(`(?m)^#+ (.*)$`, code.ReplaceAllString(read(t, page), "")) {
			h = mark.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(h, "$1")), "")
			known[page] = append(known[page], strings.ReplaceAll(h, " ", "-"))
		}
		return known[page]
	}
	pages := []string{"../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md"}
	for _, pattern := range []string{"../docs/*.md", "../docs/*/*.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	for _, page := range pages {
		for _, link := range found(`\]\(([^)\s]+)\)`, code.ReplaceAllString(read(t, page), "")) {
			if strings.HasPrefix(link, "https://") {
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			target := filepath.Clean(page)
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", page, link)
			} else if anchor != "" && !slices.Contains(headings(target), anchor) {
				t.Errorf("%s links to %s, and there is no such heading", page, link)
			}
		}
	}
}
