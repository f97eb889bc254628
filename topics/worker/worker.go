// Package worker is the loop that owns a graph: it fetches events, cuts
// windows, lets the engine step, and commits what came of it. It knows Kafka
// and no model; the engine it drives knows a model and no Kafka.
//
// The workers of a graph elect one owner. The others follow its ledger, stepping
// the same windows and comparing hashes, so that the next owner need only fence
// the last and go on from the ledger's end. A worker that starts does the same,
// from its newest checkpoint on. Predictions, dead letters and ledger records of
// a commit are one Kafka transaction.
//
// The stages overlap: each input fetches and decodes ahead (input), the loop
// cuts and steps (worker), an encoder makes records of what was stepped while the
// loop goes on (encoder), and a publisher produces and commits these. Nothing of
// this shows in the outcome: the loop alone decides what is in a window, and who
// comes behind it keeps the order.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// Engine is the state machine that a worker drives: state is a function of the
// windows stepped. The lists of a window are used again after Step, so an engine
// copies what it keeps of them; strings it may keep. The predictions of an outcome
// must stay as they are until the Step after the next one begins, the rest of it
// until the next one does.
type Engine interface {
	Step(*event.Window) *event.Outcome
}

// Config says what a worker works on. Every field must be set but those with a
// default.
type Config struct {
	Names topics.Names
	// Model, Classes and Settings identify the engine. The ledger is bound to
	// Model and Settings, and tells consumers the Classes. Shadow is the model of
	// an engine that is a [Caster], beside Model: which of the two serves, the
	// ledger says, and where that is empty it is Model.
	Model    string
	Shadow   string
	Classes  []string
	Settings string
	// Policy decides where windows are cut.
	Policy intake.Policy
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
	// Session is after how long without a sign of life the owner is replaced.
	// Zero means 10 s; brokers want 6 s at least, unless they are told otherwise.
	Session time.Duration
	// Fresh makes an engine at window 0, for the windows so far to be replayed
	// without nodes that are to be forgotten. Nil declines to forget any.
	Fresh func() (Engine, error)
	// Checkpoints are written by owner and standby alike.
	Checkpoints Checkpoints
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
	Recovered func(Recovered)                   // once, when the ledger is first replayed to its end
	TookOver  func(TookOver)                    // this worker is the owner from here
	Stepped   func(Stepped)                     // after each window, replayed ones too
	Committed func(Committed)                   // after each transaction
	Lag       func(topic string, records int64) // after each transaction
	Saved     func(Saved)                       // after each checkpoint
	// Untimely counts events that a policy by event time could not go by: late
	// ones came after their window was closed, early ones lie too far ahead of the
	// clock.
	Untimely func(topic string, late, early int)
	// Forgot is told of nodes that were forgotten exactly, in replayed windows too.
	Forgot func(Forgotten)
}

// Recovered is the end of a worker's start.
type Recovered struct {
	Engine     Engine // the one that Run was given, or one that was read back
	Windows    int64  // stepped in its life
	Checkpoint int64  // of these, what it knew from a checkpoint; the rest was replayed
	Took       time.Duration
}

// TookOver is the beginning of this worker's ownership.
type TookOver struct {
	Windows int64
	Took    time.Duration // since it was elected: to fence the former owner, and to replay what that one still committed
}

// Saved is a checkpoint, or the failure to write one.
type Saved struct {
	Window int64 // the first that is not in it
	Bytes  int64
	Took   time.Duration
	Err    error
}

// Stepped is one window, cut and stepped.
type Stepped struct {
	Outcome  *event.Outcome // its refusals point to records that are valid during the hook
	Cause    string
	Replayed bool
	Took     time.Duration // stepping, and waiting until the window before is encoded
}

// Committed is one transaction.
type Committed struct {
	Last    int64 // number of the last window it held
	Windows int
	Took    time.Duration // from the first request that ends the transaction to the last answer
	Tries   int

	offset int64 // of a ledger record no later than the last window's
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
	w := &worker{cfg: cfg, client: c, engine: e, landed: committed{-1, -1}}
	err := w.run(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // nothing of ours was open: there was nothing to commit
	}
	return err
}

// worker is the loop. Its goroutine alone steps, and calls the hooks.
type worker struct {
	cfg       Config
	client    *kafka.Client
	engine    Engine
	producer  *kafka.Producer // the publisher's, once it runs
	ledger    *ledger.Ledger  // so, too
	publisher *publisher
	encoder   *encoder
	member    *kafka.Membership
	saver     *saver
	// outputs has the partitions of the topics written to, as they were at the
	// start: a key stays in its partition while the worker runs, though one is
	// added.
	outputs  map[string]int
	inputs   *intake.Inputs
	lenient  bool           // a graph without a topic of commands will do
	left     leftOut        // of the windows stepped
	rewound  int64          // behind the last window that forgot nodes when this replay began: it has left them out
	forgot   *ledger.Forgot // in the window in hand, nil for nothing
	declines bool           // the commands of the window in hand that are to forget nodes
	next     int64          // number of the next window
	stands   standing       // behind the last one
	met      int64          // the ledger's last window when this worker began
	landed   committed      // the ledger's end, as far as this worker knows
	torn     bool           // what a window takes is picked in part, and it is not stepped

	// What the election asks for, from another goroutine.
	owner atomic.Bool
	stood atomic.Int64 // next

	// Memory of the window in hand.
	window event.Window
	ranges []ledger.Range
}

// run stands for election, recovers meanwhile, and serves once it is the owner.
func (w *worker) run(ctx context.Context) (err error) {
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if err := w.join(); err != nil {
		return err
	}
	defer w.member.Leave()
	if w.saver, err = newSaver(&w.cfg); err != nil {
		return err
	}
	if err := w.meet(ctx); err != nil {
		return err
	}
	if err := w.open(ctx, fetching); err != nil {
		return err
	}
	defer w.ledger.Close()
	if err = w.stand(ctx); err == nil {
		err = w.serve(ctx)
		w.producer.Close()
	}
	w.member.Leave() // another can take over while the last checkpoint is written
	w.saver.close(w, err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()))
	return err
}

// open puts the worker where the newest checkpoint ends, or at the beginning.
func (w *worker) open(ctx, fetching context.Context) error {
	taken, err := w.restore(ctx)
	if err != nil {
		return err
	}
	if w.next == 0 {
		if w.left, w.rewound, err = w.forgotten(ctx, math.MaxInt64); err != nil {
			return err
		}
	}
	w.saver.last = w.next
	w.stood.Store(w.next)
	if w.outputs, err = w.client.Partitions(ctx, w.cfg.Names.Predictions, w.cfg.Names.DeadLetters); err != nil {
		return err
	}
	return w.openInputs(fetching, taken)
}

// openInputs begins behind what is consumed; with nothing, at the beginning.
func (w *worker) openInputs(fetching context.Context, consumed []ledger.Range) (err error) {
	w.inputs, err = intake.Open(fetching, w.client, w.intake(), consumed)
	return err
}

func (w *worker) intake() intake.Config {
	return intake.Config{
		Names: w.cfg.Names, Limits: w.cfg.Limits, Ahead: w.cfg.Ahead, CommandsOptional: w.lenient, Untimely: w.cfg.Hooks.Untimely,
	}
}

// serve is the live loop, with the encoder and the publisher beside it. However it
// ends, what was stepped is committed if that can be.
func (w *worker) serve(ctx context.Context) error {
	w.publisher = newPublisher(&w.cfg, w.producer, w.ledger)
	w.encoder = newEncoder(&w.cfg, w.outputs, w.publisher)
	go w.publisher.run(context.WithoutCancel(ctx))
	go w.encoder.run()
	err := w.loop(ctx)
	close(w.encoder.in)
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
	w.inputs.Resume(w.cfg.Policy, w.next)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		within, err := w.cut(ctx)
		if err != nil {
			return err
		}
		var wake <-chan time.Time
		if within > 0 {
			timer.Reset(within)
			wake = timer.C
		}
		if err := w.saver.between(w); err != nil {
			return err
		}
		select {
		case f := <-w.inputs.Nodes.Ready():
			err = w.inputs.Nodes.Add(f, time.Now())
		case f := <-w.inputs.Labels.Ready():
			err = w.inputs.Labels.Add(f, time.Now())
		case f := <-w.inputs.Commands.Ready():
			err = w.inputs.Commands.Add(f, time.Now())
		case c, more := <-w.publisher.committed:
			if !more {
				return w.publisher.err
			}
			w.committed(c)
		case b := <-w.saver.room():
			w.saver.read(b)
		case <-w.saver.due.C:
			w.saver.ripe = true
		case err := <-w.saver.done:
			w.saver.end(err)
		case e := <-w.member.Elected():
			if e.Err != nil || !e.Owner {
				return cmp.Or(e.Err, ErrOwned)
			}
		case <-wake:
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// handOver gives a window's effects to the encoder as soon as it has encoded the
// window before.
func (w *worker) handOver(e *effects) error {
	for {
		select {
		case w.encoder.in <- e:
			return nil
		case c, more := <-w.publisher.committed:
			if !more {
				return w.publisher.err
			}
			w.committed(c)
		}
	}
}

// cut makes windows of what is buffered for as long as the policy wants any,
// and returns how soon the policy wants to be asked again, 0 for after the
// next fetch.
func (w *worker) cut(ctx context.Context) (time.Duration, error) {
	for {
		c := w.inputs.Cut(w.cfg.Policy, w.next)
		if c.Cause == "" {
			return c.Within, nil
		}
		if err := w.advance(ctx, c); err != nil {
			return 0, err
		}
		if err := w.saver.between(w); err != nil {
			return 0, err
		}
	}
}

// advance cuts a window, steps it and hands on what came of it.
func (w *worker) advance(ctx context.Context, c intake.Cut) error {
	began := time.Now()
	w.ranges = w.inputs.Claim(c, w.ranges[:0])
	defer w.inputs.Release()
	w.torn = true
	if err := w.forget(ctx, nil); err != nil {
		return err
	}
	w.torn = false
	out := w.step()
	if err := w.handOver(w.effects(out, c.Cause, w.ranges)); err != nil {
		return err
	}
	w.stepped(Stepped{Outcome: out, Cause: c.Cause, Took: time.Since(began)})
	return nil
}

// step makes a window of what was picked of the inputs and steps the engine.
// Live and replayed windows come through here alike.
func (w *worker) step() *event.Outcome {
	win := &w.window
	win.Number = w.next
	w.next++
	w.stood.Store(w.next)
	w.inputs.Gather(win)
	w.left.sift(win)
	out := w.engine.Step(win)
	if w.declines {
		w.decline(out)
	}
	return out
}

func (w *worker) stepped(s Stepped) {
	if w.cfg.Hooks.Stepped != nil {
		w.cfg.Hooks.Stepped(s)
	}
}

func (w *worker) committed(c Committed) {
	crash.Point(crash.Committed)
	w.landed = committed{c.Last, c.offset}
	if w.cfg.Hooks.Committed != nil {
		w.cfg.Hooks.Committed(c)
	}
	if w.cfg.Hooks.Lag != nil {
		w.inputs.Lag(w.cfg.Hooks.Lag)
	}
}
