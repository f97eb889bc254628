package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// turmoil is the result of [Chaos].
type turmoil struct {
	Seed      uint64  `json:"seed"`
	Minutes   float64 `json:"minutes"`
	Faults    int     `json:"faults"`     // disturbances of the cluster
	Kills     int     `json:"kills"`      // of workers, by SIGKILL
	Ends      int     `json:"ends"`       // of workers, by SIGTERM
	Halts     int     `json:"halts"`      // of workers, by SIGSTOP, for 1 to 3 session timeouts
	TakenOver int     `json:"taken_over"` // workers that ended because another had taken over
	Nodes     int     `json:"nodes"`      // sent
	Poison    int     `json:"poison"`     // records sent that cannot be decoded
	Windows   int     `json:"windows"`    // committed
	LongestMS int64   `json:"longest_ms"` // between two windows
	verdict
}

// Chaos has three workers process a stream for the given time. In an order that the seed
// decides, workers are killed, ended, halted, and started again with other window
// settings; the cluster is disturbed; and records are sent that cannot be decoded. Then
// one undisturbed worker processes the rest of the stream. Every node must have been
// predicted once. The right predictions depend on where the windows were cut, so they
// are not known in advance: gvbll audit must get them by replaying the ledger.
func Chaos(ctx context.Context, s *Setup, long time.Duration) (found *turmoil, err error) {
	defer catch(&err)
	g := s.newGraph(ctx, fmt.Sprintf("chaos-%d", s.Seed))
	r := &chaos{
		graph: g, rng: rand.New(rand.NewPCG(s.Seed, 0)),
		workers: make(map[string]*process), halted: make(map[string]time.Time),
	}
	r.found.Seed, r.found.Minutes = s.Seed, long.Minutes()
	defer r.end()
	r.ledger = g.follow(ctx)
	r.sender = g.newSender(ctx)
	beside(func(stop <-chan struct{}) { r.send(ctx, rand.New(rand.NewPCG(s.Seed, 1)), stop) }, func() {
		must(errors.Join(caught(func() { r.disturb(ctx, long) }), caught(s.Cluster.calm)))
	})
	r.finish(ctx)
	return &r.found, nil
}

// chaos is a chaos run.
type chaos struct {
	*graph
	rng     *rand.Rand
	workers map[string]*process  // by name
	halted  map[string]time.Time // until when, by name
	ledger  *progress
	sender  *sender // used by send alone

	next   int // id of the next node to send
	poison int // records sent that cannot be decoded
	found  turmoil
}

// rate is the number of nodes to send a second.
const rate = 200

// send sends nodes with neighbours close to them in the stream, their labels 100 to 150
// nodes later, and records that cannot be decoded, until stop is closed. Then it sends
// the labels that are still missing.
func (r *chaos) send(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) {
	labelled := 0
	label := func() {
		item := &r.setup.Items[labelled%len(r.setup.Items)]
		r.sender.label(&event.Label{Node: event.ID{Num: int64(labelled)}, Class: item.Class, Time: time.Now().UnixMilli()})
		labelled++
	}
	ticking(ctx, time.Second/20, func() bool {
		for range rate / 20 {
			n := r.setup.Items[r.next%len(r.setup.Items)].Node
			n.ID, n.Time, n.Neighbours = event.ID{Num: int64(r.next)}, time.Now().UnixMilli(), nil
			for range rng.IntN(6) {
				n.Neighbours = append(n.Neighbours, event.ID{Num: int64(r.next + 3 - rng.IntN(200))})
			}
			r.sender.node(&n)
			r.next++
		}
		last := closed(stop)
		for late := 100 + rng.IntN(50); labelled < r.next-late || last && labelled < r.next; {
			label()
		}
		if rng.IntN(10) == 0 {
			r.sender.poison([]string{r.names.Nodes, r.names.Labels}[rng.IntN(2)], r.poison)
			r.poison++
		}
		r.sender.send(ctx)
		return last
	})
}

// startWorker starts a worker with random window settings.
func (r *chaos) startWorker(name string) {
	args := []string{
		"--commit-interval", fmt.Sprintf("%dms", r.rng.IntN(60)),
		"--checkpoints", fmt.Sprintf("every=%dms,keep=2", 200+r.rng.IntN(2000)),
	}
	switch r.rng.IntN(3) {
	case 0:
		args = append(args, "--window", fmt.Sprint(1+r.rng.IntN(60)), "--linger", fmt.Sprintf("%dms", r.rng.IntN(100)))
	case 1:
		args = append(args, "--event-time", fmt.Sprintf("%dms", 20+r.rng.IntN(200)),
			"--watermark", fmt.Sprintf("lateness=%dms,idle=300ms", r.rng.IntN(100)))
	default:
		args = append(args, "--linger", "20ms", "--workers", "2")
	}
	r.workers[name] = r.start(name, "", args...)
}

// disturb starts the workers, and disturbs them and the cluster for the given time.
func (r *chaos) disturb(ctx context.Context, long time.Duration) {
	names := []string{"a", "b", "c"}
	for _, name := range names {
		r.startWorker(name)
	}
	for end := time.Now().Add(long); time.Now().Before(end); {
		must(kafka.Sleep(ctx, time.Duration(200+r.rng.IntN(2300))*time.Millisecond))
		r.ledger.check()
		r.restart(names)
		name := names[r.rng.IntN(len(names))]
		p := r.workers[name]
		switch r.rng.IntN(8) {
		case 0, 1:
			p.signal(syscall.SIGKILL)
			r.found.Kills++
			r.setup.Report(name + " killed")
		case 2:
			p.signal(syscall.SIGTERM)
			r.found.Ends++
			r.setup.Report(name + " ended")
		case 3:
			if _, halted := r.halted[name]; !halted {
				p.signal(syscall.SIGSTOP)
				r.halted[name] = time.Now().Add(session * time.Duration(1+r.rng.IntN(3)))
				r.found.Halts++
				r.setup.Report(name + " halted")
			}
		default:
			r.setup.Report(r.setup.Cluster.disturb(r.rng))
			r.found.Faults++
		}
	}
}

// restart restarts workers that have ended, and continues halted workers whose time is
// over. It also updates the counts of windows and of the longest pause.
func (r *chaos) restart(names []string) {
	for _, name := range names {
		p := r.workers[name]
		if closed(p.ended) {
			delete(r.halted, name)
			r.note(p)
			r.startWorker(name)
		}
		if until, halted := r.halted[name]; halted && time.Now().After(until) {
			delete(r.halted, name)
			p.signal(syscall.SIGCONT)
		}
	}
	sum, last := r.ledger.now()
	r.found.Windows = max(r.found.Windows, sum.windows)
	if !last.IsZero() {
		r.found.LongestMS = max(r.found.LongestMS, time.Since(last).Milliseconds())
	}
}

// note counts a worker by how it ended.
func (r *chaos) note(p *process) {
	switch {
	case p.killed(), p.err == nil, p.interrupted():
	case p.logged("gvbll: no Kafka broker answers"): // at its start, where a supervisor would try again
	case p.takenOver():
		r.found.TakenOver++
	default:
		r.found.ended(p)
	}
}

// drainTimeout is the time in which an undisturbed worker must process the rest of the
// stream.
const drainTimeout = 2 * time.Minute

// finish runs a last worker over the rest of the stream, and reads the published records.
func (r *chaos) finish(ctx context.Context) {
	r.found.Nodes, r.found.Poison = r.next, r.poison
	for name, p := range r.workers {
		if err := p.stop(); err != nil {
			r.note(p)
		}
		delete(r.workers, name)
	}
	// The last worker cuts windows by count and linger: windows by event time would stay
	// open until later events come.
	last := r.start("last", "", "--linger", "20ms")
	r.drain(ctx, last)
	if err := last.stop(); err != nil && !last.interrupted() {
		fail("the last worker: %w", err)
	}
	must(r.ledger.close())
	got := r.judge(ctx, r.next, &r.found.verdict)
	r.found.Windows = len(got.windows)
	undecodable := 0
	for _, d := range got.dead {
		if strings.HasSuffix(d, " undecodable") {
			undecodable++
		}
	}
	if undecodable < r.poison { // there may be more, because some were sent twice
		r.found.Lost += r.poison - undecodable
		r.found.Wrong = append(r.found.Wrong, fmt.Sprintf("%d dead letters for %d poisoned records", undecodable, r.poison))
	}
}

// drain waits until every record that was sent is in a committed window. The ledger may
// count more, because a record that was sent twice may be in it twice.
func (r *chaos) drain(ctx context.Context, p *process) {
	ends := r.ends(ctx)
	what := fmt.Sprintf("window behind %d nodes and %d poisoned records", r.next, r.poison)
	r.ledger.await(ctx, p, what, drainTimeout, func(sum totals) bool {
		return sum.predictions >= r.next && sum.labels+sum.refused >= r.next+r.poison && r.ledger.covers(ends)
	})
}
