package stream

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

// Latency is how old predictions are when they have been fetched, from just
// before their node was sent.
type Latency struct{ P50, P99 time.Duration }

// Latency measures at a rate of events a second, for so long: by a reader that
// takes uncommitted records and by one that does not. Sender, worker, both
// readers, and the embedded broker share the machine. Nodes must have the ids 0,
// 1, and so on.
func (s *Setup) Latency(ctx context.Context, rate float64, long time.Duration) (uncommitted, committed Latency, err error) {
	l := s.newLive(int(long.Seconds() * rate))
	if err := l.run(ctx, func(sent int) int { return int(l.now().Seconds()*rate) - sent }); err != nil {
		return uncommitted, committed, err
	}
	return l.latency(uncommittedReader), l.latency(committedReader), nil
}

// Sustained is how many events a second come out of what Latency measures, with
// the sender and both readers live, when n nodes are sent as fast as predictions
// come: on average after the first quarter.
func (s *Setup) Sustained(ctx context.Context, n int) (rate float64, err error) {
	ahead := min(8000, n/8+1) // so that the worker need never wait for the sender
	l := s.newLive(n)
	r := &l.readers[uncommittedReader]
	if err := l.run(ctx, func(sent int) int { return int(r.seen.Load()) + ahead - sent }); err != nil {
		return 0, err
	}
	return float64(n-n/4) / (r.end - r.quarter).Seconds(), nil
}

// live is a stream from a sender through a worker to two readers.
type live struct {
	setup   *Setup
	names   topics.Names
	nodes   []byte         // a key and a value each, in the order of their ids
	ends    []int          // in nodes, of the keys and the values in turn
	sent    []atomic.Int64 // when, in nanoseconds since the start, by id
	began   time.Time
	readers [2]reader
}

// Readers are numbered by their isolation level.
const (
	uncommittedReader = iota
	committedReader
)

// reader is what one of them has seen of the n predictions.
type reader struct {
	next         []int64 // offset, by partition
	age          []time.Duration
	seen         atomic.Int64
	quarter, end time.Duration // since the start, when a quarter and all had been seen
}

// newLive encodes n nodes beforehand, for what that takes is no part of a stream,
// into memory in which the collector has nothing to look for.
func (s *Setup) newLive(n int) *live {
	l := &live{setup: s, ends: make([]int, 0, 2*n), sent: make([]atomic.Int64, n)}
	for i := range n {
		node := s.Node(i)
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

// now is how long ago the sender started.
func (l *live) now() time.Duration { return time.Since(l.began) }

// run lets all of it run until both readers have seen a prediction of each node.
// Every 2 ms, due says how many more may be sent.
func (l *live) run(ctx context.Context, due func(sent int) int) (err error) {
	if l.names, err = l.setup.topics(ctx); err != nil {
		return err
	}
	defer l.setup.remove(ctx, l.names)
	engine, err := l.setup.Engine()
	if err != nil {
		return err
	}
	p, err := l.setup.Client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	defer p.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running, readers sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(ctx, l.setup.Client, engine, l.setup.config(l.names)); err != nil {
			cancel(err)
		}
	})
	runtime.GC() // what came before is not to be collected meanwhile
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

// send sends what is due, and notes when.
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
		m, err := t.RoundTrip(ctx, kafkago.TCP(l.setup.Broker), req)
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

// drain notes the age of a batch's records, and moves behind them. Markers are
// none.
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

// latency is what a reader saw behind the start, which is a fifth.
func (l *live) latency(level int) Latency {
	age := slices.Sorted(slices.Values(l.readers[level].age[len(l.sent)/5:]))
	return Latency{P50: age[len(age)/2], P99: age[len(age)*99/100]}
}
