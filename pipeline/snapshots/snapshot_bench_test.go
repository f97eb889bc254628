package snapshots_test

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior"
)

// BenchmarkSnapshot uses an engine of 1 M nodes with 128 features and about 10 edges each,
// with the default settings.
//
// "restore" has a bar: restoring must take at most 3 times as long as os.ReadFile of the
// same file.
//
// "beside" measures windows of 500 arrivals, with and without a snapshot that is read in
// pieces of 1 MiB between them, the time to read a piece, and the pause when a snapshot
// begins. The first pause is longer, because memory is allocated.
func BenchmarkSnapshot(b *testing.B) {
	const nodes, window = 1_000_000, 500
	rng := rand.New(rand.NewPCG(1, 1))
	m := wideModel(b, rng)
	e := pipelinetest.NewEngine(b, m, pipeline.Config{})
	l := &pipelinetest.Crowd{RNG: rng, Dim: m.Encoder.In()}
	for l.N < nodes {
		e.Step(l.Window(e.Next(), 4000))
	}
	path := filepath.Join(b.TempDir(), "snapshot")

	b.Run("restore", func(b *testing.B) {
		f, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		s := e.Snapshot(nil)
		if _, err := io.Copy(f, s); err != nil || f.Close() != nil {
			b.Fatal(err)
		}
		s.Close()
		var read, restored spans
		for b.Loop() {
			read.time(func() {
				if _, err := os.ReadFile(path); err != nil {
					b.Fatal(err)
				}
			})
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			info, err := f.Stat()
			if err != nil {
				b.Fatal(err)
			}
			restored.time(func() {
				if _, _, err := pipeline.RestorePair(pipeline.Config{}, f, info.Size(), m); err != nil {
					b.Fatal(err)
				}
			})
			if f.Close() != nil {
				b.Fatal("closing the snapshot failed")
			}
			b.ReportMetric(float64(info.Size())/1e6, "MB")
		}
		read.report(b, "readfile")
		restored.report(b, "restore")
	})
	b.Run("beside", func(b *testing.B) {
		var pause, piece, with, without spans
		bytes := make([]byte, 1<<20)
		for b.Loop() {
			for range 1000 {
				w := l.Window(e.Next(), window)
				without.time(func() { e.Step(w) })
			}
			var s *pipeline.Snapshot
			pause.time(func() { s = e.Snapshot(nil) })
			var err error
			for err == nil {
				piece.time(func() { _, err = io.ReadFull(s, bytes) })
				w := l.Window(e.Next(), window)
				with.time(func() { e.Step(w) })
			}
			if err != io.ErrUnexpectedEOF && err != io.EOF {
				b.Fatal(err)
			}
			s.Close()
		}
		pause.report(b, "pause")
		piece.report(b, "piece")
		with.report(b, "window-with")
		without.report(b, "window-without")
	})
}

// wideModel returns a model with the default encoder for 128 features.
func wideModel(b *testing.B, rng *rand.Rand) *model.Model {
	const in, hidden, out, classes = 128, 64, 16, 40
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / 8)
		}
		return w
	}
	enc, err := gnn.NewSAGE(in, gnn.ReLU,
		gnn.SAGELayer{Neigh: weights(hidden * in), Bias: weights(hidden), Self: weights(hidden * in)},
		gnn.SAGELayer{Neigh: weights(out * hidden), Bias: weights(out), Self: weights(out * hidden)})
	if err != nil {
		b.Fatal(err)
	}
	m := &model.Model{
		ID: "wide", Encoder: enc, Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Meta:  model.Meta{Format: model.Format, Encoder: gnn.KindSAGE, Classes: make([]string, classes)},
		Prior: posterior.Gaussian{Dim: out, Classes: classes},
	}
	for range out * classes {
		m.Prior.Mean = append(m.Prior.Mean, rng.NormFloat64())
		m.Prior.Precision = append(m.Prior.Precision, 1+rng.Float64())
	}
	return m
}

// spans are durations.
type spans []time.Duration

func (s *spans) time(do func()) {
	start := time.Now()
	do()
	*s = append(*s, time.Since(start))
}

// report reports the first, the median and the longest duration, in milliseconds.
func (s spans) report(b *testing.B, name string) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	first := s[0]
	slices.Sort(s)
	b.ReportMetric(ms(first), name+"-first-ms")
	b.ReportMetric(ms(s[len(s)/2]), name+"-median-ms")
	b.ReportMetric(ms(s[len(s)-1]), name+"-longest-ms")
}
