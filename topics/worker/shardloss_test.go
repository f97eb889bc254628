package worker_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
	sharding "github.com/gvbll/gvbll/topics/shards"
	"github.com/gvbll/gvbll/topics/shards/cuts"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// A disturbed graph is a sharded graph to whose topics and checkpoints somebody does something.
type disturbed struct {
	*sharded
	dir    string // of checkpoints
	served int    // nodes
}

const disturbedLag = 1

// onDisturbed runs a test with a graph whose first ten windows were served by a worker, which has
// ended and left checkpoints.
func onDisturbed(t *testing.T, shards int, test func(t *testing.T, d *disturbed)) {
	t.Helper()
	onShards(t, shards, func(t *testing.T, g *sharded) {
		g.fixture = g.withDialTimeout(2 * time.Second)
		d := &disturbed{sharded: g, dir: t.TempDir()}
		d.serve(100)
		test(t, d)
	})
}

// serve has a worker serve the nodes up to the given one, and ends it.
func (d *disturbed) serve(nodes int) {
	d.t.Helper()
	d.sendOrdered(d.served, nodes)
	d.served = nodes
	w := d.work(true)
	d.await(int64(nodes/10), w)
	stopAll(d.t, w)
}

// work starts a worker, with the checkpoints that were kept or without any.
func (d *disturbed) work(kept bool) *shardedWorker {
	cfg := sharding.Config{Lag: disturbedLag, Config: worker.Config{Policy: schedule(1000)}}
	if kept {
		cfg.Checkpoints = replay.Checkpoints{Dir: d.dir}
	}
	return d.start(cfg)
}

// refuses waits until a worker ends by itself, with an error of one line that has the texts.
func (d *disturbed) refuses(w *shardedWorker, texts ...string) {
	d.t.Helper()
	select {
	case err := <-w.ended:
		for _, text := range texts {
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), text) {
				d.t.Errorf("the worker ended with error %v, want one line with %q", err, text)
			}
		}
	case <-time.After(2 * time.Minute):
		d.t.Errorf("the worker waits: %+v", w.tasks.States())
	}
}

// recreateExchange deletes the exchange and creates it again, empty.
func (d *disturbed) recreateExchange() {
	d.t.Helper()
	d.deleteTopic(d.names.Exchange)
	if _, err := d.client.CreateTopics(d.t.Context(), kafka.TopicSpec{Name: d.names.Exchange, Partitions: d.shards + 2, Replication: 1}); err != nil {
		d.t.Fatal(err)
	}
}

// deleteExchanged deletes all that is in the exchange.
func (d *disturbed) deleteExchanged() { d.deleteAll(d.names.Exchange) }

// truncate ends a task's partition of the ledger before a window, as the copy of an older backup
// does.
func (d *disturbed) truncate(task int, window int64) {
	d.t.Helper()
	kept, ended := make(map[int32][]kafka.Record), false
	for _, r := range d.read(d.names.Ledger) {
		if int(r.Partition) == task {
			c, err := cuts.DecodeCut(r.Value)
			of, other := ledger.Decode(r.Value)
			if ended = ended || err == nil && c.Window >= window || other == nil && of.Window >= window; ended {
				continue
			}
		}
		kept[r.Partition] = append(kept[r.Partition], kafka.Record{
			Topic: r.Topic, Partition: r.Partition, Value: bytes.Clone(r.Value), Headers: slices.Clone(r.Headers), Time: r.Time,
		})
	}
	d.recreateLedger()
	p, err := d.client.NewProducer(d.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, records := range kept {
		if err := p.SendAgain(d.t.Context(), records); err != nil {
			d.t.Fatal(err)
		}
	}
}

// awaitDone has a worker serve more windows until a cut says which window was done when it was
// written, and returns that window.
func (d *disturbed) awaitDone() int64 {
	d.t.Helper()
	w := d.work(true)
	for {
		c, err := cuts.NewestCut(d.t.Context(), d.client, d.names.LedgerAt(0))
		if err != nil {
			d.t.Fatal(err)
		}
		if c.Done != nil {
			stopAll(d.t, w)
			return c.Done.Window
		}
		d.sendOrdered(d.served, d.served+10)
		d.served += 10
		d.await(int64(d.served/10), w)
	}
}

// deleteAll deletes all records of a topic.
func (d *disturbed) deleteAll(topic string) {
	d.t.Helper()
	bounds, err := d.client.Offsets(d.t.Context(), topic)
	if err != nil {
		d.t.Fatal(err)
	}
	for at, b := range bounds {
		if err := d.on.Fake.DeleteRecords(at.Topic, at.Partition, b.End); err != nil {
			d.t.Fatal(err)
		}
	}
}

// recreateLedger deletes the ledger and creates it again, empty.
func (d *disturbed) recreateLedger() {
	d.t.Helper()
	d.deleteTopic(d.names.Ledger)
	if _, err := d.client.CreateTopics(d.t.Context(), kafka.TopicSpec{Name: d.names.Ledger, Partitions: d.shards + 1, Replication: 1}); err != nil {
		d.t.Fatal(err)
	}
}

// TestShardedTopicsLost: topics of a sharded graph lose what it needs while no worker runs. The
// next one ends with one line that names the topic and the remedy, and predicts nothing. So does the
// one after it in the same folders: none of them is still locked.
func TestShardedTopicsLost(t *testing.T) {
	for _, fault := range []struct {
		name string
		kept bool // the checkpoints are
		does func(*disturbed)
		says []string
	}{
		{"the exchange is deleted", true, func(d *disturbed) { d.deleteTopic(d.names.Exchange) }, []string{".exchange", "restore"}},
		{"the exchange is created anew", true, (*disturbed).recreateExchange, []string{".exchange", "restore"}},
		{"the exchange is created anew, and no checkpoint is left", false, (*disturbed).recreateExchange, []string{".exchange", "restore"}},
		{"what was exchanged is deleted", true, (*disturbed).deleteExchanged, []string{".exchange", "retention.ms=-1", "restore"}},
		{"what was exchanged is deleted, and no checkpoint is left", false, (*disturbed).deleteExchanged, []string{".exchange", "retention.ms=-1", "restore"}},
		{"nodes that were not yet served are deleted", true, func(d *disturbed) { d.sendOrdered(d.served, d.served+50); d.deleteAll(d.names.Nodes) }, []string{".nodes"}},
		{"the ledger is created anew", true, (*disturbed).recreateLedger, []string{".ledger", "restore"}},
		{"the ledger is created anew, and no checkpoint is left", false, (*disturbed).recreateLedger, []string{".ledger", "restore"}},
		{"a shard's ledger ends too early", true, func(d *disturbed) { d.truncate(2, d.awaitDone()) }, []string{".ledger", "partition 2", "restore"}},
		{"a shard's ledger ends too early, and no checkpoint is left", false, func(d *disturbed) { d.truncate(2, d.awaitDone()) }, []string{".ledger", "partition 2", "restore"}},
		{"a shard's ledger is empty", false, func(d *disturbed) { d.awaitDone(); d.truncate(1, 0) }, []string{".ledger", "partition 1", "restore"}},
		{"the cuts end too early", true, func(d *disturbed) { d.truncate(0, 4) }, []string{".ledger", "partition 0", "restore"}},
		{"the cuts end too early, and no checkpoint is left", false, func(d *disturbed) { d.truncate(0, 4) }, []string{".ledger", "partition 0", "restore"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			onDisturbed(t, 2, func(t *testing.T, d *disturbed) {
				fault.does(d)
				d.sendOrdered(d.served, d.served+100)
				for range 2 {
					d.refuses(d.work(fault.kept), fault.says...)
				}
				if n := d.count(d.names.Predictions); n != d.served {
					t.Errorf("there are %d predictions, want %d", n, d.served)
				}
			})
		})
	}
}

// TestShardedTopicsLostAlive: the same while workers run.
func TestShardedTopicsLostAlive(t *testing.T) {
	for _, fault := range []struct {
		name string
		does func(*disturbed)
		says []string
	}{
		{"the exchange is deleted", func(d *disturbed) { d.deleteTopic(d.names.Exchange) }, []string{".exchange", "restore"}},
		{"the exchange is created anew", (*disturbed).recreateExchange, []string{".exchange", "restore"}},
		{"the ledger is deleted", func(d *disturbed) { d.deleteTopic(d.names.Ledger) }, []string{".ledger", "restore"}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			onDisturbed(t, 2, func(t *testing.T, d *disturbed) {
				a, b := d.work(true), d.work(false)
				d.awaitOwners(a, b)
				fault.does(d)
				d.sendOrdered(100, 200)
				d.refuses(a, fault.says...)
				d.refuses(b, fault.says...)
				if n := d.count(d.names.Predictions); n != 100 {
					t.Errorf("there are %d predictions, want 100", n)
				}
			})
		})
	}
}

// TestShardedBeginsAgain: the ledger is gone, the graph is meant to begin again with other windows,
// and what was exchanged before is still there. None of it counts.
func TestShardedBeginsAgain(t *testing.T) {
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("checkpoints %v", kept), func(t *testing.T) {
			onDisturbed(t, 3, func(t *testing.T, d *disturbed) {
				d.recreateLedger()
				d.sendOrdered(100, 200)
				var s intake.Schedule
				s.Windows = append(s.Windows, schedule(20).Windows...) // the first ones are the same
				for range 12 {
					s.Windows = append(s.Windows, intake.Size{Nodes: 15, Labels: 9})
				}
				cfg := sharding.Config{Lag: disturbedLag, Config: worker.Config{Policy: s, BeginAgain: true}}
				if kept {
					cfg.Checkpoints = replay.Checkpoints{Dir: d.dir}
				}
				before := len(d.read(d.names.Predictions))
				w := d.start(cfg)
				d.await(14, w)
				stopAll(t, w)
				want := d.expectedOf(s, disturbedLag)
				want.learned = nil
				got := make(map[event.ID]string)
				for _, r := range d.read(d.names.Predictions)[before:] {
					var p event.Prediction
					if err := wire.DecodePrediction(r.Value, &p); err != nil {
						t.Fatal(err)
					}
					got[p.Node] = string(r.Value)
				}
				published{predictions: got, chains: d.chains()}.check(t, want)
			})
		})
	}
}

// chains returns the chains of the shards in the ledger.
func (g *sharded) chains() (all [][]string) {
	g.t.Helper()
	for task := 1; task <= g.shards; task++ {
		var chains []string
		if err := ledger.Scan(g.t.Context(), g.client, g.names.LedgerAt(task), func(r *ledger.Record) bool {
			chains = append(chains, r.Chain)
			return true
		}); err != nil {
			g.t.Fatal(err)
		}
		all = append(all, chains)
	}
	return all
}

// TestShardedCheckpointsOf: checkpoints that are lost, older, or of another graph change nothing.
func TestShardedCheckpointsOf(t *testing.T) {
	const nodes = 200
	for _, fault := range []struct {
		name string
		does func(t *testing.T, d *disturbed)
	}{
		{"one task's are lost", func(t *testing.T, d *disturbed) {
			if err := os.RemoveAll(filepath.Join(d.dir, "task-1")); err != nil {
				t.Fatal(err)
			}
		}},
		{"those of two shards are swapped", func(t *testing.T, d *disturbed) {
			a, b := filepath.Join(d.dir, "task-1"), filepath.Join(d.dir, "task-2")
			for _, move := range [][2]string{{a, a + "x"}, {b, a}, {a + "x", b}} {
				if err := os.Rename(move[0], move[1]); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"they are older", func(t *testing.T, d *disturbed) {
			old := t.TempDir()
			if err := os.CopyFS(old, os.DirFS(d.dir)); err != nil {
				t.Fatal(err)
			}
			d.serve(150)
			d.dir = old
		}},
		{"they are of another graph", func(t *testing.T, d *disturbed) {
			other := newSharded(t, d.on.Network.KFake(t, oneBroker...), d.shards)
			other.names = d.names
			if _, err := topics.Create(t.Context(), other.client, other.names, topics.Layout{Partitions: 1, Replication: 1, Shards: d.shards}); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			other.sendOrdered(0, 120)
			w := other.start(sharding.Config{Lag: disturbedLag, Config: worker.Config{Policy: schedule(nodes), Checkpoints: replay.Checkpoints{Dir: dir}}})
			other.await(12, w)
			stopAll(t, w)
			d.dir = dir
		}},
		{"they are damaged", func(t *testing.T, d *disturbed) {
			if err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				return os.Truncate(path, 100)
			}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(fault.name, func(t *testing.T) {
			onDisturbed(t, 2, func(t *testing.T, d *disturbed) {
				fault.does(t, d)
				d.serve(nodes)
				d.published().check(t, d.expected(nodes, disturbedLag))
			})
		})
	}
}

// TestShardedHostile: records that no task has sent, in the exchange and among the cuts, change
// nothing, whatever is in them.
func TestShardedHostile(t *testing.T) {
	onDisturbed(t, 3, func(t *testing.T, d *disturbed) {
		var junk []kafka.Record
		noise := rand.New(rand.NewPCG(1, 1))
		exchanged, cuts := d.read(d.names.Exchange), d.read(d.names.Ledger)
		for i := range 80 {
			// Bytes of messages and cuts, with some changed, and others.
			value := bytes.Clone(exchanged[noise.IntN(len(exchanged))].Value)
			at := kafka.TopicPartition{Topic: d.names.Exchange, Partition: int32(noise.IntN(d.shards + 2))}
			if i%4 == 0 {
				at = d.names.LedgerAt(0)
				for at.Partition == 0 && cuts[i%len(cuts)].Partition != 0 {
					i++
				}
				value = bytes.Clone(cuts[i%len(cuts)].Value)
			}
			switch noise.IntN(4) {
			case 0:
				value = value[:noise.IntN(len(value))]
			case 1:
				for range 1 + noise.IntN(8) {
					value[noise.IntN(len(value))] ^= byte(1 + noise.IntN(255))
				}
			case 2:
				value = bytes.Repeat([]byte{0xff}, noise.IntN(100_000))
			default:
				value = bytes.Repeat([]byte(`{"v":2,"window":10,"ranges":[`), noise.IntN(3_000))
			}
			junk = append(junk, kafka.Record{Topic: at.Topic, Partition: at.Partition, Value: value})
		}
		p, err := d.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.SendAgain(t.Context(), junk); err != nil {
			t.Fatal(err)
		}
		d.serve(150)
		d.dir = t.TempDir() // the next one replays all of it
		d.serve(200)
		d.published().check(t, d.expected(200, disturbedLag))
	})
}

// TestShardedLaterProgram: a cut of a later format is one that the others have taken. A worker of
// this program says so, and does not wait for another one.
func TestShardedLaterProgram(t *testing.T) {
	onDisturbed(t, 2, func(t *testing.T, d *disturbed) {
		w := d.work(true)
		d.awaitOwners(w)
		newest, err := cuts.NewestCut(t.Context(), d.client, d.names.LedgerAt(0))
		if err != nil {
			t.Fatal(err)
		}
		d.produceTo(d.names.LedgerAt(0), fmt.Appendf(nil, `{"v":3,"window":10,"prev":%q,"more":[1]}`, newest.Hash))
		d.sendOrdered(100, 200)
		d.refuses(w, "cut of format 3, this program reads format 2", "start the program that wrote it")
		if n := d.count(d.names.Predictions); n != 100 {
			t.Errorf("there are %d predictions, want 100", n)
		}
	})
}

func (d *disturbed) produceTo(at kafka.TopicPartition, value []byte) {
	d.t.Helper()
	p, err := d.client.NewProducer(d.t.Context(), kafka.ProducerConfig{})
	if err == nil {
		err = p.SendAgain(d.t.Context(), []kafka.Record{{Topic: at.Topic, Partition: at.Partition, Value: value}})
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// TestShardedPartitionsAdded: an input gets more partitions while workers run, and every node of
// them is predicted once. A worker that replays everything reads them, too.
func TestShardedPartitionsAdded(t *testing.T) {
	onShards(t, 3, func(t *testing.T, g *sharded) {
		start := func() *shardedWorker {
			return g.start(sharding.Config{Lag: 1, Config: worker.Config{Policy: intake.CountOrLinger{Count: 20, Linger: 20 * time.Millisecond}}})
		}
		a, b := start(), start()
		g.awaitOwners(a, b)
		g.sendOver(0, 50, 1)
		g.awaitPredictions(50, a, b)
		g.addPartitions(g.names.Nodes, 3)
		g.addPartitions(g.names.Labels, 3)
		g.sendOver(50, 150, 3)
		g.awaitPredictions(150, a, b)
		stopAll(t, a, b)
		c := start()
		g.awaitOwners(c)
		g.sendOver(150, 200, 3)
		g.awaitPredictions(200, c)
		stopAll(t, c)
		times := make(map[event.ID]int)
		for _, r := range g.read(g.names.Predictions) {
			var p event.Prediction
			if err := wire.DecodePrediction(r.Value, &p); err != nil {
				t.Fatal(err)
			}
			times[p.Node]++
		}
		for i := range 200 {
			if n := times[event.ID{Num: int64(i)}]; n != 1 {
				t.Errorf("node %d was predicted %d times", i, n)
			}
		}
	})
}

// awaitPredictions waits until there are so many predictions.
func (g *sharded) awaitPredictions(n int, workers ...*shardedWorker) {
	g.t.Helper()
	for limit := time.Now().Add(time.Minute); g.count(g.names.Predictions) < n; {
		for _, w := range workers {
			select {
			case err := <-w.ended:
				g.t.Fatalf("a worker ended: %v", err)
			default:
			}
		}
		if time.Now().After(limit) {
			g.t.Fatalf("there are %d predictions, want %d", g.count(g.names.Predictions), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// sendOver produces the nodes first to last-1 and a label for each, over so many partitions.
func (g *sharded) sendOver(first, last int, partitions int32) {
	g.t.Helper()
	var records []kafka.Record
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key, at := wire.AppendKey(nil, id), int32(i)%partitions
		records = append(records, kafka.Record{Topic: g.names.Nodes, Partition: at, Key: key, Value: wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}})},
			kafka.Record{Topic: g.names.Labels, Partition: at, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: id, Class: "a"})})
	}
	g.produce(records...)
}
