package flags

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
)

// Process is what a command has of the process that runs it. Nothing of a command is global,
// so that several can run in one process, as in tests.
type Process struct {
	In       io.Reader
	Out, Err io.Writer // results, and everything else
	Env      []string  // variables, each as NAME=VALUE
	Log      *slog.Logger
	Version  string // of the program
	Command  string // that runs

	// Dial connects to brokers, and Listen waits for connections. Nil means the system's network.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Listen func(network, address string) (net.Listener, error)
}

// lookup returns the value of an environment variable, and whether it is set.
func (p Process) lookup(name string) (value string, set bool) {
	for _, entry := range p.Env {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			value, set = v, true // the last one counts
		}
	}
	return value, set
}

// Variable returns the value of an environment variable, "" if it is not set.
func (p Process) Variable(name string) string {
	value, _ := p.lookup(name)
	return value
}
