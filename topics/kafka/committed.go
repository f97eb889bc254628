package kafka

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// emptyAnswers is how many answers without a batch do not yet prove a gap. None
// would do, if brokers took the end of the log and its batches down at the same
// moment.
const emptyAnswers = 3

// walk puts the committed records of an answer into s and moves the
// position behind all that was looked at. (KIP-98, "Reading Committed
// Messages".)
//
// A broker sends aborted records too, with a list of their transactions: one
// begins at its FirstOffset, and ends at its producer's next abort marker.
// Before every batch, markers too, the transactions that begin at or before it
// are entered; only then may a marker take its producer out. A fetch can start
// at an abort marker whose transaction is in the list: entered and taken out at
// once, it does no harm; entered later, it would swallow the producer's next
// transaction.
//
// Compaction leaves gaps, at the end of which stands a batch with no records
// behind the position, or none at all; kafka-go keeps to itself how far such a
// batch goes. A gap is walked offset by offset. But an answer without a batch
// can also be full with other partitions' records: only the partition first in
// the request is sure to get a batch when there is one.
func (p *partition) walk(s *share, answer *fetch.ResponsePartition, first bool) error {
	p.stable.Store(answer.LastStableOffset)
	began := p.position.Load()
	aborted := make(map[int64]bool) // by producer
	pending := slices.SortedFunc(slices.Values(answer.AbortedTransactions), func(a, b fetch.ResponseTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	var batches []protocol.RecordReader
	if stream, ok := answer.RecordSet.Records.(*protocol.RecordStream); ok {
		batches = stream.Records
	}
	for _, set := range batches {
		b := batch{RecordReader: set, base: -1, producer: -1} // of the formats before transactions
		switch set := set.(type) {
		case *protocol.RecordBatch:
			b.base, b.producer = set.BaseOffset, set.ProducerID
		case *protocol.ControlBatch:
			b.base, b.producer, b.control = set.BaseOffset, set.ProducerID, true
		}
		for len(pending) > 0 && pending[0].FirstOffset <= b.base {
			aborted[pending[0].ProducerID] = true
			pending = pending[1:]
		}
		if err := p.walkBatch(s, b, aborted); err != nil {
			return err
		}
	}
	switch {
	case p.position.Load() > began || began >= answer.LastStableOffset:
		p.empty = 0
	case len(batches) > 0:
		p.position.Store(began + 1)
	case !first:
		p.empty = max(p.empty, 1) // and so it is the first of a next request
	default:
		if p.empty++; p.empty > emptyAnswers {
			p.position.Store(began + 1)
		}
	}
	p.served = int(p.position.Load() - began)
	return nil
}

// batch is a batch of an answer: of records, or of one marker.
type batch struct {
	protocol.RecordReader
	base     int64
	producer int64
	control  bool
}

// walkBatch goes through a batch to its end: kafka-go's buffers are released by
// closing each key and value.
func (p *partition) walkBatch(s *share, b batch, aborted map[int64]bool) error {
	for {
		rec, err := b.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key, err := s.take(rec.Key)
		if err != nil {
			return fmt.Errorf("the key at offset %d: %w", rec.Offset, err)
		}
		value, err := s.take(rec.Value)
		if err != nil {
			return fmt.Errorf("the value at offset %d: %w", rec.Offset, err)
		}
		position := p.position.Load()
		p.position.Store(max(position, rec.Offset+1))
		switch {
		case b.control:
			if isAbort(key) {
				delete(aborted, b.producer)
			}
		case rec.Offset >= position && !aborted[b.producer]:
			out := Record{Topic: p.at.Topic, Partition: p.at.Partition, Offset: rec.Offset, Time: rec.Time, Key: key, Value: value}
			for _, h := range rec.Headers {
				out.Headers = append(out.Headers, Header(h))
			}
			s.records = append(s.records, out)
		}
	}
}

// take copies bytes out of kafka-go's buffers and releases these. A block that
// is too short is left to the records that stand in it.
func (s *share) take(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	n := b.Len()
	if n == 0 {
		return []byte{}, nil // which differs from null
	}
	if cap(s.bytes)-len(s.bytes) < n {
		s.bytes = make([]byte, 0, max(n, 2*cap(s.bytes), 4<<10))
	}
	at := len(s.bytes)
	s.bytes = s.bytes[:at+n]
	_, err := io.ReadFull(b, s.bytes[at:])
	return s.bytes[at : at+n : at+n], err
}

// isAbort tells an abort marker by its key: version, then type, of 16 bits
// each.
func isAbort(key []byte) bool {
	const abort = 0
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == abort
}
