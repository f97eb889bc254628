// Package bench measures what an arrival costs: in the graph and the encoder, in a
// whole step of the engine, and from one topic to another through a broker.
// docs/performance.md explains the figures and their bars.
package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/worker"
)

// Config configures the measurements.
type Config struct {
	Workload
	// Quick asks for short runs on small graphs, whose figures mean little.
	Quick bool

	// The rest is for the benchmarks that go through a broker.

	Broker     string        // address of a Kafka to measure beside the embedded broker; empty for none
	Events     int           // arrivals that go through it
	Partitions int           // of the topics
	Interval   time.Duration // between commits
	// Engine returns a new engine for the worker.
	Engine func(*model.Model) (worker.Engine, error)
	// Program is the path of the gvbll binary.
	Program string
}

// Row is one figure and the bar that it must meet.
type Row struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Bar   string  `json:"bar"`            // in words; "none" for a figure without one
	Holds bool    `json:"holds"`          // the value is on the right side of the bar, or there is none
	Note  string  `json:"note,omitempty"` // what the value is compared with, where that was not measured in this run
}

func atLeast(name string, value float64, unit string, bar float64) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: fmt.Sprintf("at least %g", bar), Holds: value >= bar}
}

func atMost(name string, value float64, unit string, bar float64) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: fmt.Sprintf("at most %g", bar), Holds: value <= bar}
}

func figure(name string, value float64, unit string) Row {
	return Row{Name: name, Value: value, Unit: unit, Bar: "none", Holds: true}
}

// Benchmark measures some figures.
type Benchmark struct {
	Name string
	Run  func(context.Context, Config) ([]Row, error)
}

// All lists the benchmarks in the order in which they run. The one that takes the
// most memory is the last: memory that a process has given back has to be taken
// again, which some systems do slowly.
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
	{"start", start},
	{"size", size},
}
