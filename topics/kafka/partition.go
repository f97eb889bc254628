package kafka

import (
	"errors"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// partition is a reader's state of one partition. The reader's goroutine owns
// it; the atomic fields may be read, and expected and paused set, from any goroutine.
type partition struct {
	at TopicPartition

	// Offsets. position is the next offset to read. stable and high are the last stable
	// offset and the high watermark of the newest answer, -1 before the first. expected
	// is an offset that the log is known to have reached, see Reader.Expect.
	position, stable, high, expected atomic.Int64
	quiet                            atomic.Int64 // nanoseconds, see Reader.Quiet
	paused                           atomic.Bool  // see Reader.Pause

	// The last answer.
	leader   leader
	advanced int // offsets by which it moved position
	empty    int // answers in a row without a batch, though position < stable

	// Failures. err is the last fetch's error, nil after a success; failing is
	// when fetches began to fail with its code; short is when stable was first
	// seen below expected, zero while it is not.
	err     error
	failing time.Time
	short   time.Time

	holes []hole // of the last answer, see consume

	absent  repeated // brokers have said, one after the other, that the partition does not exist
	damaged damage

	times answerTimes

	// Identity of the log. last is the newest record that was read. After a
	// failure, or after a time without requests (confirmAfter), the log may be
	// another one.
	// id is the topic's when it was assigned, "" if it is not known.
	// unconfirmed: last must be found again before anything else is read.
	// missing: since then, a broker has answered that the partition does not
	// exist.
	last        Mark
	id          string
	unconfirmed bool
	missing     bool
}

// leader is the broker that is asked about a partition.
type leader struct {
	id     int
	until  time.Time // it is not to be asked before, see throttle
	silent bool      // the last fetch has no answer of it, because of that
}

// answerTimes are the times of a partition's last answer, and of the last one with records (or of the
// first answer, before there were any).
type answerTimes struct{ answered, records time.Time }

// repeated is something that has happened several times in a row.
type repeated struct {
	since time.Time
	times int
}

// damage is the batch with doubtful damage that was met last, and its fetches.
type damage struct {
	at int64
	repeated
}

// answered records the outcome of a fetch.
func (p *partition) answered(err error) {
	if err == nil {
		p.err, p.absent.times = nil, 0
		return
	}
	if p.err == nil || code(err) != code(p.err) {
		p.failing = time.Now()
	}
	p.err, p.unconfirmed = err, true
	p.missing = p.missing || errors.Is(err, kafkago.UnknownTopicOrPartition)
}

// read records the time of an answer and the last of its records.
func (p *partition) read(records []Record) {
	p.times.answered = time.Now()
	if len(records) > 0 {
		p.last = MarkOf(&records[len(records)-1])
		p.last.Topic = p.id
	}
	if len(records) > 0 || p.times.records.IsZero() {
		p.times.records = p.times.answered
	}
	p.quiet.Store(int64(p.times.answered.Sub(p.times.records)))
}

// code returns the broker's error code, 0 if err has none.
func code(err error) (code kafkago.Error) {
	errors.As(err, &code)
	return code
}
