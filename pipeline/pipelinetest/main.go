package pipelinetest

import (
	"flag"
	"runtime/debug"
	"testing"
)

// Main runs tests with garbage collected less often: they make many engines that live shortly, and the
// collector takes a quarter of their time otherwise. Benchmarks have it as programs do.
func Main(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}
