package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
)

// parsedLine is a parsed command line.
type parsedLine struct {
	cli
	flags.Global
}

// parsed parses a command line with a file of flags, or without one if file is empty.
func (sh *shell) parsed(file string, args ...string) (c parsedLine, err error) {
	sh.t.Helper()
	if file != "" {
		path := filepath.Join(sh.t.TempDir(), "gvbll.yaml")
		must(sh.t, os.WriteFile(path, []byte(file), 0o600))
		args = append(args, "--config", path)
	}
	var out lines
	_, err = program(&c.cli).Parser(sh.t.Context(), &c.Global, sh.process(&out, &out), func(int) {}).Parse(args)
	return c, err
}

// TestPrecedence: the command line overrides the environment, and the environment the
// file. In the file a command's own section overrides the rest. A default is used only
// for a flag that is given nowhere.
func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := "brokers: [\"file-1:1\", 'file-2:2']\nwindow: 11\nlinger: 1s\nlog-format: json\nwork:\n  window: 12\n  rows: bfloat16\n"
	work := []string{"work", "--model", "m"}
	sh := &shell{t: t}
	c, err := sh.parsed(file, work...)
	must(t, err)
	if w := c.Work; !slices.Equal(w.Kafka.Brokers, []string{"file-1:1", "file-2:2"}) || w.Windows.Window != 12 || w.Windows.Linger.Seconds() != 1 || w.Rows.String() != "bfloat16" || c.LogFormat != "json" || w.Workers != 1 {
		t.Errorf("the flags of the file are read as %+v", w)
	}
	sh.setenv("GVBLL_WINDOW", "13")
	sh.setenv("GVBLL_LINGER", "2s")
	if c, err = sh.parsed(file, append(work, "--linger", "3s")...); err != nil || c.Work.Windows.Window != 13 || c.Work.Windows.Linger.Seconds() != 3 {
		t.Errorf("window %d, want 13 of the environment; linger %v, want 3s of the command line (%v)", c.Work.Windows.Window, c.Work.Windows.Linger, err)
	}
	if c, err = sh.parsed(file, "ledger"); err != nil || c.Ledger.Kafka.Brokers[1] != "file-2:2" {
		t.Errorf("brokers of another command: %v, want those of the file (%v)", c.Ledger.Kafka.Brokers, err)
	}
}

// TestConfigErrors: an error in the file of flags names the key that is wrong.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"windw: 3\n":                      "windw",
		"work:\n  epochs: 3\n":            "work: epochs",
		"dance:\n  window: 3\n":           "dance",
		"config: other.yaml\n":            "config",
		"window: 3\nwindow: 4\n":          "already set",
		"- window\n":                      "not a YAML mapping",
		"window: much\n":                  "--window",
		"window:\n":                       "--window: it is empty",
		"brokers: [a, {b: c}]\n":          "--brokers: it is a mapping",
		"compression: middling\n":         "compression",
		"# " + strings.Repeat("x", 1<<20): "more than",
	} {
		if _, err := (&shell{t: t}).parsed(file, "work", "--model", "m"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want one with %q", file, err, want)
		}
	}
}
