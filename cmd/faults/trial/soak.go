package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/base"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// wear is the result of [Soak].
type wear struct {
	Minutes float64    `json:"minutes"`
	Nodes   int        `json:"nodes"`   // sent
	Keep    string     `json:"keep"`    // how long nodes and edges stay; labels come up to twice as late
	Kills   int        `json:"kills"`   // of workers
	Empty   int        `json:"empty"`   // starts on an empty folder
	Cuts    int        `json:"cuts"`    // times that inputs were deleted up to the oldest base
	Bases   int        `json:"bases"`   // the most that the store had, in a look each second
	HeapMB  [4]float64 `json:"heap_mb"` // median of the owner's live heap, in each quarter of the time
	Files   [4]float64 `json:"files"`   // and of its open files
	Threads [4]float64 `json:"goroutines"`
	verdict
}

// The bases of the trial.
const (
	keptBases  = 3
	heapSpread = 1.05                        // of the last three quarters, of runs that are long enough to tell
	longEnough = 5                           // minutes
	moreFiles  = 3                           // which still count as steady, as connections come and go
	moreOthers = 5                           // goroutines
	nextGC     = "go_memstats_next_gc_bytes" // what was live, and a share of it more:
	gcPercent  = "go_gc_gogc_percent"
)

// Err returns an error if the guarantee is broken, the heap grew, or there were too many bases.
func (r *wear) Err() error {
	switch last := r.HeapMB[1:]; {
	case r.verdict.Err() != nil:
		return errBroken
	case r.Minutes >= longEnough && slices.Max(last) > slices.Min(last)*heapSpread:
		return errors.New("the heap is not constant")
	case r.Minutes >= longEnough && r.Files[3] > r.Files[1]+moreFiles:
		return errors.New("the number of open files grows")
	case r.Minutes >= longEnough && r.Threads[3] > r.Threads[1]+moreOthers:
		return errors.New("the number of goroutines grows")
	case r.Bases > keptBases+1:
		return errors.New("the store has too many bases")
	}
	return nil
}

// Soak sends small nodes at a constant rate, with labels that come at random, up to two keeps late. Two workers let nodes and edges
// expire, write bases and purge the ledger, and inputs are deleted up to the oldest base. A worker is killed at random times, and every
// second start has an empty folder.
func Soak(ctx context.Context, s *Setup, rate int, long time.Duration) (found *wear, err error) {
	defer catch(&err)
	if s.Bases == "" {
		s.Bases = filepath.Join(s.Dir, "bases")
	}
	if strings.HasPrefix(s.Bases, "s3://") {
		defer disturbBucket(s.Seed)()
	}
	r := &soak{
		graph: s.newGraph(ctx, "soak"), rng: rand.New(rand.NewPCG(s.Seed, 4)), rate: rate,
		keep: (long / 20).Truncate(time.Second),
	}
	defer r.end()
	r.found = wear{Minutes: long.Minutes(), Keep: r.keep.String()}
	r.store = need(base.Open(s.Bases, r.names.Ledger))
	r.ledger = r.follow(ctx)
	for i := range r.workers {
		r.startWorker(i)
	}
	beside(func(stop <-chan struct{}) { r.send(ctx, stop) }, func() { r.disturb(ctx, long) })
	r.finish(ctx)
	return &r.found, nil
}

// soak is a run of [Soak].
type soak struct {
	*graph
	rng     *rand.Rand
	rate    int
	keep    time.Duration
	store   base.Store
	ledger  *progress
	workers [2]*process
	https   [2]string
	starts  int
	seen    [4][3][]float64 // by quarter: heaps, open files, goroutines
	found   wear
}

// startWorker starts worker i, on an empty folder at every second start.
func (r *soak) startWorker(i int) {
	name := string(rune('a' + i))
	if r.starts++; r.starts%2 == 0 {
		must(os.RemoveAll(filepath.Join(r.dir, name)))
		r.found.Empty++
	}
	r.https[i] = freeAddress()
	r.http = r.https[i]
	r.workers[i] = r.start(name, "", "--base", r.setup.Bases,
		"--base-every", fmt.Sprintf("%v,keep=%d", max(r.keep/3, 2*time.Second), keptBases), "--purge",
		"--keep", fmt.Sprintf("nodes=%ds,edges=%[1]ds", int(r.keep.Seconds())), "--pending", fmt.Sprintf("max=%d", 6*r.rate*int(r.keep.Seconds())),
		"--linger", "50ms", "--window", "10000", "--checkpoints", fmt.Sprintf("every=%v", r.keep/3))
}

// send sends nodes and the labels that are due, until stop is closed, and then the labels that are left.
func (r *soak) send(ctx context.Context, stop <-chan struct{}) {
	const bursts = 10 // a second
	rng := rand.New(rand.NewPCG(r.setup.Seed, 5))
	out := r.newSender(ctx)
	late := make([][]int, 2*int(r.keep.Seconds())*bursts) // nodes by the burst of their label, a ring
	label := func(list []int) {
		for _, i := range list {
			out.label(&event.Label{Node: event.ID{Num: int64(i)}, Class: r.setup.Items[i%len(r.setup.Items)].Class})
		}
	}
	burst := 0
	ticking(ctx, time.Second/bursts, func() bool {
		label(late[burst%len(late)])
		late[burst%len(late)] = nil
		for range r.rate / bursts {
			i := r.found.Nodes
			n := r.setup.Items[i%len(r.setup.Items)].Node
			n.ID, n.Time, n.Neighbours = event.ID{Num: int64(i)}, time.Now().UnixMilli(), nil
			for range min(2, i) {
				n.Neighbours = append(n.Neighbours, event.ID{Num: int64(i - 1 - rng.IntN(min(i, 1000)))})
			}
			out.node(&n)
			at := (burst + 1 + rng.IntN(len(late)-1)) % len(late)
			late[at] = append(late[at], i)
			r.found.Nodes++
		}
		last := closed(stop)
		if last {
			for _, list := range late {
				label(list)
			}
		}
		out.send(ctx)
		burst++
		return last
	})
}

// disturb kills workers and deletes inputs for so long, and looks at heaps and bases meanwhile.
func (r *soak) disturb(ctx context.Context, long time.Duration) {
	began, cutting := time.Now(), min(time.Minute, long/6)
	pause := func() time.Duration { return long/40 + time.Duration(r.rng.Int64N(int64(long/20))) }
	kill, cut := began.Add(pause()), began.Add(cutting)
	ticking(ctx, time.Second, func() bool {
		now := time.Now()
		if now.After(kill) {
			r.workers[r.rng.IntN(len(r.workers))].kill()
			r.found.Kills++
			kill = now.Add(pause())
		}
		r.restart()
		if now.After(cut) {
			r.deleteUnneeded(ctx)
			r.found.Cuts++
			cut = now.Add(cutting)
		}
		r.look(ctx, int(4*now.Sub(began)/long))
		return now.Sub(began) >= long
	})
}

// mostEnded is how many workers may end by themselves before there is no more to see.
const mostEnded = 20

// restart starts the workers that have ended.
func (r *soak) restart() {
	for i, p := range r.workers {
		if !closed(p.ended) {
			continue
		}
		if !p.killed() && !p.takenOver() && !p.logged("start it again, and it begins from base-") {
			r.found.ended(p)
			if n := len(r.found.Wrong); n > mostEnded {
				must(fmt.Errorf("%d workers have ended by themselves: %s", n, r.found.Wrong[0]))
			}
		}
		r.startWorker(i)
	}
}

// look notes the owner's heap, open files and goroutines in a quarter, and counts the bases.
func (r *soak) look(ctx context.Context, quarter int) {
	if quarter > 3 {
		return
	}
	for _, at := range r.https {
		var m map[string]float64
		up := func() float64 { return float64(time.Now().Unix()) - m["process_start_time_seconds"] }
		if caught(func() { m = scrape(ctx, at) }) != nil || m["gvbll_owner"] == 0 || up() < r.keep.Seconds()/3 {
			continue // it has started, or stands by
		}
		live := m[nextGC] / (1 + m[gcPercent]/100) / 1e6
		seen := &r.seen[quarter]
		for k, v := range []float64{live, m["process_open_fds"], m["go_goroutines"]} {
			seen[k] = append(seen[k], v)
			slices.Sort(seen[k])
			[]*[4]float64{&r.found.HeapMB, &r.found.Files, &r.found.Threads}[k][quarter] = seen[k][len(seen[k])/2]
		}
		r.setup.Report(fmt.Sprintf("live heap %.1f MB, %d kills", live, r.found.Kills))
	}
	names, err := r.store.List(ctx)
	if err != nil {
		return // the proxy
	}
	bases := 0
	for _, n := range names {
		if strings.HasPrefix(n, "base-") {
			bases++
		}
	}
	r.found.Bases = max(r.found.Bases, bases)
}

// deleteUnneeded deletes of the inputs what the oldest base does not need. The owner purges the ledger.
func (g *graph) deleteUnneeded(ctx context.Context) {
	at := g.names.LedgerAt()
	for _, n := range need(replay.Needs(ctx, g.setup.Client, at, need(ledger.Newest(ctx, g.setup.Client, at)))) {
		if n.Topic != g.names.Ledger {
			must(g.setup.Client.DeleteRecords(ctx, n.TopicPartition, n.Offset))
		}
	}
}

// finish waits until all is committed, ends the workers, and compares what they published with what was sent.
func (r *soak) finish(ctx context.Context) {
	ends := r.ends(ctx)
	await(ctx, drainTimeout, func() (missing string) {
		if r.restart(); r.ledger.covers(ends) {
			return ""
		}
		return "not all was committed, see " + r.dir
	})
	for _, p := range r.workers {
		must(p.stop())
	}
	must(r.ledger.close())
	predicted, dead := r.count(ctx)
	for _, id := range numbered(r.found.Nodes) {
		r.found.predicted(predicted[id])
	}
	for _, n := range dead {
		r.found.Unequal += n
	}
	r.audited(ctx, &r.found.verdict)
}

// scrape reads a worker's metrics: sums over the labels, by name.
func scrape(ctx context.Context, addr string) map[string]float64 {
	status, body := get(ctx, addr, "/metrics")
	if status != http.StatusOK {
		fail("/metrics answers with status %d", status)
	}
	sums := make(map[string]float64)
	for line := range strings.Lines(body) {
		if at := strings.LastIndexByte(line, ' '); line[0] != '#' {
			sums[line[:strings.IndexAny(line, "{ ")]] += need(strconv.ParseFloat(strings.TrimSpace(line[at:]), 64))
		}
	}
	return sums
}
