// Package worker is the loop that owns a graph: it fetches events, cuts
// windows, lets the engine step, and commits what came of it. It knows Kafka
// and no model; the engine it drives knows a model and no Kafka.
//
// A worker starts by fencing whoever owned the graph before, then replays the
// ledger's ranges through the engine, comparing hashes on the way, and goes on
// from there. Predictions, dead letters and ledger records of a commit are one
// Kafka transaction.
//
// The stages overlap: each input fetches and decodes ahead (input), the loop
// cuts, steps and encodes (worker), and a publisher produces and commits what
// was stepped while the loop goes on. Nothing of this shows in the outcome: the
// loop alone decides what is in a window, and the publisher keeps the order.
package worker

import (
	"cmp"
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
// windows stepped. The lists of a window are used again after Step, so an engine
// copies what it keeps of them; strings it may keep. An outcome must stay as it
// is until the next Step.
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
	// transaction. Zero waits for none: windows that are stepped while a
	// transaction is being committed share the next. Readers that take
	// uncommitted records have predictions at once, whatever the interval.
	CommitInterval time.Duration
	// TransactionTimeout is the broker's: a transaction that is open for longer
	// is aborted, and the worker fenced. Zero means one minute.
	TransactionTimeout time.Duration
	// Compression of what is produced: none, gzip, snappy, lz4 or zstd; empty
	// means none.
	Compression string
	// Limits bound what an event may bring; zero fields have defaults.
	Limits wire.Limits
	// Ahead is how far ahead of the clock an event's time may lie for policies
	// to go by it. Zero means one hour.
	Ahead time.Duration
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
	// Untimely counts events that a policy by event time could not go by: late
	// ones came after their window was closed, early ones lie too far ahead of the
	// clock.
	Untimely func(topic string, late, early int)
}

// Stepped is one window, cut and stepped.
type Stepped struct {
	Outcome  *event.Outcome // its refusals point to records that are valid during the hook
	Cause    string
	Replayed bool
	Took     time.Duration // stepping, and encoding what came of it
}

// Committed is one transaction.
type Committed struct {
	Last    int64 // number of the last window it held
	Windows int
	Took    time.Duration // from the first request that ends the transaction to the last answer
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
	w := &worker{cfg: cfg, client: c, engine: e}
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

// worker is the loop. Its goroutine alone steps, and calls the hooks.
type worker struct {
	cfg       Config
	client    *kafka.Client
	engine    Engine
	producer  *kafka.Producer // the publisher's, once it runs
	ledger    *ledger.Ledger  // so, too
	publisher *publisher
	// outputs has the partitions of the topics written to, as they were at the
	// start: a key stays in its partition while the worker runs, though one is
	// added.
	outputs map[string]int
	nodes   *input[event.Node]
	labels  *input[event.Label]
	next    int64   // number of the next window
	output  *output // stepped and not handed over to the publisher
	closed  int64   // event time up to which windows are closed, 0 for none

	// Memory of the window in hand.
	window     event.Window
	ranges     []ledger.Range
	progress   []Progress
	key, value []byte
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
	return w.openInputs(fetching, nil)
}

// openInputs begins behind what is taken, as consumed told of it; with nothing,
// at the beginning.
func (w *worker) openInputs(fetching context.Context, taken []ledger.Range) (err error) {
	ahead := cmp.Or(w.cfg.Ahead, time.Hour)
	w.nodes, err = openInput(fetching, w.client, source[event.Node]{
		topic: w.cfg.Names.Nodes, decode: (*wire.Decoder).Node, limits: w.cfg.Limits,
		when: func(n *event.Node) int64 { return n.Time }, ahead: ahead,
	}, taken)
	if err != nil {
		return err
	}
	w.labels, err = openInput(fetching, w.client, source[event.Label]{
		topic: w.cfg.Names.Labels, decode: (*wire.Decoder).Label, limits: w.cfg.Limits,
		when: func(l *event.Label) int64 { return l.Time }, ahead: ahead,
	}, taken)
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
		began := time.Now()
		out, err := w.replay(ctx, r)
		if err != nil {
			return err
		}
		w.stepped(Stepped{Outcome: out, Cause: r.Cause, Replayed: true, Took: time.Since(began)})
		w.release()
	}
	if w.next > 0 {
		w.cfg.Logger.Info("recovered from the ledger", "windows", w.next, "took", time.Since(began))
	}
	if w.cfg.Hooks.Recovered != nil {
		w.cfg.Hooks.Recovered(w.next, time.Since(began))
	}
	return nil
}

// replay steps a window of the ledger again and compares hashes. Its records are
// held until they are released.
func (w *worker) replay(ctx context.Context, r *ledger.Record) (*event.Outcome, error) {
	if r.Model != w.cfg.Model {
		return nil, fmt.Errorf("ledger %s belongs to model %s, and this is model %s: start the other model under its own --prefix", w.cfg.Names.Ledger, r.Model, w.cfg.Model)
	}
	if r.Settings != w.cfg.Settings {
		return nil, fmt.Errorf("ledger %s was written with settings %q, and these are %q: use the same, or start under another --prefix", w.cfg.Names.Ledger, r.Settings, w.cfg.Settings)
	}
	var nodes, labels []ledger.Range
	for _, g := range r.Ranges {
		switch g.Topic {
		case w.cfg.Names.Nodes:
			nodes = append(nodes, g)
		case w.cfg.Names.Labels:
			labels = append(labels, g)
		default:
			return nil, fmt.Errorf("ledger %s, window %d: a range of topic %s, which is no input", w.cfg.Names.Ledger, r.Window, g.Topic)
		}
	}
	if err := w.nodes.replay(ctx, nodes); err != nil {
		return nil, err
	}
	if err := w.labels.replay(ctx, labels); err != nil {
		return nil, err
	}
	out := w.step()
	if got := hash(out.Chain); got != r.Chain {
		return nil, fmt.Errorf("ledger %s, window %d: replay gives %s where %s was written: inputs, model or program are not those that served it", w.cfg.Names.Ledger, r.Window, got, r.Chain)
	}
	return out, nil
}

// serve is the live loop, with the publisher beside it. However it ends, what
// was stepped is committed if that can be.
func (w *worker) serve(ctx context.Context) error {
	w.publisher = newPublisher(&w.cfg, w.producer, w.ledger)
	go w.publisher.run(context.WithoutCancel(ctx))
	w.output = w.publisher.new()
	err := w.loop(ctx)
	_ = w.handOver() // its error is the publisher's
	close(w.publisher.in)
	for c := range w.publisher.committed {
		w.committed(c)
	}
	if p := w.publisher.err; p != nil && err != nil && !errors.Is(err, p) {
		return fmt.Errorf("%w (and then: %w)", err, p)
	}
	return cmp.Or(w.publisher.err, err)
}

// loop fetches, cuts and steps until the context ends, or something fails.
func (w *worker) loop(ctx context.Context) error {
	w.resume()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		within, err := w.cut()
		if err != nil {
			return err
		}
		var wake <-chan time.Time
		if within > 0 {
			timer.Reset(within)
			wake = timer.C
		}
		var in chan<- *output
		if w.output.windows > 0 {
			in = w.publisher.in
		}
		select {
		case f := <-w.nodes.ready():
			err = w.nodes.add(f, time.Now())
		case f := <-w.labels.ready():
			err = w.labels.add(f, time.Now())
		case in <- w.output:
			w.output = w.publisher.new()
		case c, more := <-w.publisher.committed:
			if !more {
				return w.publisher.err
			}
			w.committed(c)
		case <-wake:
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// handOver waits until the publisher takes the output.
func (w *worker) handOver() error {
	for w.output.windows > 0 {
		select {
		case w.publisher.in <- w.output:
			w.output = w.publisher.new()
		case c, more := <-w.publisher.committed:
			if !more {
				return w.publisher.err
			}
			w.committed(c)
		}
	}
	return nil
}

// cut makes windows of what is buffered for as long as the policy wants any,
// and returns how soon the policy wants to be asked again, 0 for after the
// next fetch. The publisher gets what it can take at once; the rest gathers,
// up to a limit, while it is busy.
func (w *worker) cut() (time.Duration, error) {
	for {
		c := w.ask()
		if c.Cause == "" {
			return c.Within, nil
		}
		if err := w.advance(c); err != nil {
			return 0, err
		}
		if w.output.batch.Bytes() >= maxOutput {
			if err := w.handOver(); err != nil {
				return 0, err
			}
			continue
		}
		select {
		case w.publisher.in <- w.output:
			w.output = w.publisher.new()
		default:
		}
	}
}

// ask asks the policy.
func (w *worker) ask() Cut {
	c := w.cfg.Policy.Cut(Buffered{
		Window: w.next, Nodes: w.nodes.held, Labels: w.labels.held, Waited: w.waited(), Times: w.times,
	})
	if w.closed == 0 || c.Closed > w.closed {
		w.closed = c.Closed
	}
	return c
}

// resume closes the windows that the replayed events have closed, before what was
// fetched behind them is looked at.
func (w *worker) resume() {
	c := w.cfg.Policy.Cut(Buffered{Window: w.next, Times: func() Times {
		t := Times{Oldest: NoTime}
		w.nodes.progress(&t)
		w.labels.progress(&t)
		return t
	}})
	w.closed = c.Closed
}

// times looks at the event times of what is buffered.
func (w *worker) times() Times {
	t := Times{Oldest: NoTime, Partitions: w.progress[:0]}
	now := time.Now()
	w.nodes.survey(&t, now, w.closed)
	w.labels.survey(&t, now, w.closed)
	w.progress = t.Partitions
	w.untimely(w.nodes.topic, &w.nodes.late, &w.nodes.early)
	w.untimely(w.labels.topic, &w.labels.late, &w.labels.early)
	return t
}

func (w *worker) untimely(topic string, late, early *int) {
	if *late+*early > 0 && w.cfg.Hooks.Untimely != nil {
		w.cfg.Hooks.Untimely(topic, *late, *early)
	}
	*late, *early = 0, 0
}

// take picks the records of a window.
func (w *worker) take(c Cut) {
	if c.ByTime {
		w.ranges = w.nodes.takeBefore(c.Before, w.ranges[:0])
		w.ranges = w.labels.takeBefore(c.Before, w.ranges)
		return
	}
	w.ranges = w.nodes.take(c.Nodes, w.ranges[:0])
	w.ranges = w.labels.take(c.Labels, w.ranges)
}

// advance cuts a window, steps it and encodes what came of it.
func (w *worker) advance(c Cut) error {
	began := time.Now()
	w.take(c)
	defer w.release()
	out := w.step()
	if err := w.encode(w.output, out, c.Cause, w.ranges); err != nil {
		// Part of a window must not be published; a replay makes up for the
		// whole ones before it.
		w.output = w.publisher.new()
		return err
	}
	w.stepped(Stepped{Outcome: out, Cause: c.Cause, Took: time.Since(began)})
	return nil
}

func (w *worker) waited() time.Duration {
	var oldest time.Time
	if p := w.nodes.oldest(); p != nil {
		oldest = p.runs[0].at
	}
	if p := w.labels.oldest(); p != nil && (oldest.IsZero() || p.runs[0].at.Before(oldest)) {
		oldest = p.runs[0].at
	}
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest)
}

// step makes a window of what was picked of the inputs and steps the engine.
// Live and replayed windows come through here alike.
func (w *worker) step() *event.Outcome {
	win := &w.window
	win.Number = w.next
	w.next++
	win.Nodes, win.Refused = w.nodes.gather(win.Nodes[:0], win.Refused[:0])
	win.Labels, win.Refused = w.labels.gather(win.Labels[:0], win.Refused)
	return w.engine.Step(win)
}

// release gives back the memory of the records in hand.
func (w *worker) release() {
	w.nodes.release()
	w.labels.release()
}

func (w *worker) stepped(s Stepped) {
	if w.cfg.Hooks.Stepped != nil {
		w.cfg.Hooks.Stepped(s)
	}
}

func (w *worker) committed(c Committed) {
	if w.cfg.Hooks.Committed != nil {
		w.cfg.Hooks.Committed(c)
	}
	if w.cfg.Hooks.Lag != nil {
		w.cfg.Hooks.Lag(w.nodes.topic, w.nodes.lag())
		w.cfg.Hooks.Lag(w.labels.topic, w.labels.lag())
	}
}
