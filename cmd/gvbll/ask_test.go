package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestToLabel: a worker that asks for labels is killed, and others go on from its checkpoint, and
// from the ledger alone. Each node is asked for once, at most as many as the budget allows, with what
// was predicted and the probability; audits, from the beginning and from a checkpoint, find what was
// published. The answers are weighed by the probabilities, and labels that come by themselves are
// apart from them.
func TestToLabel(t *testing.T) { onKafkaItself(t, testToLabel, shortSessions) }

func testToLabel(t *testing.T, sh *shell) {
	state := filepath.Join(t.TempDir(), "state")
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("to-label", m.Encoder.In())
	sh.setenv("GVBLL_PREFIX", "to-label")
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	flags := []string{"--model", file, "--ask", "20/h,random=0.2", "--window", "10", "--session-timeout", sessionTimeout()}
	checkpointed := append([]string{"--state-dir", state, "--checkpoints", "every=20ms,keep=3"}, flags...)

	exe, err := os.Executable()
	must(t, err)
	args := append([]string{"work", "--brokers", sh.addr, "--http", "127.0.0.1:0", "--linger", "5ms", "--commit-interval", "5ms"}, checkpointed...)
	killed := exec.CommandContext(t.Context(), exe, args...)
	var log lines
	killed.Env, killed.Stderr = append(os.Environ(), asProgram+"=1", "GVBLL_PREFIX=to-label"), &log
	must(t, killed.Start())
	g.timed(150)
	g.awaitTaken()
	g.answer(0)
	must(t, killed.Process.Kill())
	if err := killed.Wait(); err == nil {
		t.Fatalf("the worker ended before it was killed:\n%s", log.b)
	}
	for i, flags := range [][]string{checkpointed, flags, flags} {
		stop := g.work(flags...)
		g.timed(150)
		g.awaitTaken()
		g.answer(7 * i)
		g.awaitTaken()
		stop()
	}

	asked := g.toLabel()
	published := make(map[event.ID]float32)
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(t, wire.DecodePrediction(r.Value, &p))
		if p.Asked > 0 {
			published[p.Node] = p.Asked
		}
	}))
	seen := make(map[event.ID]bool)
	for _, p := range asked {
		if seen[p.Node] || published[p.Node] != p.Asked {
			t.Errorf("node %v is asked for with probability %v, seen before: %v, and predicted with %v", p.Node, p.Asked, seen[p.Node], published[p.Node])
		}
		seen[p.Node] = true
	}
	if hours := g.sent / 60; len(seen) != len(published) || len(seen) < 10*hours || len(seen) > 30*hours {
		t.Errorf("%d of %d nodes are asked for, and %d predictions say so; want about 20 in each of %d hours", len(seen), g.sent, len(published), hours)
	}

	found := g.audit("--model", file)
	if e := found.Epochs; found.Asked != int64(len(asked)) || len(e) != 1 || e[0].Proved != e[0].Windows {
		t.Errorf("the audit found %+v, want every window proved and %d nodes asked for", found, len(asked))
	}
	checkpoints, err := filepath.Glob(filepath.Join(state, "*", "checkpoint-*"))
	must(t, err)
	if from := g.audit("--model", file, "--checkpoint", checkpoints[0]); from.Chain != found.Chain || from.First == 0 {
		t.Errorf("the audit from %s found %+v, want chain %s", checkpoints[0], from, found.Chain)
	}

	_, out, _ := g.command("tail", "--to-label", "--json", "--no-follow")
	if n := strings.Count(out, `"asked":`); n != len(asked) {
		t.Errorf("tail shows %d nodes to be labelled, want %d:\n%s", n, len(asked), out)
	}
	var s look.Status
	_, out, _ = g.command("status", "--json")
	must(t, json.Unmarshal([]byte(out), &s))
	if a := s.Last.Asked; a == nil || a.Nodes != len(asked) || a.Labels != len(asked) || a.Others != 14+7 || !(a.Error > 0) {
		t.Errorf("the status has %+v of the labels that were asked for, want %d, and 21 others", a, len(asked))
	}
	if _, out, _ = g.command("status"); !strings.Contains(out, "labels depend on predictions") {
		t.Errorf("the status does not say that labels depend on predictions:\n%s", out)
	}
}

// timed sends n nodes, each a minute of event time after the one before.
func (g *testGraph) timed(n int) {
	g.t.Helper()
	var records []kafka.Record
	for range n {
		node := event.Node{ID: event.ID{Str: fmt.Sprintf("node-%d", g.sent)}, Time: 1_700_000_000_000 + int64(g.sent)*60_000}
		for range g.dim {
			node.Dense = append(node.Dense, float32(g.rng.NormFloat64()))
		}
		records = append(records, kafka.Record{Topic: g.names.Nodes, Key: wire.AppendKey(nil, node.ID), Value: wire.AppendNode(nil, &node)})
		g.sent++
	}
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	must(g.t, p.Send(g.t.Context(), records))
}

// toLabel returns the nodes that are asked for.
func (g *testGraph) toLabel() (list []event.Prediction) {
	g.t.Helper()
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.ToLabel, func(r *kafka.Record) {
		var p event.Prediction
		must(g.t, wire.DecodePrediction(r.Value, &p))
		list = append(list, p)
	}))
	return list
}

// answer sends the labels that are asked for and were not sent, and those of some other nodes.
func (g *testGraph) answer(others int) {
	g.t.Helper()
	sent := make(map[string]bool)
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Labels, func(r *kafka.Record) { sent[string(r.Key)] = true }))
	var records []kafka.Record
	add := func(id event.ID) {
		key := wire.AppendKey(nil, id)
		if !sent[string(key)] {
			records = append(records, kafka.Record{Topic: g.names.Labels, Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: id, Index: g.rng.Int32N(3)})})
		}
		sent[string(key)] = true
	}
	for _, p := range g.toLabel() {
		add(p.Node)
	}
	for i := g.sent - 1; others > 0; i-- {
		if id := (event.ID{Str: fmt.Sprintf("node-%d", i)}); !sent[id.String()] {
			add(id)
			others--
		}
	}
	p, err := g.client.NewProducer(g.t.Context(), kafka.ProducerConfig{})
	must(g.t, err)
	must(g.t, p.Send(g.t.Context(), records))
}
