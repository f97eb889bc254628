package main

import (
	"log"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary run as gvbll, for scripts and for tests that need a
// process that they can signal.
func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(tidy{m}, map[string]func(){
		"gvbll": main,
		"generate": func() { // a graph for scripts
			if err := generate(os.Args[1:]...); err != nil {
				log.Fatal(err)
			}
		},
	})
}

// tidy removes that folder after all tests, which have garbage collected less often.
type tidy struct{ *testing.M }

func (t tidy) Run() int {
	debug.SetGCPercent(400) // of many short streams
	code := t.M.Run()
	os.RemoveAll(scratch())
	return code
}

// asProgram in the environment makes the test binary behave as gvbll.
const asProgram = "GVBLL_TEST_AS_PROGRAM"

func TestScripts(t *testing.T) {
	t.Parallel()
	m := tenClasses(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			e.Vars = append(e.Vars, "MODEL="+m)
			return nil
		},
	})
}

// TestEnvironment: a flag that is not on the command line has its value from the
// environment.
func TestEnvironment(t *testing.T) {
	sh := &shell{t: t, env: []string{"GVBLL_PREFIX=no blanks allowed"}}
	if code, _, errs := sh.command("topics"); code != exitUsage || !strings.Contains(errs, "no blanks allowed") {
		t.Errorf("exit code %d, want %d and the prefix of the environment: %s", code, exitUsage, errs)
	}
}

// TestMisspeltVariable: a variable that begins as a flag's does and is none is refused.
// Those that Kubernetes sets for a service of this name are not.
func TestMisspeltVariable(t *testing.T) {
	for name, refused := range map[string]bool{
		"GVBLL_WINDOWS": true, "GVBLL_": true, "GVBLL_HELP": true,
		"GVBLL_WINDOW": false, "GVBLL_SASL_PASSWORD": false, "GVBLLX": false,
		"GVBLL_PORT": false, "GVBLL_PORT_8473_TCP": false, "GVBLL_PORT_8473_TCP_ADDR": false, "GVBLL_HEADLESS_SERVICE_PORT_HTTP": false, "GVBLL_SERVICE_HOST": false,
	} {
		t.Run(name, func(t *testing.T) {
			sh := &shell{t: t, env: []string{name + "="}}
			code, _, errs := sh.command("version")
			if got := code == exitUsage && strings.Contains(errs, "variable "+name+":"); got != refused || !refused && code != exitOK {
				t.Errorf("exit code %d: %q; refused %t, want %t", code, errs, got, refused)
			}
		})
	}
}
