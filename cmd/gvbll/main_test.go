package main

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the program as well: scripts and tests that
// need a process of their own run it.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(tidy{m}, map[string]func(){"gvbll": main})
}

// scratch is a folder for what several tests share.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "gvbll-test")
	if err != nil {
		panic(err)
	}
	return dir
})

// tidy removes that folder after the tests.
type tidy struct{ *testing.M }

func (t tidy) Run() int {
	code := t.M.Run()
	os.RemoveAll(scratch())
	return code
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
