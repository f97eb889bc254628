package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the program as well: scripts and tests that
// need a process of their own run it.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){"gvbll": main})
}

// asProgram in the environment makes the test binary behave as gvbll.
const asProgram = "GVBLL_TEST_AS_PROGRAM"

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

// TestEnvironment: a flag that is not given is taken from the environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("GVBLL_PREFIX", "no blanks allowed")
	var out, errs lines
	if code := run(context.Background(), []string{"topics"}, &out, &errs); code != exitUsage || !errs.has("no blanks allowed") {
		t.Errorf("exit code %d: %s", code, errs.b)
	}
}
