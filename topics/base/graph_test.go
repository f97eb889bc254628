package base_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// based is a graph with bases in a folder, and workers that each begin on an empty disk.
type based struct {
	*workertest.Fixture
	folder string
	store  base.Store
	from   replay.Recovered // of the last worker
	purge  bool
	sent   int
}

func newBased(f *workertest.Fixture) *based {
	folder := f.T.TempDir()
	store, err := base.Open(folder, f.Names.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	return &based{Fixture: f, folder: filepath.Join(folder, f.Names.Ledger), store: store, purge: true}
}

// serve sends fifty nodes with their labels, and runs a worker on an empty disk until all are in windows and the ledger
// names a base that the worker has written. Then what the ledger and the inputs have before the oldest base is deleted.
func (b *based) serve(e replay.Engine, cfg worker.Config) error {
	b.T.Helper()
	n := b.Send(b.sent, b.sent+50)
	b.sent += 50
	ctx, cancel := context.WithTimeout(b.T.Context(), time.Minute)
	defer cancel()
	cfg = b.Config(cfg)
	cfg.Session = workertest.Session
	cfg.Checkpoints.Dir, cfg.Checkpoints.Restore, cfg.Checkpoints.Every = b.T.TempDir(), workertest.ReadTally, time.Hour
	if cfg.Policy == nil {
		cfg.Policy = intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	}
	named := false
	cfg.Events = replay.Join(cfg.Events,
		replay.On(func(r replay.Recovered) { b.from = r }),
		replay.On(func(x replay.Based) { named = named || x.Window > 0 && x.Err == nil }),
		replay.On(func(s replay.Stepped) {
			if !s.Replayed {
				n -= len(s.Outcome.Predictions) + len(s.Outcome.Labelled) + len(s.Outcome.Refused)
			}
		}),
		replay.On(func(replay.Committed) {
			if n <= 0 && named {
				cancel()
			} else if n <= 0 {
				n += b.Send(b.sent, b.sent+10)
				b.sent += 10
			}
		}),
	)
	if err := worker.Run(ctx, b.Client, e, cfg); err != nil {
		return err
	}
	if n > 0 || !named {
		b.T.Fatalf("%d events are in no window, a base is named: %v", n, named)
	}
	b.Fence()
	if b.purge {
		b.deleteUnneeded()
	}
	return nil
}

// deleteUnneeded deletes of inputs and ledger what no base needs.
func (b *based) deleteUnneeded() {
	b.T.Helper()
	newest, err := ledger.Newest(b.T.Context(), b.Client, b.Names.LedgerAt())
	if err != nil {
		b.T.Fatal(err)
	}
	needs, err := replay.Needs(b.T.Context(), b.Client, b.Names.LedgerAt(), newest)
	if err != nil || len(needs) == 0 {
		b.T.Fatalf("%d partitions are needed: %v", len(needs), err)
	}
	for _, n := range needs {
		if err := b.Client.DeleteRecords(b.T.Context(), n.TopicPartition, n.Offset); err != nil {
			b.T.Fatal(err)
		}
	}
}

// stored returns the bases that the ledger names, and the objects of the folder.
func (b *based) stored() (named []ledger.Base, objects []string) {
	b.T.Helper()
	newest, err := ledger.Newest(b.T.Context(), b.Client, b.Names.LedgerAt())
	if err == nil {
		objects, err = b.store.List(b.T.Context())
	}
	if err != nil {
		b.T.Fatal(err)
	}
	return newest.Bases, objects
}

// checkOnce checks that every node was predicted once.
func (b *based) checkOnce() {
	b.T.Helper()
	seen := make(map[event.ID]bool)
	for _, r := range b.Read(b.Names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			b.T.Fatal(err)
		}
		if seen[p.Node] {
			b.T.Errorf("node %v was predicted twice", p.Node)
		}
		seen[p.Node] = true
	}
	if len(seen) != b.sent {
		b.T.Errorf("%d nodes were predicted, want %d", len(seen), b.sent)
	}
}

func (b *based) Config(cfg worker.Config) worker.Config {
	cfg = b.Fixture.Config(cfg)
	cfg.Checkpoints.Bases = replay.Bases{Store: b.store, Every: time.Nanosecond, Keep: 2, Purge: b.purge}
	return cfg
}

// TestBases: workers come and go, each with an empty disk, and whatever is before the oldest base is deleted. Every node is
// predicted once. Of bases that are lost or damaged the older one is taken and, when there is none, no state but a line.
func TestBases(t *testing.T) {
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		for round := range 4 {
			if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
			if round > 0 && b.from.Checkpoint == 0 {
				t.Error("a worker with an empty disk began at the beginning")
			}
			if named, objects := b.stored(); len(named) > 2 || len(objects) > 40 {
				t.Errorf("%d bases are named, of %d objects", len(named), len(objects))
			}
		}
		bounds, err := f.Client.Offsets(t.Context(), f.Names.Ledger, f.Names.Nodes)
		if err != nil {
			t.Fatal(err)
		}
		for at, x := range bounds {
			if x.First == 0 {
				t.Errorf("%v still begins at offset 0", at)
			}
		}

		named, _ := b.stored()
		list := filepath.Join(b.folder, named[0].Name.String())
		whole, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(list, append(whole[:len(whole)-9], "whatever!"...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if b.from.Checkpoint != named[1].Name.Window {
			t.Errorf("the worker began at window %d, want %d of the older base", b.from.Checkpoint, named[1].Name.Window)
		}
		b.checkOnce()
		if now, _ := b.stored(); len(now) != 2 || now[1].Name != named[1].Name {
			t.Errorf("the ledger names %v, want the new base and the one that is whole", now)
		}

		idle := func() error { return f.Run(&workertest.Tally{}, worker.Config{}) }
		if err := idle(); err == nil || !strings.Contains(err.Error(), "give --base") {
			t.Errorf("without the store: %v, want a line that asks for it", err)
		}
		if err := os.RemoveAll(b.folder); err != nil {
			t.Fatal(err)
		}
		err = b.serve(&workertest.Tally{}, worker.Config{})
		if err == nil || !strings.Contains(err.Error(), "none of its bases can be used") || strings.Contains(err.Error(), "\n") {
			t.Errorf("without any base: %v, want a line that says so", err)
		}
	})
}

// TestBaseBehindForgotten: a replay of what is left does not pass a window that forgets nodes, so bases of before it are not
// named behind it. Then one of another state begins, and an audit proves what follows it.
func TestBaseBehindForgotten(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		models := replay.Models{Fresh: func() (replay.Engine, error) { return &workertest.Tally{}, nil }}
		forgot := int64(-1)
		sent := false
		cfg := worker.Config{Models: models, Events: replay.Join(
			replay.On(func(s replay.Stepped) {
				if !sent && s.Outcome.Window == 4 {
					sent = true
					b.Forget(3)
				}
			}),
			replay.On(func(x replay.Forgotten) { forgot = x.Windows }),
		)}
		b.purge = false // or nothing can be forgotten
		for range 2 {
			if err := b.serve(&workertest.Tally{}, cfg); err != nil {
				t.Fatal(err)
			}
		}
		if forgot < 0 {
			t.Fatal("nothing was forgotten")
		}
		named, _ := b.stored()
		if len(named) == 0 || named[len(named)-1].Name.Window <= forgot {
			t.Errorf("the ledger names %v, want bases behind window %d", named, forgot)
		}
		on := b.Config(worker.Config{Models: models})
		on.Checkpoints.Restore = workertest.ReadTally
		found, err := audit.Run(t.Context(), f.Client, &workertest.Tally{}, on.Replay(), audit.From{Base: &named[0]}, nil)
		if err != nil || found.Base != named[0].Name.String() || found.First != named[0].Name.Window {
			t.Errorf("the audit from a base gives %+v (%v)", found, err)
		}
	})
}

// TestBaseOfNoLedger: a worker does not begin a graph again of which there is a base.
func TestBaseOfNoLedger(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		if err := b.store.Put(t.Context(), base.Name{Window: 7, Sum: strings.Repeat("ab", 32)}.String(), nil); err != nil {
			t.Fatal(err)
		}
		workertest.CheckGone(t, "beside a base", b.serve(&workertest.Tally{}, worker.Config{}), "a base, base-")
	})
}

// TestSlowStore: while a store takes no object, every window is served, and the base that waits is named once it does.
func TestSlowStore(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		closed := &closedStore{Store: b.store, open: make(chan struct{})}
		cfg := worker.Config{Events: replay.On(func(s replay.Stepped) {
			if s.Outcome.Window == 10 {
				close(closed.open)
			}
		})}
		b.store = closed
		if err := b.serve(&workertest.Tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		b.checkOnce()
	})
}

// TestStandbyStores: where there is a standby it stores the base, under the name that the owner has computed of its own state. The owner
// stores nothing and names it.
func TestStandbyStores(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		putting := func(s base.Store) worker.Config {
			cfg := worker.Config{Policy: intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}}
			cfg.Checkpoints = replay.Checkpoints{
				Dir: t.TempDir(), Restore: workertest.ReadTally, Every: time.Hour,
				Bases: replay.Bases{Store: s, Every: 4 * time.Second, Keep: 2},
			}
			return cfg
		}
		var by [2]atomic.Int64
		owner := f.StartWorker(&workertest.Tally{}, putting(&countingStore{b.store, &by[0]}))
		<-owner.Took
		standby := f.StartWorker(&workertest.Tally{}, putting(&countingStore{b.store, &by[1]}))
		<-standby.Recovered
		for sent := 0; ; sent += 10 {
			n := f.Send(sent, sent+10)
			owner.AwaitEvents(t, n)
			standby.AwaitEvents(t, n)
			named, _ := b.stored()
			if len(named) == 2 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if by[0].Load() > 2 || by[1].Load() < 2 { // the first one may be of before the standby had come
			t.Errorf("the owner stored %d objects, and the standby %d", by[0].Load(), by[1].Load())
		}
		for _, w := range []*workertest.Running{owner, standby} {
			if err := w.Stop(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestStoreAway: while the store does not answer, a worker with an empty ledger waits, and so does one that can begin from a base
// alone. One whose ledger and inputs are whole begins without it.
func TestStoreAway(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		real := b.store
		for round, purge := range []bool{false, true, true} {
			away := &awayStore{Store: real}
			away.left.Store(8) // of which two bases take six, each three
			away.lists = round > 0
			b.store, b.purge = away, purge
			waits := 0
			events := replay.On(func(w replay.Waiting) {
				if waits++; w.For != "waiting for the store of bases: the store does not answer" {
					t.Errorf("round %d: it says %q", round, w.For)
				}
			})
			if err := b.serve(&workertest.Tally{}, worker.Config{Events: events}); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			if (waits > 0) != (round != 1) {
				t.Errorf("round %d: it said %d times that it waits", round, waits)
			}
			if began := b.from.Checkpoint; (began > 0) != (round == 2) {
				t.Errorf("round %d: the worker began at window %d", round, began)
			}
		}
		b.checkOnce()
	})
}

// awayStore does not answer the first questions, except for lists of its objects if it lists.
type awayStore struct {
	base.Store
	left  atomic.Int64
	lists bool
}

func (s *awayStore) away() error {
	if s.left.Add(-1) >= 0 {
		return &base.AwayError{Err: errors.New("the store does not answer")}
	}
	return nil
}

func (s *awayStore) List(ctx context.Context) ([]string, error) {
	if !s.lists {
		if err := s.away(); err != nil {
			return nil, err
		}
	}
	return s.Store.List(ctx)
}

func (s *awayStore) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	if err := s.away(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, name, most)
}

// countingStore counts the objects that are stored.
type countingStore struct {
	base.Store
	puts *atomic.Int64
}

func (s *countingStore) Put(ctx context.Context, name string, b []byte) error {
	s.puts.Add(1)
	return s.Store.Put(ctx, name, b)
}

// closedStore fails until it is open.
type closedStore struct {
	base.Store
	open chan struct{}
}

func (s *closedStore) Put(ctx context.Context, name string, b []byte) error {
	select {
	case <-s.open:
		return s.Store.Put(ctx, name, b)
	default:
		return os.ErrPermission
	}
}

// TestSecondClusterLeavesBases: a graph of the same prefix on another cluster, and one that begins again on the same, write their
// bases beside those that are there and delete none of them. A ledger that names bases in another one's folder begins from them.
func TestSecondClusterLeavesBases(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		theirs := base.Owner{Cluster: "production", Topic: "1", Ledger: f.Names.Ledger}
		if err := theirs.Own(t.Context(), b.store); err != nil {
			t.Fatal(err)
		}
		put := func(window int64) {
			t.Helper()
			if err := b.store.Put(t.Context(), base.Name{Window: window, Sum: strings.Repeat("ab", 32)}.String(), nil); err != nil {
				t.Fatal(err)
			}
		}
		put(1)
		put(2)
		for range 3 {
			if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
				t.Fatal(err)
			}
		}
		named, objects := b.stored()
		if len(objects) != 3 {
			t.Errorf("of production are left: %v", objects)
		}
		if len(named) != 2 || !strings.HasPrefix(named[0].Folder, f.Names.Ledger+"-") || b.from.Checkpoint == 0 {
			t.Errorf("the ledger names %+v, and the last worker began at window %d", named, b.from.Checkpoint)
		}
		owned := b.Config(worker.Config{}).Checkpoints.Bases
		if lost := owned.Check(t.Context(), named); len(lost) > 0 {
			t.Errorf("bases are lost: %v", lost)
		}
		b.checkOnce()
	})
}

// TestCopiedLedgerReadsBases: a ledger that is a copy of another's begins from the bases that it names in that one's folder, and
// writes its own beside.
func TestCopiedLedgerReadsBases(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		named, objects := b.stored()
		if err := (base.Owner{Cluster: "other", Topic: "1"}).Own(t.Context(), b.store); err != nil {
			t.Fatal(err)
		}
		if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		now, left := b.stored()
		if b.from.Checkpoint != named[0].Name.Window || now[0].Folder == "" || len(left) != len(objects) {
			t.Errorf("the worker began at window %d and wrote %+v; of %v are left %v", b.from.Checkpoint, now[0], objects, left)
		}
		b.checkOnce()
	})
}

// TestLostBaseIsStoredAnew: while a graph is quiet, a base that is lost is stored anew without any event.
func TestLostBaseIsStoredAnew(t *testing.T) {
	workertest.OnFake(t, func(t *testing.T, f *workertest.Fixture) {
		b := newBased(f)
		b.purge = false
		if err := b.serve(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		before, objects := b.stored()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		cfg := b.Config(worker.Config{Events: replay.Join(
			replay.On(func(replay.TookOver) {
				for _, o := range objects {
					if strings.HasPrefix(o, "part-") {
						if err := b.store.Delete(t.Context(), o); err != nil {
							t.Error(err)
						}
					}
				}
			}),
			replay.On(func(c replay.Committed) {
				if now, _ := b.stored(); now[0].Name != before[0].Name {
					cancel()
				}
			}),
		)})
		cfg.Session, cfg.Checkpoints.Bases.Every = workertest.Session, time.Minute
		cfg.Checkpoints.Dir, cfg.Checkpoints.Restore = t.TempDir(), workertest.ReadTally
		if err := worker.Run(ctx, f.Client, &workertest.Tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		named, _ := b.stored()
		if lost := cfg.Checkpoints.Bases.Check(t.Context(), named); len(lost) > 0 || named[0].Name == before[0].Name {
			t.Errorf("the ledger names %+v, of which %v are lost", named, lost)
		}
	})
}
