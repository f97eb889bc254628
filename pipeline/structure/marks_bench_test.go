package structure_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// BenchmarkArrivalOfKinds measures the processor time of an arrival with 10 neighbours in the
// whole engine, and the memory of a node, as multiples of those without kinds: with one kind,
// and with three and weights. Three must take at most 1.6 times the time and 1.8 times the
// memory, one the same of both within 3 %. The engines take windows of the same nodes in turn.
func BenchmarkArrivalOfKinds(b *testing.B) {
	const nodes, window = 100_000, 500
	names := []string{"none", "one", "three"}
	all := gnn.EdgeKinds{{Name: "paid"}, {Name: "tells"}, {Name: "uses"}}
	for _, head := range []string{pipeline.HeadPaper, pipeline.HeadPool} {
		b.Run(head, func(b *testing.B) {
			var steps []func() float64
			var memory []float64
			for k, kinds := range []gnn.EdgeKinds{nil, all[:1], all} {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				rng := rand.New(rand.NewPCG(1, 1))
				m := pipelinetest.ModelOfWidth(b, rng, gnn.KindSAGE, 128, 128, 64)
				if m.Kinds = kinds; k > 0 {
					m.Encoder = randomKinds(b, rng, len(kinds), 128, 128, 64)
				}
				if head == pipeline.HeadPool {
					pipelinetest.AddPool(b, m, false)
				}
				e := pipelinetest.NewEngine(b, m, pipeline.Config{Head: head})
				stream := &pipelinetest.Crowd{RNG: rng, Dim: 128}
				steps = append(steps, func() float64 {
					w := stream.Window(e.Next(), window)
					for i := range w.Nodes {
						for j := range w.Nodes[i].Neighbours {
							if k > 0 {
								w.Nodes[i].Marks = append(w.Nodes[i].Marks, event.Mark{Kind: kinds[j%len(kinds)].Name, Weight: float32(1 + j*(k-1))})
							}
						}
					}
					var before, after syscall.Rusage
					_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
					e.Step(w)
					_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
					return float64(after.Utime.Nano()-before.Utime.Nano()) / window
				})
				for range nodes / window {
					steps[k]()
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				memory = append(memory, float64(after.HeapAlloc)-float64(before.HeapAlloc))
			}
			times := make([][]float64, len(names))
			for range b.N {
				for k := range names {
					times[k] = append(times[k], steps[k]())
				}
			}
			for k, name := range names {
				slices.Sort(times[k])
				b.ReportMetric(times[k][b.N/2], name+"-cpu-ns")
				b.ReportMetric(times[k][b.N/2]/times[0][b.N/2], name+"-cpu-x")
				b.ReportMetric(memory[k]/memory[0], name+"-memory-x")
				b.ReportMetric(memory[k]/nodes, name+"-bytes")
			}
		})
	}
}

// randomKinds returns a random encoder of this many means, with the widths of [pipelinetest.ModelOfWidth].
func randomKinds(t testing.TB, rng *rand.Rand, means int, width ...int) *gnn.SAGEKinds {
	t.Helper()
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / 2)
		}
		return w
	}
	var layers []gnn.KindsLayer
	for l := range len(width) - 1 {
		layer := gnn.KindsLayer{Bias: weights(width[l+1]), Self: weights(width[l] * width[l+1])}
		for range means {
			layer.Neigh = append(layer.Neigh, weights(width[l]*width[l+1]))
		}
		layers = append(layers, layer)
	}
	enc, err := gnn.NewSAGEKinds(width[0], gnn.ReLU, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return enc
}
