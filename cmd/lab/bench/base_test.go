package bench

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/base"
)

// BenchmarkBase stores a graph's state as a base, lets a hundredth of its nodes come besides, and stores it again: what the second
// base costs, and what time and CPU a start from it takes, compared with reading the state's bytes once from a file.
func BenchmarkBase(b *testing.B) {
	w := Workload{Nodes: 50_000, Window: 500}.WithDefaults()
	m, err := w.Model()
	must(b, err)
	pair, err := pipeline.NewPair(pipeline.Config{}, m)
	must(b, err)
	stream := w.Stream()
	rng := rand.New(rand.NewPCG(1, 4))
	step := func(window *event.Window) {
		for i := range window.Nodes { // the workload's are of few kinds, and a base stores bytes that are the same once
			x := slices.Clone(window.Nodes[i].Dense)
			x[0] = rng.Float32()
			window.Nodes[i].Dense = x
		}
		pair.Step(window)
	}
	for window := range stream.growth() {
		step(window)
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
			step(stream.Next(true))
		}
		second, changed, state := write(first)
		b.ReportMetric(100*float64(changed)/float64(whole), "%ofbase")
		b.ReportMetric(float64(len(state))/1e6, "MB")
		file := filepath.Join(dir, "state")
		must(b, os.WriteFile(file, state, 0o600))
		must(b, second.Fetch(b.Context(), ""))
		r, size, err := second.Open("state")
		must(b, err)
		least := func(f func()) (wall, cpu float64) { // of five times: each takes its memory anew
			wall, cpu = math.Inf(1), math.Inf(1)
			for range 5 {
				runtime.GC()
				began, used := time.Now(), processTime()
				f()
				wall, cpu = min(wall, float64(time.Since(began))), min(cpu, float64(processTime()-used))
			}
			return wall, cpu
		}
		read, readCPU := least(func() {
			_, err := os.ReadFile(file)
			must(b, err)
		})
		checked, _ := least(func() {
			_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.NewSectionReader(r, 0, size), make([]byte, 1<<20))
			must(b, err)
		})
		start, startCPU := least(func() {
			restored, _, err := pipeline.RestorePair(pipeline.Config{}, r, size, m)
			must(b, err)
			restored.Close()
		})
		b.ReportMetric(start/read, "start/read")
		b.ReportMetric(startCPU/readCPU, "CPU-start/read")
		b.ReportMetric(checked/read, "verified/read")
	}
}
