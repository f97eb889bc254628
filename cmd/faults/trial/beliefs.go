package trial

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// clockAhead has a hundred records of one producer come 55 minutes ahead, where ten minutes are kept: nothing expires.
func clockAhead(ctx context.Context, v *served) {
	v.setup.Flags = append(slices.Clone(v.setup.Flags), "--keep", "nodes=10m,edges=10m")
	v.serve(ctx, 2000)
	v.sendAt(ctx, 100, time.Now().Add(55*time.Minute))
	v.predicted(ctx)
	v.more(ctx, 200)
	if _, page := get(ctx, v.http, "/metrics"); !strings.Contains(page, "gvbll_departures_total{result=\"expired\"} 0\n") {
		fail("nodes expired, or nothing says whether they did")
	}
	v.finished(ctx)
}

// sendAt sends n more nodes, in records of a time.
func (v *served) sendAt(ctx context.Context, n int, at time.Time) {
	sent := len(v.out.records)
	for range n {
		node := v.setup.Items[v.sent%len(v.setup.Items)].Node
		node.ID.Num, node.Neighbours, node.Time = int64(v.sent), nil, 0
		v.out.node(&node)
		v.sent++
	}
	for i := range v.out.records[sent:] {
		v.out.records[sent+i].Time = at
	}
	v.out.send(ctx)
}

// offsetsReset has the offsets be at the ends of the inputs: the ledger is believed.
func offsetsReset(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	v.halt()
	v.endTransactions(ctx)
	v.send(ctx, 50)
	must(v.admin.CommitAllOffsets(ctx, v.names.Ledger, need(v.admin.ListEndOffsets(ctx, v.names.Nodes)).Offsets()))
	v.begin(ctx)
	v.finished(ctx)
}

// mirrored has all topics be copies without the markers and aborted records of the transactions in which the inputs were sent.
func mirrored(ctx context.Context, v *served) {
	v.out.producer = need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix}))
	v.begin(ctx)
	for range 10 {
		for range 20 {
			v.put()
		}
		must(v.out.producer.Commit(ctx, v.out.records, "", nil))
		v.out.records = v.out.records[:0]
		v.predicted(ctx)
	}
	v.halt()
	v.endTransactions(ctx)
	v.out = v.newSender(ctx)
	v.copied(ctx)
	v.refuses(ctx, "gvbll rebase --restored")
	must(v.gvbll(ctx, "rebase", "--restored", "--model", v.setup.Model, "--state-dir", filepath.Join(v.dir, "a")))
	v.begin(ctx)
	v.more(ctx, 50)
	v.finished(ctx)
}

// copied has all topics be copies of themselves.
func (v *served) copied(ctx context.Context) {
	n := v.names
	for _, topic := range []string{n.Nodes, n.Labels, n.Commands, n.Predictions, n.ToLabel, n.DeadLetters, n.Ledger} {
		v.replace(ctx, topic, v.records(ctx, topic))
	}
}

// cellsMirrored is mirrored of a graph of three cells, which one worker has.
func cellsMirrored(ctx context.Context, v *served) {
	const cells = 3
	g := v.setup.divided(ctx, unique("mirrored-cells"), topics.Layout{Cells: cells, Replication: -1})
	of := g.served(ctx)
	defer of.end()
	f := &fleet{graph: g, addrs: []string{freeAddress()}, sent: make([]int, cells)}
	some := func(rounds int, send func([]kafka.Record) error) {
		for range rounds {
			for cell, n := range f.sent {
				x := &v.setup.Items[n]
				of.out.put(g.names.Nodes, wire.AppendKey(nil, x.Node.ID), wire.AppendNode(nil, &x.Node), cell)
				f.sent[cell]++
			}
			must(send(of.out.records))
			of.out.records = of.out.records[:0]
		}
	}
	plain := func(records []kafka.Record) error { return of.out.producer.SendAgain(ctx, records) }
	inputs := need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: g.prefix}))
	w := f.startWorker(0)
	some(20, func(records []kafka.Record) error { return inputs.Commit(ctx, records, "", nil) })
	must(inputs.Restart(ctx)) // once the last marker is written
	some(1, plain)            // behind it, as it is in no window
	f.drain(ctx)
	must(w.stop())
	of.copied(ctx)
	w = f.startWorker(0)
	await(ctx, drainTimeout, func() (missing string) {
		if w.logged("gvbll rebase --restored") {
			return ""
		}
		return "the worker does not say what to do: " + w.lastLine()
	})
	_ = w.stop() // it may have ended
	must(g.gvbll(ctx, "rebase", "--restored", "--model", v.setup.Model))
	w = f.startWorker(0)
	some(20, plain)
	f.drain(ctx)
	must(w.stop())
	if f.judge(ctx); f.found.verdict.Err() != nil {
		fail("%d lost, %d twice: %v", f.found.Lost, f.found.Duplicated, f.found.Wrong)
	}
}

// compacted has brokers take no record of the ledger without a key, and drop all but the newest of each.
func compacted(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	var settings []kadm.AlterConfig
	for name, value := range map[string]string{"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"} {
		settings = append(settings, kadm.AlterConfig{Name: name, Value: &value})
	}
	must(need(v.admin.AlterTopicConfigs(ctx, settings, v.names.Ledger))[0].Err)
	for range 5 {
		v.more(ctx, 50)
		must(kafka.Sleep(ctx, 2*time.Second))
	}
	v.halt()
	v.begin(ctx)
	v.more(ctx, 50)
	v.finished(ctx)
}
