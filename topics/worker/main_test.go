package worker_test

import (
	"flag"
	"runtime/debug"
	"testing"
)

// TestMain has garbage collected less often: tests make many brokers and workers that live shortly, and the
// collector takes a seventh of their time otherwise. Benchmarks have it as programs do.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}
