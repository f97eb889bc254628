package main

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// otherEngine writes the ledger again, as if another engine had written it.
func (g *testGraph) otherEngine(engine int) {
	g.t.Helper()
	own, other := fmt.Sprintf(`"engine":%d,`, pipeline.Version), fmt.Sprintf(`"engine":%d,`, engine)
	settings := make(map[string]string) // the other engine's hashes, by this one's
	var records []kafka.Record
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Ledger, func(raw *kafka.Record) {
		r, err := ledger.Decode(raw.Value)
		must(g.t, err)
		if r.Configuration != "" {
			r.Configuration = event.Settings(strings.Replace(string(r.Configuration), own, other, 1))
			settings[r.Settings] = r.Configuration.Hash()
		}
		r.Settings = settings[r.Settings]
		records = append(records, kafka.Record{Topic: g.names.Ledger, Value: r.Append(nil), Time: raw.Time})
	}))
	g.replace(g.names.Ledger, records)
}

// replace deletes a topic and creates it again with the records.
func (g *testGraph) replace(topic string, records []kafka.Record) {
	g.t.Helper()
	partitions, err := g.client.Partitions(g.t.Context(), topic)
	must(g.t, err)
	k, err := kgo.NewClient(g.sh.kgoOptions()...)
	must(g.t, err)
	defer k.Close()
	del := kmsg.NewPtrDeleteTopicsRequest()
	del.TimeoutMillis, del.TopicNames = 5000, []string{topic}
	del.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: &topic}}
	res, err := del.RequestWith(g.t.Context(), k)
	if err != nil || res.Topics[0].ErrorCode != 0 {
		g.t.Fatal(err, res)
	}
	_, err = g.client.CreateTopics(g.t.Context(), kafka.TopicSpec{Name: topic, Partitions: partitions[topic], Replication: -1})
	must(g.t, err)
	// A broker may still take records for the old topic, and delete them with it, from a producer
	// that names it. This one says its id.
	producer, err := kgo.NewClient(append(g.sh.kgoOptions(), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	must(g.t, err)
	defer producer.Close()
	for _, r := range records {
		again := &kgo.Record{Topic: topic, Partition: r.Partition, Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			again.Headers = append(again.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		must(g.t, producer.ProduceSync(g.t.Context(), again).FirstErr())
	}
}

// TestAnotherEngine: a ledger of another engine goes on by an epoch of this one. Of the windows
// before it the audit checks what needs no engine, and it proves all others.
func TestAnotherEngine(t *testing.T) { onKFake(t, testAnotherEngine) }

func testAnotherEngine(t *testing.T, sh *shell) {
	file, checkpoints := threeClasses(t), t.TempDir()
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.sendPoison("gvbll") // creates the topics
	on := []string{"--model", file, "--state-dir", checkpoints, "--window", "20", "--coverage", "0.9,groups=class", "--abstain", "confidence=0.3", "--rescore", "after=3"}
	g.cite(0, 60)
	g.serve(on...)
	const other = pipeline.Version + 1
	g.otherEngine(other)
	before := g.audit("--model", file)
	if len(before.Epochs) != 1 || before.Windows == 0 || before.Elsewhere != before.Windows || before.Predictions != 0 || before.Epochs[0].Checked == 0 {
		t.Errorf("audited %+v, want every window checked and none proved", before)
	}
	if out := sh.gvbll("audit", "--brokers", sh.addr, "--model", file); !strings.Contains(out, fmt.Sprintf("epoch 0, from window 0 on (the ledger begins): %d windows of another program, settings or model", before.Windows)) || strings.Contains(out, "proved") {
		t.Errorf("gvbll audit prints %q, want that no window of epoch 0 is proved", out)
	}
	// The folder of checkpoints has one of this engine, and of the same windows.
	code, _, errs := g.command(append([]string{"work", "--http", "127.0.0.1:0"}, on...)...)
	if want := fmt.Sprintf("was written by gvbll \"dev\" (engine %d), and this is gvbll \"dev\" (engine %d): begin an epoch of this one with --rebase", other, pipeline.Version); code != exitFailed || !strings.Contains(errs, want) {
		t.Errorf("work without --rebase: exit code %d, want %d and %q: %s", code, exitFailed, want, errs)
	}
	if code, _, errs := sh.command("train", "--brokers", sh.addr, "--out", filepath.Join(checkpoints, "new")); code != exitFailed || !strings.Contains(errs, "begin an epoch of this one with 'gvbll rebase' first") {
		t.Errorf("training on the ledger: exit code %d, want %d and the remedy: %s", code, exitFailed, errs)
	}
	on = append(on, "--rebase")
	predicted := g.predictions()
	for range 2 { // the second worker starts from a checkpoint
		g.send(20)
		g.serve(on...)
	}
	if got := g.predictions(); got != predicted+40 {
		t.Errorf("%d predictions of nodes, want %d", got, predicted+40)
	}
	after := g.audit("--model", file)
	if len(after.Epochs) != 2 {
		t.Fatalf("audited %+v, want two epochs", after)
	}
	if old, own := after.Epochs[0], after.Epochs[1]; !reflect.DeepEqual(old, before.Epochs[0]) || own.Proved != own.Windows || own.Why != fmt.Sprintf("engine %d to %d", other, pipeline.Version) {
		t.Errorf("audited %+v, want epoch 0 as before, %+v, and one that is proved and names what differs", after.Epochs, before.Epochs[0])
	}
	list, err := checkpoint.Find(checkpoints, g.names.Ledger)
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	if found := g.audit("--model", file, "--checkpoint", list[0].Path); found.Chain != after.Chain || found.First < before.Windows {
		t.Errorf("audited from a checkpoint %+v, want chain %s", found, after.Chain)
	}
}

// cite sends the events of [citations].
func (g *testGraph) cite(from, to int) {
	g.t.Helper()
	producer, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	nodes, labels := citations(from, to, g.dim)
	var records []kafka.Record
	for i := range nodes {
		n := &nodes[i]
		r := kafka.Record{Topic: g.names.Nodes, Partition: g.names.Cell, Key: wire.AppendKey(nil, n.ID), Time: time.Now()}
		if !n.Departed {
			r.Value = wire.AppendNode(nil, n)
		}
		records = append(records, r)
	}
	for i := range labels {
		records = append(records, kafka.Record{Topic: g.names.Labels, Partition: g.names.Cell, Value: wire.AppendLabel(nil, &labels[i]), Time: time.Now()})
	}
	must(g.t, producer.Send(g.t.Context(), records))
}

// awaitTaken waits until the ledger has taken all records of the inputs. A purged ledger has taken those
// that it does not name.
func (g *testGraph) awaitTaken() {
	g.t.Helper()
	ends := make(map[kafka.TopicPartition]int64)
	for _, topic := range []string{g.names.Nodes, g.names.Labels, g.names.Commands} {
		bounds, err := g.client.Offsets(g.t.Context(), topic)
		must(g.t, err)
		for at, b := range bounds {
			if b.End > b.First {
				ends[at] = b.End
			}
		}
	}
	g.await("all records of the inputs are in windows", func(all []*ledger.Record) bool {
		taken := make(map[kafka.TopicPartition]int64)
		for _, r := range all {
			for _, read := range r.Ranges {
				taken[kafka.TopicPartition{Topic: read.Topic, Partition: read.Partition}] = read.To
			}
		}
		for at, end := range ends {
			if to, named := taken[at]; to < end && (named || len(all) == 0 || all[0].Window == 0) {
				return false
			}
		}
		return true
	})
}

// predictions returns how many predictions of arrivals are published, without revisions.
func (g *testGraph) predictions() (n int) {
	g.t.Helper()
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(g.t, wire.DecodePrediction(r.Value, &p))
		if p.Revision == 0 {
			n++
		}
	}))
	return n
}

// TestRebase begins an epoch of other settings, and one of another model with more classes,
// on a graph that is served. Every node is predicted once.
func TestRebase(t *testing.T) { onKFake(t, testRebase) }

func testRebase(t *testing.T, sh *shell) {
	dir := t.TempDir()
	train := func(name, classes string) string {
		file := filepath.Join(dir, name)
		sh.gvbll("train", "--out", file, "--data", generated(t, "--nodes", "300", "--steps", "3", "--classes", classes, "--late", "0", "--dim", "6"), "--epochs", "3", "--hidden", "8", "--embedding", "4")
		return file
	}
	narrow, wide := train("narrow", "2"), train("wide", "4")
	m, err := model.Open(narrow)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	serve := func(args ...string) {
		t.Helper()
		stop := g.work(args...)
		g.send(20)
		g.awaitLearned()
		stop()
	}
	serve("--model", narrow)
	code, _, errs := g.command("work", "--http", "127.0.0.1:0", "--model", wide)
	if code != exitFailed || !strings.Contains(errs, "begin an epoch of it with --rebase") {
		t.Errorf("work with another model: exit code %d, want %d and the remedy: %s", code, exitFailed, errs)
	}
	state := filepath.Join(dir, "state")
	if out := sh.gvbll("rebase", "--brokers", sh.addr, "--model", narrow, "--coverage", "0.9", "--state-dir", state); !strings.Contains(out, "epoch 1 begins at window") || !strings.Contains(out, "coverage 0 to 0.9") {
		t.Errorf("gvbll rebase prints %q, want epoch 1 and what changes", out)
	}
	if out := sh.gvbll("rebase", "--brokers", sh.addr, "--model", narrow, "--coverage", "0.9"); !strings.HasPrefix(out, "nothing differs: epoch 1 goes on. Start 'gvbll work' with these flags") {
		t.Errorf("gvbll rebase prints %q the second time", out)
	}
	serve("--model", narrow, "--coverage", "0.9", "--state-dir", state)
	serve("--model", wide, "--rebase")
	if got := g.predictions(); got != g.sent {
		t.Errorf("%d predictions, want one for each of %d nodes", got, g.sent)
	}
	if out := sh.gvbll("ledger", "--brokers", sh.addr); !strings.Contains(out, "epoch 1 begins, by gvbll") || !strings.Contains(out, ": coverage 0 to 0.9, sets-groups none to floor\n") || !strings.Contains(out, "epoch 2 begins") {
		t.Errorf("gvbll ledger does not show the epochs:\n%s", out)
	}
	// The first model's audit proves both of its epochs, each with its own settings.
	for file, proved := range map[string][]bool{narrow: {true, true, false}, wide: {false, false, true}} {
		for i, e := range g.audit("--model", file).Epochs {
			if (e.Proved == e.Windows) != proved[i] || (e.Checked == 20) == proved[i] || e.Predictions+e.Checked != 20 {
				t.Errorf("audit with %s: epoch %d is %+v, want it proved: %t", filepath.Base(file), i, e, proved[i])
			}
		}
	}
}
