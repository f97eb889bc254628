package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"lab": main}) }

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lab runs a command line that must succeed, and returns its standard output.
func lab(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := program(new(cli)).Run(t.Context(), args, flags.Process{Out: &out, Err: &errs}); code != flags.ExitOK {
		t.Fatalf("lab %s: exit code %d\n%s", strings.Join(args, " "), code, &errs)
	}
	return out.String()
}

// TestCommandLineIsDocumented: docs/lab.md names every command, and each has help.
func TestCommandLineIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/lab.md")
	must(t, err)
	for _, name := range []string{"generate", "table", "coverage"} {
		if help := lab(t, "help", name); !strings.HasPrefix(help, "Usage: lab "+name) {
			t.Errorf("lab help %s prints\n%s", name, help)
		}
		if !strings.Contains(string(page), "| `lab "+name+"` |") {
			t.Errorf("docs/lab.md has no lab %s", name)
		}
	}
}
