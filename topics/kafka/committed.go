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
// What an answer says of itself is checked before any of it is taken, see batches. An answer
// that cannot be right is an error, and moves nothing.
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
// instead of its records. Only doubtful damage may be due to the way here, and is
// an error until it has lasted for damagedFor.
//
// Holes, offsets without a record. Compaction leaves them, and so do false offsets. A hole, and a
// batch that begins before the position, is believed when a second answer has it too. A hole that
// is larger than an answer is answered without a batch. Such an answer may also have been filled by
// other partitions' records: only the first partition of a request is sure to get a batch if it
// has one.
func (p *partition) consume(s *share, a *kmsg.FetchResponseTopicPartition, first bool) error {
	began := p.position.Load()
	p.advanced = 0
	batches, err := p.batches(s, a, first)
	if err != nil {
		return err
	}
	p.stable.Store(a.LastStableOffset)
	p.high.Store(a.HighWatermark)
	aborted := make(map[int64]bool) // by producer
	pending := slices.SortedFunc(slices.Values(a.AbortedTransactions), func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return cmp.Compare(a.FirstOffset, b.FirstOffset)
	})
	seen := p.holes
	p.holes = nil
	doubt := false
	// claim is in doubt unless the answer before has the hole, too.
	claim := func(h hole) {
		p.holes = append(p.holes, h)
		doubt = doubt || !slices.Contains(seen, h)
	}
	next := began // where the next batch is to begin
	for i := range batches {
		b := &batches[i]
		if b.base > next || b.base < next && b.damaged == "" {
			claim(hole{next, b.base, 0})
		}
		if b.damaged == "" && int64(b.records) != b.last-b.base+1 {
			claim(hole{b.base, b.last, b.records})
		}
		next = max(next, b.last+1)
		if doubt || s.full() {
			continue // what follows is gone through for its holes alone
		}
		for len(pending) > 0 && pending[0].FirstOffset <= b.base {
			aborted[pending[0].ProducerID] = true
			pending = pending[1:]
		}
		if b.doubtful && p.retryDamaged(b.base) {
			if p.position.Load() == began {
				err = b.wrong("%s", b.damaged)
			}
			doubt = true
			continue
		}
		p.consumeBatch(s, b, aborted)
	}
	switch {
	case p.position.Load() > began || began >= a.LastStableOffset:
		p.empty = 0
	case err != nil:
	case doubt || s.full():
		p.empty = max(p.empty, 1) // so that the next request lists it first
	case len(batches) > 0: // the last one is damaged, and its end not known
		if claim(hole{began, began + 1, 0}); !doubt {
			p.position.Store(began + 1)
		}
	case !first: // there was no room for it
		p.empty = max(p.empty, 1)
	default:
		if p.empty++; p.empty > emptyAnswers {
			p.position.Store(began + 1)
		}
	}
	p.advanced = int(p.position.Load() - began)
	return err
}

// hole is a range of offsets without records, or one with fewer records than offsets. It goes from
// the position back to the base of a batch around it.
type hole struct {
	from, to int64
	records  int
}

// batches cuts the answer into its batches and checks what they say of themselves, of which a
// CRC covers neither base offset nor length: they reach the position, and their offsets ascend,
// from 0 on, up to the answer's last stable offset. It stops before a batch that is not whole, and
// before one behind the last stable offset, which a broker reads before it reads the batches;
// either is an error if it is the first.
func (p *partition) batches(s *share, a *kmsg.FetchResponseTopicPartition, first bool) ([]storedBatch, error) {
	if a.LastStableOffset > a.HighWatermark {
		return nil, fmt.Errorf("%w: the last stable offset, %d, is behind the end, %d", errMalformed, a.LastStableOffset, a.HighWatermark)
	}
	all := s.batches[:0]
	defer func() { s.batches = all }()
	position := p.position.Load()
	for rest := a.RecordBatches; ; {
		b, ok := nextBatch(&rest)
		if !ok {
			if n := claimedLen(rest); len(all) == 0 && len(rest) > 0 && (first || n <= formatAt) {
				return nil, fmt.Errorf("%w: at offset %d it has %d bytes of a batch that claims %d", errMalformed, position, len(rest), n)
			}
			break
		}
		before := int64(-1)
		if len(all) > 0 {
			before = all[len(all)-1].last
		}
		switch {
		case b.base <= before || b.last < b.base:
			return nil, b.wrong("its offsets, %d to %d, are not behind %d", b.base, b.last, before)
		case len(all) == 0 && b.last < position && b.damaged == "":
			return nil, b.wrong("it ends at %d, before the offset %d that was asked for", b.last, position)
		case b.last >= a.LastStableOffset && len(all) > 0:
			return all, nil
		case b.last >= a.LastStableOffset:
			return nil, b.wrong("it reaches offset %d, behind the last stable offset, %d", b.last, a.LastStableOffset)
		}
		all = append(all, b)
	}
	return all, nil
}

// wrong returns the error of an answer that has the batch.
func (b *storedBatch) wrong(format string, of ...any) error {
	return fmt.Errorf("%w: the batch at offset %d: %s", errMalformed, b.base, fmt.Sprintf(format, of...))
}

// A batch with doubtful damage is fetched damagedTries times or more, for damagedFor, before it is
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
	if b.last < position { // damaged, so that its end is not known
		return
	}
	if b.damaged == "" && !b.control && b.transactional && aborted[b.producer] {
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
	s.records = slices.Grow(s.records, max(min(b.records, maxRecords-len(s.records)), 0)) // which check has counted
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
