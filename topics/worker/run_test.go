package worker_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	sharding "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/worker"
)

// patient is a session that lasts longer than a machine with much to do lets a worker wait.
const patient = 5 * time.Second

// tens cuts windows of 10 nodes and 7 labels, whatever their numbers.
type tens struct{}

func (tens) Cut(b intake.Buffered) intake.Cut {
	if b.Nodes < 10 || b.Labels < 7 {
		return intake.Cut{}
	}
	return intake.Cut{Nodes: 10, Labels: 7, Cause: "tens"}
}

// serve adds windows of ten nodes up to a node to the plan, sends what is in them, and awaits it.
func (g *sharded) serve(windows []planned, first, last int, workers ...*shardedWorker) []planned {
	g.t.Helper()
	g.sendOrdered(first, last)
	windows = append(windows, plan(last-first)...)
	g.await(int64(len(windows)), workers...)
	return windows
}

// forgets adds to the plan what a command to forget nodes gives: its window, and one that begins an
// epoch.
func (g *sharded) forgets(windows []planned, ids ...int64) []planned {
	g.t.Helper()
	nodes := g.forget(ids...)
	return append(windows, planned{forgets: nodes}, planned{begins: true})
}

// epochs returns the records of shards that begin epochs, behind the first.
func (g *sharded) epochs() (found [][]*ledger.Record) {
	g.t.Helper()
	for task := 1; task <= g.shards; task++ {
		var list []*ledger.Record
		if err := ledger.Scan(g.t.Context(), g.client, g.names.LedgerAt(task), func(r *ledger.Record) bool {
			if r.Begins != nil && r.Window > 0 {
				list = append(list, r)
			}
			return true
		}); err != nil {
			g.t.Fatal(err)
		}
		found = append(found, list)
	}
	return found
}

// TestShardedForget: all shards and the lead replay together without the nodes that were forgotten,
// and go on as those that never saw them. Nothing is published again. A worker that starts
// later, from its checkpoint or from the beginning, goes on from there, and another forgetting
// follows the first.
func TestShardedForget(t *testing.T) {
	for _, c := range []struct {
		shards, workers int
		lag             int64
		kept            bool
	}{{2, 1, 0, true}, {2, 2, 0, false}, {3, 1, 2, false}, {3, 2, 2, true}} {
		t.Run(fmt.Sprintf("%d shards, %d workers, lag %d, checkpoints %v", c.shards, c.workers, c.lag, c.kept), func(t *testing.T) {
			testForget(t, c.shards, c.workers, c.lag, c.kept)
		})
	}
}

func testForget(t *testing.T, shards, n int, lag int64, kept bool) {
	onShards(t, shards, func(t *testing.T, g *sharded) {
		var from sync.Map // by task, the windows that came from a checkpoint
		dirs := []string{t.TempDir(), t.TempDir()}
		start := func() (workers []*shardedWorker) {
			for i := range n {
				cfg := sharding.Config{Lag: lag, Config: worker.Config{Policy: tens{}, Session: patient}, TaskEvents: func(task int) func(replay.Event) {
					return replay.On(func(r replay.Recovered) { from.Store(task, r.Checkpoint) })
				}}
				if kept {
					cfg.Checkpoints.Dir = dirs[i]
				}
				workers = append(workers, g.start(cfg))
			}
			return workers
		}
		workers := start()
		windows := g.serve(nil, 0, 200, workers...)
		if kept { // there are checkpoints of the first epoch
			stopAll(t, workers...)
			workers = start()
		}
		windows = g.forgets(windows, 3, 40, 41, 199, 1000)
		g.await(int64(len(windows)), workers...)
		for p, list := range g.epochs() {
			if len(list) != 1 || list[0].Epoch != 1 || list[0].Window != 21 || list[0].Forgot == nil || list[0].Forgot.Nodes != 5 || !slices.Equal(list[0].Forgot.Unknown, []string{"1000"}) {
				t.Errorf("shard %d has the epochs %+v", p+1, list)
			}
		}
		windows = g.serve(windows, 200, 250, workers...)
		stopAll(t, workers...)
		workers = start()
		windows = g.serve(windows, 250, 300, workers...)
		for task := range shards + 1 {
			if w, _ := from.Load(task); n == 1 && (w != int64(0)) != kept {
				t.Errorf("task %d goes on from a checkpoint of %v windows", task, w)
			}
		}
		windows = g.forgets(windows, 220, 5)
		g.await(int64(len(windows)), workers...)
		windows = g.serve(windows, 300, 350, workers...)
		stopAll(t, workers...)
		g.published().check(t, g.expects(windows, lag))
	})
}

// TestShardedForgetTakeOver: in the middle of the replay without the nodes, workers that own tasks
// are killed, or halted until others have taken their tasks over, and then woken. Others, which
// stood by or start now, begin the replay of these tasks again, and the graph goes on as if
// nothing had happened.
func TestShardedForgetTakeOver(t *testing.T) {
	for _, c := range []struct {
		victim   string
		wakes    bool
		standbys int
	}{
		{"of the lead", true, 0},
		{"of a shard", false, 3},
		{"of all", false, 0},
		{"of all", true, 3},
	} {
		t.Run(fmt.Sprintf("owner %s, wakes %v, %d standbys", c.victim, c.wakes, c.standbys), func(t *testing.T) {
			onGates(t, 3, func(t *testing.T, g *sharded, gates *gates) {
				testForgetTakeOver(t, g, gates, c.victim, c.wakes, c.standbys)
			})
		})
	}
}

func testForgetTakeOver(t *testing.T, g *sharded, gates *gates, victim string, wakes bool, standbys int) {
	const lag = 1
	var workers []*shardedWorker
	var armed atomic.Bool
	lost := make(chan []int, 1) // those that are lost in the middle of the replay
	name := func(i int) string { return fmt.Sprint("worker ", i) }
	start := func(i int) {
		var self atomic.Pointer[shardedWorker]
		w := g.startOn(dial(t, g.on, kafka.Config{ClientID: name(i)}), sharding.Config{
			Lag: lag, Config: worker.Config{Policy: tens{}, Session: patient},
			TaskEvents: func(int) func(replay.Event) {
				return replay.On(func(s replay.Stepped) {
					if s.Outcome.Window != 7 || !s.Replayed || !armed.Load() {
						return
					}
					owns := self.Load().owns()
					if len(owns) == 0 || victim != "of all" && slices.Contains(owns, 0) != (victim == "of the lead") || !armed.CompareAndSwap(true, false) {
						return
					}
					gone := []int{i}
					if victim == "of all" {
						gone = []int{0, 1}
					}
					for _, i := range gone {
						if wakes {
							gates.halt(name(i))
						} else {
							gates.kill(name(i))
						}
					}
					lost <- gone
				})
			},
		})
		self.Store(w)
		workers = append(workers, w)
	}
	start(0)
	start(1)
	g.awaitOwners(workers...)
	for i := range standbys {
		start(2 + i)
	}
	windows := g.serve(nil, 0, 200, workers...)
	armed.Store(true)
	windows = g.forgets(windows, 3, 40, 41, 199)
	gone := <-lost
	if standbys == 0 {
		start(2)
		start(3)
	}
	g.await(int64(len(windows)))
	if wakes {
		for _, i := range gone {
			gates.wake(name(i))
		}
	}
	windows = g.serve(windows, 200, 300)
	var left []*shardedWorker
	for i, w := range workers {
		if wakes || !slices.Contains(gone, i) {
			left = append(left, w)
		} else {
			w.cancel() // there is no way back for it
		}
	}
	stopAll(t, left...)
	g.published().check(t, g.expects(windows, lag))
}
