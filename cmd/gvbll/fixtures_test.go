package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn/dataset"
)

// scratch returns the folder of what several tests read. TestMain removes it.
var scratch = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "gvbll-test")
	if err != nil {
		panic(err)
	}
	return dir
})

// fixtures are functions that return the path of what several tests read, by what it is.
var fixtures sync.Map

// fixture returns the path of a file or folder that several tests read. The first of them makes it.
func fixture(t *testing.T, what, name string, make func(path string) error) string {
	t.Helper()
	path, _ := fixtures.LoadOrStore(what, sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp(scratch(), "")
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, name)
		return file, make(file)
	}))
	file, err := path.(func() (string, error))()
	must(t, err)
	return file
}

// generated returns the folder of a graph that generate makes.
func generated(t *testing.T, args ...string) string {
	t.Helper()
	return fixture(t, strings.Join(args, " "), "graph", func(path string) error {
		return generate(append([]string{"--out", path}, args...)...)
	})
}

// smallGraph returns the folder of the graph of small demos.
func smallGraph(t *testing.T) string {
	t.Helper()
	return generated(t, "--nodes", "1500", "--steps", "12")
}

// trained returns the file of a model that gvbll train makes of a graph.
func trained(t *testing.T, graph string, args ...string) string {
	t.Helper()
	return fixture(t, graph+" "+strings.Join(args, " "), "m.safetensors", func(path string) error {
		var out, errs lines
		if code := run(context.Background(), append([]string{"train", "--data", graph, "--out", path}, args...), new(shell).process(&out, &errs)); code != exitOK {
			return errors.New(errs.String())
		}
		return nil
	})
}

// tenClasses returns the file of a small model of ten classes and 128 features.
func tenClasses(t *testing.T) string {
	t.Helper()
	return trained(t, generated(t, "--nodes", "300", "--steps", "3"), "--epochs", "3", "--embedding", "8")
}

// otherEncoder returns the file of a model of the same classes and features, with another encoder.
func otherEncoder(t *testing.T) string {
	t.Helper()
	return trained(t, generated(t, "--nodes", "300", "--steps", "3"), "--epochs", "3", "--encoder", "gcn", "--embedding", "6")
}

// threeClasses returns the file of a small model of three classes and six features.
func threeClasses(t *testing.T) string {
	t.Helper()
	return trained(t, generated(t, "--nodes", "600", "--steps", "5", "--classes", "3", "--late", "0", "--dim", "6"), "--epochs", "5", "--hidden", "8", "--embedding", "4")
}

// generate writes a synthetic graph as a data set, as 'lab generate' does, which has more
// flags than these.
func generate(args ...string) error {
	f := flag.NewFlagSet("generate", flag.ContinueOnError)
	var nodes, steps, classes, late, dim int
	out, drift := f.String("out", "", "folder"), f.String("drift", "strong", "drift")
	f.IntVar(&nodes, "nodes", 6000, "number of nodes")
	f.IntVar(&steps, "steps", 50, "number of steps")
	f.IntVar(&classes, "classes", 10, "number of classes")
	f.IntVar(&late, "late", -1, "number of classes that appear only in the stream; negative for the drift's own")
	f.IntVar(&dim, "dim", 128, "number of features")
	if err := f.Parse(args); err != nil {
		return err
	}
	c, err := flags.Synthetic(*drift, 1)
	if err != nil {
		return err
	}
	c.Nodes, c.Steps, c.Classes, c.Dim = nodes, steps, classes, dim
	if late >= 0 {
		c.Drift.Late = late
	}
	d, _, err := dataset.Drift(c)
	if err != nil {
		return err
	}
	return d.Save(*out)
}
