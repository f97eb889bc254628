package replay

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// Forgetting nodes gives the state of a worker that never saw them. State is a function
// of the inputs and of where they were cut, so forgetting is a replay of the ledger's
// windows into a fresh engine, with every event of these nodes left out. The replay
// takes place before the step of the window with the command. That window's ledger
// record has the hash of the state after it, and says that nodes were forgotten. Every
// replay forgets at the same window, so that the hashes of the windows before it are
// still compared.

// Comparer is an engine that can compute the distance between its posterior and that of
// another engine.
type Comparer interface {
	Engine
	// Apart returns the distance of exact's posterior from this engine's.
	Apart(exact Engine) ledger.Distance
}

// ForgetCommands returns the commands to forget nodes among the claimed records, valid
// until these are released.
func ForgetCommands(in *intake.Inputs) (forget []event.Command) {
	commands, _ := in.Commands.Gather(nil, nil)
	for i := range commands {
		if c := &commands[i]; Forgets(c) {
			forget = append(forget, *c)
		}
	}
	return forget
}

// Forgets reports whether a command is to forget nodes.
func Forgets(c *event.Command) bool { return c.Name == event.Forget && len(c.Nodes) > 0 }

// Forget replaces the engine by one that never saw the nodes that the commands name, by
// a replay of the windows before next, which must all be committed. The new engine has
// no roles yet.
func (p *Replayer) Forget(ctx context.Context, commands []event.Command, replayed bool) (*ledger.Forgot, error) {
	if p.cfg.Models.Fresh == nil {
		return nil, errors.New("a command to forget nodes, and no fresh engine to replay without them")
	}
	began := time.Now()
	forgot := ledger.Forgot{Windows: p.next}
	for i := range commands {
		forgot.Nodes += len(commands[i].Nodes)
	}
	p.cfg.Logger.Info("forgetting: serving pauses for a replay from the beginning", "nodes", forgot.Nodes, "windows", p.next)
	crash.Point(crash.BeforeForget)
	exact, unknown, err := p.replayWithout(ctx, commands)
	if err != nil {
		return nil, err
	}
	forgot.Unknown = unknown[:min(len(unknown), ledger.MaxUnknown)]
	if c, ok := p.Engine.(Comparer); ok {
		forgot.Distance = c.Apart(exact)
	}
	defer Release(p.Engine)
	p.Engine = exact
	crash.Point(crash.AfterForget)
	took := time.Since(began)
	p.cfg.Logger.Info("forgot", "nodes", forgot.Nodes, "unknown", len(unknown), "windows", p.next, "took", took.Round(time.Millisecond))
	p.cfg.Events(Forgotten{Engine: exact, Forgot: forgot, Replayed: replayed, Took: took})
	return &forgot, nil
}

// Release frees what an engine has outside of memory, if it has any.
func Release(e any) {
	if c, ok := e.(io.Closer); ok {
		_ = c.Close() // what is left is removed at the end of the process
	}
}

// logEvery is the interval at which a replay without nodes logs its progress.
const logEvery = 5 * time.Second

// replayWithout steps a fresh engine through the windows before next, without the
// nodes that were forgotten in them and those that the commands name. It also returns
// which of the latter no event named.
func (p *Replayer) replayWithout(ctx context.Context, commands []event.Command) (_ Engine, unknown []string, err error) {
	e, err := p.cfg.Models.Fresh()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			Release(e)
		}
	}()
	cfg := p.cfg
	cfg.Events = nil
	fresh := New(p.client, cfg, e)
	fetching, stop := context.WithCancel(ctx)
	defer stop()
	if err := fresh.OpenFirst(ctx, fetching, p.next); err != nil {
		return nil, nil, err
	}
	fresh.excluded.add(p.next, commands)
	logged := time.Now()
	for fresh.next < p.next {
		// The window is committed, but its record may not be readable yet.
		r, err := fresh.Ledger.Wait(ctx)
		if err != nil {
			return nil, nil, err
		}
		if r == nil {
			continue
		}
		if _, err := fresh.Step(ctx, r); err != nil {
			return nil, nil, err
		}
		fresh.Inputs.Release()
		crash.Point(crash.InForget)
		if time.Since(logged) >= logEvery {
			logged = time.Now()
			p.cfg.Logger.Info("forgetting", "replayed", fresh.next, "of", p.next)
		}
	}
	return fresh.Engine, fresh.excluded.unknown(commands), nil
}

// Replayable reports whether the ledger and the inputs still have their beginnings, and
// there is an engine to replay them into.
func (p *Replayer) Replayable(ctx context.Context) (bool, error) {
	if p.cfg.Models.Fresh == nil || p.last.behind > 0 {
		return false, nil
	}
	return beginningsThere(ctx, p.client, &p.cfg.Terms.Names)
}

// beginningsThere reports whether the ledger and the inputs still have their beginnings.
func beginningsThere(ctx context.Context, c *kafka.Client, n *topics.Names) (bool, error) {
	for _, topic := range []string{n.Ledger, n.Nodes, n.Labels, n.Commands} {
		bounds, err := c.Offsets(ctx, topic)
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
