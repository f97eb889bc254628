package bench

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	sharding "github.com/gvbll/gvbll/pipeline/shards"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/shards/exchange"
	"github.com/gvbll/gvbll/topics/wire"
)

// BenchmarkShards reports what shards of a graph cost beside the engine that has all of it.
// One run takes minutes: -benchtime 1x.
func BenchmarkShards(b *testing.B) {
	var rows []Row
	for b.Loop() {
		var err error
		if rows, err = shards(b.Context(), Config{}); err != nil {
			b.Fatal(err)
		}
	}
	for _, r := range rows {
		b.ReportMetric(r.Value, r.Name)
	}
}

// shards measures what the shards of a graph cost beside the engine that has all of it.
func shards(ctx context.Context, c Config) ([]Row, error) {
	c.Workload = c.WithDefaults()
	m, err := c.Model()
	if err != nil {
		return nil, err
	}
	if _, err := m.Slice(0, sliced[len(sliced)-1]); err != nil {
		none := figure("shards", 1, "shards")
		none.Note = err.Error()
		return []Row{none}, nil
	}
	rows, err := c.shardCosts(c.windows())
	if err != nil {
		return nil, err
	}
	memory, err := c.shardBytes()
	if err != nil {
		return nil, err
	}
	bytes, err := c.exchanged(ctx)
	if err != nil {
		return nil, err
	}
	formula := 3 * float64(4*c.Embedding+6) // (P-1)(4 d_e + 6) with P = 4
	sent := figure("shards-exchanged-4", bytes, "bytes an arrival")
	off := atMost("shards-exchanged-4-off", math.Abs(bytes/formula-1), "of the formula", 0.1)
	return slices.Concat(rows, memory, []Row{sent, off}), nil
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
func (w Workload) wholeGraph() (*wholeGraph, error) {
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	e, err := pipeline.New(m, like)
	if err != nil {
		return nil, err
	}
	g := &wholeGraph{e: e, part: part{w: w, stream: w.Stream(), recycle: e.Recycle}}
	for window := range g.stream.growth() {
		e.Recycle(e.Step(window))
	}
	g.begin()
	return g, nil
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
func (w Workload) oneShard(P, times int) (*oneShard, error) {
	m, err := w.Model()
	if err != nil {
		return nil, err
	}
	s, err := sharding.NewShard(m, like, 0, P)
	if err != nil {
		return nil, err
	}
	lead, err := sharding.NewTrainer(m, like, P)
	if err != nil {
		return nil, err
	}
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
		if err := s.Hear(nil); err != nil {
			return nil, err
		}
		if _, err := s.Serve(make([][]float32, P), nil); err != nil {
			return nil, err
		}
		if g.lead != nil {
			if _, _, err := lead.Learn([]*sharding.Rows{s.Rows()}); err != nil {
				return nil, err
			}
		}
	}
	g.begin()
	return g, nil
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

// shardCosts measures stages in CPU time of the thread.
func (w Workload) shardCosts(windows int) ([]Row, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	one, err := w.wholeGraph()
	if err != nil {
		return nil, err
	}
	const four = 4
	alone, err := w.oneShard(1, four)
	if err != nil {
		return nil, err
	}
	all, shards := []stepper{one, alone}, map[int]*oneShard{}
	for _, P := range sliced {
		s, err := w.oneShard(P, P)
		if err != nil {
			return nil, err
		}
		all, shards[P] = append(all, s), s
	}
	if err := inTurn(2*w.Window*windows, all...); err != nil {
		return nil, err
	}
	decode, encode := w.wireCost(windows)

	enter, serve, learn := one.enter.undisturbed(), one.serve.undisturbed(), one.learn.undisturbed()
	whole, label := enter+serve+learn, alone.learn.undisturbed()
	rows := []Row{
		figure("shards-engine", whole, "ns an arrival with its label"),
		figure("shards-enter-1", enter, "ns an arrival"),
	}
	for _, P := range sliced {
		rows = append(rows, figure(fmt.Sprintf("shards-enter-%d", P), shards[P].enter.undisturbed(), "ns an arrival"))
	}
	rows = append(rows, figure("shards-serve-1", serve, "ns an arrival"))
	for _, P := range sliced { // it joins all labels, and predicts the shard's own arrivals
		rows = append(rows, figure(fmt.Sprintf("shards-serve-%d", P), shards[P].serve.undisturbed(), "ns an arrival, in each shard"))
	}
	shard := shards[four].enter.undisturbed() + shards[four].serve.undisturbed()
	return append(
		rows,
		figure("shards-learn", label, "ns a label, at the lead"),
		figure("shards-input", decode, "ns an arrival, in each task"),
		figure("shards-publish", encode, "ns a prediction"),
		atMost("shards-cpu-4", shard/whole, "of the engine's", 0.4),
		atMost("shards-cpu-4-and-lead", (shard+label)/whole, "of the engine's", 0.4),
		atMost("shards-cpu-4-together", (four*shard+label)/whole, "times the engine's", 2),
	), nil
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
	return decoded.cost().nanoseconds, encoded.cost().nanoseconds
}

// shardBytes measures the memory of a node in an engine and in shards, and what shards send
// for an arrival.
func (w Workload) shardBytes() ([]Row, error) {
	before := heapBytes()
	g, err := w.wholeGraph()
	if err != nil {
		return nil, err
	}
	g.stream = nil
	whole := (heapBytes() - before) / float64(w.Nodes)
	runtime.KeepAlive(g)
	rows := []Row{figure("shards-memory-1", whole, "bytes a node")}
	for _, P := range sliced {
		g, before = nil, heapBytes()
		s, err := w.oneShard(P, 1)
		if err != nil {
			return nil, err
		}
		s.stream = nil
		bytes := (heapBytes() - before) / float64(w.Nodes)
		runtime.KeepAlive(s)
		rows = append(rows, figure(fmt.Sprintf("shards-memory-%d", P), bytes, "bytes a node"))
		if bar := map[int]float64{4: 0.4, 8: 0.3}[P]; bar > 0 {
			rows = append(rows, atMost(fmt.Sprintf("shards-memory-%d-against-1", P), bytes/whole, "times", bar))
		}
	}
	return rows, nil
}

// exchanged returns the bytes of embeddings that four shards send for an arrival, as they lie
// in the topic.
func (w Workload) exchanged(ctx context.Context) (bytes float64, err error) {
	const shards = 4
	w.Nodes, w.Window = 1000, shards*w.Window
	dir, err := os.MkdirTemp("", "gvbll-bench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	b, err := broker.Start(broker.Config{Dir: dir})
	if err != nil {
		return 0, err
	}
	defer b.Close()
	client, err := kafka.Dial(ctx, kafka.Config{Brokers: []string{b.Addr()}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	names, err := topics.Under("bench")
	if err != nil {
		return 0, err
	}
	if _, err := topics.Create(ctx, client, names, topics.Layout{Partitions: 1, Replication: 1, Shards: shards}); err != nil {
		return 0, err
	}
	m, err := w.Model()
	if err != nil {
		return 0, err
	}
	window := w.Stream().Next(false)
	for p := range shards {
		s, err := sharding.NewShard(m, like, p, shards)
		if err != nil {
			return 0, err
		}
		s.Enter(window)
		var parts [][]byte
		for q := range shards {
			parts = append(parts, sharding.AppendPart(nil, s.Part(q)))
		}
		sender, err := exchange.NewSender(ctx, client, exchange.Config{Topic: names.Exchange, Shards: shards, Task: 1 + p})
		if err != nil {
			return 0, err
		}
		defer sender.Close()
		if err := sender.Send(ctx, window.Number, exchange.Part, parts...); err != nil {
			return 0, err
		}
		if err := sender.Flush(ctx, window.Number); err != nil {
			return 0, err
		}
	}
	err = client.ReadAll(ctx, names.Exchange, func(r *kafka.Record) { bytes += float64(len(r.Key) + len(r.Value)) })
	return bytes / float64(w.Window), err
}

// undisturbed returns the lower quartile of the windows' times.
func (s *samples) undisturbed() float64 {
	slices.Sort(s.times)
	return s.times[len(s.times)/4]
}
