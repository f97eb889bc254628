package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
)

// A graph of several cells is as many graphs, each in one partition of every topic. A cell is stepped by a worker that knows
// nothing of the others, on a client to which its partition is all that there is. A [Fleet] runs the workers of the cells that the
// group gives to this process, and passes on to each whether it is elected.

// Fleet configures [RunFleet]. All must be set.
type Fleet struct {
	Names      topics.Names
	Session    time.Duration // see Config
	NoStandbys bool          // see [kafka.MembershipConfig]
	About      string        // see Config
	Logger     *slog.Logger
	// Run runs the worker of a cell by [RunAt], until the context ends or the worker does.
	Run func(ctx context.Context, c *kafka.Client, cell topics.Names, at *Place) error
}

// RunAt is Run for a cell, at its place in a fleet. The client is that of the cell.
func RunAt(ctx context.Context, c *kafka.Client, e replay.Engine, cfg Config, at *Place) error {
	cfg.Events = replay.Join(
		replay.On(func(replay.Recovered) {
			at.cost.begin(time.Now())
			at.reached()
		}),
		replay.On(func(e replay.Stepped) { at.cost.step(time.Now(), e.Outcome.Figures.Int(event.GraphNodes), e.Took) }),
		cfg.Events)
	return run(ctx, c, e, cfg, func(ctx context.Context, w *worker) (membership, error) {
		if err := w.checkCell(ctx); err != nil {
			return nil, err
		}
		if w.newest != nil {
			at.cost.step(time.Now(), w.newest.Figures.Int(event.GraphNodes), 0)
		}
		at.worker.Store(w)
		return at, nil
	})
}

// checkCell returns an error if the ledger's first record is of another cell.
func (w *worker) checkCell(ctx context.Context) (err error) {
	n := w.cfg.Terms.Names
	e := ledger.Scan(ctx, w.client, n.LedgerAt(), func(r *ledger.Record) bool {
		if r.Begins != nil && (r.Cell == nil || r.Cell.Number != n.Cell) {
			err = fmt.Errorf("partition %d of ledger %s begins with a record that is not of cell %d: restore the topic from a "+
				"backup or a mirror", n.Cell, n.Ledger, n.Cell)
		}
		return false
	})
	return cmp.Or(e, err)
}

// Place is the place of a cell's worker in the elections.
type Place struct {
	elected chan kafka.Election
	worker  atomic.Pointer[worker] // that stands here, nil for none
	ready   atomic.Bool            // it has reached its ledger's end
	cost    cost
	reached func() // called then
	leave   func() // called when it gives up the place
}

// Elected implements membership.
func (p *Place) Elected() <-chan kafka.Election { return p.elected }

// Leave implements membership.
func (p *Place) Leave() {
	p.worker.Store(nil)
	p.leave()
}

// tell replaces an outcome that the worker has not received.
func (p *Place) tell(owner bool) {
	select {
	case <-p.elected:
	default:
	}
	p.elected <- kafka.Election{Owner: owner}
}

// cell is a cell that this process has.
type cell struct {
	number int32
	names  topics.Names
	stop   context.CancelFunc
	begins time.Time // not before, unless it owns the cell

	left func() // called once nothing more will be committed

	mu     sync.Mutex
	owner  bool   // by the newest election
	at     *Place // of its worker, nil between two
	failed bool   // its last worker has ended with an error
}

// fleet is a running [Fleet].
type fleet struct {
	Fleet
	client  *kafka.Client
	member  *kafka.Membership
	running sync.WaitGroup // the cells
	serving sync.WaitGroup // those of them that may commit more
	turns   chan struct{}  // one for each cell that begins
	failed  chan error
	any     atomic.Bool // a cell has reached its ledger's end
	pressed atomic.Bool // cells that this process owns have not: others wait for their turn

	mu    sync.Mutex
	cells map[int32]*cell
	asked time.Time // when one asked for another election, zero for none since the newest

	share    []int32   // of the newest election, with standbys
	changed  time.Time // when that was another one last
	uneven   bool      // by the newest election, this member is to ask for even shares
	evened   bool      // it has since the share changed or was even
	heard    time.Time // when the newest election was
	cost     float64   // of the cells of this process then
	watched  time.Time // when the topics' partitions were looked at last
	division string    // what was wrong with them
}

// Cells begin so many at once, each for no longer than beginFor: a start holds what it replays. It is some twenty requests one after
// the other, which cells that begin together send together, so its time is that of brokers to answer, not of a core.
const (
	beginning = 64
	beginFor  = 30 * time.Second
)

// calm is how long a member waits after a change before it asks for even shares, in session time-outs: members that go and
// come back, as in a rolling restart, get their cells back once, and not after each.
const calm = 6

// session is the group's session time-out.
func (f *fleet) session() time.Duration { return cmp.Or(f.Session, 10*time.Second) }

// ask asks for another election, unless there is one within a session's time: cells that ask do so by the hundred, and those that
// another worker has taken over mostly hear of the election that gave it to them a moment later.
func (f *fleet) ask() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked.IsZero() {
		f.asked = time.Now()
	}
}

// asks reports whether the time has come for an election that cells have asked for.
func (f *fleet) asks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked.IsZero() || time.Since(f.asked) < f.session() {
		return false
	}
	f.asked = time.Time{}
	return true
}

// watchTopics is how often a fleet looks whether partitions were added.
const watchTopics = 10 * time.Second

// RunFleet runs the cells of a graph that the group gives to this process until the context ends, and then returns nil with every
// stepped window committed. A cell whose worker fails is begun again, and the others go on: only if none has ever begun, the
// error is that of the first that failed.
func RunFleet(ctx context.Context, c *kafka.Client, cfg Fleet) error {
	n := cfg.Names
	if err := c.MayWrite(ctx, n.Predictions, n.DeadLetters, n.Ledger); err != nil {
		return err
	}
	f := &fleet{
		Fleet: cfg, client: c.Sharing(), turns: make(chan struct{}, beginning), failed: make(chan error, 1), cells: make(map[int32]*cell),
		changed: time.Now(), watched: time.Now(), heard: time.Now(),
	}
	var err error
	f.member, err = c.Join(kafka.MembershipConfig{
		Group: n.Ledger, Topic: n.Ledger, Session: cfg.Session, About: cfg.About, Cells: f.stand, NoStandbys: cfg.NoStandbys,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	err = f.follow(running)
	stop()
	f.serving.Wait() // all is committed
	f.member.Leave()
	f.running.Wait() // the last checkpoints are written
	return err
}

// follow runs what elections give to this process.
func (f *fleet) follow(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-f.member.Elected():
			if e.Err != nil {
				return e.Err
			}
			f.take(ctx, e)
			f.press()
		case <-tick.C:
			if f.unevenFor(calm * f.session()) {
				f.evened = true
				f.member.Even()
			} else if f.asks() || f.costsOther(calm*f.session()) {
				f.member.Again()
			}
			f.press()
			f.watch(ctx)
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// stand says where this process stands.
func (f *fleet) stand() (list []kafka.CellStanding) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.cells {
		x.mu.Lock()
		if x.at != nil {
			if w := x.at.worker.Load(); w != nil {
				list = append(list, kafka.CellStanding{
					Cell: x.number, Owner: w.owns.Load(), Ready: x.at.ready.Load(),
					Progress: w.stepped.Load(), Cost: x.at.cost.of(now),
				})
			}
		}
		x.mu.Unlock()
	}
	return list
}

// take runs the cells of an election's outcome, and ends the others.
func (f *fleet) take(ctx context.Context, e kafka.Election) {
	share := append(slices.Clone(e.Owns), e.Follows...)
	now, later := time.Now(), f.share != nil // a member that has just gone may be back
	if !slices.Equal(share, f.share) {
		f.share, f.changed, f.evened = share, now, false
	}
	f.uneven, f.evened, f.heard = e.Uneven, f.evened && e.Uneven, now
	f.cost = f.costs(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = time.Time{}
	had, moved := len(f.cells), 0
	for number, x := range f.cells {
		if !slices.Contains(share, number) {
			x.stop()
			delete(f.cells, number)
		}
	}
	ended := had - len(f.cells)
	for i, number := range share {
		owner := i < len(e.Owns)
		if x := f.cells[number]; x != nil {
			if x.elect(owner) {
				moved++
			}
			continue
		}
		x := &cell{number: number, names: f.Names.Of(number), owner: owner, begins: now}
		if later {
			x.begins = now.Add(f.session())
		}
		var running context.Context
		running, x.stop = context.WithCancel(ctx)
		f.cells[number] = x
		f.serving.Add(1)
		x.left = sync.OnceFunc(f.serving.Done)
		f.running.Go(func() { f.run(running, x) })
	}
	f.Logger.Info("cells of this worker", "owns", len(e.Owns), "stands-by", len(e.Follows), "of-other-role", moved,
		"new", len(f.cells)-had+ended, "gone", ended)
}

// elect passes the outcome of an election on, and reports whether it is another one than before.
func (x *cell) elect(owner bool) (other bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	other, x.owner = owner != x.owner, owner
	if other && x.at != nil {
		x.at.tell(owner)
	}
	return other
}

// isOwner reports whether this process owns the cell by the newest election.
func (x *cell) isOwner() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.owner
}

// press notes whether a cell that this process owns is not served yet, and has not failed.
func (f *fleet) press() {
	f.pressed.Store(f.some(func(x *cell) bool { return x.owner && !x.failed && !x.ready() }))
}

// allFail notes that the worker of a cell has ended with an error, and reports whether those of all have.
func (f *fleet) allFail(x *cell) bool {
	return !f.some(func(other *cell) bool {
		other.failed = other.failed || other == x
		return !other.failed
	})
}

// retryCell is the longest time between two starts of a cell whose worker fails.
const retryCell = time.Minute

// run runs the workers of a cell, one after the other.
func (f *fleet) run(ctx context.Context, x *cell) {
	defer x.left()
	log := f.Logger.With("cell", x.number)
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, retryCell) {
		began, err := f.runOnce(ctx, x)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, ctx.Err()) {
				log.Error("a cell has ended", "err", err)
			}
			return
		}
		if began {
			wait = time.Second
		}
		switch {
		case errors.Is(err, publish.ErrOwned), errors.Is(err, kafka.ErrFenced):
			if x.elect(false) { // until the next election says otherwise
				log.Info("another worker owns the cell: it is followed from here on")
				f.ask()
			}
			continue
		case f.allFail(x) && !f.any.Load():
			select {
			case f.failed <- fmt.Errorf("cell %d: %w", x.number, err):
			default:
			}
			return
		case f.any.Load():
			log.Error("the worker of a cell has ended, and is begun again", "err", err, "in", wait)
		}
		f.ask() // another member may have more luck
		if kafka.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// runOnce runs a worker of a cell. began says that it has reached its ledger's end.
func (f *fleet) runOnce(ctx context.Context, x *cell) (began bool, err error) {
	for (f.pressed.Load() || time.Now().Before(x.begins)) && !x.isOwner() && kafka.Sleep(ctx, 100*time.Millisecond) == nil {
	}
	if ctx.Err() != nil {
		return false, nil
	}
	select {
	case f.turns <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	turn := sync.OnceFunc(func() { <-f.turns })
	defer turn()
	at := &Place{elected: make(chan kafka.Election, 1)}
	at.leave = func() {
		if ctx.Err() != nil {
			x.left()
		}
	}
	at.reached = func() {
		began = true
		at.ready.Store(true)
		f.any.Store(true)
		x.mu.Lock()
		x.failed = false
		x.mu.Unlock()
		turn()
	}
	x.mu.Lock()
	if x.at = at; x.owner {
		at.tell(true)
	}
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.at = nil
		x.mu.Unlock()
	}()
	watching, stop := context.WithTimeout(ctx, beginFor)
	defer stop()
	context.AfterFunc(watching, turn)
	err = f.Run(ctx, f.client.Cell(x.number), x.names, at)
	return began, err
}

// unevenFor reports whether this member is to ask for even shares now: it has had the same share for a while, and is ready for all
// that it stands by for and that does not fail.
func (f *fleet) unevenFor(d time.Duration) bool {
	return f.uneven && !f.evened && time.Since(f.changed) >= d && !f.some(func(x *cell) bool { return !x.failed && !x.ready() })
}

// costs returns what the cells of this process cost.
func (f *fleet) costs(now time.Time) (all float64) {
	for _, s := range f.stand() {
		all += s.Cost
	}
	return all
}

// costsOther reports whether the cells of this process cost much more or less than at the newest election, which was that long ago:
// shares may be uneven since.
func (f *fleet) costsOther(d time.Duration) bool {
	now := time.Now()
	return now.Sub(f.heard) >= d && math.Abs(f.costs(now)-f.cost) > f.cost/2+idleOfCore/10
}

// ready reports whether a worker of the cell has reached its ledger's end. x.mu is held.
func (x *cell) ready() bool { return x.at != nil && x.at.ready.Load() }

// some reports whether there is such a cell among those of this process.
func (f *fleet) some(such func(*cell) bool) (is bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.cells {
		x.mu.Lock()
		is = such(x) || is
		x.mu.Unlock()
	}
	return is
}

// watch looks whether partitions were added. Those of the ledger are cells, and shared out. Those that are not in all topics
// are not read.
func (f *fleet) watch(ctx context.Context) {
	if time.Since(f.watched) < watchTopics {
		return
	}
	f.watched = time.Now()
	n, err := topics.Divided(ctx, f.client, f.Names)
	switch {
	case ctx.Err() != nil:
	case err != nil && err.Error() != f.division:
		f.division = err.Error()
		f.Logger.Error("partitions were added", "err", err)
	case err == nil && n.Cells > f.Names.Cells:
		f.Names.Cells = n.Cells
		f.member.Again()
	case err == nil:
		f.division = ""
	}
}
