package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/lab/bench"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/topics/broker"
)

// TestSlicesInOneProcess is the life of a graph that one worker has in shards: it is served by
// two threads, goes on from a checkpoint with one, is audited, and is refused with another
// number of shards.
func TestSlicesInOneProcess(t *testing.T) {
	addr := startBroker(t, broker.Config{})
	t.Setenv("GVBLL_BROKERS", addr)
	dir := t.TempDir()
	file := filepath.Join(dir, "m.safetensors")
	m, err := bench.Workload{Features: 8, Hidden: 8, Embedding: 4, Classes: 2, Degree: 4}.Model()
	must(t, err)
	must(t, m.Save(file))
	g := newTestGraph(t, addr, "gvbll", 8)
	args := []string{"--model", file, "--shards", "4", "--window", "20", "--learn-lag", "1", "--state-dir", filepath.Join(dir, "state")}
	for life, threads := range []string{"2", "1"} {
		stop := g.work(append(args, "--workers", threads)...)
		g.send(100)
		for deadline := time.Now().Add(time.Minute); len(predicted(t, g)) < 100*(life+1); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d nodes are served\n%s", len(predicted(t, g)), g.log())
			}
		}
		stop()
	}
	for id, n := range predicted(t, g) {
		if n != 1 {
			t.Errorf("node %s has %d predictions", id, n)
		}
	}
	if out := gvbll(t, "audit", "--model", file); !strings.Contains(out, " 200 predictions and 0 dead letters agree") {
		t.Errorf("the audit says %s", out)
	}
	code, _, errs := command(t, "work", "--http", "127.0.0.1:0", "--model", file, "--learn-lag", "1")
	if code != exitFailed || !strings.Contains(errs, "shards is 4 there and not set here") {
		t.Errorf("work without --shards: exit code %d, %s", code, errs)
	}
}

// TestSlicesRefuse: what shards in one process do not have is refused at the start, in one line.
func TestSlicesRefuse(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, w bench.Workload) string {
		m, err := w.Model()
		must(t, err)
		file := filepath.Join(dir, name)
		must(t, m.Save(file))
		return file
	}
	small := bench.Workload{Features: 4, Hidden: 4, Embedding: 4, Classes: 2}
	good, gin := save("sage", small), small
	gin.Encoder = gnn.KindGIN
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"none":    {[]string{"--model", good, "--shards", "0"}, "give at least 1"},
		"GIN":     {[]string{"--model", save("gin", gin), "--shards", "2"}, "train a graphsage or gcn"},
		"a width": {[]string{"--model", good, "--shards", "3"}, "a hidden width of 4 cannot be cut into 3 shards"},
		"shadow":  {[]string{"--model", good, "--shards", "2", "--shadow", good}, "leave --shadow out"},
		"models":  {[]string{"--model", good, "--shards", "2", "--models", dir}, "leave --models out"},
		"rescore": {[]string{"--model", good, "--shards", "2", "--rescore", "after=1"}, "leave --rescore out"},
	} {
		code, _, errs := command(t, append([]string{"work", "--brokers", "127.0.0.1:1", "--http", "127.0.0.1:0"}, c.args...)...)
		if code != exitUsage || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
	}
}
