package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/audit"
	"github.com/gvbll/gvbll/topics/kafka"
)

// release is the one whose recording -update makes anew.
const release = "1.1.0"

// TestReleases goes on from what released programs left behind: a broker's folder, models, a
// checkpoint and bases of two graphs. Payments has a pool of heads, a schema, a map, nodes that
// expired, an epoch of other settings, a promotion, and a checkpoint that is older than the
// ledger's end. Papers has the paper's head, a node that was forgotten, and bases, behind
// which ledger and inputs were deleted. An audit proves what is there; then workers serve what comes
// next. What the audits find before and after is recorded beside, with the chains of hashes.
//
// go test ./cmd/gvbll -run TestReleases -update records this program as the release.
func TestReleases(t *testing.T) {
	if *update {
		t.Run("record", recordRelease)
	}
	recordings, err := filepath.Glob("testdata/release-*.tgz")
	must(t, err)
	if len(recordings) == 0 {
		t.Fatal("no recordings in testdata")
	}
	for _, file := range recordings {
		name := strings.TrimSuffix(file, ".tgz")
		dir := t.TempDir()
		if out, err := exec.Command("tar", "xzf", file, "-C", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			onKFake(t, func(t *testing.T, sh *shell) {
				found, err := json.MarshalIndent(goOn(t, sh, dir), "", "\t")
				must(t, err)
				if *update && strings.HasSuffix(name, release) {
					must(t, os.WriteFile(name+".json", append(found, '\n'), 0o644))
				}
				want, err := os.ReadFile(name + ".json")
				must(t, err)
				if string(found)+"\n" != string(want) {
					t.Errorf("the audits find\n%s\nwant what the release found:\n%s", found, want)
				}
			}, kfake.DataDir(filepath.Join(dir, "broker")))
		})
	}
}

// released are the two graphs of a recording, in its folder.
type released struct {
	payments, papers *testGraph
	dir              string
}

func releasedOn(t *testing.T, sh *shell, dir string) released {
	t.Helper()
	g := released{sh.graph("payments", 0), sh.graph("papers", 0), dir}
	m, err := model.Open(g.file("papers.safetensors"))
	must(t, err)
	g.papers.dim = m.Encoder.In()
	g.payments.names.Nodes, g.payments.names.Labels = "db.payments", "chargebacks"
	return g
}

func (g released) file(name string) string { return filepath.Join(g.dir, name) }

// flags returns those that all commands on payments have, and those of its workers.
func (g released) flags() (common, work []string) {
	common = []string{"--prefix", "payments", "--nodes-topic", "db.payments", "--labels-topic", "chargebacks", "--model", g.file("payments.safetensors"), "--shadow", g.file("shadow.safetensors")}
	return common, append(common[:len(common):len(common)], "--map", g.file("map.yaml"), "--keep", "nodes=3d,edges=1d", "--output", "json", "--window", "20", "--linger", "2s",
		"--coverage", "0.9,groups=class", "--partial-updates", "--ask", "24/d", "--act", "class=fraud,capacity=1/h")
}

// onPapers returns the flags of workers of papers, with an empty folder for their state.
func (g released) onPapers(more ...string) []string {
	return append([]string{
		"--prefix", "papers", "--model", g.file("papers.safetensors"), "--head", "paper", "--window", "20", "--linger", "2s", "--coverage", "0.9", "--abstain", "confidence=0.3", "--rescore", "after=3", "--learn-lag", "2",
		"--state-dir", g.papers.t.TempDir(),
	}, more...)
}

// pay sends payments of the hours from to to-1, each with a chargeback or none.
func (g released) pay(from, to int) {
	t := g.payments.t
	t.Helper()
	p, err := g.payments.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	var records []kafka.Record
	for i := from; i < to; i++ {
		when := time.Date(2025, time.December, 20, i, 0, 0, 0, time.UTC)
		outcome := []string{"settled", "chargeback"}[i%7/3%2]
		add := func(topic, format string, args ...any) {
			records = append(records, kafka.Record{Topic: topic, Value: fmt.Appendf(nil, format, args...), Time: when})
		}
		add("db.payments", `{"after": {"payment": %d, "card": "c%d", "shop": %d, "amount": %d.5, "country": "C%02d", "new": %t}, "op": "c", "ts_ms": %d}`, i, i*i%13, i%9, i*37%101, i%23, i%2 == 0, when.UnixMilli())
		add("chargebacks", `{"payment": %d, "outcome": %q}`, i, outcome)
	}
	must(t, p.Send(t.Context(), records))
}

// serve runs a worker until it has taken all records of the inputs.
func (g *testGraph) serve(flags ...string) {
	g.t.Helper()
	stop := g.work(flags...)
	g.awaitTaken()
	stop()
}

// goOn audits the recorded graphs, serves forty nodes more of each, and audits them again.
func goOn(t *testing.T, sh *shell, dir string) map[string]audit.Result {
	g := releasedOn(t, sh, dir)
	time.Sleep(20 * time.Minute) // since the release
	common, work := g.flags()
	papers := []string{"--prefix", "papers", "--model", g.file("papers.safetensors"), "--from", "latest", "--base", g.file("bases")}
	found := map[string]audit.Result{"payments": g.payments.audit(common...), "papers": g.papers.audit(papers...)}
	g.pay(120, 160)
	g.payments.serve(append(work, "--state-dir", g.file("checkpoints"))...)
	if log := g.payments.log(); !strings.Contains(log, "checkpoint") {
		t.Errorf("the worker did not go on from the checkpoint: %s", log)
	}
	g.papers.cite(120, 160)
	g.papers.serve(g.onPapers("--base", g.file("bases"), "--purge")...)
	if log := g.papers.log(); !strings.Contains(log, "base-") {
		t.Errorf("the worker did not go on from the base: %s", log)
	}
	found["payments, gone on"], found["papers, gone on"] = g.payments.audit(common...), g.papers.audit(papers...)
	if _, err := os.Stat(g.file("framed.safetensors")); err == nil {
		g.goOnWithFramed(found)
		g.goOnWithTenants(found)
	}
	for name, r := range found {
		if r.Chain == "" || r.Predictions == 0 {
			t.Errorf("%s: %+v, want a chain of predictions", name, r)
		}
		for i, e := range r.Epochs {
			if e.Proved != e.Windows && i > 0 {
				t.Errorf("%s: epoch %d is %+v, want all of its windows proved", name, i, e)
			}
		}
	}
	return found
}

// recordRelease writes the recording of this program.
func recordRelease(t *testing.T) {
	dir := t.TempDir()
	t.Run("graphs", func(t *testing.T) {
		onKFake(t, func(t *testing.T, sh *shell) { leaveBehind(t, sh, dir) }, kfake.DataDir(filepath.Join(dir, "broker")))
	})
	t.Cleanup(func() {
		to, err := filepath.Abs("testdata/release-" + release + ".tgz")
		must(t, err)
		tar := exec.Command("tar", "czf", to, "--owner=0", "--group=0", "--numeric-owner", "--sort=name", ".")
		tar.Dir = dir
		if out, err := tar.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	})
}

// leaveBehind serves both graphs.
func leaveBehind(t *testing.T, sh *shell, dir string) {
	table := paymentsTable(t, 200)
	for file, encoder := range map[string]string{"payments": "graphsage", "shadow": "gcn"} {
		sh.gvbll("train", "--data", table, "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--embedding", "4", "--encoder", encoder, "--out", filepath.Join(dir, file+".safetensors"))
	}
	papers, err := os.ReadFile(threeClasses(t))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "papers.safetensors"), papers, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "map.yaml"), []byte(`
nodes:
  - preset: debezium
    id: {pointer: /after/payment, prefix: "payment:"}
    neighbours: [{pointer: /after/card, prefix: "card:", implicit: true}, {pointer: /after/shop, prefix: "shop:", implicit: true}]
labels:
  - {node: {pointer: /payment, prefix: "payment:"}, class: {pointer: /outcome, map: {chargeback: fraud, settled: good}}}
`), 0o644))
	g := releasedOn(t, sh, dir)

	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "payments", "--partitions", "1", "--nodes-topic", "db.payments", "--labels-topic", "chargebacks")
	_, work := g.flags()
	state := []string{"--state-dir", g.file("checkpoints")}
	g.pay(0, 40)
	g.payments.serve(append(append(work, state...), "--coverage", "0.8")...)
	g.pay(40, 80)
	stop := g.payments.work(append(append(work, state...), "--rebase")...)
	g.payments.awaitTaken()
	second := idOf(t, g.file("shadow.safetensors"))
	sh.gvbll("promote", second, "--brokers", sh.addr, "--prefix", "payments")
	g.payments.awaitPromotion(second)
	stop()
	g.pay(80, 120)
	g.payments.serve(work...)

	sh.sendPoison("papers") // creates the topics
	g.papers.cite(0, 60)
	stop = g.papers.work(g.onPapers()...)
	g.papers.awaitTaken()
	sh.gvbll("forget", "--brokers", sh.addr, "--prefix", "papers", cited(7).String())
	stop()
	stop = g.papers.work(g.onPapers("--base", g.file("bases"), "--base-every", "1s,keep=2", "--purge")...)
	for i := range 6 { // a base is named by a window after the one that it has
		g.papers.cite(60+10*i, 70+10*i)
		g.papers.awaitTaken()
		time.Sleep(2 * time.Second)
	}
	stop()
	var needed struct {
		Needed []struct {
			Topic  string
			Offset int64
		}
	}
	_, out, _ := g.papers.command("status", "--json", "--prefix", "papers") // no worker runs, which it finds wrong
	must(t, json.Unmarshal([]byte(out), &needed))
	for _, n := range needed.Needed {
		if n.Topic != g.papers.names.Commands { // kfake would forget where an empty log ends
			g.papers.deleteRecords(n.Topic, n.Offset)
		}
	}

	rows := "id,label,time,label_time,amount,card,country\n"
	for i := range 200 {
		card, tenths, at, country := paymentOf(i)
		when := time.UnixMilli(at).UTC()
		rows += fmt.Sprintf("t%d,%s,%s,%s,%d.5,%s,%s\n", i, []string{"good", "fraud"}[i%7/3%2], when.Format(time.RFC3339), when.AddDate(0, 0, 2).Format(time.RFC3339), tenths/10, card, country)
	}
	keys := `{"keys": {"card": {"link": {"last": 2, "kind": "card"}, "velocity": ["all", "1d"], "amounts": ["amount"], "distinct": ["country"], "labels": "fraud"}}}`
	sh.gvbll("train", "--data", writeTables(t, map[string]string{"nodes.csv": rows, "dataset.json": keys}), "--train-share", "0.5", "--epochs", "3", "--hidden", "8", "--out", g.file("framed.safetensors"))
	must(t, os.WriteFile(g.file("framed.yaml"), []byte(paymentsMap), 0o644))
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "framed", "--partitions", "1")
	g.serveFramed(200, 280)
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", "tenants", "--cells", "2")
	g.serveTenants(0, 60)
}

// serveFramed serves the framed payments from to to-1, with a registry.
func (g released) serveFramed(from, to int) *testGraph {
	t, framed := g.payments.t, g.payments.sh.graph("framed", 0)
	t.Helper()
	address := (&fakeRegistry{}).serve(t, framed.sh, filepath.Join(t.TempDir(), "secret"))
	p, err := framed.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	var records []kafka.Record
	for i := from; i < to; i++ {
		_, values := paid(t, i)
		records = append(records, kafka.Record{Topic: framed.names.Nodes, Value: values[0]}, kafka.Record{Topic: framed.names.Labels, Value: values[1]})
	}
	must(t, p.Send(t.Context(), records))
	framed.serve("--prefix", "framed", "--model", g.file("framed.safetensors"), "--map", g.file("framed.yaml"), "--registry", address, "--window", "20",
		"--linger", "2s", "--act", "class=fraud,cost=3:1", "--reasons", "2,acted", "--by", "country", "--state-dir", g.file("framed"))
	return framed
}

// serveTenants serves the papers from to to-1 in each cell of tenants.
func (g released) serveTenants(from, to int) (cells [2]*testGraph) {
	t := g.papers.t
	t.Helper()
	for number := range cells {
		cells[number] = cellOf(t, g.papers.sh, "tenants", g.papers.dim, number)
		cells[number].cite(from+10*number, to)
	}
	stop := cells[0].work("--prefix", "tenants", "--model", g.file("papers.safetensors"), "--head", "paper", "--window", "20", "--linger", "2s", "--state-dir", g.file("tenants"))
	for _, cell := range cells {
		cell.awaitTaken()
	}
	stop()
	return cells
}

// goOnWithFramed and goOnWithTenants audit, go on and audit.
func (g released) goOnWithFramed(found map[string]audit.Result) {
	flags := []string{"--prefix", "framed", "--model", g.file("framed.safetensors")}
	found["framed"] = g.payments.audit(flags...)
	framed := g.serveFramed(280, 320)
	if log := framed.log(); !strings.Contains(log, "checkpoint") {
		g.payments.t.Errorf("the worker did not go on from the checkpoint: %s", log)
	}
	found["framed, gone on"] = framed.audit(flags...)
}

func (g released) goOnWithTenants(found map[string]audit.Result) {
	audits := func(when string) {
		for _, cell := range []string{"0", "1"} {
			found["tenants "+cell+when] = g.papers.audit("--prefix", "tenants", "--cell", cell, "--model", g.file("papers.safetensors"))
		}
	}
	audits("")
	g.serveTenants(80, 120)
	audits(", gone on")
}
