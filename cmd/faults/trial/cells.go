package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// celled is the result of [Cells].
type celled struct {
	Cells    int   `json:"cells"`
	Workers  int   `json:"workers"`
	Kills    int   `json:"kills"`
	Nodes    int   `json:"nodes"`            // sent, to all cells
	Windows  int   `json:"windows"`          // committed, of all cells
	KilledMS int64 `json:"slowest_kill_ms"`  // from the sending of a node to the commit of its prediction, while workers were killed
	MovedMS  int64 `json:"slowest_moved_ms"` // likewise, while they were restarted one after the other
	BeginMS  int64 `json:"begin_ms"`         // until all cells had owners and standbys
	PeakMB   int   `json:"peak_rss_mb"`      // of a worker
	Files    int   `json:"files"`            // that a worker had open, connections included, at the end
	Rate     int   `json:"nodes_a_second"`   // sent
	Seconds  int   `json:"seconds"`          // of sending
	verdict        // of all cells
}

// workersOfCells is how many workers have the cells.
const workersOfCells = 3

// Cells runs three workers on a graph of several cells, to which nodes with their labels are sent in turn at a rate. Workers are
// killed at random times, and then restarted one after the other. Each node must be predicted once in its cell, and an
// audit agrees with all.
func Cells(ctx context.Context, s *Setup, cells, kills, rate int) (found *celled, err error) {
	defer catch(&err)
	prefix := fmt.Sprintf("cells-%d", time.Now().UnixNano()%1e9)
	names := need(topics.Under(prefix))
	need(topics.Create(ctx, s.Client, names, topics.Layout{Cells: cells, Replication: -1}))
	names = need(topics.Divided(ctx, s.Client, names))
	g := &graph{setup: s, names: names, prefix: prefix, dir: filepath.Join(s.Dir, prefix), http: "127.0.0.1:0"}
	must(os.MkdirAll(g.dir, 0o755))
	defer g.end()
	f := &fleet{graph: g, sent: make([]int, cells), found: celled{Cells: cells, Workers: workersOfCells, Kills: kills, Rate: rate}}
	f.rng = rand.New(rand.NewPCG(s.Seed, 1))
	began := time.Now()
	for i := range workersOfCells {
		f.workers = append(f.workers, f.startWorker(i))
	}
	f.awaitShared(ctx, 10*time.Minute)
	f.found.BeginMS = time.Since(began).Milliseconds()
	began = time.Now()
	beside(func(stop <-chan struct{}) { f.send(ctx, rate, stop) }, func() {
		f.pause(ctx, 2*time.Second)
		for i := range kills {
			f.kill(ctx, f.rng.IntN(workersOfCells))
			s.Report(fmt.Sprintf("%d of %d kills", i+1, kills))
		}
		f.awaitShared(ctx, 10*time.Minute)
		f.between = time.Now()
		for i, w := range f.workers {
			if err := w.stop(); err != nil {
				f.found.unexplained("a worker that was told to end: %v, see %s", err, w.log.Name())
			}
			f.workers[i] = f.startWorker(i)
			f.awaitShared(ctx, 10*time.Minute)
			s.Report(fmt.Sprintf("worker %d restarted", i+1))
		}
		f.pause(ctx, 2*time.Second)
	})
	f.found.Seconds = int(time.Since(began).Seconds())
	f.drain(ctx)
	for _, w := range f.workers {
		f.found.PeakMB = max(f.found.PeakMB, need(w.peakMB()))
		f.found.Files = max(f.found.Files, len(need(os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.cmd.Process.Pid)))))
		if err := w.stop(); err != nil {
			f.found.unexplained("a worker that was told to end: %v, see %s", err, w.log.Name())
		}
	}
	f.judge(ctx)
	return &f.found, nil
}

// fleet is a run of [Cells].
type fleet struct {
	*graph
	workers []*process
	rng     *rand.Rand
	between time.Time // from when on workers are restarted
	sent    []int     // nodes, by cell
	found   celled
}

func (f *fleet) startWorker(i int) *process {
	return f.start(fmt.Sprintf("worker-%d", i+1), "", "--linger", "20ms", "--commit-interval", "20ms")
}

func (f *fleet) pause(ctx context.Context, d time.Duration) { must(kafka.Sleep(ctx, d)) }

// awaitShared waits until each cell has an owner and a standby.
func (f *fleet) awaitShared(ctx context.Context, within time.Duration) {
	deadline := time.Now().Add(within)
	ticking(ctx, 200*time.Millisecond, func() bool {
		owned, followed := 0, 0
		members, err := f.setup.Client.Members(ctx, f.names.Ledger, f.names.Ledger)
		for _, m := range members {
			owned, followed = owned+len(m.Owns), followed+len(m.Follows)
		}
		if time.Now().After(deadline) {
			fail("after %v %d of %d cells have owners, and %d standbys, %v", within, owned, f.names.Cells, followed, err)
		}
		return owned == f.names.Cells && followed == f.names.Cells
	})
}

// kill kills a worker, and starts it again after a while.
func (f *fleet) kill(ctx context.Context, i int) {
	w := f.workers[i]
	if closed(w.ended) {
		f.found.unexplained("a worker has ended: %s, see %s", w.lastLine(), w.log.Name())
	}
	w.kill()
	f.pause(ctx, time.Duration(f.rng.IntN(2000))*time.Millisecond)
	f.workers[i] = f.startWorker(i)
	f.pause(ctx, time.Duration(1000+f.rng.IntN(3000))*time.Millisecond)
}

// send sends nodes and their labels to the cells in turn, until stop is closed or all are sent.
func (f *fleet) send(ctx context.Context, rate int, stop <-chan struct{}) {
	const bursts = 20 // a second
	s, cell := f.newSender(ctx), 0
	ticking(ctx, time.Second/bursts, func() bool {
		for range max(rate/bursts, 1) {
			if n := f.sent[cell]; n < len(f.setup.Items) {
				x := &f.setup.Items[n]
				key := wire.AppendKey(nil, x.Node.ID)
				s.put(f.names.Nodes, key, wire.AppendNode(nil, &x.Node), cell)
				s.put(f.names.Labels, key, wire.AppendLabel(nil, &event.Label{Node: x.Node.ID, Class: x.Class}), cell)
				f.sent[cell]++
			}
			cell = (cell + 1) % f.names.Cells
		}
		s.send(ctx)
		return closed(stop)
	})
}

// drain waits until all that was sent is in windows.
func (f *fleet) drain(ctx context.Context) {
	within := drainTimeout + time.Duration(f.names.Cells)*time.Second/2
	deadline := time.Now().Add(within)
	ticking(ctx, 200*time.Millisecond, func() bool {
		ends := f.ends(ctx)
		taken := need(f.setup.Client.Committed(ctx, f.names.Ledger, f.names.Nodes, f.names.Labels))
		left := int64(0)
		for at, end := range ends {
			left += end - taken[at]
		}
		if time.Now().After(deadline) {
			fail("after %v %d records are in no window", within, left)
		}
		return left == 0
	})
}

// judge reads what was published, and audits it.
func (f *fleet) judge(ctx context.Context) {
	v := &f.found.verdict
	predicted := make([]map[event.ID]bool, f.names.Cells)
	for cell := range predicted {
		predicted[cell] = make(map[event.ID]bool)
	}
	sentAt := make(map[kafka.TopicPartition]map[string]time.Time)
	must(f.setup.Client.ReadAll(ctx, f.names.Nodes, func(r *kafka.Record) {
		at := kafka.TopicPartition{Partition: r.Partition}
		if sentAt[at] == nil {
			sentAt[at] = make(map[string]time.Time)
		}
		if _, again := sentAt[at][string(r.Key)]; !again {
			sentAt[at][string(r.Key)] = r.Time
		}
	}))
	must(f.setup.Client.ReadAll(ctx, f.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(wire.DecodePrediction(r.Value, &p))
		id := p.Node.Clone()
		if predicted[r.Partition][id] {
			v.Duplicated++
		}
		predicted[r.Partition][id] = true
		sent := sentAt[kafka.TopicPartition{Partition: r.Partition}][string(r.Key)]
		waited := r.Time.Sub(sent).Milliseconds()
		if f.between.IsZero() || sent.Before(f.between) {
			f.found.KilledMS = max(f.found.KilledMS, waited)
		} else {
			f.found.MovedMS = max(f.found.MovedMS, waited)
		}
	}))
	for cell, n := range f.sent {
		f.found.Nodes += n
		v.Lost += n - len(predicted[cell])
		at := f.names.Of(int32(cell)).LedgerAt()
		if last := need(ledger.Newest(ctx, f.setup.Client.Cell(int32(cell)), at)); last != nil {
			f.found.Windows += int(last.Window) + 1
		}
	}
	if err := f.audit(ctx); err != nil {
		v.Unequal++
		v.Wrong = append(v.Wrong, err.Error())
	}
}
