package main

import (
	"context"
	"sync"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
)

const exitOK, exitFailed, exitUsage = flags.ExitOK, flags.ExitFailed, flags.ExitUsage

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lines collects output that several goroutines write. After each write it calls the
// functions in when with the output so far.
type lines struct {
	mu   sync.Mutex
	b    []byte
	when []func([]byte)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	for _, f := range l.when {
		f(l.b)
	}
	return len(p), nil
}

// String returns the output so far.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// run runs a command line and returns the exit code.
func run(ctx context.Context, args []string, p flags.Process) int {
	return program(new(cli)).Run(ctx, args, p)
}

// command runs a command of gvbll on the system's network, to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return (&shell{t: t}).command(args...)
}

// gvbll runs a command that must succeed, and returns its standard output.
func gvbll(t *testing.T, args ...string) string {
	t.Helper()
	return (&shell{t: t}).gvbll(args...)
}

// get returns the body of a page on the system's network.
func get(t *testing.T, url string) string {
	t.Helper()
	return (&shell{t: t}).get(url)
}

// startBroker starts an embedded broker, which is closed at the end of the test, and
// returns its address.
func startBroker(t *testing.T, cfg broker.Config) string {
	t.Helper()
	b, err := broker.Start(cfg)
	must(t, err)
	t.Cleanup(b.Close)
	return b.Addr()
}

// topicsUnder returns the topics' names for a prefix.
func topicsUnder(t *testing.T, prefix string) topics.Names {
	t.Helper()
	names, err := topics.Under(prefix)
	must(t, err)
	return names
}
