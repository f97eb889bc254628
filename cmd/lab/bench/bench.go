// Package bench measures what an arrival costs: in the graph and the encoder, in a
// whole step of the engine, and from one topic to another through a broker.
// docs/performance.md explains the figures and their bars.
package bench

import (
	"context"
	"fmt"
	"time"
)

// Config configures the measurements.
type Config struct {
	Workload
	// Quick makes runs short and graphs small. It checks that the benchmarks work;
	// the figures mean little.
	Quick bool

	// The fields below are used by the benchmarks that go through a broker.

	Broker     string        // address of a Kafka to measure beside the embedded broker; empty for none
	Events     int           // arrivals in a run
	Partitions int           // of the topics
	Linger     time.Duration // how long a window waits to be full
	Interval   time.Duration // between commits
	Workers    int           // threads that share the arithmetic of a window
}

// Row is one figure and the bar that it has to meet.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   string  `json:"bar"`            // in words; "none" for a figure without one
	Holds bool    `json:"holds"`          // the value meets the bar, or there is none
	Note  string  `json:"note,omitempty"` // reference of a ratio that was not measured in this run
}

// atLeast returns a figure whose bar is a lower bound.
func atLeast(name string, value float64, unit string, bar float64) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: fmt.Sprintf("at least %g", bar), Holds: value >= bar}
}

// atMost returns a figure whose bar is an upper bound.
func atMost(name string, value float64, unit string, bar float64) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: fmt.Sprintf("at most %g", bar), Holds: value <= bar}
}

// figure returns a figure without a bar.
func figure(name string, value float64, unit string) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: "none", Holds: true}
}

// Benchmark is a named measurement of one or more figures.
type Benchmark struct {
	Name string
	Run  func(context.Context, Config) ([]Row, error)
}

// All lists the benchmarks in the order in which they run. The one that needs the most
// memory is last: after it, the runtime returns memory to the system, and some systems
// are slow to provide it again.
var All = []Benchmark{
	{"encoder", encoder},
	{"single", single},
	{"engine", engine},
	{"pool", poolAgainstPaper},
	{"hubs", hubs},
	{"memory", memory},
	{"update", update},
	{"sparse", sparse},
	{"workers", workers},
	{"wire", wireBytes},
	{"throughput", throughput},
	{"latency", latency},
	{"size", size},
}
