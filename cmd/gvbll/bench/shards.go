package bench

import (
	"context"
	"fmt"
	"runtime"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
)

// shards measures what the slices of a sharded graph cost beside the engine that has all
// of it, and simulates workers at those costs.
func shards(_ context.Context, c Config) ([]Row, error) {
	c.Workload = c.WithDefaults()
	costs, rows, err := c.sliceCosts(c.windows())
	if err != nil {
		return nil, err
	}
	memory, err := c.sliceBytes()
	return append(append(rows, memory...), c.simulate(costs)...), err
}

// sliced are the numbers of slices that are measured.
var sliced = [...]int{1, 2, 4, 8}

// measuredCosts are costs by the number of slices.
type measuredCosts map[int]stageCosts

// of returns the costs with P slices. Where they are not measured, entering costs a + b/P,
// which is a share that every slice has and one that is divided, by the last two that are.
func (m measuredCosts) of(P int) stageCosts {
	if c, ok := m[P]; ok {
		return c
	}
	few, many := sliced[len(sliced)-2], sliced[len(sliced)-1]
	c := m[many]
	divided := (m[few].enter - m[many].enter) / (1/float64(few) - 1/float64(many))
	c.enter += divided * (1/float64(P) - 1/float64(many))
	return c
}

// slice is an engine with a slice of the encoder, and the times of its stages.
type slice struct {
	e                   *pipeline.Engine
	stream              *Stream
	last                *event.Outcome // recycled before the next step, as a worker does
	enter, serve, learn *samples
}

// slice returns an engine with the first of P slices of the encoder, whose graph has the
// workload's size.
func (w Workload) slice(P int) (*slice, error) {
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	if m, err = m.Slice(0, P); err != nil {
		return nil, err
	}
	e, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		return nil, err
	}
	s := &slice{e: e, stream: w.Stream()}
	for grown := 0; grown < w.Nodes; {
		n := min(1000, w.Nodes-grown)
		e.Recycle(e.Step(s.stream.Grow(n)))
		grown += n
	}
	return s, nil
}

// step steps the next window, all of whose arrivals have a label in it.
func (s *slice) step() {
	window := s.stream.Next(true)
	if s.last != nil {
		s.e.Recycle(s.last)
	}
	s.enter.runCPU(func() { s.e.Enter(window) })
	s.serve.runCPU(func() { s.e.Serve() })
	s.learn.runCPU(func() { s.last = s.e.Learn() })
}

// begin starts the measurement.
func (s *slice) begin(per int) { s.enter, s.serve, s.learn = begin(per), begin(per), begin(per) }

// sliceCosts measures stages in CPU time of the thread. All slices step the same windows,
// in turn.
func (w Workload) sliceCosts(windows int) (measuredCosts, []Row, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var slices []*slice
	for _, P := range sliced {
		s, err := w.slice(P)
		if err != nil {
			return nil, nil, err
		}
		slices = append(slices, s)
	}
	for i := range warmUp + windows {
		for _, s := range slices {
			if i == 0 || i == warmUp {
				s.begin(w.Window)
			}
			s.step()
		}
	}
	_, learn, err := w.headCost(windows)
	if err != nil {
		return nil, nil, err
	}
	decode, encode, bytesIn := w.wireCost(windows)

	one := slices[0]
	serve, rest := one.serve.cost().nanoseconds, one.learn.cost().nanoseconds-learn.nanoseconds
	whole := one.enter.cost().nanoseconds + serve + rest + learn.nanoseconds
	costs, rows := make(measuredCosts), []Row{figure("shards-engine", whole, "ns an arrival with its label")}
	for i, P := range sliced {
		c := exchangeCosts
		c.input, c.publish = decode+bytesIn*c.receiveByte, encode
		c.enter, c.serve, c.learn = slices[i].enter.cost().nanoseconds, serve+rest, learn.nanoseconds
		c.part, c.row, c.heads = 4*float64(w.Embedding), 4*float64(w.Embedding+2*w.Classes), 16*float64(w.Embedding*w.Classes)
		costs[P] = c
		rows = append(rows, figure(fmt.Sprintf("shards-enter-%d", P), c.enter, "ns an arrival"))
	}
	rows = append(
		rows,
		figure("shards-serve", costs[1].serve, "ns one of a slice's own arrivals"),
		figure("shards-learn", costs[1].learn, "ns a label"),
		figure("shards-input", costs[1].input, "ns an arrival"),
		figure("shards-publish", costs[1].publish, "ns a prediction"),
	)
	four := costs[4]
	busiest := four.enter + four.serve/4
	return costs, append(
		rows,
		atMost("shards-cpu-busiest-of-4", busiest/whole, "of the engine's", 0.4),
		atMost("shards-cpu-all-4", (4*busiest+four.learn)/whole, "times the engine's", 2),
	), nil
}

// wireCost measures the CPU time of decoding a node and of encoding a prediction, and a
// node's size.
func (w Workload) wireCost(windows int) (decode, encode, bytes float64) {
	stream := w.Stream()
	d := wire.Decoder{Memory: &wire.Memory{}}
	decoded, encoded := begin(w.Window), begin(w.Window)
	p := event.Prediction{Class: "class-7", ClassIndex: 7, Confidence: 0.5, Probabilities: make([]float32, w.Classes), Model: "bench"}
	values, records := make([][]byte, w.Window), make([]event.Origin, w.Window)
	var n event.Node
	var out []byte
	for range windows {
		for i, node := range stream.Next(false).Nodes {
			values[i] = wire.AppendNode(values[i][:0], &node)
			records[i].Value = values[i]
			bytes += float64(len(values[i])) / float64(w.Window*windows)
		}
		decoded.runCPU(func() {
			d.Memory.Reset()
			for i := range records {
				d.Node(&records[i], &n)
			}
		})
		encoded.runCPU(func() {
			for i := range values {
				p.Node.Num = int64(i)
				out = wire.AppendPrediction(out[:0], &p)
			}
		})
	}
	return decoded.cost().nanoseconds, encoded.cost().nanoseconds, bytes
}

// sliceBytes measures the memory of a node in each slice.
func (w Workload) sliceBytes() ([]Row, error) {
	var rows []Row
	var whole float64
	for _, P := range sliced {
		before := heapBytes()
		s, err := w.slice(P)
		if err != nil {
			return nil, err
		}
		s.stream = nil
		bytes := (heapBytes() - before) / float64(w.Nodes)
		runtime.KeepAlive(s)
		if P == 1 {
			whole = bytes
		}
		rows = append(rows, figure(fmt.Sprintf("shards-memory-%d", P), bytes, "bytes a node"))
		if bar := map[int]float64{4: 0.4, 8: 0.3}[P]; bar > 0 {
			rows = append(rows, atMost(fmt.Sprintf("shards-memory-%d-against-1", P), bytes/whole, "times", bar))
		}
	}
	return rows, nil
}

// exchangeCosts are CPU times of a Kafka client at either end of a topic, assumed: of a
// request with the messages of a window, and of a byte. docs/performance.md says from where.
var exchangeCosts = stageCosts{send: 150_000, receive: 150_000, sendByte: 0.56, receiveByte: 0.74}

// simulate simulates 1 to 64 workers at the measured costs.
func (c Config) simulate(costs measuredCosts) (rows []Row) {
	workers := []int{1, 2, 4, 8, 16, 64}
	if c.Quick {
		workers = workers[:4]
	}
	for _, h := range []hop{{1, 5}, {3, 15}} {
		for _, protocol := range []struct {
			name   string
			ahead  bool
			commit float64
		}{{name: "v1"}, {name: "committed", commit: 110}, {name: "ahead", ahead: true}} {
			var one float64
			for _, P := range workers {
				s := simulation{
					shards: P, costs: costs.of(P), window: c.Window * P, labels: 0.1, lag: 4, depth: 8,
					ahead: protocol.ahead, commit: protocol.commit, hop: h, count: min(400, max(100, 6400/P)), seed: 1,
				}
				got := s.run()
				if P == 1 {
					one = got.perSecond
				}
				name := fmt.Sprintf("shards-%s-%g-ms-%d", protocol.name, h.p50, P)
				r := figure(name, got.perSecond, "arrivals/s")
				r.Note = got.String()
				rows = append(rows, r)
				if protocol.ahead && P == 4 {
					rows = append(rows, atLeast(name+"-against-1", got.perSecond/one, "times", 3))
				}
			}
		}
	}
	return rows
}

// heapBytes returns the bytes of live objects.
func heapBytes() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
