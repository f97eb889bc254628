package trial

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	BeginMS  int64 `json:"begin_ms"`         // until all cells had owners, and standbys that had caught up
	PeakMB   int   `json:"peak_rss_mb"`      // of a worker
	Files    int   `json:"files"`            // that a worker had open, connections included, at the end
	Rate     int   `json:"nodes_a_second"`   // sent
	Seconds  int   `json:"seconds"`          // of sending
	verdict        // of all cells
}

// manyCells is from how many cells on the workers have a session time-out that brokers allow by default: where two cores have
// brokers, workers and sender, a second passes without a heartbeat while a thousand cells begin.
const manyCells = 100

// workersOfCells is how many workers have the cells.
const workersOfCells = 3

// Cells runs three workers on a graph of several cells, to which nodes with their labels are sent in turn at a rate. Workers are
// killed at random times, and then restarted one after the other. Each node must be predicted once in its cell, and an
// audit agrees with all. Cells may have no standbys.
func Cells(ctx context.Context, s *Setup, cells, kills, rate int, noStandbys bool) (found *celled, err error) {
	defer catch(&err)
	g := s.divided(ctx, unique("cells"), topics.Layout{Cells: cells, Replication: -1})
	defer g.end()
	f := &fleet{graph: g, sent: make([]int, cells), noStandbys: noStandbys}
	f.found = celled{Cells: cells, Workers: workersOfCells, Kills: kills, Rate: rate}
	f.rng = rand.New(rand.NewPCG(s.Seed, 1))
	began := time.Now()
	for i := range workersOfCells {
		f.addrs = append(f.addrs, freeAddress())
		f.workers = append(f.workers, f.startWorker(i))
	}
	f.awaitReady(ctx)
	f.found.BeginMS = time.Since(began).Milliseconds()
	began = time.Now()
	beside(func(stop <-chan struct{}) { f.send(ctx, rate, stop) }, func() {
		f.pause(ctx, 2*time.Second)
		for i := range kills {
			f.awaitReady(ctx)
			f.kill(ctx, f.rng.IntN(workersOfCells))
			s.Report(fmt.Sprintf("%d of %d kills", i+1, kills))
		}
		f.awaitReady(ctx)
		f.between = time.Now()
		for i, w := range f.workers {
			f.found.ends(w)
			f.workers[i] = f.startWorker(i)
			f.awaitReady(ctx)
			s.Report(fmt.Sprintf("worker %d restarted", i+1))
		}
		f.pause(ctx, 2*time.Second)
	})
	f.found.Seconds = int(time.Since(began).Seconds())
	f.drain(ctx)
	for _, w := range f.workers {
		f.found.PeakMB = max(f.found.PeakMB, need(w.peakMB()))
		f.found.Files = max(f.found.Files, len(need(os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.cmd.Process.Pid)))))
		f.found.ends(w)
	}
	f.judge(ctx)
	return &f.found, nil
}

// fleet is a run of [Cells].
type fleet struct {
	*graph
	workers    []*process
	addrs      []string // of their pages
	rng        *rand.Rand
	between    time.Time // from when on workers are restarted
	sent       []int     // nodes, by cell
	noStandbys bool      // cells have no standbys
	found      celled
}

func (f *fleet) startWorker(i int) *process {
	f.http = f.addrs[i]
	args := []string{"--linger", "20ms", "--commit-interval", "20ms"}
	if f.names.Cells > manyCells {
		args = append(args, "--session-timeout", "6s")
	}
	if f.noStandbys {
		args = append(args, "--no-standbys")
	}
	return f.start(fmt.Sprintf("worker-%d", i+1), "", args...)
}

func (f *fleet) pause(ctx context.Context, d time.Duration) { must(kafka.Sleep(ctx, d)) }

// awaitReady waits until each cell has an owner that serves it, and a standby that has caught up, unless cells have none.
func (f *fleet) awaitReady(ctx context.Context) {
	await(ctx, 10*time.Minute, func() (missing string) {
		owned, followed := 0, 0
		for _, addr := range f.addrs {
			if status, body := get(ctx, addr, "/readyz"); status != http.StatusOK {
				return fmt.Sprintf("the worker at %s is not ready: %s", addr, body)
			}
			if _, metrics := get(ctx, addr, "/metrics"); cellsOf.MatchString(metrics) {
				m := cellsOf.FindStringSubmatch(metrics)
				owned, followed = owned+need(strconv.Atoi(m[1])), followed+need(strconv.Atoi(m[2]))
			}
		}
		if owned == f.names.Cells && (followed == f.names.Cells || f.noStandbys) {
			return ""
		}
		return fmt.Sprintf("%d of %d cells have owners, and %d standbys", owned, f.names.Cells, followed)
	})
}

// cellsOf finds the cells of a worker in its metrics.
var cellsOf = regexp.MustCompile(`(?m)^gvbll_cells\{role="owner"\} (\d+)\ngvbll_cells\{role="standby"\} (\d+)$`)

// kill kills a worker, and starts it again after a while.
func (f *fleet) kill(ctx context.Context, i int) {
	w := f.workers[i]
	if closed(w.ended) {
		f.found.ended(w)
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
	ends := f.ends(ctx)
	await(ctx, drainTimeout+time.Duration(f.names.Cells)*time.Second/2, func() (missing string) {
		taken := need(f.setup.Client.Committed(ctx, f.names.Ledger, f.names.Nodes, f.names.Labels))
		left := int64(0)
		for at, end := range ends {
			left += end - taken[at]
		}
		if left == 0 {
			return ""
		}
		return fmt.Sprintf("%d records are in no window", left)
	})
}

// judge reads what was published, and audits it.
func (f *fleet) judge(ctx context.Context) {
	v := &f.found.verdict
	predicted := make(map[int32]map[event.ID]int) // by cell
	f.eachPrediction(ctx, func(r *kgo.Record, p *event.Prediction) {
		if predicted[r.Partition] == nil {
			predicted[r.Partition] = make(map[event.ID]int)
		}
		predicted[r.Partition][p.Node]++
	})
	f.eachWait(ctx, func(_ event.ID, sent time.Time, waited time.Duration) {
		slowest := &f.found.KilledMS
		if !f.between.IsZero() && !sent.Before(f.between) {
			slowest = &f.found.MovedMS
		}
		*slowest = max(*slowest, waited.Milliseconds())
	})
	for cell, n := range f.sent {
		f.found.Nodes += n
		for _, x := range f.setup.Items[:n] {
			v.predicted(predicted[int32(cell)][x.Node.ID])
		}
		at := f.names.Of(int32(cell)).LedgerAt()
		if last := need(ledger.Newest(ctx, f.setup.Client.Cell(int32(cell)), at)); last != nil {
			f.found.Windows += int(last.Window) + 1
		}
	}
	f.audited(ctx, v)
}
