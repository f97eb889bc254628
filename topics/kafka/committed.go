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

// emptyAnswers is how many consecutive answers without a batch are tolerated
// before the position is considered a gap in the log. A broker does not read the
// end of the log and its batches atomically, so one such answer proves nothing.
const emptyAnswers = 3

// consume appends the committed records of an answer to s and moves the position
// past everything in it. first is true if the request listed this partition first.
//
// Aborted records (KIP-98, "Reading Committed Messages"). A broker sends aborted
// records too, with a list of their transactions. A transaction begins at its
// FirstOffset and ends at its producer's next abort marker. Before each batch,
// including markers, the transactions that begin at or before it become active;
// only then may an abort marker end its producer's. The order matters: a fetch
// can start at the abort marker of a listed transaction, which then becomes
// active and ends at once. Activated after the marker, it would drop the
// records of the producer's next transaction.
//
// Gaps. Compaction leaves gaps, which end with a batch that has no records at or
// behind the position, or with no batch at all; kafka-go does not tell how far
// such a batch reaches. So a gap is passed one offset at a time. An answer
// without a batch may also have been filled by other partitions' records: only
// the first partition of a request is sure to get a batch if it has one.
func (p *partition) consume(s *share, answer *fetch.ResponsePartition, first bool) error {
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
		b := batch{RecordReader: set, base: -1, producer: -1} // formats older than transactions
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
		if err := p.consumeBatch(s, b, aborted); err != nil {
			return err
		}
	}
	switch {
	case p.position.Load() > began || began >= answer.LastStableOffset:
		p.empty = 0
	case len(batches) > 0:
		p.position.Store(began + 1)
	case !first:
		p.empty = max(p.empty, 1) // so that the next request lists it first
	default:
		if p.empty++; p.empty > emptyAnswers {
			p.position.Store(began + 1)
		}
	}
	p.advanced = int(p.position.Load() - began)
	return nil
}

// batch is one batch of an answer: records, or a transaction marker.
type batch struct {
	protocol.RecordReader
	base     int64
	producer int64
	control  bool
}

// consumeBatch reads a batch to its end. Each key and value must be closed, which
// releases kafka-go's buffers.
func (p *partition) consumeBatch(s *share, b batch, aborted map[int64]bool) error {
	for {
		rec, err := b.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		key, err := s.copy(rec.Key)
		if err != nil {
			return fmt.Errorf("the key at offset %d: %w", rec.Offset, err)
		}
		value, err := s.copy(rec.Value)
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

// copy copies b out of kafka-go's buffers and closes it. When s.bytes is full, it
// begins a new block; earlier records keep pointing into the old one.
func (s *share) copy(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	n := b.Len()
	if n == 0 {
		return []byte{}, nil // empty, which is not null
	}
	if cap(s.bytes)-len(s.bytes) < n {
		s.bytes = make([]byte, 0, max(n, 2*cap(s.bytes), 4<<10))
	}
	at := len(s.bytes)
	s.bytes = s.bytes[:at+n]
	_, err := io.ReadFull(b, s.bytes[at:])
	return s.bytes[at : at+n : at+n], err
}

// isAbort reports whether a marker's key is that of an abort: a 16-bit version,
// then a 16-bit type.
func isAbort(key []byte) bool {
	const abort = 0
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == abort
}
