package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/topics/base"
)

// BenchmarkBase stores a graph's state as a base, lets a hundredth of its nodes come besides, and stores it again: what the second
// base costs, and how long a start from it takes, compared with reading the state's bytes once from a file.
func BenchmarkBase(b *testing.B) {
	w := Workload{Nodes: 50_000, Window: 500}.WithDefaults()
	m, err := w.Model()
	must(b, err)
	pair, err := pipeline.NewPair(pipeline.Config{}, m)
	must(b, err)
	stream := w.Stream()
	for window := range stream.growth() {
		pair.Step(window)
	}
	dir := b.TempDir()
	store, err := base.Open(dir, "g.ledger")
	must(b, err)
	window := int64(0)
	write := func(before *base.Base) (*base.Base, int64, []byte) {
		s := pair.Snapshot(nil)
		defer s.Close()
		state, err := io.ReadAll(s)
		must(b, err)
		window++
		name, stored, err := base.Write(window, []base.Source{{File: base.File{Name: "state", Bytes: int64(len(state))}, Reader: bytes.NewReader(state)}}, before,
			func(name string, bytes []byte) error { return store.Put(b.Context(), name, bytes) })
		must(b, err)
		found, err := base.Find(b.Context(), store, name)
		must(b, err)
		return found, stored, state
	}
	for range b.N {
		first, whole, _ := write(nil)
		for range w.Nodes / 100 / w.Window {
			pair.Step(stream.Next(true))
		}
		second, changed, state := write(first)
		b.ReportMetric(100*float64(changed)/float64(whole), "%ofbase")
		b.ReportMetric(float64(len(state))/1e6, "MB")
		file := filepath.Join(dir, "state")
		must(b, os.WriteFile(file, state, 0o600))
		began := time.Now()
		_, err := os.ReadFile(file)
		must(b, err)
		read := time.Since(began)
		began = time.Now()
		must(b, second.Fetch(b.Context(), ""))
		r, size, err := second.Open("state")
		must(b, err)
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(r, 0, size), make([]byte, 1<<20))
		must(b, err)
		checked := time.Since(began)
		began = time.Now()
		restored, _, err := pipeline.RestorePair(pipeline.Config{}, r, size, m)
		must(b, err)
		restored.Close()
		b.ReportMetric(float64(time.Since(began))/float64(read), "start/read")
		b.ReportMetric(float64(checked)/float64(read), "verified/read")
	}
}
