package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

var (
	events = flag.Int("events", 200_000, "arrivals that are sent through a broker")
	long   = flag.Duration("long", 5*time.Second, "for how long nodes are sent at a rate")
)

// BenchmarkLatency measures the age of predictions, read uncommitted and committed, at 40,000 arrivals a
// second, with the pool and a label for each arrival at 20,000, and at half of what sender, worker and both
// readers sustain together.
func BenchmarkLatency(b *testing.B) {
	measure := func(name string, pooled bool, rate func(*setup) float64) {
		b.Run(name, func(b *testing.B) {
			s := onBroker(b, pooled)
			for b.Loop() {
				uncommitted, committed, err := s.ages(b.Context(), rate(s), *long)
				must(b, err)
				b.ReportMetric(uncommitted.p50.Seconds()*1000, "ms-p50-uncommitted")
				b.ReportMetric(uncommitted.p99.Seconds()*1000, "ms-p99-uncommitted")
				b.ReportMetric(committed.p50.Seconds()*1000, "ms-p50-committed")
				b.ReportMetric(committed.p99.Seconds()*1000, "ms-p99-committed")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	measure("40000", false, func(*setup) float64 { return 40_000 })
	measure("pool-20000", true, func(*setup) float64 { return 20_000 })
	measure("half", false, func(s *setup) (rate float64) {
		for range 2 { // the first round is not counted: the process gets its memory in it
			var err error
			rate, err = s.sustained(b.Context(), *events/2)
			must(b, err)
		}
		b.Logf("%.0f arrivals a second are sustained", rate)
		return rate / 2
	})
}

// ages are percentiles of the time from just before a node is sent until its prediction
// has been fetched.
type ages struct{ p50, p99 time.Duration }

// ages sends nodes at a rate per second for the given duration, and measures the ages of
// their predictions for a reader of uncommitted records and for one of committed records.
// Sender, worker, both readers and the embedded broker share the machine.
func (s *setup) ages(ctx context.Context, rate float64, duration time.Duration) (uncommitted, committed ages, err error) {
	l := s.newLive(int(duration.Seconds() * rate))
	if err := l.run(ctx, func(sent int) int { return int(l.now().Seconds()*rate) - sent }); err != nil {
		return uncommitted, committed, err
	}
	return l.ages(uncommittedReader), l.ages(committedReader), nil
}

// sustained returns the rate of predictions per second while the sender and both readers
// run, and n nodes are sent as fast as predictions come. The first quarter of the nodes
// is not measured.
func (s *setup) sustained(ctx context.Context, n int) (rate float64, err error) {
	ahead := min(8000, n/8+1) // so that the worker never waits for the sender
	l := s.newLive(n)
	r := &l.readers[uncommittedReader]
	if err := l.run(ctx, func(sent int) int { return int(r.seen.Load()) + ahead - sent }); err != nil {
		return 0, err
	}
	return float64(n-n/4) / (r.end - r.quarter).Seconds(), nil
}

// live is a stream from a sender through a worker to two readers.
type live struct {
	setup   *setup
	names   topics.Names
	nodes   []byte         // keys and values in turn, in the order of ids
	ends    []int          // the end of each key and each value in nodes
	sent    []atomic.Int64 // by id: when the node was sent, in nanoseconds since began
	began   time.Time
	readers [2]reader
}

// The readers, by their isolation level in the protocol.
const (
	uncommittedReader = iota
	committedReader
)

// reader is the progress of one reader of the predictions.
type reader struct {
	next         []int64         // next offset, by partition
	age          []time.Duration // by id
	seen         atomic.Int64    // number of predictions seen
	quarter, end time.Duration   // when a quarter and when all had been seen, since began
}

// newLive encodes n nodes beforehand, so that encoding is not measured, into memory
// without pointers, which the garbage collector does not scan.
func (s *setup) newLive(n int) *live {
	l := &live{setup: s, ends: make([]int, 0, 2*n), sent: make([]atomic.Int64, n)}
	for i := range n {
		node := s.node(i)
		l.nodes = wire.AppendKey(l.nodes, node.ID)
		key := len(l.nodes)
		l.nodes = wire.AppendNode(l.nodes, node)
		l.ends = append(l.ends, key, len(l.nodes))
	}
	for i := range l.readers {
		l.readers[i].next, l.readers[i].age = make([]int64, *partitions), make([]time.Duration, n)
	}
	return l
}

// record returns the i-th node's record.
func (l *live) record(i int) kafka.Record {
	from := 0
	if i > 0 {
		from = l.ends[2*i-1]
	}
	key, value := l.nodes[from:l.ends[2*i]], l.nodes[l.ends[2*i]:l.ends[2*i+1]]
	return kafka.Record{Topic: l.names.Nodes, Partition: kafka.PartitionFor(key, *partitions), Key: key, Value: value}
}

// now returns the time since the sender started.
func (l *live) now() time.Duration { return time.Since(l.began) }

// run runs sender, worker and readers until both readers have seen a prediction for each
// node. Every 2 ms, due returns how many more nodes may be sent, given the number sent.
func (l *live) run(ctx context.Context, due func(sent int) int) (err error) {
	if l.names, err = l.setup.topics(ctx); err != nil {
		return err
	}
	defer l.setup.remove(ctx, l.names)
	engine, err := l.setup.engine()
	if err != nil {
		return err
	}
	p, err := l.setup.client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running, readers sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(ctx, l.setup.client, engine, l.setup.config(l.names)); err != nil {
			cancel(err)
		}
	})
	runtime.GC() // collects earlier garbage before the measurement
	l.began = time.Now()
	for level := range l.readers {
		readers.Go(func() {
			if err := l.watch(ctx, level); err != nil {
				cancel(err)
			}
		})
	}
	if err := l.send(ctx, p, due); err != nil {
		cancel(err)
	}
	readers.Wait()
	failed := context.Cause(ctx)
	cancel(nil)
	running.Wait()
	return failed
}

// send sends the nodes that are due, and records their times. With Pool, the labels of those that
// were sent before go with them.
func (l *live) send(ctx context.Context, p *kafka.Producer, due func(sent int) int) error {
	const maxBatch = 2000
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var records []kafka.Record
	for n, labelled := 0, 0; n < len(l.sent); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		end := min(n+min(due(n), maxBatch), len(l.sent))
		if end <= n {
			continue
		}
		now := int64(l.now())
		records = records[:0]
		for ; l.setup.w.Pool && labelled < n; labelled++ {
			records = append(records, l.setup.label(l.names.Labels, labelled))
		}
		for ; n < end; n++ {
			l.sent[n].Store(now)
			records = append(records, l.record(n))
		}
		if err := p.Send(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// watch fetches predictions at an isolation level until it has seen one for each node.
func (l *live) watch(ctx context.Context, level int) error {
	t := &kafkago.Transport{}
	defer t.CloseIdleConnections()
	r := &l.readers[level]
	for n := len(l.sent); int(r.seen.Load()) < n; {
		req := &fetch.Request{ReplicaID: -1, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 1 << 30, IsolationLevel: int8(level), SessionEpoch: -1}
		req.Topics = []fetch.RequestTopic{{Topic: l.names.Predictions}}
		for i, at := range r.next {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetch.RequestPartition{
				Partition: int32(i), CurrentLeaderEpoch: -1, FetchOffset: at, PartitionMaxBytes: 1 << 20,
			})
		}
		m, err := t.RoundTrip(ctx, kafkago.TCP(l.setup.addr), req)
		if err != nil {
			return err
		}
		now, before := l.now(), int(r.seen.Load())
		for _, part := range m.(*fetch.Response).Topics[0].Partitions {
			stream, ok := part.RecordSet.Records.(*protocol.RecordStream)
			if !ok {
				continue
			}
			for _, batch := range stream.Records {
				if err := l.drain(r, batch, part.Partition, now); err != nil {
					return err
				}
			}
		}
		seen := int(r.seen.Load())
		if before < n/4 && seen >= n/4 {
			r.quarter = now
		}
		if seen == n {
			r.end = now
		}
	}
	return nil
}

// drain records the age of each prediction of a batch and advances the reader's offset.
// It skips transaction markers, and records that were fetched before.
func (l *live) drain(r *reader, batch protocol.RecordReader, partition int32, now time.Duration) error {
	_, marker := batch.(*protocol.ControlBatch)
	next := &r.next[partition]
	var buffer [20]byte
	for {
		rec, err := batch.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key := buffer[:min(rec.Key.Len(), len(buffer))]
		_, err = io.ReadFull(rec.Key, key)
		rec.Key.Close()
		if rec.Value != nil {
			rec.Value.Close()
		}
		if err != nil {
			return err
		}
		again := rec.Offset < *next
		*next = max(*next, rec.Offset+1)
		if marker || again {
			continue
		}
		id, err := strconv.Atoi(string(key))
		if err != nil || id < 0 || id >= len(l.sent) {
			return fmt.Errorf("prediction for node %q, which was not sent", key)
		}
		r.age[id] = now - time.Duration(l.sent[id].Load())
		r.seen.Add(1)
	}
}

// ages returns the ages that a reader recorded, without those of the first fifth of the
// nodes.
func (l *live) ages(level int) ages {
	age := slices.Sorted(slices.Values(l.readers[level].age[len(l.sent)/5:]))
	return ages{p50: age[len(age)/2], p99: age[len(age)*99/100]}
}
