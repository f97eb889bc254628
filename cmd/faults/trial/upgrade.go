package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
)

// Upgraded is the result of [Upgrade].
type Upgraded struct {
	Nodes   int   `json:"nodes"` // sent
	Windows int   `json:"windows"`
	Epoch   int64 `json:"epoch"`    // in which the ledger ends
	PauseMS int64 `json:"pause_ms"` // between the last window of the old owner and the first of the new one
	UsualMS int64 `json:"usual_ms"` // the longest time between two windows before
	verdict
}

// Upgrade is a rolling upgrade while nodes and labels come: an owner and a standby of an
// old program serve; two workers of the new one join with --rebase and catch up; the old
// ones are ended, the standby first. Then a worker of the old program starts once more, as
// a supervisor might do, and must end by itself. The new workers have another setting
// too, so that an epoch begins even if both programs have the same engine.
func Upgrade(ctx context.Context, s *Setup, old string) (found *Upgraded, err error) {
	defer catch(&err)
	g := s.newGraph(ctx, "upgrade")
	u := &upgrade{graph: g, old: old}
	defer u.end()
	u.ledger = g.follow(ctx)
	// The load is that of a chaos run, without its disturbances.
	load := &chaos{graph: g, ledger: u.ledger, sender: g.newSender(ctx)}
	var last *process
	beside(func(stop <-chan struct{}) { load.send(ctx, rand.New(rand.NewPCG(1, 1)), stop) }, func() { last = u.roll(ctx) })
	load.drain(ctx, last)
	u.finish(ctx, load)
	return &u.found, nil
}

// upgrade is a run of [Upgrade].
type upgrade struct {
	*graph
	old    string // the old program
	ledger *progress
	found  Upgraded
}

// start starts a worker.
func (u *upgrade) start(program, name string, args ...string) *process {
	p := u.run(program, name, "", append([]string{
		"work", "--brokers", strings.Join(u.setup.Brokers, ","), "--prefix", u.prefix, "--model", u.setup.Model, "--http", u.http,
		"--session-timeout", session.String(), "--linger", "20ms", "--commit-interval", "20ms",
	}, args...)...)
	u.setup.Report(name + " started")
	return p
}

// begin starts a worker, and waits until its log has the text.
func (u *upgrade) begin(ctx context.Context, program, name, text string, args ...string) *process {
	p := u.start(program, name, args...)
	u.ledger.await(ctx, p, fmt.Sprintf("%q in its log", text), drainTimeout, func(totals) bool { return p.logged(text) })
	return p
}

// roll replaces the old workers by new ones, and returns the one that serves.
func (u *upgrade) roll(ctx context.Context) *process {
	owner := u.begin(ctx, u.old, "old-owner", "serving")
	standby := u.begin(ctx, u.old, "old-standby", "standing by")
	u.pass(ctx, 100)
	newer := []string{"--coverage", "0.9", "--rebase"}
	var joined []*process
	for _, name := range []string{"new-a", "new-b"} {
		p := u.begin(ctx, u.setup.Program, name, "recovered", append(newer, "--state-dir", filepath.Join(u.dir, name))...)
		joined = append(joined, p)
	}
	u.pass(ctx, 50)
	if err := standby.stop(); err != nil {
		u.found.unexplained("the old standby ended with %v: %s", err, standby.lastLine())
	}
	u.found.UsualMS = u.ledger.longest().Milliseconds()
	if err := owner.stop(); err != nil {
		u.found.unexplained("the old owner ended with %v: %s", err, owner.lastLine())
	}
	u.setup.Report("the old workers have ended")
	u.pass(ctx, 100)
	u.found.PauseMS = u.ledger.longest().Milliseconds()
	late := u.start(u.old, "old-again")
	if late.endsWith(ctx); late.err == nil || strings.Contains(late.lastLine(), "\n") && !strings.Contains(late.lastLine(), "\n---") {
		u.found.unexplained("a worker of the old program ended with %v: %s", late.err, late.lastLine())
	}
	for _, p := range joined {
		if p.logged("serving") {
			return p
		}
	}
	fail("no worker of the new program serves, see %s", u.dir)
	return nil
}

// pass waits until that many more windows are committed. The worker that began last must run.
func (u *upgrade) pass(ctx context.Context, windows int) {
	before, _ := u.ledger.now()
	u.ledger.await(ctx, u.started[len(u.started)-1], fmt.Sprintf("further %d windows", windows), drainTimeout, func(sum totals) bool { return sum.windows >= before.windows+windows })
}

// finish ends the workers and reads what was published.
func (u *upgrade) finish(ctx context.Context, load *chaos) {
	for _, p := range u.started {
		select {
		case <-p.ended:
		default:
			if err := p.stop(); err != nil && !p.interrupted() {
				u.found.unexplained("a new worker ended with %v: %s", err, p.lastLine())
			}
		}
	}
	must(u.ledger.close())
	got := u.judge(ctx, load.next, &u.found.verdict)
	sum, _ := u.ledger.now()
	u.found.Nodes, u.found.Windows, u.found.Epoch = load.next, len(got.windows), sum.epoch
	if sum.epoch == 0 {
		u.found.unexplained("no epoch began")
	}
}
