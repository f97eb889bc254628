package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gvbll/gvbll/cmd/gvbll/shards"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// randomModel returns a model with random weights, whose encoder has these widths.
func randomModel(t testing.TB, seed uint64, kind gnn.Kind, width ...int) *model.Model {
	t.Helper()
	m := pipelinetest.ModelOfWidth(t, rand.New(rand.NewPCG(seed, 0)), kind, width...)
	m.Meta.Activation, m.Meta.Normalization = m.Encoder.Activation(), string(gnn.NormalizeNone)
	return m
}

// savedModel returns the file of a random model.
func savedModel(t testing.TB, kind gnn.Kind, width ...int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.safetensors")
	must(t, randomModel(t, 1, kind, width...).Save(file))
	return file
}

// TestShardedGraph is the life of a graph of two shards: its topics, two workers, a stream, one
// worker lost and its tasks taken over, and the audit. Every arrival has one prediction. The
// paper's heads serve, or a pool with sets of classes that learns late.
func TestShardedGraph(t *testing.T) {
	t.Run("paper", func(t *testing.T) {
		onKFake(t, func(t *testing.T, sh *shell) { testShardedGraph(t, sh, false) })
	})
	t.Run("pool", func(t *testing.T) {
		onKFake(t, func(t *testing.T, sh *shell) { testShardedGraph(t, sh, true, "--coverage", "0.8", "--learn-lag", "2") })
	})
}

func testShardedGraph(t *testing.T, sh *shell, pool bool, settings ...string) {
	m := randomModel(t, 1, gnn.KindSAGE, 8, 8, 4)
	if pool {
		pipelinetest.AddPool(t, m, false)
	}
	file := filepath.Join(t.TempDir(), "m.safetensors")
	must(t, m.Save(file))
	sh.setenv("GVBLL_BROKERS", sh.addr)
	if out := sh.gvbll("topics", "--create", "--shards", "2"); !strings.Contains(out, "gvbll.exchange") {
		t.Fatalf("topics:\n%s", out)
	}
	g := sh.graph("gvbll", 8)
	args := []string{"--model", file, "--session-timeout", "6s", "--window", "20"}
	args = append(args, settings...)
	stop := g.work(args...)
	other := g.work(args...)
	await := func(what string, ok func(*shards.Status) bool) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		for {
			var st shardedStatus
			_, out, _ := sh.command("status", "--json")
			must(t, json.Unmarshal([]byte(out), &st))
			if ok(st.Shards) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the graph is not %s: %s\n%s", what, out, g.log())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	owned := func(s *shards.Status) bool {
		for _, x := range s.Tasks {
			if x.Owner == nil {
				return false
			}
		}
		return true
	}
	await("owned", owned)
	served := func(n int) func(*shards.Status) bool {
		return func(s *shards.Status) bool {
			return owned(s) && s.Cuts == s.Complete && len(predicted(t, g)) == n
		}
	}
	g.send(100)
	await("served", served(100))
	other()
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Key: []byte("broken"), Value: []byte("}")}}))
	g.send(100)
	await("served by one worker", served(200))
	for id, n := range predicted(t, g) {
		if n != 1 {
			t.Errorf("node %s has %d predictions", id, n)
		}
	}
	if _, out, _ := sh.command("status"); strings.Count(out, "http://127.0.0.1:") != 3 || strings.Contains(out, "waited for") || !strings.Contains(out, "shard 2  ") {
		t.Errorf("the one worker owns all, and nothing is waited for:\n%s", out)
	}
	// The scores are those of the predictions and labels in Kafka, by heads that nobody has trained:
	// nothing else is wrong.
	var st shardedStatus
	for deadline := time.Now().Add(5 * time.Minute); st.Last.Labels < 200 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		st = shardedStatus{}
		_, out, _ := sh.command("status", "--json")
		must(t, json.Unmarshal([]byte(out), &st))
	}
	for _, f := range st.Wrong {
		if f.Alert != "GvbllCalibrationOff" && f.Alert != "GvbllOnlineWorse" {
			t.Errorf("wrong is %+v", f)
		}
	}
	if want, got := g.scores(), st.Last; got.Predictions != 200 || got.Labels != 200 || got.Acc != want.Acc || !near(got.NLL, want.NLL) || !near(got.ECE, want.ECE) || !near(got.Brier, want.Brier) {
		t.Errorf("of 200 predictions and labels with %+v, the status is %+v", want, got)
	}
	html := sh.gvbll("report", "--out", "-")
	for _, want := range []string{"<dt>predictions</dt><dd>200</dd>", "<dt>labels</dt><dd>200</dd>", fmt.Sprintf("<dt>NLL, nats</dt><dd>%.4f</dd>", st.Last.NLL), `<th scope="row">static</th><td>200</td>`} {
		if !strings.Contains(html, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if out := sh.gvbll("audit", "--model", file); !strings.HasPrefix(out, "of each of 2 shards: ") || !strings.Contains(out, " 200 predictions and 1 dead letters agree") {
		t.Errorf("the audit says %s", out)
	}

	// All shards and the lead replay without two nodes, one of which was predicted.
	code, out, errs := sh.command("forget", "node-7", "nobody")
	if code != exitFailed || !strings.Contains(out, "which begins epoch 1, by a replay of") || !strings.Contains(errs, "unknown: no event names [\"nobody\"]") {
		t.Errorf("forgetting: exit code %d, %s%s", code, out, errs)
	}
	g.send(100)
	await("served behind the forgetting", served(300))
	if out = sh.gvbll("audit", "--model", file); !strings.Contains(out, "(the ledger begins): ") || !strings.Contains(out, "(nodes are forgotten): ") || !strings.Contains(out, " 300 predictions and 1 dead letters agree") {
		t.Errorf("the audit says %s", out)
	}
	for id, n := range predicted(t, g) {
		if n != 1 {
			t.Errorf("node %s has %d predictions", id, n)
		}
	}
	stop()
	g.auditCutShort(file)
}

// auditCutShort audits a sharded graph that no worker serves while partitions of its ledger end too
// early, each time another one. None of the audits passes.
func (g *testGraph) auditCutShort(file string) {
	g.t.Helper()
	var all []kafka.Record
	var windows []int64 // of all
	must(g.t, g.client.ReadAll(g.t.Context(), g.names.Ledger, func(r *kafka.Record) {
		var of struct{ Window int64 }
		must(g.t, json.Unmarshal(r.Value, &of))
		all = append(all, kafka.Record{Topic: r.Topic, Partition: r.Partition, Value: bytes.Clone(r.Value)})
		windows = append(windows, of.Window)
	}))
	newest := slices.Max(windows)
	if code, out, errs := g.command("audit", "--model", file); code != exitOK {
		g.t.Errorf("the audit of the whole ledger: exit code %d: %s%s", code, out, errs)
	}
	for _, ends := range []struct {
		name string
		at   [3]int64 // the window that each partition lacks
		want string
	}{
		{"one shard", [...]int64{newest + 1, newest / 2, newest + 1}, fmt.Sprintf("windows %d to %d are not proved: ledger gvbll.ledger partition 1 ends before window %[1]d", newest/2, newest)},
		{"one shard has nothing", [...]int64{newest + 1, newest + 1, 0}, "partition 2 ends before window 0"},
		{"the cuts", [...]int64{newest / 2, newest + 1, newest + 1}, fmt.Sprintf("partition 0 ends before window %d", newest/2)},
		{"no cut is left", [...]int64{0, newest + 1, newest + 1}, "partition 0 has no window"},
		{"all of them", [...]int64{newest / 2, newest / 2, newest / 2}, fmt.Sprintf("the ledger gvbll.ledger ends before window %d: its newest windows are lost", newest/2)},
	} {
		var left []kafka.Record
		for i, r := range all {
			if windows[i] < ends.at[r.Partition] {
				left = append(left, r)
			}
		}
		g.replace(g.names.Ledger, left)
		code, out, errs := g.command("audit", "--model", file)
		if code != exitFailed || !strings.Contains(errs, ends.want) || !strings.Contains(errs, "restore") || strings.Contains(out+errs, "another program") || strings.Contains(out, "agree with") {
			g.t.Errorf("%s cut short: exit code %d: %s%s, want %d and %q", ends.name, code, out, errs, exitFailed, ends.want)
		}
	}
}

// TestShardScripts runs the scripts of testdata/shards, each with a prefix of its own.
func TestShardScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs gvbll as processes, which the race detector does not see")
	}
	onKafkaItself(t, func(t *testing.T, sh *shell) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/shards",
			Setup: func(e *testscript.Env) error {
				e.Vars = append(e.Vars, "GVBLL_BROKERS="+sh.addr, fmt.Sprintf("GVBLL_PREFIX=shards-%d", time.Now().UnixNano()), "GVBLL_SESSION_TIMEOUT="+sessionTimeout())
				return nil
			},
		})
	}, shortSessions)
}

// TestShardsRefuse: what a sharded graph does not have is refused at the start, in one line.
func TestShardsRefuse(t *testing.T) { onKFake(t, testShardsRefuse) }

func testShardsRefuse(t *testing.T, sh *shell) {
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.gvbll("topics", "--create", "--shards", "2")
	dir := t.TempDir()
	good := savedModel(t, gnn.KindSAGE, 4, 4, 4)
	gin, odd := savedModel(t, gnn.KindGIN, 4, 4, 4), savedModel(t, gnn.KindSAGE, 4, 5, 4)
	other := filepath.Join(dir, "other")
	must(t, randomModel(t, 2, gnn.KindSAGE, 4, 4, 4).Save(other))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"GIN":     {[]string{"--model", gin}, "encoder gin cannot be cut into 2 slices"},
		"a width": {[]string{"--model", odd}, "a hidden width of 5 cannot be cut into 2 slices"},
		"shadow":  {[]string{"--model", good, "--shadow", other}, "--shadow: the graph gvbll has 2 shards"},
		"models":  {[]string{"--model", good, "--models", dir}, "--models: the graph gvbll has 2 shards"},
		"rebase":  {[]string{"--model", good, "--rebase"}, "--rebase: no effect on the graph gvbll of 2 shards"},
		"labels":  {[]string{"--model", good, "--labels", "last"}, "--labels last: the graph gvbll has 2 shards, in which the first label of a node stands"},
		"base":    {[]string{"--model", good, "--state-dir", dir, "--base", dir}, "--base: the graph gvbll has 2 shards, which have no bases"},
		"act":     {[]string{"--model", good, "--act", "class=x,cost=2:1"}, "leave --act out"},
		"rescore": {[]string{"--model", good, "--rescore", "after=1"}, "leave --rescore out"},
		"keep":    {[]string{"--model", good, "--keep", "nodes=90d"}, "leave --keep out"},
	} {
		code, _, errs := sh.command(append([]string{"work", "--http", "127.0.0.1:0"}, c.args...)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
}

// TestShardsRefuseCommands: commands on what a sharded graph does not have end with one line.
func TestShardsRefuseCommands(t *testing.T) { onKFake(t, testShardsRefuseCommands) }

func testShardsRefuseCommands(t *testing.T, sh *shell) {
	sh.setenv("GVBLL_BROKERS", sh.addr)
	sh.gvbll("topics", "--create", "--shards", "2")
	file := savedModel(t, gnn.KindSAGE, 4, 4, 4)
	for _, args := range [][]string{
		{"promote"}, {"rebase", "--model", file},
	} {
		code, _, errs := sh.command(args...)
		if code != exitFailed || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "has 2 shards, and this command needs one that has none") {
			t.Errorf("%v: exit code %d, %s", args, code, errs)
		}
	}
	sh.gvbll("report", "--out", "-")
}

// predicted counts the committed predictions of each node.
func predicted(t *testing.T, g *testGraph) map[string]int {
	t.Helper()
	bounds, err := g.client.Offsets(t.Context(), g.names.Predictions)
	must(t, err)
	start := make(map[kafka.TopicPartition]int64)
	for at := range bounds {
		start[at] = 0
	}
	count := make(map[string]int)
	r := g.client.NewReader(start, kafka.ReaderConfig{})
	for at, b := range bounds {
		for r.Position(at) < b.End {
			records, err := r.Poll(t.Context())
			must(t, err)
			for _, record := range records {
				var p event.Prediction
				must(t, wire.DecodePrediction(record.Value, &p))
				count[p.Node.String()]++
			}
		}
	}
	return count
}
