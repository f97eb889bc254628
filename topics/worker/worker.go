// Package worker is the loop that owns a graph: it fetches events, cuts
// windows, lets the engine step, and commits what came of it. It knows Kafka
// and no model; the engine it drives knows a model and no Kafka.
//
// A worker starts by fencing whoever owned the graph before, then replays the
// ledger's ranges through the engine, comparing hashes on the way, and goes on
// from there. Predictions, dead letters and ledger records of a commit are one
// Kafka transaction.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// Engine is the state machine that a worker drives: state is a function of the
// windows stepped.
type Engine interface {
	Step(*event.Window) *event.Outcome
}

// Config says what a worker works on. Every field must be set but those with a
// default.
type Config struct {
	Names topics.Names
	// Model, Classes and Settings identify the engine. The ledger is bound to
	// Model and Settings, and tells consumers the Classes.
	Model    string
	Classes  []string
	Settings string
	// Policy decides where windows are cut.
	Policy Policy
	// CommitInterval is how long windows may wait for others to share their
	// transaction. Zero commits whenever nothing is left to cut.
	CommitInterval time.Duration
	// TransactionTimeout is the broker's: a transaction that is open for longer
	// is aborted, and the worker fenced. Zero means one minute.
	TransactionTimeout time.Duration
	// Compression of what is produced: none, gzip, snappy, lz4 or zstd; empty
	// means none.
	Compression string
	// Limits bound what an event may bring; zero fields have defaults.
	Limits wire.Limits
	// Hooks are told what happens; nil ones are not.
	Hooks Hooks
	// Logger defaults to slog's default.
	Logger *slog.Logger
}

// Hooks are called from the worker's loop, one at a time; they must not block.
type Hooks struct {
	Recovered func(windows int64, took time.Duration) // the ledger is replayed; live from here
	Stepped   func(Stepped)                           // after each window, replayed ones too
	Committed func(Committed)                         // after each transaction
	Lag       func(topic string, records int64)       // after each transaction
}

// Stepped is one window, cut and stepped.
type Stepped struct {
	Outcome  *event.Outcome
	Cause    string
	Replayed bool
	Took     time.Duration // decoding and stepping
}

// Committed is one transaction.
type Committed struct {
	Last    int64 // number of the last window it held
	Windows int
	Took    time.Duration
	Tries   int
}

// ErrOwned says that another worker has taken over the graph.
var ErrOwned = errors.New("another worker has taken over this graph")

// Run works until the context ends, and then returns nil with everything that
// was stepped committed. Any other end is an error of one line.
func Run(ctx context.Context, c *kafka.Client, e Engine, cfg Config) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if missing, err := topics.Missing(ctx, c, cfg.Names); err != nil {
		return err
	} else if len(missing) > 0 {
		return fmt.Errorf("missing topics %v: run 'gvbll topics --create', or let the worker do it with --create-topics", missing)
	}
	w := &worker{cfg: cfg, client: c, engine: e, decoder: wire.Decoder{Limits: cfg.Limits}}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.open(ctx, fetching); err != nil {
		return err
	}
	defer w.close()
	if err := w.recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // nothing of ours is open: there is nothing to commit
		}
		return err
	}
	return w.serve(ctx)
}

type worker struct {
	cfg      Config
	client   *kafka.Client
	engine   Engine
	decoder  wire.Decoder
	producer *kafka.Producer
	ledger   *ledger.Ledger
	outputs  map[string]int // partitions of the topics written to
	nodes    *input
	labels   *input
	next     int64 // number of the next window
	batch    batch // stepped and not committed
}

// open fences the former owner first, so that the ledger that is then read
// ends with what it committed.
func (w *worker) open(ctx, fetching context.Context) (err error) {
	w.producer, err = w.client.NewProducer(ctx, kafka.ProducerConfig{
		TransactionalID:    w.cfg.Names.Ledger,
		TransactionTimeout: w.cfg.TransactionTimeout,
		Compression:        w.cfg.Compression,
	})
	if err != nil {
		return err
	}
	if w.ledger, err = ledger.Open(ctx, w.client, w.cfg.Names.Ledger); err != nil {
		return err
	}
	if w.outputs, err = w.client.Partitions(ctx, w.cfg.Names.Predictions, w.cfg.Names.DeadLetters); err != nil {
		return err
	}
	if w.nodes, err = openInput(fetching, w.client, w.cfg.Names.Nodes); err != nil {
		return err
	}
	w.labels, err = openInput(fetching, w.client, w.cfg.Names.Labels)
	return err
}

func (w *worker) close() {
	w.producer.Close()
	w.ledger.Close()
}

// recover steps the ledger's windows again, without publishing anything.
func (w *worker) recover(ctx context.Context) error {
	began := time.Now()
	for {
		r, err := w.ledger.Next(ctx)
		if err != nil {
			return err
		}
		if r == nil {
			break
		}
		if err := w.replay(ctx, r); err != nil {
			return err
		}
	}
	if w.next > 0 {
		w.cfg.Logger.Info("recovered from the ledger", "windows", w.next, "took", time.Since(began))
	}
	if w.cfg.Hooks.Recovered != nil {
		w.cfg.Hooks.Recovered(w.next, time.Since(began))
	}
	return nil
}

func (w *worker) replay(ctx context.Context, r *ledger.Record) error {
	if r.Model != w.cfg.Model {
		return fmt.Errorf("ledger %s belongs to model %s, and this is model %s: start the other model under its own --prefix", w.cfg.Names.Ledger, r.Model, w.cfg.Model)
	}
	if r.Settings != w.cfg.Settings {
		return fmt.Errorf("ledger %s was written with settings %q, and these are %q: use the same, or start under another --prefix", w.cfg.Names.Ledger, r.Settings, w.cfg.Settings)
	}
	var nodes, labels []ledger.Range
	for _, g := range r.Ranges {
		switch g.Topic {
		case w.cfg.Names.Nodes:
			nodes = append(nodes, g)
		case w.cfg.Names.Labels:
			labels = append(labels, g)
		default:
			return fmt.Errorf("ledger %s, window %d: a range of topic %s, which is no input", w.cfg.Names.Ledger, r.Window, g.Topic)
		}
	}
	began := time.Now()
	nodeRecords, err := w.nodes.replay(ctx, nodes)
	if err != nil {
		return err
	}
	labelRecords, err := w.labels.replay(ctx, labels)
	if err != nil {
		return err
	}
	out := w.step(nodeRecords, labelRecords)
	if got := hash(out.Chain); got != r.Chain {
		return fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: inputs, model or program are not those that served it", w.cfg.Names.Ledger, r.Window, got, r.Chain)
	}
	w.stepped(Stepped{Outcome: out, Cause: r.Cause, Replayed: true, Took: time.Since(began)})
	return nil
}

// serve is the live loop: fetch, cut, step, commit.
func (w *worker) serve(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		within, err := w.cut(ctx)
		if err != nil {
			return err
		}
		if w.batch.windows > 0 {
			due := w.cfg.CommitInterval - time.Since(w.batch.since)
			if due <= 0 {
				if err := w.commit(ctx); err != nil {
					return err
				}
				continue
			}
			if within == 0 || due < within {
				within = due
			}
		}
		var wake <-chan time.Time
		if within > 0 {
			timer.Reset(within)
			wake = timer.C
		}
		select {
		case f := <-w.nodes.ready():
			err = w.nodes.add(f, time.Now())
		case f := <-w.labels.ready():
			err = w.labels.add(f, time.Now())
		case <-wake:
		case <-ctx.Done():
			return w.commit(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// cut makes windows of what is buffered for as long as the policy wants any,
// and returns how soon the policy wants to be asked again, 0 for after the
// next fetch.
func (w *worker) cut(ctx context.Context) (time.Duration, error) {
	for {
		c := w.cfg.Policy.Cut(Buffered{
			Window: w.next, Nodes: len(w.nodes.records), Labels: len(w.labels.records), Waited: w.waited(),
		})
		if c.Cause == "" {
			return c.Within, nil
		}
		began := time.Now()
		nodes, ranges := w.nodes.take(c.Nodes)
		labels, more := w.labels.take(c.Labels)
		ranges = append(ranges, more...)
		out := w.step(nodes, labels)
		w.batch.add(w, out, c.Cause, ranges)
		w.stepped(Stepped{Outcome: out, Cause: c.Cause, Took: time.Since(began)})
		if w.batch.full() {
			if err := w.commit(ctx); err != nil {
				return 0, err
			}
		}
	}
}

func (w *worker) waited() time.Duration {
	var oldest time.Time
	for _, in := range []*input{w.nodes, w.labels} {
		if len(in.times) > 0 && (oldest.IsZero() || in.times[0].Before(oldest)) {
			oldest = in.times[0]
		}
	}
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest)
}

// step decodes a window's records, which are in canonical order, and steps the
// engine. Live and replayed windows come through here alike.
func (w *worker) step(nodes, labels []kafka.Record) *event.Outcome {
	win := event.Window{Number: w.next}
	w.next++
	win.Nodes = make([]event.Node, 0, len(nodes))
	for i := range nodes {
		o := origin(&nodes[i])
		var n event.Node
		if reason, detail := w.decoder.Node(o, &n); reason != "" {
			win.Refused = append(win.Refused, event.Refusal{Origin: o, Reason: reason, Detail: detail})
			continue
		}
		win.Nodes = append(win.Nodes, n)
	}
	win.Labels = make([]event.Label, 0, len(labels))
	for i := range labels {
		o := origin(&labels[i])
		var l event.Label
		if reason, detail := w.decoder.Label(o, &l); reason != "" {
			win.Refused = append(win.Refused, event.Refusal{Origin: o, Reason: reason, Detail: detail})
			continue
		}
		win.Labels = append(win.Labels, l)
	}
	return w.engine.Step(&win)
}

func (w *worker) stepped(s Stepped) {
	if w.cfg.Hooks.Stepped != nil {
		w.cfg.Hooks.Stepped(s)
	}
}
