// Package publish encodes the results of windows and commits them: predictions, dead letters and
// ledger records of a commit are one Kafka transaction.
//
// The loop that steps the windows encodes them; a publisher produces and commits them while it steps later ones. Both keep
// the windows in order, so this does not change any outcome.
package publish

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
)

// Pipeline encodes the results of windows and commits them, beside the loop that steps the
// windows. It keeps them in order.
type Pipeline struct {
	// In takes what Add returns. It is closed after the last window.
	In chan *output
	// Committed delivers after each transaction, and is closed at the end.
	Committed <-chan Commit

	encoder   encoder
	publisher *publisher
}

// Sources are what a pipeline needs of a worker.
type Sources struct {
	Client     *kafka.Client
	Terms      *replay.Terms
	Logger     *slog.Logger
	Owns       *atomic.Bool   // false once another worker was elected
	Partitions map[string]int // of the output topics
	Ledger     *ledger.Ledger // after the last window that was replayed; the publisher reads on
}

// New returns a pipeline that has not started.
func New(cfg *Config, p *kafka.Producer, from Sources) *Pipeline {
	out := newPublisher(cfg, p, from)
	e := encoder{cfg: cfg, names: &from.Terms.Names, partitions: from.Partitions}
	return &Pipeline{In: out.in, Committed: out.committed, encoder: e, publisher: out}
}

// Start begins to publish. It commits for a while after the context ends.
func (p *Pipeline) Start(ctx context.Context) (stop context.CancelFunc) {
	committing, stop := lasting(ctx, commitFor)
	go p.publisher.run(committing)
	return stop
}

// Err returns why the pipeline ended, nil at the end of In. Committed must be closed.
func (p *Pipeline) Err() error { return p.publisher.err }

// Add adds the results of a window that was cut at the given time, and that offsets sets those of the inputs behind. The
// record then says how its outputs are divided. Windows gather while the publisher is busy, until there is so much that it is
// returned, for In. After an error nothing of what has gathered is published: a replay steps it again.
func (p *Pipeline) Add(out *event.Outcome, record *ledger.Record, cut time.Time,
	offsets func(map[kafka.TopicPartition]int64),
) (full *output, err error) {
	if d := p.encoder.divided(); d != record.Divided() {
		record.Outputs = &d
	}
	var o *output
	select {
	case o = <-p.publisher.gathered:
	default:
		o = p.publisher.new()
	}
	if o.windows == 0 {
		o.since = cut
	}
	o.windows++
	o.last, o.chain = record.Window, record.Chain
	offsets(o.offsets)
	if err := p.encoder.encode(o, out, record); err != nil {
		return nil, err
	}
	if o.batch.Bytes() >= maxOutput {
		return o, nil
	}
	p.publisher.gathered <- o
	return nil, nil
}

// Commit is a committed transaction.
type Commit struct {
	Happened replay.Committed
	Offset   int64 // of its last window's ledger record, or of an earlier one's
}

// ErrOwned says that another worker has taken over the graph.
var ErrOwned = errors.New("another worker has taken over this graph")

// Config configures what is published, and when.
type Config struct {
	// CommitInterval is how long a window may wait for others to share its
	// transaction, and for the transaction to end. With zero it does not wait; windows that are stepped while a
	// transaction is being committed still share the next one. Readers of uncommitted
	// records see predictions at once in any case.
	CommitInterval time.Duration
	// TransactionTimeout is the time after which the broker aborts an open transaction.
	// Zero means a minute more than CommitInterval. Brokers allow 15 minutes by default.
	TransactionTimeout time.Duration
	// Compression of produced records: none, gzip, snappy, lz4 or zstd; empty means
	// none.
	Compression string
	// Output is how predictions are encoded; empty means msgpack. A graph may change it with
	// any start.
	Output wire.Encoding
	// CopyHeaders are keys of headers that predictions of arrivals and dead letters take over from
	// the records that they are of.
	CopyHeaders []string
}

func (c *Config) SetDefaults() {
	c.Output = cmp.Or(c.Output, wire.MsgPack)
	c.TransactionTimeout = cmp.Or(c.TransactionTimeout, c.CommitInterval+time.Minute)
}

// commitFor is how long after the end of the worker's context stepped windows may still
// be committed. Before that there is no limit: while no broker answers, the worker waits.
const commitFor = 30 * time.Second

// lasting returns a context that ends the given time after ctx.
func lasting(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(d, cancel) })
	return longer, cancel
}
