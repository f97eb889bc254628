package bench

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	sharding "github.com/gvbll/gvbll/pipeline/shards"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/shards/exchange"
	"github.com/gvbll/gvbll/topics/wire"
)

// BenchmarkShards measures what the shards of a graph cost beside the engine that has all of it.
// One run takes minutes: -benchtime 1x.
func BenchmarkShards(b *testing.B) {
	w := given.WithDefaults()
	for b.Loop() {
		w.shardCosts(b)
		w.shardBytes(b)
		bytes, formula := w.exchanged(b), 3*float64(4*w.Embedding+6) // (P-1)(4 d_e + 6) with P = 4
		b.ReportMetric(bytes, "exchanged-4-B/arrival")
		b.ReportMetric(math.Abs(bytes/formula-1), "exchanged-4-off")
	}
	b.ReportMetric(0, "ns/op")
}

// sliced are the numbers of shards that are measured.
var sliced = [...]int{2, 4, 8}

// stepper steps a stream of its own, a window at a time.
type stepper interface {
	step() error
	perWindow() int
	begin() // starts the measurement
}

// part is what all steppers have: a stream, and the times of stages.
type part struct {
	w                   Workload
	stream              *Stream
	enter, serve, learn *samples
	last                *event.Outcome // recycled before the next step, as a worker does
	recycle             func(*event.Outcome)
}

func (p *part) perWindow() int { return p.w.Window }

func (p *part) begin() {
	p.enter, p.serve, p.learn = begin(p.w.Window), begin(p.w.Window), begin(p.w.Window)
}

// next returns the next window, all of whose arrivals have a label in it.
func (p *part) next() *event.Window {
	if p.last != nil {
		p.recycle(p.last)
	}
	return p.stream.Next(true)
}

// like is the configuration of what is compared: without detectors of drift, which see
// less behind shards.
var like = pipeline.Config{Unwatched: true}

// wholeGraph is an engine.
type wholeGraph struct {
	part
	e *pipeline.Engine
}

// wholeGraph returns an engine whose graph has the workload's size.
func (w Workload) wholeGraph(t testing.TB) *wholeGraph {
	m, err := w.Model()
	must(t, err)
	e, err := pipeline.New(m, like)
	must(t, err)
	g := &wholeGraph{e: e, part: part{w: w, stream: w.Stream(), recycle: e.Recycle}}
	for window := range g.stream.growth() {
		e.Recycle(e.Step(window))
	}
	g.begin()
	return g
}

func (g *wholeGraph) step() error {
	window := g.next()
	g.enter.runCPU(func() { g.e.Enter(window) })
	g.serve.runCPU(func() { g.e.Serve() })
	g.learn.runCPU(func() { g.last = g.e.Learn() })
	return nil
}

// oneShard is the first of P shards, to which nobody else sends anything: the parts of the
// others are its own, and the heads are those of a lead beside it.
type oneShard struct {
	part
	s     *sharding.Shard
	heads []byte // from the lead, nil if there are none
	lead  *sharding.Trainer

	sent     [][]byte // by receiver
	received [][]float32
	rows     []byte
}

// oneShard returns such a shard, whose graph has the workload's size and whose windows are
// times as large as the workload's. If it is the only one, it has a lead.
func (w Workload) oneShard(t testing.TB, P, times int) *oneShard {
	m, err := w.Model()
	must(t, err)
	s, err := sharding.NewShard(m, like, 0, P)
	must(t, err)
	lead, err := sharding.NewTrainer(m, like, P)
	must(t, err)
	w.Window *= times
	g := &oneShard{
		s: s, heads: sharding.AppendHeads(nil, lead.Heads()), sent: make([][]byte, P), received: make([][]float32, P),
		part: part{w: w, stream: w.Stream(), recycle: s.Recycle},
	}
	if P == 1 {
		g.lead = lead
	}
	for window := range g.stream.growth() {
		s.Enter(window)
		must(t, s.Hear(nil))
		_, err := s.Serve(make([][]float32, P), nil)
		must(t, err)
		if g.lead != nil {
			_, _, err := lead.Learn([]*sharding.Rows{s.Rows()})
			must(t, err)
		}
	}
	g.begin()
	return g
}

// step measures the conversion from and to messages too.
func (g *oneShard) step() (err error) {
	window := g.next()
	g.enter.runCPU(func() {
		g.s.Enter(window)
		for q := range g.sent {
			if q > 0 {
				g.sent[q] = sharding.AppendPart(g.sent[q][:0], g.s.Part(q))
			}
		}
		err = g.s.Hear(nil)
	})
	own := g.s.Part(0)
	g.received[0], g.sent[0] = own, sharding.AppendPart(g.sent[0][:0], own)
	g.serve.runCPU(func() {
		for q := range g.received {
			if q > 0 && err == nil {
				g.received[q], err = sharding.DecodePart(g.sent[0], g.received[q])
			}
		}
		var heads *sharding.Heads
		if err == nil {
			heads, err = sharding.DecodeHeads(g.heads, window.Number-1)
		}
		if err == nil {
			g.last, err = g.s.Serve(g.received, heads)
		}
		g.rows = g.s.AppendRows(g.rows[:0])
	})
	if err != nil || g.lead == nil {
		return err
	}
	g.learn.runCPU(func() {
		var rows *sharding.Rows
		if rows, err = g.lead.DecodeRows(g.rows); err != nil {
			return
		}
		var out *event.Outcome
		var heads *sharding.Heads
		if out, heads, err = g.lead.Learn([]*sharding.Rows{rows}); err == nil {
			g.heads = sharding.AppendHeads(g.heads[:0], heads)
			g.lead.Recycle(out)
		}
	})
	return err
}

// turn is how many arrivals one stepper steps before it is the next one's turn: so many
// that its rows are in the processor's caches, as they are on a machine of its own, and so
// few that other load on the machine affects all alike.
const turn = 8_000

// inTurn steps all over the given number of arrivals, and measures all but the first turn.
func inTurn(arrivals int, all ...stepper) error {
	for i := range 1 + max(1, arrivals/turn) {
		for _, s := range all {
			for range max(1, turn/s.perWindow()) {
				if err := s.step(); err != nil {
					return err
				}
			}
			if i == 0 {
				s.begin()
			}
		}
	}
	return nil
}

// shardCosts measures stages in CPU time of the thread, in nanoseconds an arrival.
func (w Workload) shardCosts(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const four = 4
	one, alone := w.wholeGraph(b), w.oneShard(b, 1, four)
	all, shards := []stepper{one, alone}, map[int]*oneShard{}
	for _, P := range sliced {
		shards[P] = w.oneShard(b, P, P)
		all = append(all, shards[P])
	}
	const windows = 200
	must(b, inTurn(min(2*w.Window*windows, 20*w.Nodes), all...))
	decode, encode := w.wireCost(windows)
	b.ReportMetric(decode, "input-ns/arrival") // in each task
	b.ReportMetric(encode, "publish-ns/prediction")

	enter, serve, learn := one.enter.undisturbed(), one.serve.undisturbed(), one.learn.undisturbed()
	whole, label := enter+serve+learn, alone.learn.undisturbed()
	b.ReportMetric(whole, "engine-ns/arrival")
	b.ReportMetric(enter, "enter-1-ns/arrival")
	b.ReportMetric(serve, "serve-1-ns/arrival")
	b.ReportMetric(label, "learn-ns/label") // at the lead
	for _, P := range sliced {
		b.ReportMetric(shards[P].enter.undisturbed(), fmt.Sprintf("enter-%d-ns/arrival", P))
		b.ReportMetric(shards[P].serve.undisturbed(), fmt.Sprintf("serve-%d-ns/arrival", P)) // it joins all labels, and predicts the shard's own arrivals
	}
	shard := shards[four].enter.undisturbed() + shards[four].serve.undisturbed()
	b.ReportMetric(shard/whole, "cpu-4/engine")
	b.ReportMetric((shard+label)/whole, "cpu-4-and-lead/engine")
	b.ReportMetric((four*shard+label)/whole, "cpu-4-together/engine")
}

// wireCost measures the CPU time of decoding a node and of encoding a prediction.
func (w Workload) wireCost(windows int) (decode, encode float64) {
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
	return decoded.median(), encoded.median()
}

// shardBytes measures the memory of a node in an engine and in shards.
func (w Workload) shardBytes(b *testing.B) {
	before := heapBytes()
	g := w.wholeGraph(b)
	g.stream = nil
	whole := (heapBytes() - before) / float64(w.Nodes)
	runtime.KeepAlive(g)
	b.ReportMetric(whole, "memory-1-B/node")
	for _, P := range sliced {
		g, before = nil, heapBytes()
		s := w.oneShard(b, P, 1)
		s.stream = nil
		bytes := (heapBytes() - before) / float64(w.Nodes)
		runtime.KeepAlive(s)
		b.ReportMetric(bytes, fmt.Sprintf("memory-%d-B/node", P))
		b.ReportMetric(bytes/whole, fmt.Sprintf("memory-%d/1", P))
	}
}

// exchanged returns the bytes of embeddings that four shards send for an arrival, as they lie
// in the topic.
func (w Workload) exchanged(b *testing.B) (bytes float64) {
	const shards = 4
	w.Nodes, w.Window = 1000, shards*w.Window
	client := onBroker(b, false).client
	names, err := topics.Under(fmt.Sprintf("gvbll-bench-%d", time.Now().UnixNano()))
	must(b, err)
	_, err = topics.Create(b.Context(), client, names, topics.Layout{Partitions: 1, Replication: 1, Shards: shards})
	must(b, err)
	m, err := w.Model()
	must(b, err)
	window := w.Stream().Next(false)
	for p := range shards {
		s, err := sharding.NewShard(m, like, p, shards)
		must(b, err)
		s.Enter(window)
		var parts [][]byte
		for q := range shards {
			parts = append(parts, sharding.AppendPart(nil, s.Part(q)))
		}
		sender, err := exchange.NewSender(b.Context(), client, exchange.Config{Topic: names.Exchange, Shards: shards, Task: 1 + p})
		must(b, err)
		defer sender.Close()
		must(b, sender.Send(b.Context(), window.Number, exchange.Part, parts...))
		must(b, sender.Flush(b.Context(), window.Number))
	}
	must(b, client.ReadAll(b.Context(), names.Exchange, func(r *kafka.Record) { bytes += float64(len(r.Key) + len(r.Value)) }))
	return bytes / float64(w.Window)
}

// undisturbed returns the lower quartile of the windows' times.
func (s *samples) undisturbed() float64 {
	slices.Sort(s.times)
	return s.times[len(s.times)/4]
}
