package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// Turmoil is the outcome of a chaos run.
type Turmoil struct {
	Seed       uint64   `json:"seed"`
	Minutes    float64  `json:"minutes"`
	Faults     int      `json:"faults"`      // of the cluster
	Kills      int      `json:"kills"`       // of workers, by SIGKILL
	Ends       int      `json:"ends"`        // of workers, by SIGTERM
	Halts      int      `json:"halts"`       // of workers, by SIGSTOP for longer than their session
	TakenOver  int      `json:"taken_over"`  // workers that ended because another had taken over
	Nodes      int      `json:"nodes"`       // sent
	Poison     int      `json:"poison"`      // hostile inputs sent
	Windows    int      `json:"windows"`     // committed
	LongestMS  int64    `json:"longest_ms"`  // between two windows
	Lost       int      `json:"lost"`        //
	Duplicated int      `json:"duplicated"`  //
	Unequal    int      `json:"unequal"`     // the audit's replay differs
	Unasked    int      `json:"unexplained"` // workers that ended otherwise
	Wrong      []string `json:"wrong,omitempty"`
}

// Err is an error when anything was lost, doubled, unequal or unexplained.
func (t *Turmoil) Err() error {
	if t.Lost+t.Duplicated+t.Unequal+t.Unasked > 0 {
		return errors.New("the promise does not hold")
	}
	return nil
}

// String is one line of counts.
func (t *Turmoil) String() string {
	return fmt.Sprintf("chaos, seed %d, %.1f min: %d nodes and %d poisoned records sent; %d faults of the cluster, %d workers killed, %d ended, %d halted, %d taken over; %d windows, longest pause %.1f s: lost %d, duplicated %d, unequal %d, unexplained %d",
		t.Seed, t.Minutes, t.Nodes, t.Poison, t.Faults, t.Kills, t.Ends, t.Halts, t.TakenOver, t.Windows, float64(t.LongestMS)/1000, t.Lost, t.Duplicated, t.Unequal, t.Unasked)
}

// Chaos has three workers work on a stream for a while, as the seed will have it:
// they are killed, ended, halted and started again with other windows; the
// cluster is disturbed; what they read has poison in it. Then everything is let
// come to its end, and must be as promised: metamorphic, since the ledger's
// replay (gvbll audit) must give the same however it was cut.
func Chaos(ctx context.Context, s *Setup, c Cluster, seed uint64, long time.Duration, progress func(string)) (*Turmoil, error) {
	s.Brokers = c.Addresses()
	client, err := kafka.Dial(ctx, kafka.Config{Brokers: s.Brokers})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	g, err := s.graph(ctx, client, fmt.Sprintf("chaos-%d-%d", seed, time.Now().UnixNano()%1e9))
	if err != nil {
		return nil, err
	}
	r := &riot{graph: g, cluster: c, rng: rand.New(rand.NewPCG(seed, 0)), workers: make(map[string]*process), progress: progress}
	r.found.Seed, r.found.Minutes = seed, long.Minutes()
	defer r.silence()
	if r.watch, err = g.watch(ctx); err != nil {
		return nil, err
	}
	if r.sender, err = g.sender(ctx); err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	stop := make(chan struct{})
	go func() { sent <- r.send(ctx, rand.New(rand.NewPCG(seed, 1)), stop) }()
	err = r.riot(ctx, long)
	close(stop)
	if err = errors.Join(err, c.Calm(), <-sent); err != nil {
		return nil, err
	}
	if err := r.finish(ctx); err != nil {
		return nil, err
	}
	return &r.found, nil
}

// riot is a chaos run.
type riot struct {
	*graph
	cluster  Cluster
	rng      *rand.Rand
	workers  map[string]*process
	halted   map[string]time.Time
	watch    *watch
	sender   *sender
	progress func(string)

	next   int // id of the next node sent
	poison int
	found  Turmoil
}

// rate is how many nodes a second are sent.
const rate = 200

// send sends nodes with their neighbours among the last ones, labels later, and
// poison, until told to stop.
func (r *riot) send(ctx context.Context, rng *rand.Rand, stop <-chan struct{}) error {
	const burst = rate / 20
	tick := time.NewTicker(time.Second / 20)
	defer tick.Stop()
	labelled := 0
	label := func() {
		item := &r.Items[labelled%len(r.Items)]
		r.sender.label(&event.Label{Node: event.ID{Num: int64(labelled)}, Class: item.Class, Time: time.Now().UnixMilli()})
		labelled++
	}
	for {
		for range burst {
			n := r.Items[r.next%len(r.Items)].Node
			n.ID, n.Time, n.Neighbours = event.ID{Num: int64(r.next)}, time.Now().UnixMilli(), nil
			for range rng.IntN(6) {
				n.Neighbours = append(n.Neighbours, event.ID{Num: int64(r.next + 3 - rng.IntN(200))})
			}
			r.sender.node(&n)
			r.next++
		}
		for labelled < r.next-100-rng.IntN(50) {
			label()
		}
		if rng.IntN(10) == 0 {
			r.sender.poison([]string{r.names.Nodes, r.names.Labels}[rng.IntN(2)], r.poison)
			r.poison++
		}
		if err := r.sender.send(ctx); err != nil {
			return err
		}
		select {
		case <-stop:
			for labelled < r.next {
				label()
			}
			return r.sender.send(ctx)
		case <-tick.C:
		}
	}
}

// hire starts a worker with windows of its own.
func (r *riot) hire(name string) error {
	args := []string{"--commit-interval", fmt.Sprintf("%dms", r.rng.IntN(60)), "--checkpoint-every", fmt.Sprintf("%dms", 200+r.rng.IntN(2000)), "--checkpoint-keep", "2"}
	switch r.rng.IntN(3) {
	case 0:
		args = append(args, "--window", fmt.Sprint(1+r.rng.IntN(60)), "--linger", fmt.Sprintf("%dms", r.rng.IntN(100)))
	case 1:
		args = append(args, "--event-time", fmt.Sprintf("%dms", 20+r.rng.IntN(200)), "--lateness", fmt.Sprintf("%dms", r.rng.IntN(100)), "--idle-timeout", "300ms")
	default:
		args = append(args, "--linger", "20ms", "--workers", "2")
	}
	p, err := r.start(name, "", args...)
	r.workers[name] = p
	return err
}

// riot disturbs until the time is up.
func (r *riot) riot(ctx context.Context, long time.Duration) error {
	names := []string{"a", "b", "c"}
	for _, name := range names {
		if err := r.hire(name); err != nil {
			return err
		}
	}
	r.halted = make(map[string]time.Time)
	end := time.Now().Add(long)
	for time.Now().Before(end) {
		pause := time.NewTimer(time.Duration(200+r.rng.IntN(2300)) * time.Millisecond)
		select {
		case <-pause.C:
		case err := <-r.watch.done:
			return fmt.Errorf("the ledger: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := r.tend(names); err != nil {
			return err
		}
		name := names[r.rng.IntN(len(names))]
		p := r.workers[name]
		switch r.rng.IntN(8) {
		case 0, 1:
			p.signal(syscall.SIGKILL)
			r.found.Kills++
			r.progress(name + " killed")
		case 2:
			p.signal(syscall.SIGTERM)
			r.found.Ends++
			r.progress(name + " ended")
		case 3:
			if _, is := r.halted[name]; !is {
				p.signal(syscall.SIGSTOP)
				r.halted[name] = time.Now().Add(session * time.Duration(1+r.rng.IntN(3)))
				r.found.Halts++
				r.progress(name + " halted")
			}
		default:
			what, err := r.cluster.Disturb(r.rng)
			if err != nil {
				return fmt.Errorf("disturbing the cluster: %w", err)
			}
			r.found.Faults++
			r.progress(what)
		}
	}
	return nil
}

// tend starts again who ended, and lets go on who was halted for long enough.
func (r *riot) tend(names []string) error {
	for _, name := range names {
		p := r.workers[name]
		select {
		case <-p.ended:
			delete(r.halted, name)
			r.note(name, p)
			if err := r.hire(name); err != nil {
				return err
			}
		default:
		}
		if until, is := r.halted[name]; is && time.Now().After(until) {
			delete(r.halted, name)
			p.signal(syscall.SIGCONT)
		}
	}
	sum, last := r.watch.now()
	if sum.windows > r.found.Windows {
		r.found.Windows = sum.windows
	}
	if !last.IsZero() {
		r.found.LongestMS = max(r.found.LongestMS, time.Since(last).Milliseconds())
	}
	return nil
}

func (r *riot) note(name string, p *process) {
	switch {
	case p.killed(), p.err == nil, p.interrupted():
	case endsWith(p.log.Name(), "gvbll: no Kafka broker answers"): // when it started; its supervisor tries again
	case p.takenOver():
		r.found.TakenOver++
	default:
		r.found.Unasked++
		r.found.Wrong = append(r.found.Wrong, fmt.Sprintf("worker %s ended with %v, see %s", name, p.err, p.log.Name()))
	}
}

// silence ends what runs.
func (r *riot) silence() {
	for _, p := range r.workers {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

// calm is how long the workers may take to come to the end once nothing disturbs
// them.
const calm = 2 * time.Minute

// finish lets the workers come to the end of the stream, and reads what came of
// it all.
func (r *riot) finish(ctx context.Context) error {
	r.found.Nodes, r.found.Poison = r.next, r.poison
	for name, p := range r.workers {
		if err := p.stop(); err != nil {
			r.note(name, p)
		}
		delete(r.workers, name)
	}
	// One more, whose windows wait for nothing.
	last, err := r.start("last", "", "--linger", "20ms")
	if err != nil {
		return err
	}
	defer func() {
		last.signal(syscall.SIGKILL)
		<-last.ended
	}()
	if err := r.drained(ctx, last); err != nil {
		return err
	}
	if err := last.stop(); err != nil && !last.interrupted() {
		return fmt.Errorf("the last worker: %w", err)
	}
	if err := r.watch.close(); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	var ids []event.ID
	for i := range r.next {
		ids = append(ids, event.ID{Num: int64(i)})
	}
	got, err := r.read(ctx, ids)
	if err != nil {
		return err
	}
	r.found.Windows = len(got.windows)
	r.found.Lost, r.found.Duplicated = got.lost, got.twice
	r.found.Wrong = append(r.found.Wrong, got.faults...)
	undecodable := 0
	for _, d := range got.dead {
		if strings.HasSuffix(d, " undecodable") {
			undecodable++
		}
	}
	if undecodable < r.poison { // more if some was sent twice
		r.found.Lost += r.poison - undecodable
		r.found.Wrong = append(r.found.Wrong, fmt.Sprintf("%d dead letters of %d poisoned records", undecodable, r.poison))
	}
	out, err := exec.CommandContext(ctx, r.Program, "audit", "--brokers", strings.Join(r.Brokers, ","), "--prefix", r.prefix, "--model", r.Model, "--json").CombinedOutput()
	if err != nil {
		r.found.Unequal++
		r.found.Wrong = append(r.found.Wrong, "audit: "+strings.TrimSpace(string(out)))
	}
	return nil
}

// drained waits until all that was sent is in committed windows: every node and
// label is in the ledger's counts, or was sent twice.
func (r *riot) drained(ctx context.Context, p *process) error {
	deadline := time.After(calm)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		sum, _ := r.watch.now()
		if sum.predictions >= r.next && sum.labels+sum.refused >= r.next+r.poison {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("the last worker ended with %w, see %s", p.err, r.dir)
		case err := <-r.watch.done:
			return fmt.Errorf("the ledger: %w", err)
		case <-deadline:
			return fmt.Errorf("%v after the end %+v of %d nodes and %d poisoned records are there, see %s", calm, sum, r.next, r.poison, r.dir)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
