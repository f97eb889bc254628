package worker_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	sharding "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// toyShard is a shard without a model. What it serves is a hash of all parts, of the heads, and
// of all that was served before and is set by now. So a shard that loses a message, gets one
// twice or in another window publishes other bytes and another chain.
type toyShard struct {
	p, shards int
	next      int64
	seen      map[event.ID]bool
	heads     [32]byte
	set       [32]byte // of what was served
	chain     event.Hash

	ahead []toyWindow // entered and not served
}

// toyWindow is a window that a toyShard has entered.
type toyWindow struct {
	*event.Window
	own   []event.ID
	heard bool
	set   [32]byte // of what was served, when it was heard
}

func newToyShard(p, shards int) (sharding.Shard, error) {
	return &toyShard{p: p, shards: shards, seen: make(map[event.ID]bool)}, nil
}

func (s *toyShard) Err() error { return nil }

func (s *toyShard) owner(id event.ID) int {
	h := fnv.New64a()
	fmt.Fprint(h, id.Num)
	return int(h.Sum64() % uint64(s.shards))
}

func (s *toyShard) Enter(w *event.Window) (parts [][]byte) {
	if w.Number != s.next {
		panic(fmt.Sprintf("shard %d enters window %d, want %d", s.p, w.Number, s.next))
	}
	x := toyWindow{Window: w}
	parts = make([][]byte, s.shards)
	for _, n := range w.Nodes {
		if s.seen[n.ID] {
			continue
		}
		s.seen[n.ID] = true
		q := s.owner(n.ID)
		h := sha256.Sum256(fmt.Appendf(nil, "%d of %v in %d", s.p, n.ID, w.Number))
		parts[q] = append(parts[q], h[:]...)
		if q == s.p {
			x.own = append(x.own, n.ID)
		}
	}
	s.next++
	s.ahead = append(s.ahead, x)
	return parts
}

func (s *toyShard) Hear(served [][]byte) error {
	x := &s.ahead[len(s.ahead)-1]
	if x.heard {
		return fmt.Errorf("window %d is heard twice", x.Number)
	}
	if served != nil {
		s.set = sha256.Sum256(append(s.set[:], bytes.Join(served, []byte(";"))...))
	}
	x.heard, x.set = true, s.set
	return nil
}

func (s *toyShard) Serve(parts [][]byte, heads []byte) (out *event.Outcome, rows, now []byte, err error) {
	x := s.ahead[0]
	s.ahead = slices.Delete(s.ahead, 0, 1)
	if !x.heard {
		return nil, nil, nil, fmt.Errorf("window %d is served before it is heard", x.Number)
	}
	if len(heads) > 0 {
		copy(s.heads[:], heads)
	}
	out = &event.Outcome{Window: x.Number, Model: "toy"}
	b := append(append(s.chain[:], s.heads[:]...), x.set[:]...)
	for i, id := range x.own {
		for q, part := range parts {
			if len(part) != len(x.own)*32 {
				return nil, nil, nil, fmt.Errorf("window %d: the part of shard %d has %d bytes for %d arrivals", x.Number, q, len(part), len(x.own))
			}
			b = append(b, part[i*32:(i+1)*32]...)
		}
		h := sha256.Sum256(b)
		c := float32(h[0]) / 255
		out.Predictions = append(out.Predictions, event.Prediction{Node: id, Class: "a", Confidence: c, Probabilities: []float32{c, 1 - c}, Window: x.Number})
		now = append(now, h[0])
	}
	for _, r := range x.Refused {
		if int(r.Origin.Offset)%s.shards == s.p {
			out.Refused = append(out.Refused, r)
		}
	}
	for i, l := range x.Labels {
		if s.owner(l.Node) == s.p {
			rows = fmt.Appendf(rows, "%d %v %s\n", i, l.Node, l.Class)
		}
	}
	s.chain = sha256.Sum256(b)
	out.Chain = s.chain
	return out, rows, now, nil
}

// Snapshot writes the state as bytes: the numbers, the hashes, the nodes, and the meta.
func (s *toyShard) Snapshot(meta map[string]string) replay.Snapshot {
	if len(s.ahead) > 0 {
		panic(fmt.Sprintf("shard %d is saved before it has served window %d", s.p, s.ahead[0].Number))
	}
	b := binary.LittleEndian.AppendUint64(nil, uint64(s.next))
	b = append(append(append(b, s.heads[:]...), s.set[:]...), s.chain[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s.seen)))
	for _, id := range slices.SortedFunc(maps.Keys(s.seen), func(a, b event.ID) int { return int(a.Num - b.Num) }) {
		b = binary.LittleEndian.AppendUint64(b, uint64(id.Num))
	}
	return toySnapshot{bytes.NewReader(appendMeta(b, meta))}
}

func readToyShard(p, shards int, r io.ReaderAt, size int64, _ string) (sharding.Shard, map[string]string, error) {
	b := make([]byte, size)
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if len(b) < 104 {
		return nil, nil, errors.New("the toy is broken")
	}
	s := &toyShard{p: p, shards: shards, seen: make(map[event.ID]bool), next: int64(binary.LittleEndian.Uint64(b))}
	b = b[8:]
	copy(s.heads[:], b)
	copy(s.set[:], b[32:])
	copy(s.chain[:], b[64:])
	n := binary.LittleEndian.Uint64(b[96:])
	b = b[104:]
	if n > uint64(len(b))/8 {
		return nil, nil, errors.New("the toy is broken")
	}
	for i := range n {
		s.seen[event.ID{Num: int64(binary.LittleEndian.Uint64(b[8*i:]))}] = true
	}
	return s, readMeta(b[8*n:]), nil
}

// toyLead is a lead without a model: its heads are a hash of all rows so far.
type toyLead struct {
	shards int
	next   int64
	heads  [32]byte
	salt   string
}

func newToyLead(shards int) (sharding.Trainer, error) { return &toyLead{shards: shards}, nil }

func (l *toyLead) Err() error { return nil }

func (l *toyLead) Learn(window int64, rows [][]byte) (*event.Outcome, []byte, error) {
	if window != l.next || len(rows) != l.shards {
		return nil, nil, fmt.Errorf("rows of %d shards for window %d, want %d for %d", len(rows), window, l.shards, l.next)
	}
	l.next++
	out := &event.Outcome{Window: window, Model: "toy", Heads: []event.Head{{Name: "toy"}}}
	for range strings.Count(string(bytes.Join(rows, nil)), "\n") {
		out.Labelled = append(out.Labelled, event.Labelled{})
	}
	if len(out.Labelled) == 0 {
		return out, nil, nil
	}
	l.heads = sha256.Sum256(append(append(l.heads[:], l.salt...), bytes.Join(rows, []byte(";"))...))
	out.Chain = l.heads
	return out, l.heads[:], nil
}

func (l *toyLead) Snapshot(meta map[string]string) replay.Snapshot {
	b := binary.LittleEndian.AppendUint64(nil, uint64(l.next))
	return toySnapshot{bytes.NewReader(appendMeta(append(b, l.heads[:]...), meta))}
}

func readToyLead(shards int, r io.ReaderAt, size int64, _ string) (sharding.Trainer, map[string]string, error) {
	b := make([]byte, size)
	if _, err := r.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if len(b) < 40 {
		return nil, nil, errors.New("the toy is broken")
	}
	l := &toyLead{shards: shards, next: int64(binary.LittleEndian.Uint64(b))}
	copy(l.heads[:], b[8:])
	return l, readMeta(b[40:]), nil
}

func appendMeta(b []byte, meta map[string]string) []byte {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		b = fmt.Appendf(b, "%s\x00%s\x00", key, meta[key])
	}
	return b
}

func readMeta(b []byte) map[string]string {
	meta, words := make(map[string]string), strings.Split(string(b), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		meta[words[i]] = words[i+1]
	}
	return meta
}

type toySnapshot struct{ *bytes.Reader }

func (toySnapshot) Close() error      { return nil }
func (toySnapshot) Keep(string) error { return nil }

// sharded is a sharded graph on a broker. Its inputs have one partition, so that a schedule of
// windows gives the same windows in every run.
type sharded struct {
	*fixture
	shards int
}

// onShards runs a test on kfake, with a graph of so many shards.
func onShards(t *testing.T, shards int, test func(t *testing.T, g *sharded)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, on *kafkatest.Kafka) { test(t, newSharded(t, on, shards)) }, oneBroker...)
}

func newSharded(t *testing.T, on *kafkatest.Kafka, shards int) *sharded {
	t.Helper()
	c := dial(t, on, kafka.Config{})
	names, err := topics.Under(fmt.Sprintf("sharded-test-%d-%d", time.Now().UnixNano(), fixtures.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, topics.Layout{Partitions: 1, Replication: 1, Shards: shards}); err != nil {
		t.Fatal(err)
	}
	return &sharded{&fixture{t, on, c, names}, shards}
}

// sendOrdered produces the nodes first to last-1 and a label for each.
func (g *sharded) sendOrdered(first, last int) {
	g.t.Helper()
	var records []kafka.Record
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		records = append(records, kafka.Record{Topic: g.names.Nodes, Key: key, Value: wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}})},
			kafka.Record{Topic: g.names.Labels, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: id, Class: "a"})})
	}
	g.produce(records...)
}

// schedule cuts windows of 10 nodes and 7 labels, up to the given number of nodes.
func schedule(nodes int) intake.Schedule {
	var s intake.Schedule
	for range nodes / 10 {
		s.Windows = append(s.Windows, intake.Size{Nodes: 10, Labels: 7})
	}
	return s
}

// config returns the configuration of a worker of the graph.
func (g *sharded) config(cfg sharding.Config) sharding.Config {
	cfg.Terms.Names, cfg.Terms.Model, cfg.Terms.Settings, cfg.Terms.Classes = g.names, "toy", settings, []string{"a", "b"}
	cfg.Session = cmp.Or(cfg.Session, session)
	cfg.RestoreShard, cfg.RestoreTrainer = readToyShard, readToyLead
	if cfg.NewShard == nil {
		cfg.NewShard = newToyShard
	}
	if cfg.NewTrainer == nil {
		cfg.NewTrainer = newToyLead
	}
	return cfg
}

// shardedWorker is a worker in the background.
type shardedWorker struct {
	cancel context.CancelFunc
	tasks  *sharding.Tasks
	ended  chan error
}

func (g *sharded) start(cfg sharding.Config) *shardedWorker { return g.startOn(g.client, cfg) }

// startOn starts a worker that reaches the broker by a client of its own.
func (g *sharded) startOn(c *kafka.Client, cfg sharding.Config) *shardedWorker {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	w := &shardedWorker{cancel: cancel, tasks: &sharding.Tasks{}, ended: make(chan error, 1)}
	cfg = g.config(cfg)
	cfg.Tasks = w.tasks
	go func() { w.ended <- sharding.Run(ctx, c, cfg) }()
	g.t.Cleanup(cancel)
	return w
}

// stop stops the worker and returns what RunSharded returned.
func (w *shardedWorker) stop() error {
	w.cancel()
	return <-w.ended
}

// stopAll stops workers at the same time.
func stopAll(t *testing.T, workers ...*shardedWorker) {
	t.Helper()
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			if err := w.stop(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// owns returns the tasks that the worker owns.
func (w *shardedWorker) owns() (tasks []int) {
	for _, s := range w.tasks.States() {
		if s.Owner {
			tasks = append(tasks, s.Task)
		}
	}
	return tasks
}

// awaitOwners waits until the workers own every task, and each at least one.
func (g *sharded) awaitOwners(workers ...*shardedWorker) {
	g.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for {
		owned, idle := 0, 0
		for _, w := range workers {
			n := len(w.owns())
			owned += n
			if n == 0 {
				idle++
			}
		}
		if owned == g.shards+1 && idle == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			for i, w := range workers {
				g.t.Logf("worker %d: %+v", i, w.tasks.States())
			}
			g.t.Fatalf("%d tasks have an owner, and %d workers have none", owned, idle)
		}
	}
}

// await waits until all shards are done with the windows before the given one.
func (g *sharded) await(windows int64, workers ...*shardedWorker) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 2*time.Minute)
	defer cancel()
	d, err := cuts.OpenDone(ctx, g.client, g.names.Ledger, g.shards, nil)
	for err == nil && slices.Min(d.Last()) < windows-1 {
		err = d.Wait(ctx)
		for _, w := range workers {
			select {
			case ended := <-w.ended:
				g.t.Fatalf("a worker ended after the windows %v of the shards: %v", d.Last(), ended)
			default:
			}
		}
	}
	if err != nil {
		var states []sharding.TaskState
		for _, w := range workers {
			states = append(states, w.tasks.States()...)
		}
		g.t.Fatalf("the shards are done with windows %v, want %d: %v; %+v", d.Last(), windows, err, states)
	}
}

// published is what a graph has published: the predictions by node, and the chain of each shard
// after every window.
type published struct {
	predictions map[event.ID]string
	chains      [][]string
	learned     []int // labels, by window
}

// published reads what was published, and checks that each node was predicted once.
func (g *sharded) published() (all published) {
	g.t.Helper()
	all.predictions = make(map[event.ID]string)
	for task := 1; task <= g.shards; task++ { // waits for the markers of the last transactions
		if _, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{TransactionalID: fmt.Sprintf("%s/%d", g.names.Ledger, task)}); err != nil {
			g.t.Fatal(err)
		}
	}
	for _, r := range g.read(g.names.Predictions) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			g.t.Fatal(err)
		}
		if _, twice := all.predictions[p.Node]; twice {
			g.t.Errorf("node %v was predicted twice", p.Node)
		}
		all.predictions[p.Node] = string(r.Value)
	}
	for task := 1; task <= g.shards; task++ {
		var chains []string
		if err := ledger.Scan(g.t.Context(), g.client, g.names.LedgerAt(task), func(r *ledger.Record) bool {
			chains = append(chains, r.Chain)
			return true
		}); err != nil {
			g.t.Fatal(err)
		}
		all.chains = append(all.chains, chains)
	}
	if err := cuts.ScanLearned(g.t.Context(), g.client, g.names.LedgerAt(0), time.Time{}, func(r *ledger.Record) bool {
		all.learned = append(all.learned, make([]int, r.Window-int64(len(all.learned)))...) // nothing was learned of these
		all.learned = append(all.learned, r.Labels)
		return true
	}); err != nil {
		g.t.Fatal(err)
	}
	return all
}

// check compares with what another run of the same windows has published. What was learned of the
// last windows may not be recorded yet: nothing has needed it.
func (all published) check(t *testing.T, want published) {
	t.Helper()
	if len(all.predictions) != len(want.predictions) {
		t.Errorf("%d nodes were predicted, want %d", len(all.predictions), len(want.predictions))
	}
	for id, p := range want.predictions {
		if all.predictions[id] != p {
			t.Errorf("node %v: predicted %x, want %x", id, all.predictions[id], p)
			break
		}
	}
	for p, chains := range want.chains {
		if !slices.Equal(all.chains[p], chains) {
			t.Errorf("shard %d: %d chains, want %d, and they differ", p+1, len(all.chains[p]), len(chains))
		}
	}
	if n := min(len(all.learned), len(want.learned)); n < len(want.learned)-4 || !slices.Equal(all.learned[:n], want.learned[:n]) {
		t.Errorf("labels learned by window %v, want %v", all.learned, want.learned)
	}
}

// planned is a window that a graph is to have: of the next nodes and labels, of a command to forget
// nodes, or one that begins an epoch without these.
type planned struct {
	intake.Size
	forgets []event.ID
	begins  bool
}

// plan returns the windows of so many nodes.
func plan(nodes int) []planned { return planOf(schedule(nodes)) }

// planOf returns the windows of a schedule.
func planOf(s intake.Schedule) (windows []planned) {
	for _, size := range s.Windows {
		windows = append(windows, planned{Size: size})
	}
	return windows
}

// expected computes what a graph of so many shards publishes, without any topic but the inputs.
func (g *sharded) expected(nodes int, lag int64) published { return g.expects(plan(nodes), lag) }

// expectedOf is expected of a schedule.
func (g *sharded) expectedOf(s intake.Schedule, lag int64) published {
	return g.expects(planOf(s), lag)
}

// expects is expected of planned windows. An epoch begins with new shards and a new lead, which
// step all windows before without the nodes that were forgotten, and publish nothing of them.
func (g *sharded) expects(windows []planned, lag int64) (want published) {
	want.predictions, want.chains = make(map[event.ID]string), make([][]string, g.shards)
	r := g.newToyRun(lag, nil)
	forgotten := make(map[event.ID]int)
	for i, w := range windows {
		for _, id := range w.forgets {
			forgotten[id] = i
		}
		if w.begins {
			r = g.newToyRun(lag, forgotten)
			for _, before := range windows[:i] {
				r.step(before, nil)
			}
		}
		r.step(w, &want)
	}
	return want
}

// toyRun is all shards and the lead, and what they have sent each other.
type toyRun struct {
	*sharded
	lag           int64
	forgotten     map[event.ID]int // the window in which each node was forgotten
	next          int
	nodes, labels int64 // in the windows before
	all           []sharding.Shard
	lead          sharding.Trainer
	heads         map[int64][]byte
	served        map[int64][][]byte
}

func (g *sharded) newToyRun(lag int64, forgotten map[event.ID]int) *toyRun {
	r := &toyRun{sharded: g, lag: lag, forgotten: maps.Clone(forgotten), heads: make(map[int64][]byte), served: make(map[int64][][]byte)}
	for p := range g.shards {
		s, _ := newToyShard(p, g.shards)
		r.all = append(r.all, s)
	}
	r.lead, _ = newToyLead(g.shards)
	return r
}

// step steps a window, and adds what it publishes to want, if that is not nil.
func (r *toyRun) step(size planned, want *published) {
	w := &event.Window{Number: int64(r.next)}
	has := func(id event.ID) bool { at, ok := r.forgotten[id]; return !ok || r.next >= at }
	for range size.Nodes {
		if id := (event.ID{Num: r.nodes}); has(id) {
			w.Nodes = append(w.Nodes, event.Node{ID: id})
		}
		r.nodes++
	}
	for range size.Labels {
		if id := (event.ID{Num: r.labels}); has(id) {
			w.Labels = append(w.Labels, event.Label{Node: id, Class: "a"})
		}
		r.labels++
	}
	r.next++
	parts := make([][][]byte, r.shards)
	for p, s := range r.all {
		for q, part := range s.Enter(w) {
			if parts[q] == nil {
				parts[q] = make([][]byte, r.shards)
			}
			parts[q][p] = bytes.Clone(part)
		}
	}
	rows := make([][]byte, r.shards)
	r.served[w.Number] = make([][]byte, r.shards)
	for p, s := range r.all {
		if err := s.Hear(r.served[w.Number-1-r.lag]); err != nil {
			r.t.Fatal(err)
		}
		out, row, now, err := s.Serve(parts[p], r.heads[w.Number-1-r.lag])
		if err != nil {
			r.t.Fatal(err)
		}
		rows[p], r.served[w.Number][p] = row, now
		if want == nil {
			continue
		}
		want.chains[p] = append(want.chains[p], fmt.Sprintf("%x", out.Chain))
		for i := range out.Predictions {
			want.predictions[out.Predictions[i].Node] = string(wire.MsgPack.AppendPrediction(nil, &out.Predictions[i]))
		}
	}
	out, h, err := r.lead.Learn(w.Number, rows)
	if err != nil {
		r.t.Fatal(err)
	}
	if want != nil {
		want.learned = append(want.learned, len(out.Labelled))
	}
	r.heads[w.Number] = bytes.Clone(h)
}

// TestSharded: whatever the number of workers that share the tasks of a graph, and whatever the
// lag, each node is predicted once, with the bytes that shards give that know no topics.
func TestSharded(t *testing.T) {
	for _, shards := range []int{2, 3, 4, 8} {
		for _, n := range []int{1, 2, 4, 8} {
			for _, lag := range []int64{0, 2} {
				if n == 8 && shards < 8 || shards == 8 && lag == 0 {
					continue
				}
				t.Run(fmt.Sprintf("%d shards, %d workers, lag %d", shards, n, lag), func(t *testing.T) {
					onShards(t, shards, func(t *testing.T, g *sharded) {
						nodes := 300
						if shards == 8 {
							nodes = 100
						}
						g.sendOrdered(0, nodes)
						var workers []*shardedWorker
						for range n {
							workers = append(workers, g.start(sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}}))
						}
						g.await(int64(nodes/10), workers...)
						stopAll(t, workers...)
						g.published().check(t, g.expected(nodes, lag))
					})
				})
			}
		}
	}
}

// gatedShard enters no window before a gate is opened, and notes what was entered and not served.
type gatedShard struct {
	sharding.Shard
	gate    <-chan struct{}
	entered *atomic.Int64
	served  int64
	most    int64
}

func (s *gatedShard) Enter(w *event.Window) [][]byte {
	<-s.gate
	s.entered.Add(1)
	if ahead := w.Number + 1 - s.served; ahead > s.most {
		panic(fmt.Sprintf("%d windows are ahead, at most %d may be", ahead, s.most))
	}
	return s.Shard.Enter(w)
}

func (s *gatedShard) Serve(parts [][]byte, heads []byte) (out *event.Outcome, rows, served []byte, err error) {
	s.served++
	return s.Shard.Serve(parts, heads)
}

// TestEntersAhead: a shard enters windows and sends their parts while it waits for another shard,
// up to the bound and no further. When the other one comes, all windows have the outcome that they
// have in order.
func TestEntersAhead(t *testing.T) {
	for lag, most := range map[int64]int64{0: 2, 3: 5} {
		t.Run(fmt.Sprint("lag ", lag), func(t *testing.T) {
			onShards(t, 2, func(t *testing.T, g *sharded) {
				const nodes = 100
				g.sendOrdered(0, nodes)
				opened, late := make(chan struct{}), make(chan struct{})
				close(opened)
				var entered [2]atomic.Int64
				w := g.start(sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}, NewShard: func(p, shards int) (sharding.Shard, error) {
					s, err := newToyShard(p, shards)
					return &gatedShard{Shard: s, gate: []<-chan struct{}{opened, late}[p], entered: &entered[p], most: most}, err
				}})
				for entered[0].Load() < most {
					select {
					case err := <-w.ended:
						t.Fatal(err)
					case <-time.After(time.Millisecond):
					}
				}
				if n := entered[1].Load(); n > 0 {
					t.Errorf("the other shard has entered %d windows", n)
				}
				close(late)
				g.await(nodes/10, w)
				stopAll(t, w)
				g.published().check(t, g.expected(nodes, lag))
			})
		})
	}
}

// TestShardedRestart: a worker that is stopped has written a checkpoint of every task, from which
// the next one goes on. Without the checkpoints they replay all windows, with the same outcome.
func TestShardedRestart(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("checkpoints %v", kept), func(t *testing.T) {
			onShards(t, 2, func(t *testing.T, g *sharded) {
				const nodes, lag = 300, 3
				dir := t.TempDir()
				var from sync.Map // by task, the windows that came from a checkpoint
				for run := range 3 {
					g.sendOrdered(run*100, (run+1)*100)
					var saved [3]sync.WaitGroup // by task, done after the run's first checkpoint
					var first [3]sync.Once
					cfg := sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}, TaskEvents: func(task int) func(replay.Event) {
						return replay.Join(
							replay.On(func(r replay.Recovered) { from.Store(task, r.Checkpoint) }),
							replay.On(func(s replay.Saved) {
								if s.Err == nil {
									first[task].Do(saved[task].Done)
								}
							}),
						)
					}}
					if kept {
						cfg.Checkpoints = replay.Checkpoints{Dir: dir, Every: 20 * time.Millisecond}
						for task := range saved {
							saved[task].Add(1)
						}
					}
					w := g.start(cfg)
					g.await(int64(run+1)*10, w)
					for task := range saved {
						saved[task].Wait()
					}
					stopAll(t, w)
				}
				g.published().check(t, g.expected(nodes, lag))
				for task := range 3 {
					if windows, _ := from.Load(task); (windows != int64(0)) != kept {
						t.Errorf("task %d goes on from a checkpoint of %v windows", task, windows)
					}
				}
			})
		})
	}
}

// stoppingLead stops the worker while it learns a window.
type stoppingLead struct {
	sharding.Trainer
	window int64
	stop   func()
}

func (l stoppingLead) Learn(window int64, rows [][]byte) (*event.Outcome, []byte, error) {
	if window == l.window {
		l.stop()
	}
	return l.Trainer.Learn(window, rows)
}

// TestLeadStoppedWhileLearning: a worker that is stopped while its lead learns a window sends
// what was learned, so that its checkpoint has the window, or leaves no checkpoint. The next
// worker goes on.
func TestLeadStoppedWhileLearning(t *testing.T) {
	onShards(t, 2, func(t *testing.T, g *sharded) {
		const nodes, lag, stops = 200, 3, 7
		cfg := sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes), Checkpoints: replay.Checkpoints{Dir: t.TempDir()}}}
		g.sendOrdered(0, 100)
		first, learning := cfg, make(chan struct{})
		var w *shardedWorker
		first.NewTrainer = func(shards int) (sharding.Trainer, error) {
			l, err := newToyLead(shards)
			return stoppingLead{l, stops, func() { <-learning; w.cancel() }}, err
		}
		w = g.start(first)
		close(learning)
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		var from atomic.Int64
		next := cfg
		next.TaskEvents = func(task int) func(replay.Event) {
			return replay.On(func(r replay.Recovered) {
				if task == 0 {
					from.Store(r.Checkpoint)
				}
			})
		}
		w = g.start(next)
		g.sendOrdered(100, 200)
		g.await(nodes/10, w)
		stopAll(t, w)
		g.published().check(t, g.expected(nodes, lag))
		if n := from.Load(); n > 0 && n <= stops {
			t.Errorf("the lead goes on from a checkpoint of %d windows, and window %d was learned", n, stops)
		}
	})
}

// TestShardedTakeOver: workers that own tasks are killed, or halted until others have taken their
// tasks over, and then woken. The others go on at the next window, whatever the former owners
// still do, and nothing is published twice.
func TestShardedTakeOver(t *testing.T) {
	for _, wakes := range []bool{false, true} {
		for _, victim := range []string{"of the lead", "of a shard", "of all"} {
			t.Run(fmt.Sprintf("owner %s, wakes %v", victim, wakes), func(t *testing.T) {
				onGates(t, 3, func(t *testing.T, g *sharded, gates *gates) {
					const nodes, lag = 400, 1
					names := []string{"a", "b", "c", "d"}
					var workers []*shardedWorker
					start := func(i int) {
						workers = append(workers, g.startOn(dial(t, g.on, kafka.Config{ClientID: names[i]}), sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}}))
					}
					start(0)
					start(1)
					g.awaitOwners(workers...)
					g.sendOrdered(0, 200)
					g.await(10, workers...)
					var out []int // which are halted or killed
					for i, w := range workers {
						if lead := slices.Contains(w.owns(), 0); victim == "of all" || lead == (victim == "of the lead") {
							out = append(out, i)
						}
					}
					for _, i := range out {
						if wakes {
							gates.halt(names[i])
						} else {
							gates.kill(names[i])
						}
					}
					began := time.Now()
					g.sendOrdered(200, 300)
					start(2)
					start(3)
					g.await(21, workers[2:]...)
					t.Logf("the graph went on after %v, with sessions of %v", time.Since(began).Round(10*time.Millisecond), session)
					g.await(30, workers[2:]...)
					if wakes {
						for _, i := range out {
							gates.wake(names[i])
						}
						g.sendOrdered(300, 400)
						g.await(40, workers[2:]...)
					} else {
						g.sendOrdered(300, 400)
						g.await(40, workers[2:]...)
						for _, i := range out { // there is no way back for them
							workers[i].cancel()
						}
						workers = slices.DeleteFunc(workers, func(w *shardedWorker) bool { return w == workers[out[0]] || len(out) > 1 && w == workers[out[1]] })
					}
					stopAll(t, workers...)
					g.published().check(t, g.expected(nodes, lag))
				})
			})
		}
	}
}

// TestShardedFaults: brokers that answer late to what the tasks write to the exchange and to the
// cuts, or have forgotten the producer, so that it is written twice, change nothing.
func TestShardedFaults(t *testing.T) {
	for _, wrong := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotLeaderForPartition, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID} {
		t.Run(wrong.Message, func(t *testing.T) {
			onShards(t, 3, func(t *testing.T, g *sharded) {
				cluster := g.on.Fake
				const nodes, lag = 200, 1
				var mu sync.Mutex
				requests, draws := 0, rand.New(rand.NewPCG(1, 1)) // every fifth could be the same one of each attempt
				fault := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: wrong, Count: -1, When: func(kmsg.Request) bool {
					mu.Lock()
					defer mu.Unlock()
					requests++
					return draws.IntN(5) == 0
				}}
				exchange, cuts := fault, fault
				exchange.Topic, cuts.Topic, cuts.Partitions = g.names.Exchange, g.names.Ledger, []int32{0}
				cluster.Fault(exchange, cuts)
				g.sendOrdered(0, nodes)
				a := g.start(sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}})
				b := g.start(sharding.Config{Lag: lag, Config: worker.Config{Policy: schedule(nodes)}})
				g.await(nodes/10, a, b)
				stopAll(t, a, b)
				mu.Lock()
				defer mu.Unlock()
				if requests < 20 {
					t.Errorf("%d requests could fail", requests)
				}
				g.published().check(t, g.expected(nodes, lag))
			})
		})
	}
}

// TestOtherHeads: a lead that starts learns all windows again, and compares its heads with those
// that were sent. One that learns something else ends with an error of one line.
func TestOtherHeads(t *testing.T) {
	onShards(t, 2, func(t *testing.T, g *sharded) {
		g.sendOrdered(0, 100)
		w := g.start(sharding.Config{Lag: 1, Config: worker.Config{Policy: schedule(100)}})
		g.await(10, w)
		stopAll(t, w)
		other := g.start(sharding.Config{Lag: 1, Config: worker.Config{Policy: schedule(100)}, NewTrainer: func(shards int) (sharding.Trainer, error) {
			return &toyLead{shards: shards, salt: "other"}, nil
		}})
		if err := <-other.ended; err == nil || !strings.HasPrefix(err.Error(), "lead: the heads that were sent after window 0 are not those") || strings.Contains(err.Error(), "\n") {
			t.Errorf("another lead ends with error %v", err)
		}
	})
}

// TestShardedRefuses: commands to forget nodes become dead letters, of one shard each, when the
// inputs have lost their beginning. A worker of whole graphs does not begin with a sharded graph,
// nor the other way round.
func TestShardedRefuses(t *testing.T) {
	onShards(t, 2, func(t *testing.T, g *sharded) {
		cluster := g.on.Fake
		g.sendOrdered(0, 1)
		if err := cluster.DeleteRecords(g.names.Labels, 0, 1); err != nil {
			t.Fatal(err)
		}
		for id := range int64(3) {
			g.produce(kafka.Record{Topic: g.names.Commands, Value: wire.AppendCommand(nil, &event.Command{Name: event.Forget, Nodes: []event.ID{{Num: id}}})})
		}
		w := g.start(sharding.Config{Config: worker.Config{Policy: schedule(0)}})
		defer stopAll(t, w)
		for g.count(g.names.DeadLetters) < 3 {
			time.Sleep(time.Millisecond)
		}
		if err := worker.Run(t.Context(), g.client, &tally{}, g.fixture.config(worker.Config{})); err == nil || !strings.Contains(err.Error(), "is of a graph of 2 shards") {
			t.Errorf("a worker of a whole graph ends with error %v", err)
		}
		f := newFixture(t, g.on)
		cfg := g.config(sharding.Config{})
		cfg.Terms.Names = f.names
		if err := sharding.Run(t.Context(), f.client, cfg); err == nil || !strings.Contains(err.Error(), "is of a graph without shards") {
			t.Errorf("a worker of sharded graphs ends with error %v at one without shards", err)
		}
	})
}
