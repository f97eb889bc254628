package worker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/worker"
)

// BenchmarkLatency measures, at a part of what the worker can take, how long it
// is from just before a node is sent to when its prediction has been
// fetched: by a reader that takes uncommitted records and by one that does not.
// Sender, worker, both readers, and the broker where it is kfake, share the
// machine.
func BenchmarkLatency(b *testing.B) {
	brokers(b, func(b *testing.B, addr string) {
		c := dialBench(b, addr)
		full := benchTopics(b, c, nil)
		fill(b, c, full.Nodes, benchEvents/2)
		took, _ := work(b, c, benchConfig(full), benchEvents/2)
		capacity := benchEvents / 2 * 3 / 4 / took.Seconds()
		for _, load := range []float64{0.1, 0.25, 0.5} {
			b.Run(fmt.Sprintf("load-%v", load), func(b *testing.B) {
				for b.Loop() {
					latency(b, c, addr, load*capacity)
				}
				b.ReportMetric(load*capacity, "events/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}

// latency reports how old predictions are when events come at a rate, for five
// seconds.
func latency(b *testing.B, c *kafka.Client, addr string, rate float64) {
	b.Helper()
	names := benchTopics(b, c, nil)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var running, readers sync.WaitGroup
	running.Go(func() {
		if err := worker.Run(ctx, c, &ready{}, benchConfig(names)); err != nil {
			b.Error(err)
		}
	})
	sent := make([]time.Time, int(5*rate))
	seen := [2][]time.Duration{}
	for level := range seen {
		readers.Go(func() {
			var err error
			if seen[level], err = watch(ctx, addr, names.Predictions, int8(level), sent); err != nil {
				b.Error(err)
			}
		})
	}
	if err := pace(ctx, c, names, sent, rate); err != nil {
		b.Fatal(err)
	}
	readers.Wait()
	cancel()
	running.Wait()
	for level, name := range []string{"uncommitted", "committed"} {
		d := seen[level][len(sent)/5:] // behind the start
		slices.Sort(d)
		ms := func(q float64) float64 { return float64(d[int(q*float64(len(d)-1))].Microseconds()) / 1000 }
		b.ReportMetric(ms(0.5), name+"-p50-ms")
		b.ReportMetric(ms(0.99), name+"-p99-ms")
	}
}

// pace sends nodes at a rate, every 2 ms as many as have become due, and notes
// when.
func pace(ctx context.Context, c *kafka.Client, names topics.Names, sent []time.Time, rate float64) error {
	p, err := c.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	defer p.Close()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	dense := make([]float32, 128)
	began := time.Now()
	var records []kafka.Record
	for n := 0; n < len(sent); {
		<-tick.C
		now := time.Now()
		due := min(int(now.Sub(began).Seconds()*rate), len(sent), n+2000)
		records = records[:0]
		for ; n < due; n++ {
			sent[n] = now
			records = append(records, nodeRecord(names.Nodes, n, dense, 1))
		}
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
func watch(ctx context.Context, addr, topic string, level int8, sent []time.Time) ([]time.Duration, error) {
	t := &kafkago.Transport{}
	defer t.CloseIdleConnections()
	next := make([]int64, benchPartitions)
	seen := make([]time.Duration, 0, len(sent))
	for len(seen) < len(sent) {
		req := &fetch.Request{ReplicaID: -1, MaxWaitTime: 100, MinBytes: 1, MaxBytes: 1 << 30, IsolationLevel: level, SessionEpoch: -1}
		req.Topics = []fetch.RequestTopic{{Topic: topic}}
		for i, at := range next {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetch.RequestPartition{
				Partition: int32(i), CurrentLeaderEpoch: -1, FetchOffset: at, PartitionMaxBytes: 1 << 20,
			})
		}
		m, err := t.RoundTrip(ctx, kafkago.TCP(addr), req)
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
				_, marker := batch.(*protocol.ControlBatch)
				for {
					r, err := batch.ReadRecord()
					if errors.Is(err, io.EOF) {
						break
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
					again := r.Offset < next[part.Partition]
					next[part.Partition] = max(next[part.Partition], r.Offset+1)
					if marker || again {
						continue
					}
					id, err := strconv.Atoi(string(key))
					if err != nil {
						return nil, err
					}
					seen = append(seen, now.Sub(sent[id]))
				}
			}
		}
	}
	return seen, nil
}
