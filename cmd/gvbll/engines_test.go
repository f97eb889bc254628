package main

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// record makes [TestEngines] write the recording of this program's engine first. It is
// done once for an engine, when that is released.
var record = flag.Bool("record", false, "write testdata/engine-vN.tgz for this program's engine N")

// recordedSettings are the flags of the workers of every recording: all that keeps state of
// its own.
var recordedSettings = []string{"--window", "20", "--coverage", "0.9,groups=class", "--abstain", "confidence=0.3", "--rescore", "after=3"}

// TestEngines goes on from what released programs left behind. A recording has the
// broker's folder with a graph of a hundred nodes, one of which was forgotten, the model,
// and a checkpoint that is older than the ledger's end. The worker must find the ledger and
// the checkpoint, serve what comes next, and leave a ledger that can be audited.
func TestEngines(t *testing.T) {
	if *record {
		recordEngine(t)
	}
	recordings, err := filepath.Glob("testdata/engine-v*.tgz")
	must(t, err)
	if len(recordings) == 0 {
		t.Fatal("no recordings in testdata")
	}
	for _, file := range recordings {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tgz"), func(t *testing.T) { onRecording(t, file, testGoOn) })
	}
}

// onRecording runs a test on a recorded graph, which is in its folder dir.
func onRecording(t *testing.T, recording string, test func(t *testing.T, sh *shell, dir string)) {
	dir := t.TempDir()
	if out, err := exec.Command("tar", "xzf", recording, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	onKFake(t, func(t *testing.T, sh *shell) { test(t, sh, dir) }, kfake.DataDir(filepath.Join(dir, "broker")))
}

// testGoOn serves thirty nodes more.
func testGoOn(t *testing.T, sh *shell, dir string) {
	file := filepath.Join(dir, "model.safetensors")
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	before := g.predictions()
	stop := g.work(append([]string{"--rebase", "--model", file, "--state-dir", filepath.Join(dir, "checkpoints")}, recordedSettings...)...)
	g.sent = 1000 // ids that the recording does not have
	g.send(30)
	g.awaitTaken()
	stop()
	if got, want := g.predictions(), before+30; got != want {
		t.Errorf("%d predictions of nodes, want %d", got, want)
	}
	found := g.audit("--model", file)
	if last := found.Epochs[len(found.Epochs)-1]; last.Proved != last.Windows {
		t.Errorf("the last epoch is %+v, want all of its windows proved", last)
	}
}

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
	producer, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	must(g.t, producer.SendAgain(g.t.Context(), records))
}

// TestAnotherEngine: a ledger of another engine goes on by an epoch of this one. Of the windows
// before it the audit checks what needs no engine, and it proves all others.
func TestAnotherEngine(t *testing.T) {
	onRecording(t, fmt.Sprintf("testdata/engine-v%d.tgz", pipeline.Version), testAnotherEngine)
}

func testAnotherEngine(t *testing.T, sh *shell, dir string) {
	file := filepath.Join(dir, "model.safetensors")
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	const other = pipeline.Version + 1
	g.otherEngine(other)
	before := g.audit("--model", file)
	if len(before.Epochs) != 1 || before.Windows == 0 || before.Elsewhere != before.Windows || before.Predictions != 0 || before.Epochs[0].Checked == 0 {
		t.Errorf("audited %+v, want every window checked and none proved", before)
	}
	if out := sh.gvbll("audit", "--brokers", sh.addr, "--model", file); !strings.Contains(out, fmt.Sprintf("epoch 0, from window 0 on (the ledger begins): %d windows of another program, settings or model", before.Windows)) || strings.Contains(out, "proved") {
		t.Errorf("gvbll audit prints %q, want that no window of epoch 0 is proved", out)
	}
	checkpoints := filepath.Join(dir, "checkpoints") // which has one of this engine, and of the same windows
	on := append([]string{"--model", file, "--state-dir", checkpoints}, recordedSettings...)
	code, _, errs := g.command(append([]string{"work", "--http", "127.0.0.1:0"}, on...)...)
	if want := fmt.Sprintf("was written by gvbll \"dev\" (engine %d), and this is gvbll \"dev\" (engine %d): begin an epoch of this one with --rebase", other, pipeline.Version); code != exitFailed || !strings.Contains(errs, want) {
		t.Errorf("work without --rebase: exit code %d, want %d and %q: %s", code, exitFailed, want, errs)
	}
	if code, _, errs := sh.command("train", "--brokers", sh.addr, "--out", filepath.Join(dir, "new")); code != exitFailed || !strings.Contains(errs, "begin an epoch of this one with 'gvbll rebase' first") {
		t.Errorf("training on the ledger: exit code %d, want %d and the remedy: %s", code, exitFailed, errs)
	}
	on = append(on, "--rebase")
	predicted := g.predictions()
	g.sent = 1000 // ids that the ledger does not have
	for range 2 { // the second worker starts from a checkpoint
		stop := g.work(on...)
		g.send(20)
		g.awaitTaken()
		stop()
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

// recordEngine writes the recording of this program's engine.
func recordEngine(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "model.safetensors")
	gvbll(t, "train", "--out", file, "--data", generated(t, "--nodes", "600", "--steps", "5", "--classes", "3", "--late", "0", "--dim", "6"), "--epochs", "5", "--hidden", "8", "--embedding", "4")
	m, err := model.Open(file)
	must(t, err)
	b, err := broker.Start(broker.Config{Dir: filepath.Join(dir, "broker")})
	must(t, err)
	sh := &shell{t: t, addr: b.Addr()}
	g := sh.graph("gvbll", m.Encoder.In())
	flags := append([]string{"--model", file}, recordedSettings...)

	sh.sendPoison("gvbll") // creates the topics
	stop := g.work(append(flags, "--state-dir", filepath.Join(dir, "checkpoints"))...)
	g.cite(0, 60)
	g.awaitTaken()
	gvbll(t, "forget", "--brokers", b.Addr(), cited(7).String())
	stop()
	stop = g.work(flags...)
	g.cite(60, 100)
	g.awaitTaken()
	stop()
	b.Close()
	to, err := filepath.Abs(fmt.Sprintf("testdata/engine-v%d.tgz", pipeline.Version))
	must(t, err)
	tar := exec.Command("tar", "czf", to, "--owner=0", "--group=0", "--numeric-owner", "--sort=name", "broker", "checkpoints", "model.safetensors")
	tar.Dir = dir
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
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
		r := kafka.Record{Topic: g.names.Nodes, Key: wire.AppendKey(nil, n.ID), Time: time.Now()}
		if !n.Departed {
			r.Value = wire.AppendNode(nil, n)
		}
		records = append(records, r)
	}
	for i := range labels {
		records = append(records, kafka.Record{Topic: g.names.Labels, Value: wire.AppendLabel(nil, &labels[i]), Time: time.Now()})
	}
	must(g.t, producer.Send(g.t.Context(), records))
}

// awaitTaken waits until the ledger has taken all records of the inputs.
func (g *testGraph) awaitTaken() {
	g.t.Helper()
	want := total(g.t, g.client, g.names.Nodes) + total(g.t, g.client, g.names.Labels) + total(g.t, g.client, g.names.Commands)
	g.await(func(all []*ledger.Record) bool {
		got := int64(0)
		for _, r := range all {
			for _, read := range r.Ranges {
				got += read.To - read.From
			}
		}
		return got >= want
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
	if out := sh.gvbll("ledger", "--brokers", sh.addr); !strings.Contains(out, "epoch 1 begins, by gvbll") || !strings.Contains(out, ": coverage 0 to 0.9\n") || !strings.Contains(out, "epoch 2 begins") {
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
