package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// testGraph is a graph on a broker, with random nodes and labels, for tests that start
// and stop its workers.
type testGraph struct {
	t      *testing.T
	sh     *shell
	client *kafka.Client
	names  topics.Names
	rng    *rand.Rand
	dim    int    // number of features of a node
	sent   int    // number of nodes sent, and id of the next one
	errs   *lines // standard error of the last worker
}

// graph returns the graph of a prefix, whose nodes have dim features.
func (sh *shell) graph(prefix string, dim int) *testGraph {
	sh.t.Helper()
	return &testGraph{t: sh.t, sh: sh, client: sh.dial(), names: topicsUnder(sh.t, prefix), rng: rand.New(rand.NewPCG(1, 2)), dim: dim}
}

// send sends n nodes, each with its label.
func (g *testGraph) send(n int) {
	g.t.Helper()
	g.sendNodes(n, true)
}

// sendUnlabelled sends n nodes.
func (g *testGraph) sendUnlabelled(n int) {
	g.t.Helper()
	g.sendNodes(n, false)
}

func (g *testGraph) sendNodes(n int, labelled bool) {
	g.t.Helper()
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	var records []kafka.Record
	for range n {
		// Strings, because the training nodes have numbers, and their labels are not learned.
		id := func(i int) event.ID { return event.ID{Str: fmt.Sprintf("node-%d", i)} }
		node := event.Node{ID: id(g.sent)}
		for range g.dim {
			node.Dense = append(node.Dense, float32(g.rng.NormFloat64()))
		}
		for range min(g.sent, 3) {
			node.Neighbours = append(node.Neighbours, id(g.rng.IntN(g.sent)))
		}
		key := wire.AppendKey(nil, node.ID)
		records = append(records, kafka.Record{Topic: g.names.Nodes, Partition: g.names.Cell, Key: key, Value: wire.AppendNode(nil, &node)})
		if labelled {
			records = append(records, kafka.Record{Topic: g.names.Labels, Partition: g.names.Cell, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: node.ID, Index: g.rng.Int32N(2)})})
		}
		g.sent++
	}
	must(g.t, p.Send(g.t.Context(), records))
}

// work starts a worker in this process. stop ends it, and waits until it has ended.
func (g *testGraph) work(args ...string) (stop func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	var out, errs lines
	g.errs = &errs
	ended := make(chan int, 1)
	common := []string{"work", "--brokers", g.sh.addr, "--http", "127.0.0.1:0", "--commit-interval", "5ms"}
	if !slices.Contains(args, "--event-time") {
		common = append(common, "--linger", "5ms")
	}
	go func() {
		ended <- run(ctx, append(common, args...), g.sh.process(&out, &errs))
	}()
	return func() {
		g.t.Helper()
		cancel()
		if code := kafkatest.Receive(g.t, ended, "the worker has ended"); code != exitOK {
			g.t.Fatalf("work %v: exit code %d\n%s", args, code, &errs)
		}
	}
}

// log returns what the last worker logged, after stop.
func (g *testGraph) log() string { return g.errs.String() }

// await reads the ledger until ok accepts all of its records so far: until what is true.
func (g *testGraph) await(what string, ok func(all []*ledger.Record) bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), kafkatest.Patience)
	defer cancel()
	l, err := ledger.OpenAt(ctx, g.client, g.names.LedgerAt(), 0) // what a purge has left
	must(g.t, err)
	var all []*ledger.Record
	for !ok(all) {
		r, err := l.Wait(ctx)
		if err != nil {
			g.t.Fatalf("the ledger has %d windows, and still not: %s: %v\n%s", len(all), what, err, g.errs)
		}
		if r != nil {
			all = append(all, r)
		}
	}
}

// awaitLearned waits until every node that was sent is predicted and its label learned.
func (g *testGraph) awaitLearned() {
	g.t.Helper()
	g.await(fmt.Sprintf("%d nodes are predicted and their labels learned", g.sent), func(all []*ledger.Record) bool {
		predictions, labels := 0, 0
		for _, r := range all {
			predictions += r.Predictions
			labels += r.Labels
		}
		return predictions == g.sent && labels == g.sent
	})
}

// awaitOwner waits until a worker owns the graph.
func (g *testGraph) awaitOwner() {
	g.t.Helper()
	kafkatest.Await(g.t, "a worker owns the graph", func() bool {
		members, err := look.MembersOf(g.t.Context(), g.client, g.names)
		must(g.t, err)
		return len(members) > 0 && members[0].Owner
	})
}

// awaitPromotion waits until the ledger promotes the model.
func (g *testGraph) awaitPromotion(id string) {
	g.t.Helper()
	g.await("model "+id+" is promoted", func(all []*ledger.Record) bool { return len(all) > 0 && all[len(all)-1].Promoted == id })
}

// command runs a command on the graph's broker.
func (g *testGraph) command(args ...string) (code int, stdout, stderr string) {
	g.t.Helper()
	return g.sh.command(append(args, "--brokers", g.sh.addr)...)
}

// audit runs an audit that must succeed.
func (g *testGraph) audit(args ...string) audit.Result {
	g.t.Helper()
	var found audit.Result
	code, out, errs := g.command(append([]string{"audit", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		g.t.Fatalf("audit %v: exit code %d, %v: %s%s", args, code, err, out, errs)
	}
	return found
}

// idOf returns the id of a model's file.
func idOf(t *testing.T, file string) string {
	t.Helper()
	m, err := model.Open(file)
	must(t, err)
	return m.ID
}

// TestPromote replaces the model of a graph and goes back to it, while nodes arrive: a
// second model runs in the shadow, is promoted, serves alone, and is replaced by the
// first. Every node is predicted once, by the model that the ledger names, and audits
// agree.
func TestPromote(t *testing.T) { onKafka(t, testPromote) }

func testPromote(t *testing.T, sh *shell) {
	dir := t.TempDir()
	a, b := tenClasses(t), otherEncoder(t)
	idA, idB := idOf(t, a), idOf(t, b)
	prefix := fmt.Sprintf("promote-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, 128)
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	refused := func(want string, args ...string) {
		t.Helper()
		code, out, errs := g.command(args...)
		if code == exitOK || !strings.Contains(errs, want) || strings.Count(errs[strings.LastIndex(errs, "gvbll: "):], "\n") > 1 {
			t.Errorf("%v: exit code %d, want a failure with %q in one line: %s%s", args, code, want, out, errs)
		}
	}
	checkpoints := []string{"--state-dir", filepath.Join(dir, "checkpoints"), "--http", "127.0.0.1:0"}

	refused("is empty", "promote")
	// One model, without a shadow.
	g.send(30)
	stop := g.work(append(checkpoints, "--model", a)...)
	g.awaitLearned()
	refused("no model is in the shadow", "promote")
	stop()
	// A second model in the shadow. The checkpoint does not hold it, so the worker replays
	// the ledger.
	stop = g.work(append(checkpoints, "--model", a, "--shadow", b)...)
	g.awaitOwner()
	refused("is not in the shadow: model "+idB, "promote", "nothing") // though it has not stepped a window
	g.send(30)
	g.awaitLearned()
	refused("is not in the shadow", "promote", "nothing")
	if out := sh.gvbll("promote", "--brokers", sh.addr); !strings.Contains(out, "promote model "+idB) {
		t.Errorf("gvbll promote prints %q, want that it promotes %s", out, idB)
	}
	g.awaitPromotion(idB)
	if out := sh.gvbll("promote", idB, "--brokers", sh.addr); !strings.Contains(out, "serves already") {
		t.Errorf("gvbll promote %s prints %q, want that it serves already", idB, out)
	}
	g.send(30)
	g.awaitLearned()
	stop()
	refused("is in the shadow of model "+idB, "work", "--model", a, "--http", "127.0.0.1:0")
	for _, models := range [][]string{{"--model", a, "--shadow", b}, {"--model", b, "--shadow", a}} {
		if found := g.audit(models...); found.Predictions != 90 || found.Elsewhere != 0 {
			t.Errorf("audit %v: %+v, want 90 predictions", models, found)
		}
	}
	// The second model alone. The checkpoint holds it.
	stop = g.work(append(checkpoints, "--model", b)...)
	g.send(10)
	g.awaitLearned()
	stop()
	if found := g.audit("--model", b); found.Predictions != 40 || found.Elsewhere == 0 {
		t.Errorf("audit of the new model alone: %+v, want 40 predictions", found)
	}
	if found := g.audit("--model", a); found.Predictions != 60 || found.Elsewhere == 0 {
		t.Errorf("audit of the old model alone: %+v, want 60 predictions", found)
	}
	refused("belongs to model "+idB, "work", "--model", a, "--http", "127.0.0.1:0")
	// The first model is back in the shadow, although --model names it, and is promoted.
	stop = g.work(append(checkpoints, "--model", a, "--shadow", b)...)
	g.send(10)
	g.awaitLearned()
	sh.gvbll("promote", "--brokers", sh.addr)
	g.awaitPromotion(idA)
	g.send(10)
	g.awaitLearned()
	stop()
	if found := g.audit("--model", b, "--shadow", a); found.Predictions != 120 || found.Elsewhere != 0 {
		t.Errorf("audit of all: %+v, want 120 predictions", found)
	}
	// Every prediction names the model that made it.
	var models []string
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			t.Error(err)
		}
		models = append(models, p.Model)
	}))
	for i, id := range models {
		if want := map[bool]string{true: idB, false: idA}[i >= 60 && i < 110]; id != want {
			t.Fatalf("prediction %d is of model %s, want %s", i, id, want)
		}
	}
	out := sh.gvbll("ledger", "--brokers", sh.addr)
	if switches := regexp.MustCompile(`model (\S+) serves from here on`).FindAllStringSubmatch(out, -1); len(switches) != 2 || switches[0][1] != idB || switches[1][1] != idA {
		t.Errorf("gvbll ledger shows the switches %v, want to %s and back to %s", switches, idB, idA)
	}
}
