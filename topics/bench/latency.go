package bench

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
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
	names, err := s.topics(ctx)
	if err != nil {
		return uncommitted, committed, err
	}
	defer s.remove(ctx, names)
	engine, err := s.Engine()
	if err != nil {
		return uncommitted, committed, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running, readers sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(ctx, s.Client, engine, s.config(names)); err != nil {
			cancel(err)
		}
	})
	sent := make([]time.Time, int(long.Seconds()*rate))
	var mu sync.Mutex
	seen := [2][]time.Duration{}
	for level := range seen {
		readers.Go(func() {
			d, err := s.watch(ctx, names.Predictions, int8(level), sent, &mu)
			if err != nil {
				cancel(err)
			}
			seen[level] = d
		})
	}
	if err := s.pace(ctx, names, sent, &mu, rate); err != nil {
		cancel(err)
	}
	readers.Wait()
	failed := context.Cause(ctx)
	cancel(nil)
	running.Wait()
	if failed != nil {
		return uncommitted, committed, failed
	}
	for level, l := range []*Latency{&uncommitted, &committed} {
		d := seen[level][len(sent)/5:] // behind the start
		slices.Sort(d)
		*l = Latency{P50: d[len(d)/2], P99: d[len(d)*99/100]}
	}
	return uncommitted, committed, nil
}

// pace sends nodes at a rate, every 2 ms as many as have become due, and notes
// when.
func (s *Setup) pace(ctx context.Context, names topics.Names, sent []time.Time, mu *sync.Mutex, rate float64) error {
	p, err := s.Client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	defer p.Close()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	began := time.Now()
	var records []kafka.Record
	for n := 0; n < len(sent); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		due := min(int(now.Sub(began).Seconds()*rate), len(sent), n+2000)
		records = records[:0]
		mu.Lock()
		for ; n < due; n++ {
			sent[n] = now
			records = append(records, s.record(names.Nodes, n))
		}
		mu.Unlock()
		if len(records) == 0 {
			continue
		}
		if err := p.Send(ctx, records); err != nil {
			return err
		}
	}
	return nil
}

// watch fetches predictions at an isolation level until it has seen one for each
// of the nodes sent, and returns how old each was.
func (s *Setup) watch(ctx context.Context, topic string, level int8, sent []time.Time, mu *sync.Mutex) ([]time.Duration, error) {
	t := &kafkago.Transport{}
	defer t.CloseIdleConnections()
	next := make([]int64, s.Partitions)
	seen := make([]time.Duration, 0, len(sent))
	for len(seen) < len(sent) {
		req := &fetch.Request{ReplicaID: -1, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 1 << 30, IsolationLevel: level, SessionEpoch: -1}
		req.Topics = []fetch.RequestTopic{{Topic: topic}}
		for i, at := range next {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetch.RequestPartition{
				Partition: int32(i), CurrentLeaderEpoch: -1, FetchOffset: at, PartitionMaxBytes: 1 << 20,
			})
		}
		m, err := t.RoundTrip(ctx, kafkago.TCP(s.Broker), req)
		if err != nil {
			return nil, err
		}
		now := time.Now()
		for _, part := range m.(*fetch.Response).Topics[0].Partitions {
			stream, ok := part.RecordSet.Records.(*protocol.RecordStream)
			if !ok {
				continue
			}
			for _, batch := range stream.Records {
				ids, err := drain(batch, &next[part.Partition])
				if err != nil {
					return nil, err
				}
				mu.Lock()
				for _, id := range ids {
					seen = append(seen, now.Sub(sent[id]))
				}
				mu.Unlock()
			}
		}
	}
	return seen, nil
}

// drain returns the ids of a batch's records from next on, and moves next behind
// them. Markers have none.
func drain(batch protocol.RecordReader, next *int64) (ids []int, err error) {
	_, marker := batch.(*protocol.ControlBatch)
	for {
		r, err := batch.ReadRecord()
		if errors.Is(err, io.EOF) {
			return ids, nil
		}
		if err != nil {
			return nil, err
		}
		key, err := protocol.ReadAll(r.Key)
		if err != nil {
			return nil, err
		}
		r.Key.Close()
		if r.Value != nil {
			r.Value.Close()
		}
		again := r.Offset < *next
		*next = max(*next, r.Offset+1)
		if marker || again {
			continue
		}
		id, err := strconv.Atoi(string(key))
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
}
