package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// cellsFixture is a graph of several cells.
func cellsFixture(t *testing.T, f *fixture, cells int) *fixture {
	t.Helper()
	names, err := topics.Under(f.Names.Ledger[:len(f.Names.Ledger)-len(".ledger")] + "-cells")
	if err == nil {
		_, err = topics.Create(t.Context(), f.Client, names, topics.Layout{Cells: cells, Replication: 1})
	}
	if err == nil {
		names, err = topics.Divided(t.Context(), f.Client, names)
	}
	if err != nil || names.Cells != cells {
		t.Fatalf("%d cells, error %v, want %d", names.Cells, err, cells)
	}
	return &fixture{T: t, On: f.On, Client: f.Client, Names: names}
}

// ofCell returns the fixture of a cell.
func ofCell(f *fixture, number int) *fixture {
	return &fixture{T: f.T, On: f.On, Client: f.Client.Cell(int32(number)), Names: f.Names.Of(int32(number))}
}

// byTime cuts windows by event time, so that the same records give the same windows, whoever cuts them and when.
var byTime = intake.EventTime{Width: 100 * time.Millisecond, Idle: 10 * time.Minute}

// sendCells sends nodes first to last-1 of each cell to its partition, each with a label.
func sendCells(f *fixture, cells, first, last int) {
	f.T.Helper()
	var records []kafka.Record
	for cell := range cells {
		for i := first; i < last; i++ {
			id := event.ID{Num: int64(cell*100_000 + i)}
			put := func(topic string, value []byte) {
				records = append(records, kafka.Record{Topic: topic, Partition: int32(cell), Key: wire.AppendKey(nil, id), Value: value})
			}
			put(f.Names.Nodes, wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}, Time: epoch + int64(i)*10}))
			put(f.Names.Labels, wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: epoch + int64(i)*10}))
		}
	}
	f.Produce(records...)
}

// machine is a process of a fleet, which can be killed once it takes part: nothing leaves it from then on.
type machine struct {
	ended chan error
	lines *lines // of its log
	stop  context.CancelFunc

	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

// lines counts the lines of a log by what they say.
type lines struct {
	slog.Handler
	mu     sync.Mutex
	counts map[string]int
}

// Enabled implements [slog.Handler].
func (*lines) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements [slog.Handler].
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[r.Message]++
	return nil
}

// WithAttrs implements [slog.Handler].
func (l *lines) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *lines) of(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[what]
}

// elections returns how many elections the machine has heard the outcome of.
func (m *machine) elections() int { return m.lines.of("cells of this worker") }

// begun returns how many workers of cells have begun on the machine.
func (m *machine) begun() int { return m.lines.of("begun") }

// moves are the cells that have got an owner, in order.
type moves struct {
	mu   sync.Mutex
	list []move
}

type move struct {
	cell int32
	to   *machine
}

func (m *moves) add(cell int32, to *machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, move{cell, to})
}

func (m *moves) len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.list)
}

// owners returns the owner of each cell.
func (m *moves) owners() map[int32]*machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[int32]*machine)
	for _, x := range m.list {
		all[x.cell] = x.to
	}
	return all
}

var errDead = errors.New("the machine is dead")

// kill kills the machine. It waits until the machine takes part in elections: kfake begins a member's session with the answer to
// its JoinGroup, and one that dies while it waits for that stays a member for ever. Apache Kafka ends its session.
func (m *machine) kill(t *testing.T) {
	t.Helper()
	kafkatest.Await(t, "a machine that is to be killed takes part in elections", func() bool { return m.elections() > 0 })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.stop()
}

// startMachine starts a process of the fleet, one that wants no standbys or one that does.
func startMachine(f *fixture, log *moves, dir string, noStandbys bool) *machine {
	f.T.Helper()
	m := &machine{ended: make(chan error, 1), lines: &lines{Handler: slog.DiscardHandler, counts: make(map[string]int)}}
	out := slog.New(m.lines)
	c := workertest.Dial(f.T, &kafkatest.Kafka{Addrs: f.On.Addrs, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := f.On.Dial(ctx, network, address)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.dead && err == nil {
			_ = conn.Close()
			return nil, errDead
		}
		m.conns = append(m.conns, conn)
		return conn, err
	}}, kafka.Config{})
	ctx, stop := context.WithCancel(f.T.Context())
	m.stop = stop
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.ended <- worker.RunFleet(ctx, c, worker.Fleet{
			Names: f.Names, Session: session, NoStandbys: noStandbys, Logger: out,
			Run: func(ctx context.Context, c *kafka.Client, cell topics.Names, at *worker.Place) error {
				out.Info("begun")
				cfg := f.Config(worker.Config{Policy: byTime, Checkpoints: replay.Checkpoints{Dir: dir, Restore: workertest.ReadTally}})
				cfg.Terms.Names, cfg.Logger = cell, out
				cfg.Events = replay.On(func(replay.TookOver) { log.add(cell.Cell, m) })
				return worker.RunAt(ctx, c, &tally{}, cfg, at)
			},
		})
	}()
	f.T.Cleanup(func() { // before its folder goes
		stop()
		<-over
	})
	return m
}

// served waits until the ledgers of all cells have so many predictions.
func served(f *fixture, cells, nodes int) {
	f.T.Helper()
	kafkatest.Await(f.T, fmt.Sprintf("each cell has %d predictions", nodes), func() bool {
		for cell := range cells {
			n := 0
			at := ofCell(f, cell)
			err := ledger.Scan(f.T.Context(), at.Client, at.Names.LedgerAt(), func(r *ledger.Record) bool { n += r.Predictions; return true })
			if err != nil {
				f.T.Fatal(err)
			}
			if n < nodes {
				return false
			}
		}
		return true
	})
}

// shares reports whether there are so many machines, each of which owns so many cells, and stands by for some, or
// for none.
func shares(f *fixture, machines, owns int, noStandbys bool) bool {
	f.T.Helper()
	members, err := f.Client.Members(f.T.Context(), f.Names.Ledger, f.Names.Ledger)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, m := range members {
		if len(m.Owns) != owns || (len(m.Follows) == 0) != noStandbys {
			return false
		}
	}
	return len(members) == machines
}

// TestFleet: three machines run the cells of a graph. One is killed and another is stopped, and each comes back. Each cell
// has then what a graph of one partition has that was given the same records: the same hashes and the same predictions, each
// once. So with standbys, and without.
func TestFleet(t *testing.T) {
	t.Run("standbys", func(t *testing.T) { testFleet(t, false) })
	t.Run("no standbys", func(t *testing.T) { testFleet(t, true) })
}

func testFleet(t *testing.T, noStandbys bool) {
	onFake(t, func(t *testing.T, f *fixture) {
		const cells, nodes = 6, 400
		graph := cellsFixture(t, f, cells)
		var log moves
		var machines []*machine
		for i := range 3 {
			machines = append(machines, startMachine(graph, &log, fmt.Sprintf("%s/%d", t.TempDir(), i), noStandbys))
		}
		sendCells(graph, cells, 0, 100)
		served(graph, cells, 80)
		kafkatest.Await(t, "all own as many cells, which have a standby or none", func() bool {
			return shares(graph, len(machines), cells/len(machines), noStandbys)
		})
		machines[0].kill(t)
		sendCells(graph, cells, 100, 200)
		served(graph, cells, 180)
		machines[0] = startMachine(graph, &log, t.TempDir(), noStandbys)
		machines[1].stop()
		if err := kafkatest.Receive(t, machines[1].ended, "a machine that is told to end has ended"); err != nil {
			t.Errorf("a machine that was told to end: %v", err)
		}
		sendCells(graph, cells, 200, 300)
		served(graph, cells, 280)
		machines[1] = startMachine(graph, &log, t.TempDir(), noStandbys)
		sendCells(graph, cells, 300, nodes)
		served(graph, cells, nodes-20)
		for _, m := range machines {
			m.stop()
			if err := kafkatest.Receive(t, m.ended, "a machine that is told to end has ended"); err != nil {
				t.Error(err)
			}
		}
		for cell := range cells {
			at := ofCell(graph, cell)
			at.Fence()
			if audited, err := at.Audit(&tally{}, worker.Config{}); err != nil || audited.Predictions < nodes-20 {
				t.Errorf("cell %d: audit %+v, error %v", cell, audited, err)
			}
			compareCell(t, f, at, cell)
		}
	})
}

// compareCell serves the records of a cell as a graph of one partition, and compares the two.
func compareCell(t *testing.T, f *fixture, cell *fixture, number int) {
	t.Helper()
	names, err := topics.Under(fmt.Sprintf("%s-lone-%d", cell.Names.Ledger, number))
	if err == nil {
		_, err = topics.Create(t.Context(), f.Client, names, topics.Layout{Partitions: 1, Replication: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
	lone := &fixture{T: t, On: f.On, Client: f.Client, Names: names}
	for from, to := range map[string]string{cell.Names.Nodes: names.Nodes, cell.Names.Labels: names.Labels} {
		records := cell.Read(from)
		for i := range records {
			records[i].Topic, records[i].Partition = to, 0
		}
		lone.Produce(records...)
	}
	running := lone.StartWorker(&tally{}, worker.Config{Policy: byTime})
	want := cell.Records()
	last := want[len(want)-1]
	kafkatest.Await(t, "the lone graph has as many windows", func() bool {
		return running.Committed.Load() >= int64(len(want))
	})
	if err := running.Stop(); err != nil {
		t.Fatal(err)
	}
	lone.Fence()
	got := lone.Records()
	if len(got) != len(want) || got[len(got)-1].Chain != last.Chain {
		t.Errorf("cell %d: %d windows with chain %s, and a graph of its own has %d with %s", number, len(want), last.Chain, len(got), got[len(got)-1].Chain)
	}
	published, alone := cell.Read(cell.Names.Predictions), lone.Read(names.Predictions)
	if len(published) != len(alone) {
		t.Fatalf("cell %d: %d predictions, and a graph of its own has %d", number, len(published), len(alone))
	}
	for i := range published {
		if string(published[i].Value) != string(alone[i].Value) || string(published[i].Key) != string(alone[i].Key) {
			t.Errorf("cell %d: prediction %d differs from that of a graph of its own", number, i)
		}
	}
	if r := want[0]; r.Cell == nil || r.Cell.Number != int32(number) || got[0].Cell != nil {
		t.Errorf("cell %d: its ledger begins with cell %+v, and that of a graph of its own with %+v", number, r.Cell, got[0].Cell)
	}
}

// TestRollingRestart: while three machines are restarted one after the other, nothing moves but the cells of the one that ends,
// each once, and the others begin no cell for the moment that it is away. Afterwards cells move so that all have as many,
// in one election, and then nothing moves any more.
func TestRollingRestart(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		const cells = 9
		graph := cellsFixture(t, f, cells)
		even := func() bool { return shares(graph, 3, cells/3, false) }
		var log moves
		var machines [3]*machine
		elections := func() int { return machines[0].elections() + machines[1].elections() + machines[2].elections() }
		settled := func() bool { // those that own the cells by the group have taken them over
			if !even() {
				return false
			}
			each := make(map[*machine]int)
			for _, owner := range log.owners() {
				each[owner]++
			}
			for _, n := range each {
				if n != cells/3 {
					return false
				}
			}
			return len(each) == 3
		}
		for i := range machines {
			machines[i] = startMachine(graph, &log, t.TempDir(), false)
		}
		sendCells(graph, cells, 0, 100)
		kafkatest.Await(t, "all own as many", settled)
		for i := range machines {
			time.Sleep(2 * session) // those that stand by have begun
			owners := log.owners()
			before := log.len()
			began := machines[(i+1)%3].begun() + machines[(i+2)%3].begun()
			machines[i].stop()
			if err := kafkatest.Receive(t, machines[i].ended, "a machine that is told to end has ended"); err != nil {
				t.Error(err)
			}
			had := 0
			for _, owner := range owners {
				if owner == machines[i] {
					had++
				}
			}
			time.Sleep(session / 2)
			machines[i] = startMachine(graph, &log, t.TempDir(), false)
			kafkatest.Await(t, "its cells have owners", func() bool { return log.len() >= before+had })
			time.Sleep(2 * session)
			if moved := log.len() - before; moved != had {
				t.Errorf("restart %d: %d cells moved, want the %d of the machine", i, moved, had)
			}
			if n := machines[(i+1)%3].begun() + machines[(i+2)%3].begun() - began; n > cells/3 {
				t.Errorf("restart %d: %d cells began on the other machines", i, n)
			}
		}
		held := elections()
		kafkatest.Await(t, "all own as many again", settled)
		before := log.len()
		time.Sleep(5 * time.Minute)
		if moved := log.len() - before; moved > 0 {
			t.Errorf("%d cells moved though nothing happened", moved)
		}
		if n := elections() - held; n != len(machines) {
			t.Errorf("machines heard of %d elections until all owned as many, want one each", n)
		}
		for i, m := range machines {
			if n := m.lines.of("standing by: another worker owns this graph"); n > cells {
				t.Errorf("machine %d has logged %d times that it stands by for a cell", i, n)
			}
		}

		// Somebody fences all cells: their workers ask for elections, and get one.
		held = elections()
		for cell := range cells {
			ofCell(graph, cell).Fence()
		}
		sendCells(graph, cells, 100, 200)
		served(graph, cells, 180)
		if n := elections() - held; n != len(machines) {
			t.Errorf("machines heard of %d elections after all cells were fenced, want one each", n)
		}
		for _, m := range machines {
			m.stop()
			if err := kafkatest.Receive(t, m.ended, "a machine that is told to end has ended"); err != nil {
				t.Error(err)
			}
		}
	})
}

// hoard is a tally that says that its graph has so many nodes.
type hoard struct {
	tally
	nodes int
}

func (e *hoard) Step(w *event.Window) *event.Outcome {
	out := e.tally.Step(w)
	out.Figures.Count(event.GraphNodes, e.nodes)
	return out
}

// TestCellsByCost: machines begin with as many cells each. Once a cell's graph is as large as a thousand others, it is alone on its
// machine, though nobody has come or gone since, and then nothing moves any more.
func TestCellsByCost(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		const cells, large = 6, 2
		graph := cellsFixture(t, f, cells)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() {
				ended <- worker.RunFleet(ctx, graph.Client, worker.Fleet{
					Names: graph.Names, Session: session, Logger: slog.New(slog.DiscardHandler),
					Run: func(ctx context.Context, c *kafka.Client, cell topics.Names, at *worker.Place) error {
						cfg := graph.Config(worker.Config{Policy: byTime})
						cfg.Terms.Names = cell
						e := &hoard{}
						if cell.Cell == large {
							e.nodes = 1_000_000
						}
						return worker.RunAt(ctx, c, e, cfg, at)
					},
				})
			}()
		}
		shares := func() (sizes []int) { // that of the owner of the large one first
			members, err := graph.Client.Members(t.Context(), graph.Names.Ledger, graph.Names.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range members {
				sizes = append(sizes, len(m.Owns))
				if slices.Contains(m.Owns, large) {
					slices.Reverse(sizes)
				}
			}
			return sizes
		}
		kafkatest.Await(t, "both own as many", func() bool { return slices.Equal(shares(), []int{cells / 2, cells / 2}) })
		sendCells(graph, cells, 0, 100)
		kafkatest.Await(t, "the large cell is alone", func() bool { return slices.Equal(shares(), []int{1, cells - 1}) })
		time.Sleep(2 * time.Minute)
		if got := shares(); !slices.Equal(got, []int{1, cells - 1}) {
			t.Errorf("some minutes later the owner of the large cell and the other own %v cells", got)
		}
		served(graph, cells, 80)
		stop()
		for range cap(ended) {
			if err := kafkatest.Receive(t, ended, "a fleet has ended"); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestBrokenCells: a cell whose worker fails is begun again and again, and the others are served. Where all fail, the fleet ends
// with the error of one.
func TestBrokenCells(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		const cells = 3
		graph := cellsFixture(t, f, cells)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		tries := make(map[int32]int)
		start := func(broken func(cell int32) bool) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- worker.RunFleet(ctx, graph.Client, worker.Fleet{
					Names: graph.Names, Session: session, Logger: slog.New(slog.DiscardHandler),
					Run: func(ctx context.Context, c *kafka.Client, cell topics.Names, at *worker.Place) error {
						mu.Lock()
						tries[cell.Cell]++
						mu.Unlock()
						if broken(cell.Cell) {
							return errors.New("it is broken")
						}
						cfg := graph.Config(worker.Config{Policy: byTime})
						cfg.Terms.Names = cell
						return worker.RunAt(ctx, c, &tally{}, cfg, at)
					},
				})
			}()
			return ended
		}
		err := kafkatest.Receive(t, start(func(int32) bool { return true }), "a fleet of broken cells has ended")
		workertest.CheckLine(t, "all cells are broken", err, "cell ", "it is broken")

		ended := start(func(cell int32) bool { return cell == 1 })
		sendCells(graph, cells, 0, 100)
		for _, cell := range []int{0, 2} {
			at := ofCell(graph, cell)
			kafkatest.Await(t, "the whole cells are served", func() bool {
				r, err := ledger.Newest(t.Context(), at.Client, at.Names.LedgerAt())
				if err != nil {
					t.Fatal(err)
				}
				return r != nil && r.Window >= 7
			})
		}
		time.Sleep(5 * time.Minute)
		mu.Lock()
		if n := tries[1]; n < 6 || n > 20 {
			t.Errorf("the broken cell was begun %d times in five minutes, want it more and more rarely", n)
		}
		mu.Unlock()
		stop()
		if err := kafkatest.Receive(t, ended, "the fleet has ended"); err != nil {
			t.Error(err)
		}
	})
}
