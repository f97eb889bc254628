package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"runtime"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/gvbll/gvbll/topics"
)

// passThrough is the reference for the worker's throughput: bare kafka-go that moves the
// same bytes through the same transactions, one fetch ahead, without decoding them.
// For every input record it writes a record with the same key and the given value. A
// window is one produce request, with a record as long as a ledger record. A transaction
// ends after the interval.
type passThrough struct {
	transport *kafkago.Transport
	client    *kafkago.Client
	id        string // transactional id
	in, out   string // topics
	ledger    string
	parts     int    // partitions of in and out
	value     []byte // of every record written
	window    int
	interval  time.Duration

	producer kafkago.ProducerSession
	sequence map[string]int32 // next sequence number, by topic and partition
}

// run moves total records, and returns the time for all but the first quarter.
func (p *passThrough) run(ctx context.Context, total int) (_ spent, err error) {
	init, err := p.client.InitProducerID(ctx, &kafkago.InitProducerIDRequest{
		TransactionalID: p.id, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1,
	})
	if err != nil || init.Error != nil {
		return spent{}, errors.Join(err, init.Error)
	}
	p.producer, p.sequence = *init.Producer, make(map[string]int32)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	fetched, failed := make(chan [][]byte), make(chan error, 1)
	go func() { failed <- p.fetch(ctx, fetched) }()
	var warm meter
	var began time.Time
	offset := int64(0)
	for n := 0; n < total; {
		var keys [][]byte
		select {
		case keys = <-fetched:
		case err := <-failed:
			return spent{}, err
		}
		n += len(keys)
		if warm.at.IsZero() && n >= total/4 {
			warm = startMeter()
		}
		for len(keys) > 0 {
			if began.IsZero() {
				began = time.Now()
				if err := p.begin(ctx); err != nil {
					return spent{}, err
				}
			}
			window := keys[:min(len(keys), p.window)]
			keys = keys[len(window):]
			if err := p.produce(ctx, window); err != nil {
				return spent{}, err
			}
			offset += int64(len(window))
			if time.Since(began) >= p.interval {
				if err := p.end(ctx, offset); err != nil {
					return spent{}, err
				}
				began = time.Time{}
			}
		}
	}
	if !began.IsZero() {
		if err := p.end(ctx, offset); err != nil {
			return spent{}, err
		}
	}
	return warm.spent(), nil
}

// fetch sends the keys of each response to fetched. It reads and discards the values.
func (p *passThrough) fetch(ctx context.Context, fetched chan<- [][]byte) error {
	next := make([]int64, p.parts)
	for {
		req := &fetch.Request{ReplicaID: -1, MaxWaitTime: 250, MinBytes: 1, MaxBytes: 1 << 30, IsolationLevel: 1, SessionEpoch: -1}
		req.Topics = []fetch.RequestTopic{{Topic: p.in}}
		for i, at := range next {
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetch.RequestPartition{
				Partition: int32(i), CurrentLeaderEpoch: -1, FetchOffset: at, PartitionMaxBytes: int32(4 << 20 / p.parts),
			})
		}
		m, err := p.transport.RoundTrip(ctx, p.client.Addr, req)
		if err != nil {
			return err
		}
		var keys [][]byte
		for _, part := range m.(*fetch.Response).Topics[0].Partitions {
			if part.RecordSet.Records == nil {
				continue
			}
			for {
				r, err := part.RecordSet.Records.ReadRecord()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					return err
				}
				key, err := protocol.ReadAll(r.Key)
				if err != nil {
					return err
				}
				value, err := protocol.ReadAll(r.Value)
				if err != nil {
					return err
				}
				r.Key.Close()
				r.Value.Close()
				if len(value) > 0 {
					keys = append(keys, key)
				}
				next[part.Partition] = r.Offset + 1
			}
		}
		select {
		case fetched <- keys:
		case <-ctx.Done():
			return nil
		}
	}
}

// retry repeats a request while the broker refuses it because it is still writing
// transaction markers or creating a topic.
func retry(f func() error) error {
	for {
		err := f()
		switch {
		case errors.Is(err, kafkago.ConcurrentTransactions), errors.Is(err, kafkago.NotEnoughReplicas), errors.Is(err, kafkago.NotLeaderForPartition):
			time.Sleep(2 * time.Millisecond)
		default:
			return err
		}
	}
}

// begin adds the output partitions to a new transaction.
func (p *passThrough) begin(ctx context.Context) error {
	var parts []kafkago.AddPartitionToTxn
	for i := range p.parts {
		parts = append(parts, kafkago.AddPartitionToTxn{Partition: i})
	}
	return retry(func() error {
		res, err := p.client.AddPartitionsToTxn(ctx, &kafkago.AddPartitionsToTxnRequest{
			TransactionalID: p.id, ProducerID: p.producer.ProducerID, ProducerEpoch: p.producer.ProducerEpoch,
			Topics: map[string][]kafkago.AddPartitionToTxn{p.out: parts, p.ledger: parts[:1]},
		})
		if err != nil {
			return err
		}
		for _, parts := range res.Topics {
			for _, part := range parts {
				if part.Error != nil {
					return part.Error
				}
			}
		}
		return nil
	})
}

// produce writes a window's records and the record beside them.
func (p *passThrough) produce(ctx context.Context, keys [][]byte) error {
	records := make([][]protocol.Record, p.parts)
	for i, key := range keys {
		part := i % p.parts
		records[part] = append(records[part], protocol.Record{Key: protocol.NewBytes(key), Value: protocol.NewBytes(p.value)})
	}
	out := rawproduce.RequestTopic{Topic: p.out}
	var sealed [][]byte
	for i, r := range records {
		if len(r) > 0 {
			sealed = append(sealed, p.seal(p.out, i, r))
			out.Partitions = append(out.Partitions, rawproduce.RequestPartition{Partition: int32(i)})
		}
	}
	ledger := p.seal(p.ledger, 0, []protocol.Record{{Value: protocol.NewBytes(make([]byte, 600))}})
	return retry(func() error {
		for i := range out.Partitions {
			out.Partitions[i].RecordSet.Reader = bytes.NewReader(sealed[i])
		}
		m, err := p.transport.RoundTrip(ctx, p.client.Addr, &rawproduce.Request{
			TransactionalID: p.id, Acks: -1, Timeout: 10_000, Topics: []rawproduce.RequestTopic{out, {
				Topic: p.ledger, Partitions: []rawproduce.RequestPartition{{RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(ledger)}}},
			}},
		})
		if err != nil {
			return err
		}
		for _, t := range m.(*produce.Response).Topics {
			for _, part := range t.Partitions {
				if part.ErrorCode != 0 {
					return kafkago.Error(part.ErrorCode)
				}
			}
		}
		return nil
	})
}

// seal encodes a record batch (version 2) with kafka-go, and fills in the fields that
// kafka-go leaves out: the producer's id, epoch and sequence number, and a checksum that
// includes them.
func (p *passThrough) seal(topic string, part int, records []protocol.Record) []byte {
	var b bytes.Buffer
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Transactional, Records: protocol.NewRecordReader(records...)}
	if _, err := set.WriteTo(&b); err != nil {
		panic(err)
	}
	at := fmt.Sprint(topic, part)
	batch := b.Bytes()[4:]
	binary.BigEndian.PutUint64(batch[43:], uint64(p.producer.ProducerID))
	binary.BigEndian.PutUint16(batch[51:], uint16(p.producer.ProducerEpoch))
	binary.BigEndian.PutUint32(batch[53:], uint32(p.sequence[at]))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	p.sequence[at] += int32(len(records))
	return b.Bytes()
}

// end commits the offset and the transaction.
func (p *passThrough) end(ctx context.Context, offset int64) error {
	err := retry(func() error {
		res, err := p.client.AddOffsetsToTxn(ctx, &kafkago.AddOffsetsToTxnRequest{
			TransactionalID: p.id, ProducerID: p.producer.ProducerID, ProducerEpoch: p.producer.ProducerEpoch, GroupID: p.id,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
	if err != nil {
		return err
	}
	_, err = p.client.TxnOffsetCommit(ctx, &kafkago.TxnOffsetCommitRequest{
		TransactionalID: p.id, GroupID: p.id, GenerationID: -1,
		ProducerID: p.producer.ProducerID, ProducerEpoch: p.producer.ProducerEpoch,
		Topics: map[string][]kafkago.TxnOffsetCommit{p.in: {{Partition: 0, Offset: offset}}},
	})
	if err != nil {
		return err
	}
	return retry(func() error {
		res, err := p.client.EndTxn(ctx, &kafkago.EndTxnRequest{
			TransactionalID: p.id, ProducerID: p.producer.ProducerID, ProducerEpoch: p.producer.ProducerEpoch, Committed: true,
		})
		if err != nil {
			return err
		}
		return res.Error
	})
}

// runBare runs a bare pass-through over the n events. It writes the given value for each.
func (s *setup) runBare(ctx context.Context, inputs topics.Names, n int, value []byte) (took spent, err error) {
	names, err := s.topics(ctx)
	if err != nil {
		return took, err
	}
	defer s.remove(ctx, names)
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	p := passThrough{
		transport: transport, client: &kafkago.Client{Addr: kafkago.TCP(s.addr), Transport: transport}, id: names.Ledger,
		in: inputs.Nodes, out: names.Predictions, ledger: names.Ledger, parts: *partitions, value: value, window: s.w.Window, interval: *interval,
	}
	runtime.GC()
	return p.run(ctx, n)
}
