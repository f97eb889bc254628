package flags

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// tool is a program of two commands, with flags of every sort.
type tool struct {
	Work toolWork `cmd:"" help:"Work." group:"serve"`
	Look toolLook `cmd:"" help:"Look." group:"operate"`
}

type toolWork struct {
	Brokers     []string      `default:"127.0.0.1:9092"`
	Window      int           `default:"100"`
	Linger      time.Duration `default:"5s"`
	Rows        rowsFlag      `default:"float32"`
	Compression string        `enum:"none,zstd" default:"none"`
	Watch       bool          ``
	Fail        string        `hidden:""`
}

type toolLook struct {
	Brokers []string `default:"127.0.0.1:9092"`
	Epochs  int      ``
}

// Run prints what it has, or fails.
func (c toolWork) Run(ctx context.Context, p Process, g Given) error {
	fmt.Fprintln(p.Out, c.Brokers, c.Window, c.Linger, c.Rows, c.Compression, c.Watch)
	switch c.Fail {
	case "usage":
		return Usagef("--fail %s: give another", c.Fail)
	case "lines":
		return errors.Join(errors.New("one"), errors.New("two"))
	case "interrupted":
		return ctx.Err()
	case "watch":
		return g.Check(NoEffect(c.Window == 0, "never said", "linger"), NoEffect(true, "no effect here: leave it out", "watch", "window"))
	}
	p.Log.Debug("worked", "took", 1500*time.Millisecond)
	return nil
}

func (c toolLook) Run(p Process) error { fmt.Fprintln(p.Out, c.Brokers, c.Epochs); return nil }

// run runs a command line of the tool, with a file of flags unless that is empty.
func run(t *testing.T, env []string, file string, args ...string) (code int, out, errs string) {
	t.Helper()
	if file != "" {
		path := filepath.Join(t.TempDir(), "tool.yaml")
		must(t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	var stdout, stderr bytes.Buffer
	p := Program{Name: "tool", Description: "A tool.", Commands: new(tool), Vars: kong.Vars{}}
	code = p.Run(t.Context(), args, Process{Out: &stdout, Err: &stderr, Env: env, Version: "1"})
	return code, stdout.String(), stderr.String()
}

// TestPrecedence: the command line overrides the environment, and the environment the
// file. In the file a command's own section overrides the rest. A default is used only
// for a flag that is given nowhere. Of a variable that is set twice the last counts.
func TestPrecedence(t *testing.T) {
	file := "brokers: [\"file-1:1\", 'file-2:2']\nwindow: 11\nlinger: 1s\nlog-format: json\nwork:\n  window: 12\n  rows: bfloat16\n"
	env := []string{"GVBLL_WINDOW=7", "GVBLL_LINGER=2s", "GVBLL_WINDOW=13", "PATH=/bin"}
	for _, c := range []struct {
		what string
		env  []string
		file string
		args []string
		want string
	}{
		{"nothing", nil, "", []string{"work"}, "[127.0.0.1:9092] 100 5s float32 none false"},
		{"a file", nil, file, []string{"work"}, "[file-1:1 file-2:2] 12 1s bfloat16 none false"},
		{"of another command", nil, file, []string{"look"}, "[file-1:1 file-2:2] 0"},
		{"the environment", env, file, []string{"work"}, "[file-1:1 file-2:2] 13 2s bfloat16 none false"},
		{"the line", env, file, []string{"work", "--linger", "3s", "--watch"}, "[file-1:1 file-2:2] 13 3s bfloat16 none true"},
	} {
		code, out, errs := run(t, c.env, c.file, c.args...)
		if code != ExitOK || strings.TrimSpace(out) != c.want || errs != "" {
			t.Errorf("%s: exit code %d, %q and %q, want %q", c.what, code, out, errs, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "named.yaml")
	must(t, os.WriteFile(path, []byte("window: 21\n"), 0o600))
	if _, out, errs := run(t, []string{"GVBLL_CONFIG=" + path}, "", "work"); !strings.Contains(out, " 21 ") {
		t.Errorf("with the file that the environment names: %q and %q, want its window", out, errs)
	}
}

// TestConfigErrors: an error in the file of flags names the key that is wrong.
func TestConfigErrors(t *testing.T) {
	for file, want := range map[string]string{
		"windw: 3\n":                          `tool.yaml: no flag or command has the name windw: did you mean "window"?`,
		"work:\n  epochs: 3\n":                "work: epochs",
		"dance:\n  window: 3\n":               "dance",
		"config: other.yaml\n":                "config",
		"help: true\n":                        "help",
		"window: 3\nwindow: 4\n":              `line 2: "window" is given twice`,
		"- window\n":                          "not a YAML mapping",
		"window: much\n":                      `--window: "much" is not a whole number`,
		"linger: 5\n":                         `--linger: "5" is not a duration such as 5m or 100ms`,
		"log-level: loud\n":                   `--log-level: "loud" is none: give debug, info, warn or error`,
		"work: 3\n":                           "work is a command: give its flags below it",
		"window: {a: b}\n":                    "window is a flag: give a value",
		"window:\n":                           "--window: it is empty",
		"brokers: [a, {b: c}]\n":              "--brokers: it is a mapping",
		"brokers: [a, ~]\n":                   "--brokers: it is empty",
		"compression: middling\n":             "compression",
		"# " + strings.Repeat("x", maxConfig): "more than",
	} {
		code, out, errs := run(t, nil, file, "work")
		if code != ExitUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%.40q: exit code %d and %q, want one line with %q", file, code, errs, want)
		}
	}
}

// TestVariables: a variable that begins as those of flags do and is none is refused by its name, as is a value that its flag
// refuses. What Kubernetes sets for a service of the name is none of ours, and the password is no flag.
func TestVariables(t *testing.T) {
	for entry, want := range map[string]string{
		"GVBLL_WINDW=3":                         "GVBLL_WINDW",
		"GVBLL_HELP=true":                       "GVBLL_HELP",
		"GVBLL_WINDOW=much":                     "GVBLL_WINDOW",
		"GVBLL_WINDOW=":                         "GVBLL_WINDOW",
		"GVBLL_COMPRESSION=middling":            "compression",
		"GVBLL_SASL_PASSWORD=x":                 "",
		"GVBLL_KERNEL=go":                       "",
		"GVBLL_PAGE_SERVICE_HOST=10.0.0.1":      "",
		"GVBLL_PAGE_PORT_80_TCP_ADDR=10.0.0.1":  "",
		"GVBLL_PAGE_SERVICE_PORT_HTTP=80":       "",
		"GVBLL_PAGE_PORT=tcp://10.0.0.1:80":     "",
		"GVBLL_PAGE_PORTS=tcp://10.0.0.1:80":    "GVBLL_PAGE_PORTS",
		"GVBLLWINDOW=3":                         "",
		"GVBLL_BROKERS=kafka-1:9092,kafka-2:92": "",
	} {
		code, _, errs := run(t, []string{entry}, "", "work")
		if (code == ExitUsage) != (want != "") || !strings.Contains(errs, want) || want == "" && errs != "" {
			t.Errorf("%s: exit code %d and %q, want one line with %q, or none", entry, code, errs, want)
		}
	}
}

// TestExitCodes: what a program ends with, and what it says: one line, with the command whose help says more.
func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string // in the output
	}{
		{[]string{"work"}, ExitOK, "[127.0.0.1:9092] 100"},
		{[]string{"work", "--log-level", "debug"}, ExitOK, "level=DEBUG msg=worked"},
		{[]string{"work", "--log-level", "debug", "--log-format", "json"}, ExitOK, `"msg":"worked","took":"1.5s"`},
		{nil, ExitOK, "Train and serve:"},
		{[]string{"help", "work"}, ExitOK, "--compression"},
		{[]string{"work", "--help"}, ExitOK, "For every command:"},
		{[]string{"work", "--windw", "3"}, ExitUsage, "(see tool work --help)"},
		{[]string{"dance"}, ExitUsage, "(see tool --help)"},
		{[]string{"work", "--window", "99999999999999999999"}, ExitUsage, "--window"},
		{[]string{"work", "--fail", "usage"}, ExitUsage, "tool: --fail usage: give another (see tool work --help)\n"},
		{[]string{"work", "--fail", "lines"}, ExitFailed, "tool: one; two\n"},
	} {
		code, out, errs := run(t, nil, "", c.args...)
		if code != c.code || !strings.Contains(out+errs, c.want) || code != ExitOK && strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit code %d and %q, want %d and %q", c.args, code, out+errs, c.code, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var errs bytes.Buffer
	p := Program{Name: "tool", Commands: new(tool), Vars: kong.Vars{}}
	if code := p.Run(ctx, []string{"work", "--fail", "interrupted"}, Process{Out: &errs, Err: &errs}); code != ExitFailed || !strings.HasSuffix(errs.String(), "tool: interrupted\n") {
		t.Errorf("interrupted: exit code %d and %q", code, errs.String())
	}
}

// TestNoEffect: a flag without an effect is an error if it is given on the command line, and a warning that names its source if
// it is in the environment or the file, which other commands may share. The first one that has none is named.
func TestNoEffect(t *testing.T) {
	for _, c := range []struct {
		what string
		env  []string
		file string
		args []string
		code int
		want string
	}{
		{"not given", nil, "", nil, ExitOK, ""},
		{"a switch on the line", nil, "", []string{"--watch"}, ExitUsage, "tool: --watch: no effect here: leave it out"},
		{"a value on the line", nil, "", []string{"--window", "3"}, ExitUsage, "tool: --window 3: no effect here: leave it out"},
		{"in the environment", []string{"GVBLL_WINDOW=3"}, "", nil, ExitOK, "--window 3 ($GVBLL_WINDOW): no effect here"},
		{"in the file", nil, "window: 3\n", nil, ExitOK, "--window 3 (in the file of flags): no effect here"},
		{"in both", []string{"GVBLL_WINDOW=4"}, "window: 3\n", nil, ExitOK, "--window 4 ($GVBLL_WINDOW): no effect here"},
		{"a rule that does not hold", nil, "", []string{"--linger", "1s"}, ExitOK, ""},
	} {
		code, _, errs := run(t, c.env, c.file, append([]string{"work", "--fail", "watch"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) || c.want == "" && errs != "" {
			t.Errorf("%s: exit code %d and %q, want %d and %q", c.what, code, errs, c.code, c.want)
		}
	}
}

// TestFlagsInForce: all flags of a command are listed with their values, and those that are given with where.
func TestFlagsInForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tool.yaml")
	must(t, os.WriteFile(file, []byte("linger: 1s\n"), 0o600))
	var c tool
	var global Global
	p := Process{Env: []string{"GVBLL_WINDOW=3"}, Out: os.Stdout, Err: os.Stderr}
	k, err := Program{Name: "tool", Commands: &c, Vars: kong.Vars{}}.Parser(t.Context(), &global, p, func(int) {}).Parse([]string{
		"work", "--config", file, "--brokers", "a:1,b:2",
	})
	must(t, err)
	given := givenOf(k, p)
	var list []string
	for _, f := range InForce(k, given) {
		if f.Name != "config" && f.Name != "fail" {
			list = append(list, strings.TrimSpace(f.Name+" "+f.Value+" "+f.From))
		}
	}
	want := []string{
		"brokers a:1,b:2 the command line", "compression none", "linger 1s the file of flags", "log-format text", "log-level INFO", "rows float32",
		"watch false", "window 3 $GVBLL_WINDOW",
	}
	if !slices.Equal(list, want) {
		t.Errorf("the flags in force are\n%q\nwant\n%q", list, want)
	}
	if !given.OnLine("brokers") || given.OnLine("window") || given.OnLine("linger") || given.OnLine("watch") {
		t.Error("of brokers, window, linger and watch, the first alone is on the command line")
	}
}
