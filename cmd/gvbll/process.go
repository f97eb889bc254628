package main

import (
	"io"
	"log/slog"
	"strings"
)

// process is what a command has of the process that runs it. Nothing of a command is global,
// so that several can run in one process, as in tests.
type process struct {
	In       io.Reader
	Out, Err io.Writer // results, and everything else
	Env      []string  // variables, each as NAME=VALUE
	Log      *slog.Logger
}

// lookup returns the value of an environment variable, and whether it is set.
func (p process) lookup(name string) (value string, set bool) {
	for _, entry := range p.Env {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			value, set = v, true // the last one counts
		}
	}
	return value, set
}

// variable returns the value of an environment variable, "" if it is not set.
func (p process) variable(name string) string {
	value, _ := p.lookup(name)
	return value
}
