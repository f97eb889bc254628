package trial

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/crash"
	"github.com/gvbll/gvbll/topics/wire"
)

// tried is a graph whose models are tried while nodes are forgotten.
type tried struct {
	*served
	folder    string   // of models
	models    []string // files, the last one is tried
	id        string   // of that
	forgotten int      // commands
	kills     int
}

// forgetWithTrials tries a model, promotes it, and tries another one. Nodes are forgotten while a
// model is loaded, while it is in the shadow, and after it was promoted, with a standby and
// without one, and by workers that are killed meanwhile. Workers that begin anew, and an audit of
// both models, must come to what was served.
func forgetWithTrials(ctx context.Context, v *served) {
	t := &tried{served: v, folder: filepath.Join(v.dir, "models"), models: []string{v.setup.Model}}
	v.setup.Flags = append([]string{"--models", t.folder}, v.setup.Flags...)
	v.http = "127.0.0.1:0" // there are several workers
	must(os.MkdirAll(t.folder, 0o755))
	t.learn(ctx, 200)
	v.serve(ctx, 0)
	t.learn(ctx, 50)
	v.predicted(ctx)
	standby := v.start("b", "", "--linger", "20ms")
	for _, step := range []func(context.Context){t.try, t.forget, t.loaded, t.forget, t.promote, t.forget} {
		step(ctx)
	}
	must(standby.stop())
	t.killed(ctx, crash.BeforeForget+":1")
	t.killed(ctx, crash.InForget+":3")
	for _, step := range []func(context.Context){t.try, t.forget, t.loaded, t.forget} {
		step(ctx)
	}
	t.killed(ctx, crash.InForget+":5")
	t.killed(ctx, crash.AfterForget+":1")
	v.halt()
	t.check(ctx)
}

// killed replaces the worker by one without checkpoints, which is killed at a point while it
// forgets a node. Another one goes on.
func (t *tried) killed(ctx context.Context, point string) {
	t.halt()
	t.kills++
	killed := t.start(fmt.Sprintf("killed-%d", t.kills), point, "--linger", "20ms")
	must(t.gvbll(ctx, "forget", "--no-wait", t.next()))
	killed.await(ctx)
	if !killed.killed() {
		fail("the worker that was to be killed at %s ended: %s", point, killed.lastLine())
	}
	t.progress = t.follow(ctx)
	t.worker = t.start(fmt.Sprintf("next-%d", t.kills), "", "--linger", "20ms")
	t.obeyed(ctx)
}

// check compares what was published with what was sent, and audits it by every two models that
// served beside each other.
func (t *tried) check(ctx context.Context) {
	var ids []event.ID
	for i := range t.sent {
		ids = append(ids, named(i))
	}
	got := t.read(ctx, ids)
	if got.lost+got.twice+len(got.dead) > 0 {
		fail("%v, and dead letters %v", got.faults, got.dead)
	}
	for i := range len(t.models) - 1 {
		t.setup.Model, t.setup.Shadow = t.models[i], t.models[i+1]
		must(t.audit(ctx))
	}
}

// named returns the id of a node that no model was trained on, so that its label is learned.
func named(i int) event.ID { return event.ID{Str: fmt.Sprintf("node-%d", i)} }

// learn sends n more nodes with neighbours among those before, and their labels.
func (t *tried) learn(ctx context.Context, n int) {
	for range n {
		item := t.setup.Items[t.sent%len(t.setup.Items)]
		node := item.Node
		node.ID, node.Neighbours = named(t.sent), []event.ID{named(t.sent / 2), named(t.sent % 7)}
		t.out.node(&node)
		t.out.label(&event.Label{Node: node.ID, Class: item.Class})
		t.sent++
	}
	t.out.send(ctx)
}

// try trains a model on what the ledger has, and has the workers load it.
func (t *tried) try(ctx context.Context) {
	file := filepath.Join(t.folder, fmt.Sprintf("%d.safetensors", len(t.models)))
	serving := t.models[len(t.models)-1] // it was promoted
	must(t.gvbll(ctx, "train", "--out", file, "--serving", serving, "--head", t.setup.Head, "--epochs", "3"))
	m := need(model.Open(file))
	t.models, t.id = append(t.models, file), m.ID
	t.out.put(t.names.Commands, nil, wire.AppendCommand(nil, &event.Command{Name: event.Shadow, Model: m.ID}), 0)
	t.out.send(ctx)
}

// loaded sends nodes until the model is in the shadow.
func (t *tried) loaded(ctx context.Context) {
	t.progress.await(ctx, t.worker, "model in the shadow", drainTimeout, func(sum totals) bool {
		if sum.shadow != t.id && sum.predictions >= t.sent {
			t.learn(ctx, 10)
		}
		return sum.shadow == t.id
	})
}

// promote promotes the model in the shadow, and waits until it serves.
func (t *tried) promote(ctx context.Context) {
	must(t.gvbll(ctx, "promote", t.id))
	t.progress.await(ctx, t.worker, "promotion", drainTimeout, func(sum totals) bool { return sum.promoted > 0 })
}

// next returns the node to forget next.
func (t *tried) next() string {
	t.forgotten++
	return named(t.forgotten).Str
}

// forget forgets a node that others cite, and waits until the worker has, which goes on then.
func (t *tried) forget(ctx context.Context) {
	must(t.gvbll(ctx, "forget", "--timeout", "30s", t.next()))
	t.obeyed(ctx)
	t.learn(ctx, 20)
	t.predicted(ctx)
}

// obeyed waits until the ledger has every forgetting.
func (t *tried) obeyed(ctx context.Context) {
	t.progress.await(ctx, t.worker, fmt.Sprintf("forgetting %d", t.forgotten), drainTimeout,
		func(sum totals) bool { return sum.forgotten >= t.forgotten })
}
