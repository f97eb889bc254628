package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// citations returns the events of the nodes from to to-1. Nodes cite each other, some of
// them before they arrive; some depart and are cited again; labels come before and after
// their nodes. Every node cites node 7, the one that the test forgets.
func citations(from, to, features int) (nodes []event.Node, labels []event.Label) {
	for i := from; i < to; i++ {
		n := event.Node{ID: cited(i)}
		for j := range features {
			n.Dense = append(n.Dense, float32((i*31+j*17)%13)/6-1)
		}
		n.Neighbours = []event.ID{cited(7), cited(i + 3), cited(i * 5 % (i + 1))}
		nodes = append(nodes, n)
		if i%11 == 10 {
			nodes = append(nodes, event.Node{ID: cited(i - 5), Departed: true})
		}
		labels = append(labels, event.Label{Node: cited(i + i%5 - 2), Index: int32(i % 3)})
	}
	return nodes, labels
}

// cited returns the id of a node. It is none of the training nodes, whose labels are not
// learned again.
func cited(i int) event.ID { return event.ID{Num: int64(10_000 + i)} }

// TestForget: after gvbll forget, a running worker publishes the same bytes, and has the
// same hashes in its ledger, as an engine that never saw the node. An audit of the whole
// ledger agrees.
func TestForget(t *testing.T) { onKFake(t, testForget) }

func testForget(t *testing.T, sh *shell) {
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	const prefix = "forget"
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	stop := g.work("--model", file, "--window", "20")
	g.cite(0, 100)
	g.awaitTaken()
	out := sh.gvbll("forget", "--brokers", sh.addr, cited(7).String())
	if !strings.HasPrefix(out, "forgot in window ") || strings.Contains(out, "‖ΔM‖ 0,") {
		t.Errorf("gvbll forget prints %q, want the window and how far the posterior moved", out)
	}
	if code, out, errs := g.command("forget", "paper-9"); code != exitFailed || !strings.HasPrefix(out, "forgot in window ") || !strings.Contains(errs, `unknown: no event names ["paper-9"]`) || !strings.Contains(errs, "attempt 1: the windows before ") {
		t.Errorf("forgetting a node that never came: exit code %d: %s%s", code, out, errs)
	}
	g.cite(100, 150)
	g.awaitTaken()
	stop()

	// An engine that never sees the node steps the ledger's windows.
	cfg, err := flags.ValidSettings(pipeline.Config{})
	must(t, err)
	never, err := pipeline.New(m, cfg)
	must(t, err)
	published := map[string][]byte{}
	records := map[string][]kafka.Record{} // by topic
	for _, topic := range []string{g.names.Nodes, g.names.Labels, g.names.Predictions} {
		must(t, g.client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
			c := *r
			c.Key, c.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			records[topic] = append(records[topic], c)
		}))
	}
	for _, r := range records[g.names.Predictions] {
		var p event.Prediction
		must(t, wire.DecodePrediction(r.Value, &p))
		published[fmt.Sprint(p.Window, p.Node)] = r.Value
	}
	l, err := ledger.Open(t.Context(), g.client, g.names.LedgerAt())
	must(t, err)
	forgot, after := int64(-1), 0
	for {
		r, err := l.Next(t.Context())
		must(t, err)
		if r == nil {
			break
		}
		outcome := never.Step(windowOf(t, r, g.names, records, cited(7)))
		if r.Forgot != nil {
			forgot = r.Window
		}
		if forgot < 0 {
			continue
		}
		if got := hex.EncodeToString(outcome.Chain[:]); got != r.Chain || hex.EncodeToString(outcome.Posterior[:]) != r.Posterior {
			t.Fatalf("window %d: the ledger has chain %s, an engine that never saw the node has %s", r.Window, r.Chain, got)
		}
		for i := range outcome.Predictions {
			p := &outcome.Predictions[i]
			after++
			if !bytes.Equal(published[fmt.Sprint(p.Window, p.Node)], wire.MsgPack.AppendPrediction(nil, p)) {
				t.Errorf("window %d: the prediction of node %v differs from that of an engine that never saw node 7", r.Window, p.Node)
			}
		}
	}
	if forgot < 0 || after < 30 {
		t.Fatalf("forgot in window %d and compared %d predictions after that, want at least 30", forgot, after)
	}
	if out := sh.gvbll("audit", "--brokers", sh.addr, "--model", file); !strings.Contains(out, "agree with the model") {
		t.Errorf("gvbll audit prints %q", out)
	}
}

// TestForgetWithoutWorkers: gvbll forget says that nobody is there, and ends when its time is
// over. Neither that nor an interruption takes the command back: a worker that is started later
// obeys it.
func TestForgetWithoutWorkers(t *testing.T) { onKFake(t, testForgetWithoutWorkers) }

func testForgetWithoutWorkers(t *testing.T, sh *shell) {
	const sent = "the command was sent, and takes effect when a worker reads it"
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	code, _, errs := sh.command("forget", "--brokers", sh.addr, "--timeout", "45s", "a")
	if code != exitFailed || strings.Count(errs, "no worker of ledger gvbll.ledger is there") != 1 || !strings.Contains(errs, "not done after 45s: "+sent) {
		t.Errorf("gvbll forget without a worker: exit code %d and %q", code, errs)
	}
	ctx, interrupt := context.WithTimeout(t.Context(), time.Minute)
	defer interrupt()
	var out, lines lines
	lines.when = append(lines.when, func([]byte) { interrupt() })
	// An error that wraps context.Canceled is shown as "interrupted" alone.
	if code := run(ctx, []string{"forget", "--brokers", sh.addr, "b"}, sh.process(&out, &lines)); code != exitFailed || !strings.Contains(lines.String(), "interrupted: "+sent) {
		t.Errorf("gvbll forget that is interrupted: exit code %d and %q", code, &lines)
	}
}

// total returns the number of records in a topic.
func total(t *testing.T, c *kafka.Client, topic string) (n int64) {
	t.Helper()
	bounds, err := c.Offsets(t.Context(), topic)
	must(t, err)
	for _, b := range bounds {
		n += b.End - b.First
	}
	return n
}

// windowOf returns a window of the ledger without one node's events and labels and the
// edges to it. The topics have one partition.
func windowOf(t *testing.T, r *ledger.Record, names topics.Names, records map[string][]kafka.Record, without event.ID) *event.Window {
	t.Helper()
	w := &event.Window{Number: r.Window}
	var d wire.Decoder
	for _, g := range r.Ranges {
		for _, x := range records[g.Topic] {
			if x.Offset < g.From || x.Offset >= g.To {
				continue
			}
			o := &event.Origin{Topic: x.Topic, Offset: x.Offset, Key: x.Key, Value: x.Value}
			var n event.Node
			var label event.Label
			switch g.Topic {
			case names.Nodes:
				if reason, detail := d.Node(o, &n); reason != "" {
					t.Fatal(detail)
				}
				kept := n.Neighbours[:0]
				for _, id := range n.Neighbours {
					if id != without {
						kept = append(kept, id)
					}
				}
				if n.Neighbours = kept; n.ID != without {
					w.Nodes = append(w.Nodes, n)
				}
			case names.Labels:
				if reason, detail := d.Label(o, &label); reason != "" {
					t.Fatal(detail)
				}
				if label.Node != without {
					w.Labels = append(w.Labels, label)
				}
			}
		}
	}
	return w
}
