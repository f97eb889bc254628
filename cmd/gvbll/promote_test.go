package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// moving is a graph whose model is to be another.
type moving struct {
	t      *testing.T
	addr   string
	client *kafka.Client
	names  topics.Names
	rng    *rand.Rand
	dim    int
	sent   int
}

// send sends so many nodes with their labels.
func (g *moving) send(n int) {
	g.t.Helper()
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		g.t.Fatal(err)
	}
	var records []kafka.Record
	for range n {
		node := event.Node{ID: event.ID{Num: int64(g.sent)}}
		for range g.dim {
			node.Dense = append(node.Dense, float32(g.rng.NormFloat64()))
		}
		for range min(g.sent, 3) {
			node.Neighbours = append(node.Neighbours, event.ID{Num: g.rng.Int64N(int64(g.sent))})
		}
		key := wire.AppendKey(nil, node.ID)
		records = append(records,
			kafka.Record{Topic: g.names.Nodes, Key: key, Value: wire.AppendNode(nil, &node)},
			kafka.Record{Topic: g.names.Labels, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: node.ID, Index: g.rng.Int32N(2)})})
		g.sent++
	}
	if err := p.Send(g.t.Context(), records); err != nil {
		g.t.Fatal(err)
	}
}

// work starts a worker in this process. stop ends it and waits for the end.
func (g *moving) work(args ...string) (stop func()) {
	g.t.Helper()
	ctx, cancel := context.WithCancel(g.t.Context())
	var out, errs lines
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"work", "--brokers", g.addr, "--http", "127.0.0.1:0", "--linger", "5ms", "--commit-interval", "5ms"}, args...), &out, &errs)
	}()
	return func() {
		g.t.Helper()
		cancel()
		if code := <-ended; code != exitOK {
			g.t.Fatalf("work %v: exit code %d\n%s", args, code, errs.b)
		}
	}
}

// await reads the ledger until it says what is waited for.
func (g *moving) await(ok func(all []*ledger.Record) bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	l, err := ledger.Open(ctx, g.client, g.names.Ledger)
	if err != nil {
		g.t.Fatal(err)
	}
	var all []*ledger.Record
	for !ok(all) {
		r, err := l.Wait(ctx)
		if err != nil {
			g.t.Fatalf("after %d windows: %v", len(all), err)
		}
		if r != nil {
			all = append(all, r)
		}
	}
}

// learned waits until all that was sent is predicted and learned.
func (g *moving) learned() {
	g.t.Helper()
	g.await(func(all []*ledger.Record) bool {
		predictions, labels := 0, 0
		for _, r := range all {
			predictions += r.Predictions
			labels += r.Labels
		}
		return predictions == g.sent && labels == g.sent
	})
}

// promoted waits until the model serves.
func (g *moving) promoted(id string) {
	g.t.Helper()
	g.await(func(all []*ledger.Record) bool { return len(all) > 0 && all[len(all)-1].Promoted == id })
}

// command runs a command that may fail.
func (g *moving) command(args ...string) (code int, out, errs string) {
	var o, e lines
	code = run(g.t.Context(), append(args, "--brokers", g.addr), &o, &e)
	return code, string(o.b), string(e.b)
}

func (g *moving) audit(args ...string) worker.Audited {
	g.t.Helper()
	var found worker.Audited
	code, out, errs := g.command(append([]string{"audit", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &found); code != exitOK || err != nil {
		g.t.Fatalf("audit %v ends with %d: %s%s", args, code, out, errs)
	}
	return found
}

// TestPromote is the move to another model, and back: the shadow comes and is
// promoted while the stream goes on, the old model goes, and comes again.
func TestPromote(t *testing.T) {
	for name, addr := range kafkas() {
		t.Run(name, func(t *testing.T) {
			if addr == "" {
				b, err := broker.Start(broker.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				addr = b.Addr()
			}
			move(t, addr)
		})
	}
}

func move(t *testing.T, addr string) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	data := []string{"--data", generated(t, "--nodes", "300", "--steps", "3"), "--epochs", "3"}
	gvbll(t, append([]string{"train", "--out", a, "--embedding", "8"}, data...)...)
	gvbll(t, append([]string{"train", "--out", b, "--encoder", "gcn", "--embedding", "6"}, data...)...)
	idOf := func(file string) (string, int) {
		m, err := model.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		return m.ID, m.Encoder.In()
	}
	idA, dim := idOf(a)
	idB, _ := idOf(b)
	prefix := "promote-" + strings.ToLower(strings.ReplaceAll(time.Now().Format("150405.000000"), ".", "-"))
	t.Setenv("GVBLL_PREFIX", prefix)
	client, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	names, err := topics.Under(prefix)
	if err != nil {
		t.Fatal(err)
	}
	g := &moving{t: t, addr: addr, client: client, names: names, rng: rand.New(rand.NewPCG(1, 2)), dim: dim}
	gvbll(t, "topics", "--create", "--brokers", addr)
	refused := func(want string, args ...string) {
		t.Helper()
		code, out, errs := g.command(args...)
		if code == exitOK || !strings.Contains(errs, want) || strings.Count(errs[strings.LastIndex(errs, "gvbll: "):], "\n") > 1 {
			t.Errorf("%v ends with %d: %s%s, want one line with %q", args, code, out, errs, want)
		}
	}
	checkpoints := []string{"--checkpoint-dir", filepath.Join(dir, "checkpoints"), "--http", "127.0.0.1:0"}

	refused("is empty", "promote")
	// At first there is one model.
	g.send(30)
	stop := g.work(append(checkpoints, "--model", a)...)
	g.learned()
	refused("no model is in the shadow", "promote")
	stop()
	// The shadow comes: the checkpoint does not have it, so the ledger is replayed.
	stop = g.work(append(checkpoints, "--model", a, "--shadow", b)...)
	g.send(30)
	g.learned()
	refused("is not in the shadow", "promote", "nothing")
	if out := gvbll(t, "promote", "--brokers", addr); !strings.Contains(out, "promote model "+idB) {
		t.Errorf("promote says %q", out)
	}
	g.promoted(idB)
	if out := gvbll(t, "promote", idB, "--brokers", addr); !strings.Contains(out, "serves already") {
		t.Errorf("promote says %q", out)
	}
	g.send(30)
	g.learned()
	stop()
	refused("is in the shadow of model "+idB, "work", "--model", a, "--http", "127.0.0.1:0")
	for _, models := range [][]string{{"--model", a, "--shadow", b}, {"--model", b, "--shadow", a}} {
		if found := g.audit(models...); found.Predictions != 90 || found.Elsewhere != 0 {
			t.Errorf("audit %v: %+v, want 90 predictions", models, found)
		}
	}
	// The old model goes; the checkpoint has the new one.
	stop = g.work(append(checkpoints, "--model", b)...)
	g.send(10)
	g.learned()
	stop()
	if found := g.audit("--model", b); found.Predictions != 40 || found.Elsewhere == 0 {
		t.Errorf("audit of the new model alone: %+v, want 40 predictions", found)
	}
	if found := g.audit("--model", a); found.Predictions != 60 || found.Elsewhere == 0 {
		t.Errorf("audit of the old model alone: %+v, want 60 predictions", found)
	}
	refused("belongs to model "+idB, "work", "--model", a, "--http", "127.0.0.1:0")
	// It comes back, given in the other order.
	stop = g.work(append(checkpoints, "--model", a, "--shadow", b)...)
	g.send(10)
	g.learned()
	gvbll(t, "promote", "--brokers", addr)
	g.promoted(idA)
	g.send(10)
	g.learned()
	stop()
	if found := g.audit("--model", b, "--shadow", a); found.Predictions != 120 || found.Elsewhere != 0 {
		t.Errorf("audit of all: %+v, want 120 predictions", found)
	}
	// Which model said what is in every prediction.
	var models []string
	if err := client.ReadAll(t.Context(), names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		if err := wire.DecodePrediction(r.Value, &p); err != nil {
			t.Error(err)
		}
		models = append(models, p.Model)
	}); err != nil {
		t.Fatal(err)
	}
	for i, id := range models {
		if want := map[bool]string{true: idB, false: idA}[i >= 60 && i < 110]; id != want {
			t.Fatalf("prediction %d is of model %s, want %s", i, id, want)
		}
	}
	out := gvbll(t, "ledger", "--brokers", addr)
	if switches := regexp.MustCompile(`model (\S+) serves from here on`).FindAllStringSubmatch(out, -1); len(switches) != 2 || switches[0][1] != idB || switches[1][1] != idA {
		t.Errorf("the ledger shows %v", switches)
	}
}
