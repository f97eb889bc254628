package worker

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// To forget nodes exactly is to be where a worker would be that never saw them.
// State is a function of the inputs and of where they were cut, so that is a
// replay of the ledger's windows into a fresh engine, with every event of these
// nodes left out. It takes the place of a step behind what was served before; the
// ledger's record of the command's window has the hash of the state after it, and
// says that it was done. Every replay does the same when it comes there, so that
// the windows before are still proved as they were served.

// Comparer is an engine that can tell how far the posterior of another is from its
// own.
type Comparer interface {
	Engine
	// Apart returns how far the posterior of exact is from this engine's.
	Apart(exact Engine) ledger.Distance
}

// Forgotten is nodes that were forgotten exactly.
type Forgotten struct {
	Engine Engine // the one from here on
	ledger.Forgot
	Replayed bool // from the ledger, and not on command
	Took     time.Duration
}

// leftOut has, of every node that was forgotten, the window in which it last was:
// its events before that are left out of a replay.
type leftOut map[event.ID]int64

// note adds what the commands of a window say.
func (l leftOut) note(window int64, commands []event.Command) {
	for i := range commands {
		for _, id := range toForget(&commands[i]) {
			id = id.Clone()
			l[id] = max(l[id], window)
		}
	}
}

func toForget(c *event.Command) []event.ID {
	if c.Name != event.Forget {
		return nil
	}
	return c.Nodes
}

// sift takes out of a window what is of a node that is left out of it: its events,
// its labels and the edges that name it.
func (l leftOut) sift(w *event.Window) {
	out := func(id event.ID) bool {
		window, is := l[id]
		return is && w.Number < window
	}
	w.Nodes = slices.DeleteFunc(w.Nodes, func(n event.Node) bool {
		if n.Departed && n.ByKey && n.ID.Str == "" {
			// Of two nodes with one key the other may be here.
			return out(n.ID) && out(event.ID{Str: n.ID.String()})
		}
		return out(n.ID)
	})
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.Neighbours = slices.DeleteFunc(n.Neighbours, out)
	}
	w.Labels = slices.DeleteFunc(w.Labels, func(x event.Label) bool { return out(x.Node) })
}

// forget does what the commands that are picked say of nodes to be forgotten. r is
// the window's record in a replay, nil when it is served.
func (w *worker) forget(ctx context.Context, r *ledger.Record) error {
	w.forgot, w.declines = nil, false
	commands, _ := w.inputs.Commands.Gather(nil, nil)
	var nodes []event.ID
	for i := range commands {
		nodes = append(nodes, toForget(&commands[i])...)
	}
	if len(nodes) == 0 {
		return nil
	}
	possible := r != nil && r.Forgot != nil
	if r == nil {
		var err error
		if possible, err = w.replayable(ctx); err != nil {
			return err
		}
	}
	switch {
	case !possible:
		w.declines = true
		return nil
	case w.next < w.rewound: // this replay has left them out
		w.forgot = r.Forgot
		return nil
	case w.cfg.Fresh == nil:
		return errors.New("a command to forget nodes, and no fresh engine to replay without them")
	}
	began := time.Now()
	w.cfg.Logger.Info("forgetting: serving pauses for a replay from the beginning", "nodes", len(nodes), "windows", w.next)
	if r == nil {
		if err := w.flush(); err != nil {
			return err
		}
	}
	crash.Point(crash.BeforeForget)
	left, _, err := w.forgotten(ctx, w.next)
	if err != nil {
		return err
	}
	left.note(w.next, commands)
	exact, err := w.without(ctx, left)
	if err != nil {
		return err
	}
	w.forgot = &ledger.Forgot{Nodes: len(nodes), Windows: w.next}
	if c, ok := w.engine.(Comparer); ok {
		w.forgot.Distance = c.Apart(exact)
	}
	w.engine = exact
	if r != nil {
		err = w.cast(r)
	} else {
		err = w.own()
	}
	if err != nil {
		return err
	}
	crash.Point(crash.AfterForget)
	took := time.Since(began)
	w.cfg.Logger.Info("forgot", "nodes", len(nodes), "windows", w.next, "took", took.Round(time.Millisecond))
	if w.cfg.Hooks.Forgot != nil {
		w.cfg.Hooks.Forgot(Forgotten{Engine: exact, Forgot: *w.forgot, Replayed: r != nil, Took: took})
	}
	return nil
}

// replayable tells whether the ledger and the inputs are all there from their
// beginnings, and there is an engine to replay them into.
func (w *worker) replayable(ctx context.Context) (bool, error) {
	if w.cfg.Fresh == nil {
		return false, nil
	}
	n := w.cfg.Names
	for _, topic := range []string{n.Ledger, n.Nodes, n.Labels, n.Commands} {
		bounds, err := w.client.Offsets(ctx, topic)
		if err != nil {
			return false, err
		}
		for _, b := range bounds {
			if b.First > 0 {
				return false, nil
			}
		}
	}
	return true, nil
}

// flush waits until all that was stepped is committed, so that the ledger has it.
func (w *worker) flush() error {
	for w.landed.window < w.next-1 {
		c, more := <-w.publisher.committed
		if !more {
			return w.publisher.err
		}
		w.committed(c)
	}
	return nil
}

// forgotten reads which nodes were forgotten in the ledger's windows before the
// given one, and the window behind the last of these, 0 when there is none.
func (w *worker) forgotten(ctx context.Context, before int64) (left leftOut, behind int64, err error) {
	left = leftOut{}
	bounds, err := w.client.Offsets(ctx, w.cfg.Names.Commands)
	if err != nil || bounds[kafka.TopicPartition{Topic: w.cfg.Names.Commands}].End == 0 {
		return left, 0, err
	}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	in, err := intake.OpenCommands(fetching, w.client, w.intake())
	if err != nil {
		return nil, 0, err
	}
	l, err := ledger.Open(ctx, w.client, w.cfg.Names.Ledger)
	if err != nil {
		return nil, 0, err
	}
	defer l.Close()
	for {
		r, err := l.Next(ctx)
		if err != nil || r == nil || r.Window >= before {
			return left, behind, err
		}
		ranges := ofTopic(r.Ranges, w.cfg.Names.Commands)
		if err := in.Replay(ctx, ranges); err != nil {
			return nil, 0, err
		}
		if r.Forgot != nil {
			commands, _ := in.Gather(nil, nil)
			left.note(r.Window, commands)
			behind = r.Window + 1
		}
		in.Release()
	}
}

// ofTopic returns the ranges of one topic.
func ofTopic(ranges []ledger.Range, topic string) (of []ledger.Range) {
	for _, g := range ranges {
		if g.Topic == topic {
			of = append(of, g)
		}
	}
	return of
}

// tellEvery is how often a replay without nodes says how far it is.
const tellEvery = 5 * time.Second

// without replays the windows before the next one into a fresh engine, without
// what is left out.
func (w *worker) without(ctx context.Context, left leftOut) (Engine, error) {
	e, err := w.cfg.Fresh()
	if err != nil {
		return nil, err
	}
	a := worker{cfg: w.cfg, client: w.client, engine: e, left: left, rewound: math.MaxInt64, met: math.MaxInt64, lenient: true}
	a.cfg.Hooks = Hooks{}
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if a.ledger, err = ledger.Open(ctx, w.client, w.cfg.Names.Ledger); err != nil {
		return nil, err
	}
	defer a.ledger.Close()
	if err := a.openInputs(fetching, nil); err != nil {
		return nil, err
	}
	told := time.Now()
	for a.next < w.next {
		// All of them are committed, if not yet to be read.
		r, err := a.ledger.Wait(ctx)
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		if _, err := a.replay(ctx, r); err != nil {
			return nil, err
		}
		a.inputs.Release()
		crash.Point(crash.InForget)
		if time.Since(told) >= tellEvery {
			told = time.Now()
			w.cfg.Logger.Info("forgetting", "replayed", a.next, "of", w.next)
		}
	}
	return a.engine, nil
}

// decline refuses the commands to forget nodes that cannot be done.
func (w *worker) decline(out *event.Outcome) {
	for i := range w.window.Commands {
		if c := &w.window.Commands[i]; c.Name == event.Forget {
			out.Refused = append(out.Refused, event.Refusal{
				Origin: c.Origin, Reason: event.ImpossibleCommand,
				Detail: "forget " + strconv.Itoa(len(c.Nodes)) + " nodes: the beginning of the inputs or of the ledger is gone, and cannot be replayed without them",
			})
		}
	}
}
