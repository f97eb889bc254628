package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// TestFlagsAreFew holds the number of flags that --help shows, those that every
// command has among them, to what a person can read.
func TestFlagsAreFew(t *testing.T) {
	for command, most := range map[string]int{"demo": 30, "train": 40, "work": 45, "send": 40, "audit": 35} {
		if n := len(flagLines(t, command)); n > most {
			t.Errorf("gvbll %s --help shows %d flags, want at most %d", command, n, most)
		}
	}
}

// flagLines are the lines of a command's help that begin with a flag.
func flagLines(t *testing.T, command string) []string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"help", command}, &out, &errs); code != exitOK {
		t.Fatalf("gvbll help %s: exit code %d: %s", command, code, &errs)
	}
	return regexp.MustCompile(`(?m)^ +(-[a-z], )?--.*$`).FindAllString(out.String(), -1)
}

// TestEveryFlagHasAGroup: flags of every command stand under headings that exist,
// those without one first and the global ones last.
func TestEveryFlagHasAGroup(t *testing.T) {
	var c cli
	var out lines
	k := newParser(t.Context(), &c, streams{&out, &out}, func(int) {})
	for _, n := range k.Model.Leaves(true) {
		for _, f := range n.Flags {
			if f.Group != nil && place(f) < 0 {
				t.Errorf("gvbll %s --%s is in group %q, which has no heading", n.Name, f.Name, f.Group.Key)
			}
		}
	}
	lines := flagLines(t, "work")
	if !strings.Contains(lines[0], "--model") || !strings.Contains(lines[len(lines)-1], "--log-format") {
		t.Errorf("the help of gvbll work begins with %q and ends with %q", lines[0], lines[len(lines)-1])
	}
}
