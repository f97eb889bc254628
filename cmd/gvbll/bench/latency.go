package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// latency measures how old predictions are, at half of what sender, worker and
// readers sustain together, and at half of what the worker processes without them.
func latency(ctx context.Context, c Config) ([]Row, error) {
	events, long := max(c.Events/2, 1000), 5*time.Second
	if c.Quick {
		long = time.Second
	}
	return c.onBrokers(ctx, func(ctx context.Context, broker string, s *setup) ([]Row, error) {
		r, err := s.measure(ctx, events)
		if err != nil {
			return nil, err
		}
		sustained, err := s.sustained(ctx, events)
		if err != nil {
			return nil, err
		}
		uncommitted, committed, err := s.ages(ctx, sustained/2, long)
		if err != nil {
			return nil, err
		}
		early, late, err := s.ages(ctx, r.worker/2, long)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		return []Row{
			figure("latency-sustained-"+broker, sustained, "arrivals/s"),
			atMost("latency-uncommitted-p99-"+broker, ms(uncommitted.p99), "ms", 20),
			atMost("latency-committed-p99-"+broker, ms(committed.p99), "ms", ms(c.Interval)+20),
			figure("latency-uncommitted-p50-"+broker, ms(uncommitted.p50), "ms"),
			figure("latency-committed-p50-"+broker, ms(committed.p50), "ms"),
			figure("latency-alone-uncommitted-p99-"+broker, ms(early.p99), "ms"),
			figure("latency-alone-committed-p99-"+broker, ms(late.p99), "ms"),
		}, err
	})
}

// ages are how old predictions are when they have been fetched, counted from just
// before their node was sent.
type ages struct{ p50, p99 time.Duration }

// ages sends events at a rate a second for so long, and measures the ages of the
// predictions, for a reader of uncommitted records and for one of committed ones.
// Sender, worker, both readers and the embedded broker share the machine.
func (s *setup) ages(ctx context.Context, rate float64, long time.Duration) (uncommitted, committed ages, err error) {
	l := s.newLive(int(long.Seconds() * rate))
	if err := l.run(ctx, func(sent int) int { return int(l.now().Seconds()*rate) - sent }); err != nil {
		return uncommitted, committed, err
	}
	return l.ages(uncommittedReader), l.ages(committedReader), nil
}

// sustained returns how many predictions a second come out, with the sender and both
// readers live, when n nodes are sent as fast as predictions come. It is measured
// from a quarter of the nodes on.
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
	ends    []int          // of each key and each value, in nodes
	sent    []atomic.Int64 // by id: when the node was sent, in nanoseconds since began
	began   time.Time
	readers [2]reader
}

// Readers are numbered by their isolation level.
const (
	uncommittedReader = iota
	committedReader
)

// reader is what one reader has seen of the predictions.
type reader struct {
	next         []int64         // offset, by partition
	age          []time.Duration // by id
	seen         atomic.Int64    // how many
	quarter, end time.Duration   // since began, when a quarter and when all had been seen
}

// newLive encodes n nodes beforehand, because encoding is no part of the stream,
// into memory without pointers, which costs the garbage collector nothing.
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
		l.readers[i].next, l.readers[i].age = make([]int64, s.Partitions), make([]time.Duration, n)
	}
	return l
}

// record is the i-th node's.
func (l *live) record(i int) kafka.Record {
	from := 0
	if i > 0 {
		from = l.ends[2*i-1]
	}
	key, value := l.nodes[from:l.ends[2*i]], l.nodes[l.ends[2*i]:l.ends[2*i+1]]
	return kafka.Record{Topic: l.names.Nodes, Partition: kafka.PartitionFor(key, l.setup.Partitions), Key: key, Value: value}
}

// now returns how long ago the sender started.
func (l *live) now() time.Duration { return time.Since(l.began) }

// run runs sender, worker and readers until both readers have seen a prediction of
// each node. Every 2 ms, due says how many more nodes may be sent.
func (l *live) run(ctx context.Context, due func(sent int) int) (err error) {
	if l.names, err = l.setup.topics(ctx); err != nil {
		return err
	}
	defer l.setup.remove(ctx, l.names)
	engine, err := l.setup.Engine(l.setup.model)
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
	runtime.GC() // so that it does not collect earlier garbage meanwhile
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

// send sends the nodes that are due, and notes when.
func (l *live) send(ctx context.Context, p *kafka.Producer, due func(sent int) int) error {
	const most = 2000 // at once
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	var records []kafka.Record
	for n := 0; n < len(l.sent); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		end := min(n+min(due(n), most), len(l.sent))
		if end <= n {
			continue
		}
		now := int64(l.now())
		records = records[:0]
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

// watch fetches predictions at an isolation level until it has seen one of each
// node.
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

// drain notes the age of each record of a batch and advances the reader's offset.
// Transaction markers are skipped.
func (l *live) drain(r *reader, batch protocol.RecordReader, partition int32, now time.Duration) error {
	_, marker := batch.(*protocol.ControlBatch)
	next := &r.next[partition]
	var room [20]byte
	for {
		rec, err := batch.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key := room[:min(rec.Key.Len(), len(room))]
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
			return fmt.Errorf("a prediction of node %q, which was not sent", key)
		}
		r.age[id] = now - time.Duration(l.sent[id].Load())
		r.seen.Add(1)
	}
}

// ages returns those that a reader saw, without the first fifth.
func (l *live) ages(level int) ages {
	age := slices.Sorted(slices.Values(l.readers[level].age[len(l.sent)/5:]))
	return ages{p50: age[len(age)/2], p99: age[len(age)*99/100]}
}
