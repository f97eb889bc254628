package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

// TestFlagsAreFew bounds the number of flags that --help shows, global flags included, so
// that people can still read it. The 56th of work is --registry: without it a topic in Avro cannot be read at all. --by
// is the one that says by what scores are told apart, --reasons the one that says which predictions are explained.
func TestFlagsAreFew(t *testing.T) {
	for command, most := range map[string]int{"demo": 30, "backtest": 30, "train": 40, "work": 60, "send": 40, "audit": 35} {
		if n := len(flagLines(t, command)); n > most {
			t.Errorf("gvbll %s --help shows %d flags, want at most %d", command, n, most)
		}
	}
}

// flagLines returns the lines of a command's help that begin with a flag.
func flagLines(t *testing.T, command string) []string {
	t.Helper()
	return regexp.MustCompile(`(?m)^ +(-[a-z], )?--.*$`).FindAllString(gvbll(t, "help", command), -1)
}

// TestEveryFlagHasAGroup: every group that a flag names has a heading. In --help the flags
// without a group come first and the global flags last.
func TestEveryFlagHasAGroup(t *testing.T) {
	var c cli
	var out lines
	k := program(&c).Parser(t.Context(), new(flags.Global), (&shell{t: t}).process(&out, &out), func(int) {})
	for _, n := range k.Model.Leaves(true) {
		for _, f := range n.Flags {
			if f.Group != nil && flags.GroupIndex(f) < 0 {
				t.Errorf("gvbll %s --%s is in group %q, which has no heading", n.Name, f.Name, f.Group.Key)
			}
		}
	}
	lines := flagLines(t, "work")
	if !strings.Contains(lines[0], "--model") || !strings.Contains(lines[len(lines)-1], "--log-format") {
		t.Errorf("the help of gvbll work begins with %q and ends with %q", lines[0], lines[len(lines)-1])
	}
}
