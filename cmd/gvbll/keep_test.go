package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestKeep: of a stream of ten days, a graph that keeps nodes for two days and edges for one ends
// with those. A worker goes on from a checkpoint, and another replays all of it. Status and ledger
// say what left. A node that comes again is predicted again. Another time is another epoch, and an
// audit agrees with both.
func TestKeep(t *testing.T) { onKFake(t, testKeep) }

func testKeep(t *testing.T, sh *shell) {
	const nodes, pace = 2400, 6 * time.Minute
	file, dir := threeClasses(t), t.TempDir()
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("keep", m.Encoder.In())
	sh.setenv("GVBLL_PREFIX", "keep")
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.gvbll("topics", "--create", "--partitions", "1")
	producer, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	began := time.Now().Add(-nodes * pace)
	send := func(from, to int) {
		t.Helper()
		var records []kafka.Record
		for i := from; i < to; i++ {
			id := event.ID{Str: fmt.Sprint("node-", i%(nodes-1))} // the last one is the first again
			n := event.Node{ID: id, Dense: make([]float32, m.Encoder.In()), Neighbours: []event.ID{{Str: fmt.Sprint("node-", i-1)}}, Time: began.Add(time.Duration(i) * pace).UnixMilli()}
			n.Dense[i%len(n.Dense)] = 1
			l := event.Label{Node: id, Index: int32(i % 3), Time: n.Time}
			records = append(records,
				kafka.Record{Topic: g.names.Nodes, Value: wire.AppendNode(nil, &n), Time: time.Now()},
				kafka.Record{Topic: g.names.Labels, Value: wire.AppendLabel(nil, &l), Time: time.Now()})
		}
		must(t, producer.Send(t.Context(), records))
	}
	keep := []string{"--model", file, "--state-dir", filepath.Join(dir, "state"), "--window", "20", "--keep", "nodes=2d,edges=1d"}
	var predictions, left int
	work := func(sent int) {
		t.Helper()
		stop := g.work(keep...)
		g.await(fmt.Sprintf("%d nodes are predicted", sent), func(all []*ledger.Record) bool {
			predictions, left = 0, 0
			for _, r := range all {
				predictions += r.Predictions
				left += r.Figures.Int(event.NodesExpired)
			}
			return predictions >= sent
		})
		g.awaitTaken()
		stop()
	}
	send(0, nodes/3)
	work(nodes / 3)
	send(nodes/3, nodes/2)
	work(nodes / 2)
	send(nodes/2, nodes)
	must(t, os.RemoveAll(filepath.Join(dir, "state")))
	work(nodes)
	if predictions != nodes || left < nodes-1540 || left > nodes-1500 {
		t.Errorf("%d predictions and %d nodes left, want %d and all but those of two days and of the clock", predictions, left, nodes)
	}
	if _, out, _ := sh.command("status"); !strings.Contains(strings.Join(strings.Fields(out), " "), fmt.Sprintf("nodes that expired %d 0 edges that expired", left)) {
		t.Errorf("gvbll status:\n%s", out)
	}
	exported := func() int {
		t.Helper()
		out := filepath.Join(dir, "exported")
		defer os.RemoveAll(out)
		sh.gvbll("export", "--out", out)
		table, err := os.ReadFile(filepath.Join(out, "nodes.csv"))
		must(t, err)
		return strings.Count(string(table), "\n") - 1
	}
	if n := exported(); n != nodes-left {
		t.Errorf("%d nodes are exported, want %d", n, nodes-left)
	}
	sh.gvbll("audit", "--model", file)

	keep[len(keep)-1] = "nodes=1d"
	if code, _, errs := sh.command(append([]string{"work", "--http", "127.0.0.1:0"}, keep...)...); code != exitFailed || !strings.Contains(errs, "keep is nodes=2d,edges=1d there and nodes=1d here") || !strings.Contains(errs, "--rebase") {
		t.Errorf("another time: exit code %d and %s", code, errs)
	}
	sh.gvbll(append([]string{"rebase"}, append(keep[:4:4], keep[6:]...)...)...)
	if n := exported(); n < 1250 || n > 1290 {
		t.Errorf("%d nodes are exported, want those of a day and of the clock", n)
	}
	if out := sh.gvbll("audit", "--model", file); !strings.Contains(out, "epoch 1") {
		t.Errorf("gvbll audit:\n%s", out)
	}
}
