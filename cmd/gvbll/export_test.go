package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestExportOfShards: two graphs work on one stream with labels, one with shards and one without.
// Their exports have the same nodes and edges, and a model is trained on either's ledger from the same nodes,
// as 'gvbll train' and 'gvbll retrain' do.
func TestExportOfShards(t *testing.T) { onKFake(t, testExportOfShards) }

func testExportOfShards(t *testing.T, sh *shell) {
	sh.setenv("GVBLL_BROKERS", sh.addr)
	dir := t.TempDir()
	file, data := filepath.Join(dir, "model.safetensors"), generated(t, "--nodes", "300", "--steps", "3", "--classes", "2", "--late", "0", "--dim", "6")
	shape := []string{"--epochs", "3", "--hidden", "8", "--embedding", "4"}
	sh.gvbll(append([]string{"train", "--out", file, "--data", data}, shape...)...)
	sh.gvbll("topics", "--create", "--partitions", "2", "--prefix", "whole")
	sh.gvbll("topics", "--create", "--partitions", "2", "--prefix", "cut", "--shards", "2")
	for _, prefix := range []string{"whole", "cut"} {
		stop := sh.graph(prefix, 6).work("--model", file, "--prefix", prefix, "--inputs-prefix", "whole", "--window", "20")
		defer stop()
	}
	sh.gvbll("send", "--prefix", "whole", "--data", data, "--labels", "delayed", "--label-delay", "7")
	folders := map[string]string{}
	trained := map[string]*model.Model{}
	for _, prefix := range []string{"whole", "cut"} {
		ask := func(what string, args ...string) string {
			return sh.gvbll(slices.Concat([]string{what, "--prefix", prefix, "--inputs-prefix", "whole"}, args)...)
		}
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var s shardedStatus
			// It may say that something is wrong while the workers begin and are behind.
			_, out, _ := sh.command("status", "--json", "--prefix", prefix, "--inputs-prefix", "whole")
			must(t, json.Unmarshal([]byte(out), &s))
			if s.Committed != nil && s.Waiting() == 0 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("%d events of graph %s wait", s.Waiting(), prefix)
			}
		}
		folders[prefix] = filepath.Join(dir, prefix)
		if out := ask("export", "--out", folders[prefix]); !strings.Contains(out, ": 300 nodes, ") {
			t.Errorf("gvbll export prints %s", out)
		}
		new := filepath.Join(dir, prefix+".safetensors")
		ask("train", append([]string{"--brokers", sh.addr, "--serving", file, "--out", new}, shape...)...)
		var err error
		trained[prefix], err = model.Open(new)
		must(t, err)
	}
	for _, name := range []string{"nodes.csv", "edges.csv"} {
		if diff := cmp.Diff(rows(t, folders["whole"], name), rows(t, folders["cut"], name)); diff != "" {
			t.Errorf("%s of a graph and of its shards, -want +got\n%.2000s", name, diff)
		}
	}
	if w, c := trained["whole"], trained["cut"]; w.Training.Nodes != c.Training.Nodes || !slices.Equal(w.Classes, c.Classes) || c.Training.Validation.Serving == "" {
		t.Errorf("from shards a model of %q is trained on %d nodes with validation %+v, from the whole of %q on %d", c.Classes, c.Training.Nodes, c.Training.Validation, w.Classes, w.Training.Nodes)
	}

	models := t.TempDir()
	retrain := append([]string{"retrain", "--prefix", "cut", "--inputs-prefix", "whole", "--models", models, "--serving", file, "--epochs", "3", "--embedding", "4"}, "--hidden")
	if out := sh.gvbll(append(retrain, "8")...); !strings.Contains(out, "begin another graph with it") {
		t.Errorf("gvbll retrain prints %s", out)
	}
	for want, args := range map[string][]string{
		"--promote: the graph cut has 2 shards":                            {"8", "--promote", "after=5,if=nll"},
		"cannot serve it: a hidden width of 7 cannot be cut into 2 slices": {"7"},
	} {
		if code, _, errs := sh.command(append(retrain, args...)...); code == exitOK || !strings.Contains(errs, want) {
			t.Errorf("gvbll retrain --hidden %v: exit code %d and %s", args, code, errs)
		}
	}
	var commands int
	must(t, sh.dial().ReadAll(t.Context(), "cut.commands", func(*kafka.Record) { commands++ }))
	if commands > 0 {
		t.Errorf("%d commands are sent to shards, which obey none", commands)
	}
}

// rows returns the rows of an exported table in an order of their own, each edge with its lesser
// end first: the table's order is that of windows, which two graphs do not cut alike.
func rows(t *testing.T, folder, name string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	must(t, err)
	list := strings.Split(strings.TrimSpace(string(b)), "\n")
	for i := range list {
		if name == "edges.csv" {
			ends := strings.Split(list[i], ",")
			slices.Sort(ends)
			list[i] = strings.Join(ends, ",")
		}
	}
	slices.Sort(list)
	return list
}

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
	g.await(func(all []*ledger.Record) bool {
		return predictions(all) == 2 && refusedFor(all, event.WrongDimension) == 2
	})
	g.awaitTaken()
	stop()
	if code, out, errs := g.command("audit", "--model", file); code != exitOK {
		t.Errorf("gvbll audit: exit code %d, %s%s", code, out, errs)
	}
	out := filepath.Join(dir, "exported")
	code, _, errs := g.command("export", "--out", out)
	if code != exitOK || !strings.Contains(errs, `such as 10007 and "10007": the texts are written in quotes`) {
		t.Fatalf("gvbll export: exit code %d and %q, want %d and that two ids are alike", code, errs, exitOK)
	}
	d, err := dataset.Open(out)
	must(t, err)
	var ids []string
	for v := range d.Features {
		ids = append(ids, strings.TrimSpace(d.IDs.String(int32(v))+" "+d.ClassOf(int32(v))))
		if context := d.IDs.String(int32(v)) == "cites"; d.Context[v] != context {
			t.Errorf("node %s is exported as context: %t, want %t", d.IDs.String(int32(v)), d.Context[v], context)
		}
	}
	slices.Sort(ids)
	if want := []string{`"10007"`, `10007 ` + m.Classes[2], `cites`}; !slices.Equal(ids, want) {
		t.Errorf("the ids and classes are %q, want %q", ids, want)
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
