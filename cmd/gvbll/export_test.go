package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestExportIDsAlike: a graph with a node 7 and a node "7" is exported with both, each with
// its own edges, and the tables can be read, which say what was context. So it is where the worker
// refused other events. Of several labels the last one counts.
func TestExportIDsAlike(t *testing.T) { onKFake(t, testExportIDsAlike) }

func testExportIDsAlike(t *testing.T, sh *shell) {
	dir := t.TempDir()
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph("gvbll", m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	number, text, cites := event.ID{Num: 10_007}, event.ID{Str: "10007"}, event.ID{Str: "cites"}
	producer, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for _, n := range []event.Node{{ID: number}, {ID: text}, {ID: cites, Neighbours: []event.ID{text}}} {
		n.Index, n.Value, n.Context = []uint32{0}, []float32{1}, n.ID == cites
		must(t, producer.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Key: wire.AppendKey(nil, n.ID), Value: wire.AppendNode(nil, &n), Time: time.Now()}}))
	}
	// What the worker refuses is not in the graph, and does not say how many features that has.
	refused := filepath.Join(dir, "refused")
	must(t, os.WriteFile(refused, []byte(`{"id":"oops","features":[1,2]}`+"\n"+`{"id":"far","indices":[4000000000]}`+"\n"+
		// One label is corrected and one withdrawn: the export has the last one of a node.
		`{"node":10007,"class":0}`+"\n"+`{"node":"10007","class":1}`+"\n"+`{"node":10007,"class":2}`+"\n"+`{"node":"10007","class":null}`+"\n"), 0o600))
	sh.gvbll("send", "--brokers", sh.addr, "--events", refused)
	stop := g.work("--model", file)
	g.await("two nodes are predicted and two refused", func(all []*ledger.Record) bool {
		return predictions(all) == 2 && refusedFor(all, event.WrongDimension) == 2
	})
	g.awaitTaken()
	stop()
	if code, out, errs := g.command("audit", "--model", file); code != exitOK {
		t.Errorf("gvbll audit: exit code %d, %s%s", code, out, errs)
	}
	out := filepath.Join(dir, "exported")
	if code, _, errs := g.command("export", "--out", out); code != exitOK {
		t.Fatalf("gvbll export: exit code %d and %q", code, errs)
	}
	d, err := dataset.Open(out)
	must(t, err)
	idOf := func(v int32) string { // a text in quotes
		text, number := d.IDs.At(v)
		if text == "" {
			return strconv.FormatInt(number, 10)
		}
		return strconv.Quote(text)
	}
	var ids []string
	for v := range d.Features {
		ids = append(ids, strings.TrimSpace(idOf(int32(v))+" "+d.ClassOf(int32(v))))
		if context := d.IDs.String(int32(v)) == "cites"; d.Context[v] != context {
			t.Errorf("node %s is exported as context: %t, want %t", d.IDs.String(int32(v)), d.Context[v], context)
		}
	}
	slices.Sort(ids)
	if want := []string{`"10007"`, `"cites"`, `10007 ` + m.Classes[2]}; !slices.Equal(ids, want) {
		t.Errorf("the ids and classes are %q, want %q", ids, want)
	}
	if len(d.Edges) != 1 {
		t.Fatalf("%d edges, want 1", len(d.Edges))
	}
	ends := []string{idOf(d.Edges[0][0]), idOf(d.Edges[0][1])}
	slices.Sort(ends)
	if want := []string{`"10007"`, `"cites"`}; !slices.Equal(ends, want) {
		t.Errorf("the edge is between %q, want %q", ends, want)
	}
}
