package exchange

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
)

// Position is where a receiver reads: offsets in the partition of its task, and in the one
// that all shards read.
type Position struct {
	Own int64 `json:"own"`
	All int64 `json:"all"`
}

// Receiver reads the messages for one task. One goroutine uses it; Missing may be called from
// others.
type Receiver struct {
	cfg      Config
	own, all *lane // all is nil for the trainer, which reads nothing there

	mu      sync.Mutex
	missing *Missing
}

// Missing says which messages are waited for.
type Missing struct {
	Window int64
	Kind   Kind
	From   []int // tasks, ascending
	Since  time.Time
}

// String is one line, without the time.
func (m *Missing) String() string {
	var from []string
	for _, task := range m.From {
		if task == 0 {
			from = append(from, "the lead")
		} else {
			from = append(from, fmt.Sprintf("shard %d", task))
		}
	}
	return fmt.Sprintf("the %v of window %d from %s", m.Kind, m.Window, strings.Join(from, ", "))
}

// NewReceiver returns a receiver of the messages for cfg.Task, at a position that another one
// had, or at the zero position.
func NewReceiver(c *kafka.Client, cfg Config, at Position) *Receiver {
	cfg.setDefaults()
	r := &Receiver{cfg: cfg}
	r.own = newLane(c, &r.cfg, int32(cfg.Task), at.Own)
	if cfg.Task > 0 {
		r.all = newLane(c, &r.cfg, int32(1+cfg.Shards), at.All)
	}
	return r
}

func (r *Receiver) lane(k Kind) *lane {
	if k == Heads || k == Served {
		return r.all
	}
	return r.own
}

// Wait returns the payloads of the kind for a window, in order of their senders: of parts, rows
// and served bytes one for each shard, of heads one alone. A receiver's own is nil. It waits
// for what is missing until the context ends. The windows of a kind must ascend, and none can
// be waited for twice.
func (r *Receiver) Wait(ctx context.Context, window int64, k Kind) ([][]byte, error) {
	return r.wait(ctx, window, k, func() error { return nil })
}

// WaitForParts is Wait for parts. It calls meanwhile again and again, whose error ends it, and
// which may call Wait.
func (r *Receiver) WaitForParts(ctx context.Context, window int64, meanwhile func() error) ([][]byte, error) {
	return r.wait(ctx, window, Part, meanwhile)
}

func (r *Receiver) wait(ctx context.Context, window int64, k Kind, meanwhile func() error) ([][]byte, error) {
	lane := r.lane(k)
	if lane == nil || k == Part && r.cfg.Task == 0 || k == Rows && r.cfg.Task > 0 {
		panic(fmt.Sprintf("exchange: task %d waits for %v", r.cfg.Task, k))
	}
	lane.await(k, window)
	m := &Missing{Window: window, Kind: k, From: r.lacking(lane, window, k), Since: time.Now()}
	if len(m.From) > 0 {
		lane.again()
	}
	defer r.report(nil)
	for warn, look := m.Since.Add(warnEvery), m.Since.Add(lane.client.Patience()); len(m.From) > 0; {
		r.report(m)
		if err := lane.poll(ctx, k, window); err != nil {
			return nil, err
		}
		if err := meanwhile(); err != nil {
			return nil, err
		}
		now := time.Now()
		left := &Missing{Window: window, Kind: k, From: r.lacking(lane, window, k), Since: m.Since}
		for _, task := range m.From {
			if !slices.Contains(left.From, task) {
				r.cfg.Waited(task, now.Sub(m.Since))
			}
		}
		if m = left; len(m.From) > 0 && now.After(warn) {
			warn = now.Add(warnEvery)
			r.warn(m, lane, now)
		}
		if len(m.From) > 0 && now.After(look) {
			look = now.Add(lane.client.Patience())
			if err := r.checkLost(ctx, m, lane); err != nil {
				return nil, err
			}
		}
	}
	first, last := r.cfg.senders(k)
	payloads := make([][]byte, last-first+1)
	for task := first; task <= last; task++ {
		if task != r.cfg.Task {
			got := lane.whole(slot{window, k, task})
			payloads[task-first] = got.payload()
			lane.release(got)
		}
	}
	lane.next[k] = window + 1
	return payloads, nil
}

// lacking returns the tasks of which the message of the kind is not there, for a window.
func (r *Receiver) lacking(l *lane, window int64, k Kind) (from []int) {
	first, last := r.cfg.senders(k)
	for task := first; task <= last; task++ {
		if task != r.cfg.Task && l.whole(slot{window, k, task}) == nil {
			from = append(from, task)
		}
	}
	return from
}

// warn says what is missing, and whether there is something else in its place.
func (r *Receiver) warn(m *Missing, l *lane, now time.Time) {
	log := r.cfg.Logger.With("missing", m.String(), "after", now.Sub(m.Since).Round(time.Second))
	if l.unread != nil {
		log = log.With("ignored", fmt.Sprintf("%s partition %d: %.200s", l.at.Topic, l.at.Partition, l.unread))
	}
	log.Warn("still waiting for other workers")
}

// checkLost returns an error if a message that is missing was sent and is not in the log.
func (r *Receiver) checkLost(ctx context.Context, m *Missing, l *lane) error {
	for _, task := range m.From {
		sent, err := r.cfg.Sent(ctx, m.Window, task)
		if err == nil && sent {
			err = l.pollToEnd(ctx, m)
		}
		if err != nil {
			return err
		}
		if sent && l.whole(slot{m.Window, m.Kind, task}) == nil {
			return fmt.Errorf("%s partition %d does not have %v, though all of it was acknowledged: the topic was created anew, or what the tasks sent was deleted: set retention.ms=-1, and restore the topic from a backup or a mirror", l.at.Topic, l.at.Partition, m)
		}
	}
	return nil
}

// Arrived reports whether the log has all that Wait would return. It waits for no sender.
func (r *Receiver) Arrived(ctx context.Context, window int64, k Kind) (bool, error) {
	lane := r.lane(k)
	bounds, err := lane.client.Offsets(ctx, lane.at.Topic)
	if err != nil {
		return false, err
	}
	lane.await(k, window)
	lane.again()
	for {
		there := len(r.lacking(lane, window, k)) == 0
		if there || lane.reader.Position(lane.at) >= bounds[lane.at].End {
			return there, nil
		}
		if err := lane.poll(ctx, k, window); err != nil {
			return false, err
		}
	}
}

// warnEvery is how often a warning names what is missing.
const warnEvery = 10 * time.Second

// report publishes what Missing returns.
func (r *Receiver) report(m *Missing) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing = m
}

// Missing returns what is waited for now, nil for nothing. A receiver may be nil.
func (r *Receiver) Missing() *Missing {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missing
}

// Position returns where a receiver must begin that waits for the window and for later ones,
// of every kind.
func (r *Receiver) Position(window int64) Position {
	p := Position{Own: r.own.position(window)}
	if r.all != nil {
		p.All = r.all.position(window)
	}
	return p
}
