package kafka

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
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
// Batches that cannot be read. The bytes of a batch are what its producer sent, which the
// broker has not unpacked, so the next try gives the same: its refusal is appended
// instead of its records. Only a wrong CRC may be due to the way here, and is
// an error until it has lasted for damagedFor.
//
// Gaps. Compaction leaves gaps, and they can be answered without a batch. Such an
// answer may also have been filled by other partitions' records: only the first
// partition of a request is sure to get a batch if it has one.
func (p *partition) consume(s *share, a *kmsg.FetchResponseTopicPartition, first bool) error {
	p.stable.Store(a.LastStableOffset)
	p.high.Store(a.HighWatermark)
	began := p.position.Load()
	aborted := make(map[int64]bool) // by producer
	pending := slices.SortedFunc(slices.Values(a.AbortedTransactions), func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	some := false
	for rest := a.RecordBatches; !s.full(); {
		b, ok := nextBatch(&rest)
		if !ok {
			break
		}
		some = true
		for len(pending) > 0 && pending[0].FirstOffset <= b.base {
			aborted[pending[0].ProducerID] = true
			pending = pending[1:]
		}
		if b.damaged == errDamaged.Error() && p.retryDamaged(b.base) {
			if p.position.Load() > began {
				break
			}
			p.advanced = 0
			return fmt.Errorf("the batch at offset %d: %w", b.base, errDamaged)
		}
		p.consumeBatch(s, &b, aborted)
	}
	switch {
	case p.position.Load() > began || began >= a.LastStableOffset:
		p.empty = 0
	case some:
		p.position.Store(began + 1) // a damaged batch, whose end is not known
	case !first || len(a.RecordBatches) > 0: // there was no room for it
		p.empty = max(p.empty, 1) // so that the next request lists it first
	default:
		if p.empty++; p.empty > emptyAnswers {
			p.position.Store(began + 1)
		}
	}
	p.advanced = int(p.position.Load() - began)
	return nil
}

// A batch with a wrong CRC is fetched damagedTries times or more, for damagedFor, before it is
// refused. That is long enough for the log and for readiness to name it, and for another
// leader to have a whole one.
const (
	damagedTries = 10
	damagedFor   = 5 * time.Second
)

// retryDamaged counts a try to read the damaged batch with the given base offset, and reports
// whether to try again.
func (p *partition) retryDamaged(base int64) bool {
	d := &p.damaged
	if d.at != base || d.since.IsZero() {
		*d = damage{at: base, repeated: repeated{since: time.Now()}}
	}
	d.times++
	return d.times <= damagedTries || time.Since(d.since) < damagedFor
}

// consumeBatch appends the batch's records from the position on, unless they are aborted,
// and moves the position behind it. If s is full before, it stops in the middle.
func (p *partition) consumeBatch(s *share, b *storedBatch, aborted map[int64]bool) {
	position := p.position.Load()
	if b.last < position {
		return
	}
	if b.damaged == "" && !b.control && aborted[b.producer] {
		p.position.Store(b.last + 1)
		return
	}
	var packed []byte
	why := b.damaged
	if why == "" {
		if packed, why = b.unpack(s); why == "" {
			why = b.check(packed)
		}
	}
	if why != "" {
		s.records = append(s.records, b.refusal(p.at, why))
		p.position.Store(b.last + 1)
		return
	}
	in := input{b: packed}
	for range b.records {
		r := b.next(&in)
		switch {
		case b.control:
			if isAbort(r.key) {
				delete(aborted, b.producer)
			}
		case r.offset < position:
		case s.full():
			p.position.Store(r.offset)
			return
		default:
			s.records = append(s.records, r.record(p.at))
		}
	}
	p.position.Store(b.last + 1)
}

// full reports whether s holds so much that the rest of an answer is left for the next
// fetch.
func (s *share) full() bool { return len(s.records) >= maxRecords || s.unpacked >= maxUnpacked }

// isAbort reports whether a marker's key is that of an abort: a 16-bit version,
// then a 16-bit type.
func isAbort(key []byte) bool {
	const abort = 0
	return len(key) >= 4 && binary.BigEndian.Uint16(key[2:]) == abort
}
