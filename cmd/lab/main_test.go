package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"lab": main}) }

func TestScripts(t *testing.T) { testscript.Run(t, testscript.Params{Dir: "testdata"}) }

var update = flag.Bool("update", false, "write docs/lab.md")

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

// TestCommandLineIsDocumented: docs/lab.md has the help of every command as it is.
func TestCommandLineIsDocumented(t *testing.T) {
	const file = "../../docs/lab.md"
	var b strings.Builder
	b.WriteString("# What measures\n\n" +
		"`go run ./cmd/lab COMMAND`, in a checkout, is not part of gvbll's binary and image. [table.md](table.md) and [coverage.md](coverage.md)\n" +
		"say what came of it. What an arrival costs is measured by benchmarks ([performance.md](performance.md)). Files of flags and the environment work as [with gvbll](cli.md).\n\n" +
		"This page is made of the program's own help: `go test ./cmd/lab -run TestCommandLineIsDocumented -update`. A group of flags that\n" +
		"stands at an earlier command is left out.\n")
	seen := make(map[string]bool)
	for _, name := range []string{"generate", "table", "graphs", "coverage"} {
		parts := strings.Split(lab(t, "help", name), "\n\n")
		parts = slices.DeleteFunc(parts, func(part string) bool {
			text := strings.TrimSpace(part)
			defer func() { seen[text] = true }()
			return seen[text]
		})
		fmt.Fprintf(&b, "\n## lab %s\n\n```text\n%s\n```\n", name, strings.TrimSpace(strings.Join(parts, "\n\n")))
	}
	if *update {
		must(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	got, err := os.ReadFile(file)
	must(t, err)
	if string(got) != b.String() {
		t.Errorf("%s is out of date: go test ./cmd/lab -run TestCommandLineIsDocumented -update", file)
	}
}
