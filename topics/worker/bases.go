package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// bases writes the bases of a graph. The owner's record of a window says that the state after it is to be stored. The saver writes
// that into a file of the folder for checkpoints, between the windows as ever; what takes long, or fails, happens beside the
// loop: deleting what no base needs any more, and storing what changed. A standby stores it. The owner computes the hash of its own
// state, waits for a while until the store has a base of that name, and stores it itself if it has none. A later record names it.
type bases struct {
	worker *worker
	cfg    *replay.Bases
	owner  base.Owner // this ledger, to stores

	// Of the loop alone.
	last   time.Time   // when the newest one was taken, or nothing was left to take
	asked  int64       // the window that begins the base that the ledger asks for, -1 for none
	taking ledger.Base // what the ledger will say of the one that is being written
	busy   bool        // from the snapshot on until it is named, or given up
	naming int64       // the window whose record names it, -1 for none
	// lost are the named bases that the store lacked when it was looked at last, and have no base in their place yet.
	lost   map[base.Name]error
	looked time.Time

	done chan based               // capacity 1
	look chan map[base.Name]error // what a look at the store found; capacity 1
	// background is stopped at the end.
	background context.Context
	stop       context.CancelFunc
	running    sync.WaitGroup
}

// based is the outcome of storing a base.
type based struct {
	base   ledger.Base
	files  int64     // bytes
	stored int64     // bytes, those of them that were not stored before
	lost   base.Name // of the newest before it, if that was found missing or damaged
	took   time.Duration
	err    error
}

// newBases returns what writes the bases of a worker, nil if it has no store.
func newBases(ctx context.Context, w *worker) (*bases, error) {
	if w.cfg.Checkpoints.Bases.Store == nil {
		return nil, nil
	}
	owner, err := replay.Owner(ctx, w.client, w.cfg.Terms.Names)
	if err != nil {
		return nil, err
	}
	b := &bases{
		worker: w, cfg: &w.cfg.Checkpoints.Bases, owner: owner, asked: -1, naming: -1, looked: time.Now(),
		done: make(chan based, 1), look: make(chan map[base.Name]error, 1),
	}
	b.background, b.stop = context.WithCancel(context.Background())
	return b, nil
}

// watch has an owner look once per Every whether the store has the bases that the ledger names, beside the loop. It reports
// whether a window without records is needed, so that one is stored anew in the place of those that are lost: while a graph is quiet
// there is no other that asks for it, and then names it.
func (b *bases) watch() (window bool) {
	if b == nil {
		return false
	}
	select {
	case b.lost = <-b.look:
		for name, err := range b.lost {
			b.worker.cfg.Logger.Error("a base that the ledger names is lost, and one is stored anew", "name", name, "err", err)
		}
	default:
	}
	named := b.worker.replay.Last().Bases
	if time.Since(b.looked) >= b.cfg.Every && len(b.lost) == 0 && len(named) > 0 && !b.busy {
		b.looked, named = time.Now(), slices.Clone(named)
		b.running.Go(func() { b.look <- b.cfg.Check(b.background, named) })
	}
	return len(b.lost) > 0 && (!b.busy && b.worker.replay.Savable() && !b.worker.saver.busy || len(b.done) > 0)
}

// close gives up what is not done. What is stored of a base that no record names is deleted with a later one.
func (b *bases) close() {
	if b != nil {
		b.stop()
		b.running.Wait()
	}
}

// due reports whether the owner is to ask for a base of the present state. If it is that of the newest base, it is as new.
func (b *bases) due() bool {
	if b.busy || !b.worker.replay.Savable() || b.worker.saver.busy {
		return false
	}
	list, next := b.worker.replay.Last().Bases, b.worker.replay.Next()
	newest := time.Time{}
	if len(list) > 0 {
		newest = time.UnixMilli(list[0].Taken)
	}
	if b.last.Before(newest) {
		b.last = newest
	}
	if len(b.lost) > 0 {
		return true
	}
	if time.Since(b.last) < b.cfg.Every {
		return false
	}
	if len(list) > 0 && list[0].Name.Window == next {
		b.last = time.Now()
		b.worker.cfg.Events(replay.Based{At: b.last})
		return false
	}
	return true
}

// followed has a standby store the base that the record of a new window asks for. It gives up one that was asked for before.
func (b *bases) followed(r *ledger.Record, newest *ledger.Record) {
	if b == nil || !r.BaseDue && !breaks(r) {
		return
	}
	b.asked = -1
	select {
	case <-b.done:
		b.busy = false
	default:
	}
	if r.BaseDue && (newest == nil || r.Window > newest.Window) {
		b.asked = r.Window + 1
	}
}

// breaks reports whether bases before a window are of no use behind it, as no replay of what is left passes it: nodes are forgotten,
// or an epoch begins.
func breaks(r *ledger.Record) bool {
	return r.Forgot != nil || r.Begins != nil && r.Window > 0 && r.Begins.Moved == nil
}

// begins reports whether the present state is to be taken, before a window.
func (b *bases) begins(next int64) bool { return b != nil && b.asked == next && !b.busy }

// take begins a base of the present state: it returns its snapshot, whose bytes depend on the state alone.
func (b *bases) take() (replay.Snapshot, error) {
	keeper, at, reached, err := b.worker.state()
	if err != nil {
		return nil, err
	}
	b.busy, b.last = true, time.Now()
	b.taking = ledger.Base{
		Name: base.Name{Window: at.Window}, Chain: at.Chain, Offset: at.Ledger,
		Taken: b.last.UnixMilli(), Reached: reached,
	}
	return keeper.Snapshot(nil), nil
}

// store stores a state that was taken, beside the loop, and removes its file.
func (b *bases) store(path string, bytes int64, err error) {
	if err != nil {
		b.busy = false
		b.report(based{base: b.taking, err: err})
		return
	}
	crash.Point(crash.BeforeBase)
	x := based{base: b.taking, files: bytes}
	before, owner := slices.Clone(b.worker.replay.Last().Bases), b.worker.owns.Load()
	b.running.Go(func() {
		if owner {
			x.err = b.writeOwn(path, before, &x)
		} else if x.err = b.write(path, before, &x); x.err == nil {
			b.worker.cfg.Logger.Info("stored a base, which the owner may name", "name", x.base.Name, "stored", x.stored>>20)
		}
		x.took = time.Since(time.UnixMilli(x.base.Taken))
		_ = checkpoint.Remove(path)
		b.done <- x
	})
}

// writeOwn stores a base of the owner. A standby is left to do it, if there is one.
func (b *bases) writeOwn(path string, before []ledger.Base, x *based) error {
	ledger, window := b.worker.cfg.Terms.Names.Ledger, x.base.Name.Window
	if members, err := b.worker.client.Members(b.background, ledger, ledger); err == nil && len(members) <= 1 {
		return b.write(path, before, x)
	}
	err := read(path, func(files []base.Source) (err error) {
		x.base.Name, err = base.NameOf(window, files)
		return err
	})
	if err != nil {
		return err
	}
	home, err := b.home(before, x)
	if err != nil {
		return err
	}
	patience := min(b.cfg.Every/8, time.Minute)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if _, err := base.Find(b.background, home, x.base.Name); err == nil {
			return nil
		}
		if err := kafka.Sleep(b.background, patience/16); err != nil {
			return err
		}
	}
	objects, _ := home.List(b.background)
	for _, o := range objects {
		if other := new(base.Name); other.UnmarshalText([]byte(o)) == nil && other.Window == window && *other != x.base.Name {
			b.worker.cfg.Logger.Error("a standby has stored a base of other bytes than this owner's state, which is "+
				"stored instead", "name", o, "own", x.base.Name)
		}
	}
	return b.write(path, before, x)
}

// sweeps is how often a sweep is tried: a store that fails now and then shall not have more bases than are kept.
const sweeps = 3

// write stores a base, and notes its name, after it has deleted what no base needs any more.
func (b *bases) write(path string, before []ledger.Base, x *based) error {
	home, err := b.home(before, x)
	if err != nil {
		return err
	}
	var keep []base.Name
	for i := range before {
		keep = append(keep, before[i].Name)
	}
	for range sweeps {
		if err = base.Sweep(b.background, home, keep, x.base.Name.Window); err == nil {
			break
		}
	}
	if err != nil && b.background.Err() == nil {
		b.worker.cfg.Logger.Warn("what no base needs any more was not deleted, and will be before the next one", "err", err)
	}
	var newest *base.Base // of which chunks need not be stored again
	if len(before) > 0 && before[0].Folder == x.base.Folder {
		err := b.insist(func(ctx context.Context) (err error) {
			newest, err = base.Whole(ctx, home, before[0].Name)
			if base.Useless(err) {
				b.worker.cfg.Logger.Error("the newest base is lost, and the next one is stored whole", "name", before[0].Name, "err", err)
				x.lost = before[0].Name
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return read(path, func(files []base.Source) (err error) {
		x.base.Name, x.stored, err = base.Write(x.base.Name.Window, files, newest, func(name string, bytes []byte) error {
			crash.Point(crash.InBase)
			return b.insist(func(ctx context.Context) error { return home.Put(ctx, name, bytes) })
		})
		crash.Point(crash.AfterBase)
		return err
	})
}

// home returns the store in which this ledger writes, and deletes, and notes its name.
func (b *bases) home(named []ledger.Base, x *based) (home base.Store, err error) {
	var mine []base.Name
	for i := range named {
		if named[i].Folder == "" {
			mine = append(mine, named[i].Name)
		}
	}
	err = b.insist(func(ctx context.Context) (err error) {
		home, x.base.Folder, err = b.owner.Home(ctx, b.cfg.Store, mine)
		return err
	})
	return home, err
}

// read calls f with the files of a state.
func read(path string, f func([]base.Source) error) error {
	files, closeAll, err := replay.SourcesOf(path)
	defer closeAll()
	if err != nil {
		return err
	}
	return f(files)
}

// insist calls f until it succeeds or the worker ends, and waits longer each time.
func (b *bases) insist(f func(context.Context) error) error {
	const longest = time.Minute
	for pause := time.Second; ; pause = min(2*pause, longest) {
		err := f(b.background)
		if err == nil || b.background.Err() != nil {
			return cmp.Or(b.background.Err(), err)
		}
		b.worker.cfg.Logger.Warn("a base waits for its store", "store", b.cfg.Store, "err", err)
		if err := kafka.Sleep(b.background, pause); err != nil {
			return err
		}
	}
}

// name has the owner's record name the bases, those of the record before and one that was stored since, and ask for one.
func (b *bases) name(r *ledger.Record, before []ledger.Base, settings *replay.Settings) {
	if !breaks(r) {
		r.Bases = slices.Clone(before)
		for i := range r.Bases {
			if r.Bases[i].Reached = nil; r.Begins != nil {
				r.Bases[i].Offset = 0 // the ledger is a copy, and its records have other offsets
			}
		}
	}
	if b == nil {
		return
	}
	if breaks(r) {
		b.asked, b.last = -1, time.Time{}
		return
	}
	select {
	case x := <-b.done:
		b.busy = false
		switch {
		case len(before) > 0 && before[0].Name.Window >= x.base.Name.Window: // the former owner has named it
		case x.err == nil && x.base.Name.Window != b.asked:
			x.err, b.last = errors.New("nodes were forgotten meanwhile, or an epoch began"), time.Time{}
			fallthrough
		case x.err != nil:
			b.report(x)
		default:
			b.busy, b.naming = true, r.Window
			r.Bases = slices.DeleteFunc(r.Bases, func(old ledger.Base) bool { return old.Name == x.lost || b.lost[old.Name] != nil })
			b.lost = nil
			r.Bases = append([]ledger.Base{x.base}, r.Bases...)
			r.Bases = r.Bases[:min(len(r.Bases), b.cfg.Keep)]
			r.Configuration = settings.All
			if r.Classes == nil && b.worker.cfg.Models.ClassesOf != nil {
				r.Classes = b.worker.cfg.Models.ClassesOf(r.Serves())
			}
			b.report(x)
		}
	default:
	}
	if r.BaseDue = b.due(); r.BaseDue {
		b.asked = r.Window + 1
	}
}

// committed deletes the ledger's records that no base needs any more, once the record is committed that says so.
func (b *bases) committed(last int64) {
	if b == nil || b.naming < 0 || b.naming > last {
		return
	}
	crash.Point(crash.NamedBase)
	b.naming, b.busy = -1, false
	keep := b.worker.replay.Last().Bases
	if !b.cfg.Purge || len(keep) == 0 {
		return
	}
	at, from := b.worker.cfg.Terms.Names.LedgerAt(), keep[len(keep)-1].Offset
	b.running.Go(func() {
		crash.Point(crash.BeforePurge)
		if err := b.worker.client.DeleteRecords(b.background, at, from); err != nil && b.background.Err() == nil {
			b.worker.cfg.Logger.Warn("the ledger's records before the oldest base were not deleted, and will be with "+
				"the next one", "err", err)
		}
		crash.Point(crash.AfterPurge)
	})
}

// watchEvery is how often a worker looks what is needed, and whether topics will keep it.
func watchEvery(b *replay.Bases) time.Duration {
	if b.Store != nil {
		return min(max(b.Every, time.Minute), time.Hour)
	}
	return time.Hour
}

// needed tells what the oldest base needs, and returns how old the oldest record is of each topic that is needed; nil without bases.
func needed(ctx context.Context, c *kafka.Client, cfg *Config) (map[string]time.Time, error) {
	at := cfg.Terms.Names.LedgerAt()
	newest, err := ledger.Newest(ctx, c, at)
	if err != nil {
		return nil, err
	}
	needs, err := replay.Needs(ctx, c, at, newest)
	if err != nil || len(needs) == 0 {
		return nil, err
	}
	cfg.Needed(needs, time.UnixMilli(newest.Bases[0].Taken))
	return replay.Since(needs), nil
}

// explainPurged says what to do where this worker lacks what a newer base than its state does not need.
func (w *worker) explainPurged(ctx context.Context, err error) error {
	var gone *kafka.OutOfRangeError
	if w.cfg.Checkpoints.Bases.Store == nil || !errors.As(err, &gone) || gone.Position >= gone.Bounds.First {
		return err
	}
	newest, e := ledger.Newest(ctx, w.client, w.cfg.Terms.Names.LedgerAt())
	if bases := newest.BasesNamed(); e == nil && len(bases) > 0 && bases[0].Name.Window > w.replay.Next() {
		return fmt.Errorf("%s was deleted up to what a newer base needs while this worker was behind that: start it "+
			"again, and it begins from %v", gone.At.Topic, bases[0].Name)
	}
	return err
}

func (b *bases) report(x based) {
	w := b.worker
	if x.err != nil {
		w.cfg.Logger.Warn("a base was not written", "window", x.base.Name.Window, "err", x.err)
	} else {
		w.cfg.Logger.Info("wrote a base", "name", x.base.Name, "megabytes", x.files>>20, "stored", x.stored>>20, "took",
			x.took.Round(time.Millisecond))
	}
	w.cfg.Events(replay.Based{
		At: time.UnixMilli(x.base.Taken), Window: x.base.Name.Window, Bytes: x.files,
		Stored: x.stored, Took: x.took, Err: x.err,
	})
}

// checkNoBase returns a [topics.GoneError] if there is a base of this graph though its ledger is empty.
func (w *worker) checkNoBase(ctx context.Context) error {
	if w.cfg.Checkpoints.Bases.Store == nil {
		return nil
	}
	cluster, err := w.client.ClusterID(ctx)
	if err != nil {
		return err
	}
	name, err := w.cfg.Checkpoints.BaseIn(ctx, cluster, w.cfg.Logger, w.cfg.Events)
	if err != nil || name == "" {
		return err
	}
	return &topics.GoneError{
		Ledger: w.cfg.Terms.Names.Ledger,
		Found:  []string{fmt.Sprintf("a base, %s in %v", name, w.cfg.Checkpoints.Bases.Store)},
	}
}
