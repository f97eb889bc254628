package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestExportedIDs: no two nodes have the same id in a table, whatever their types are.
func TestExportedIDs(t *testing.T) {
	number := func(n int64) event.ID { return event.ID{Num: n} }
	text := func(s string) event.ID { return event.ID{Str: s} }
	for _, c := range []struct {
		ids  []event.ID
		want string
		says string
	}{
		{[]event.ID{number(7), number(-1)}, `7 -1`, ""},
		{[]event.ID{text("7"), text("a")}, `7 a`, ""},
		{[]event.ID{number(7), text("8"), text(`"7"`)}, `7 8 "7"`, ""},
		{[]event.ID{number(7), text("7"), text(`"7"`), text("07"), text("a"), number(8), text("8")}, `7 "7" ""7"" 07 a 8 "8"`, "2 ids are there as a number and as a text, such as 7 and \"7\": the texts are written in quotes\n"},
	} {
		var said strings.Builder
		nodes := make([]pipeline.Recorded, len(c.ids))
		for i, id := range c.ids {
			nodes[i].ID = id
		}
		ids := exportedIDs(nodes, &said)
		var got []string
		for v := range nodes {
			got = append(got, ids.String(int32(v)))
		}
		if strings.Join(got, " ") != c.want || said.String() != c.says {
			t.Errorf("%v is exported as %q with %q, want %s with %q", c.ids, got, said.String(), c.want, c.says)
		}
	}
}

// TestExportIDsAlike: a graph with a node 7 and a node "7" is exported with both, each with
// its own edges, and the tables can be read.
func TestExportIDsAlike(t *testing.T) {
	addr := startBroker(t, broker.Config{})
	dir := t.TempDir()
	file := filepath.Join(dir, "model.safetensors")
	gvbll(t, "train", "--out", file, "--data", generated(t, "--nodes", "300", "--steps", "3", "--classes", "2", "--late", "0", "--dim", "6"), "--epochs", "3", "--hidden", "8", "--embedding", "4")
	m, err := model.Open(file)
	must(t, err)
	g := newTestGraph(t, addr, "gvbll", m.Encoder.In())
	gvbll(t, "topics", "--create", "--brokers", addr)
	number, text, cites := event.ID{Num: 10_007}, event.ID{Str: "10007"}, event.ID{Str: "cites"}
	producer, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for _, n := range []event.Node{{ID: number}, {ID: text}, {ID: cites, Neighbours: []event.ID{text}}} {
		n.Dense = make([]float32, g.dim)
		n.Dense[0] = 1
		must(t, producer.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Key: wire.AppendKey(nil, n.ID), Value: wire.AppendNode(nil, &n), Time: time.Now()}}))
	}
	stop := g.work("--model", file)
	g.awaitTaken()
	stop()
	out := filepath.Join(dir, "exported")
	code, _, errs := g.command("export", "--out", out)
	if code != exitOK || !strings.Contains(errs, `such as 10007 and "10007": the texts are written in quotes`) {
		t.Fatalf("gvbll export: exit code %d and %q, want %d and that two ids are alike", code, errs, exitOK)
	}
	d, err := dataset.Open(out)
	must(t, err)
	var ids []string
	for v := range d.Features {
		ids = append(ids, d.IDs.String(int32(v)))
	}
	slices.Sort(ids)
	if want := []string{`"10007"`, `10007`, `cites`}; !slices.Equal(ids, want) {
		t.Errorf("the ids are %q, want %q", ids, want)
	}
	if len(d.Edges) != 1 {
		t.Fatalf("%d edges, want 1", len(d.Edges))
	}
	ends := []string{d.IDs.String(d.Edges[0][0]), d.IDs.String(d.Edges[0][1])}
	slices.Sort(ends)
	if want := []string{`"10007"`, `cites`}; !slices.Equal(ends, want) {
		t.Errorf("the edge is between %q, want %q", ends, want)
	}
}
