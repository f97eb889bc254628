package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gvbll/gvbll/pipeline/model"
)

// TestLearnLag: a worker that learns labels two windows late, beside the graph, is killed while
// labels wait to be learned. Others go on from its checkpoint, and from the ledger alone; each node is predicted once, and audits, from the ledger's beginning and from
// that checkpoint, find what was published. A worker that would learn at once does not go on.
func TestLearnLag(t *testing.T) { onKafkaItself(t, testLearnLag, shortSessions) }

func testLearnLag(t *testing.T, sh *shell) {
	dir := t.TempDir()
	file, state := threeClasses(t), filepath.Join(dir, "state")
	m, err := model.Open(file)
	must(t, err)
	prefix := fmt.Sprintf("learn-lag-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	flags := []string{"--model", file, "--learn-lag", "2", "--window", "10", "--coverage", "0.9", "--rescore", "after=1", "--session-timeout", sessionTimeout()}

	exe, err := os.Executable()
	must(t, err)
	checkpointed := append([]string{"--state-dir", state, "--checkpoints", "every=20ms,keep=3"}, flags...)
	args := append([]string{"work", "--brokers", sh.addr, "--http", "127.0.0.1:0", "--linger", "5ms", "--commit-interval", "5ms"}, checkpointed...)
	killed := exec.CommandContext(t.Context(), exe, args...)
	var log lines
	killed.Env, killed.Stderr = append(os.Environ(), asProgram+"=1", "GVBLL_PREFIX="+prefix), &log
	must(t, killed.Start())
	g.send(95)
	g.awaitLearned()
	must(t, killed.Process.Kill())
	if err := killed.Wait(); err == nil {
		t.Fatalf("the worker ended before it was killed:\n%s", log.b)
	}
	for _, flags := range [][]string{checkpointed, flags} {
		stop := g.work(flags...)
		g.send(95)
		g.awaitLearned()
		stop()
	}

	if got := g.predictions(); got != g.sent {
		t.Errorf("%d predictions, want one for each of %d nodes", got, g.sent)
	}
	found := g.audit("--model", file)
	if e := found.Epochs; len(e) != 1 || e[0].Proved != e[0].Windows || e[0].Windows == 0 {
		t.Errorf("the audit found %+v, want every window proved", found)
	}
	checkpoints, err := filepath.Glob(filepath.Join(state, "*", "checkpoint-*"))
	must(t, err)
	if len(checkpoints) == 0 {
		t.Fatal("no checkpoint")
	}
	if from := g.audit("--model", file, "--checkpoint", checkpoints[0]); from.Chain != found.Chain || from.First == 0 {
		t.Errorf("the audit from %s found %+v, want chain %s", checkpoints[0], from, found.Chain)
	}
	code, _, errs := g.command("work", "--http", "127.0.0.1:0", "--model", file)
	if code != exitFailed || !strings.Contains(errs, "learn-lag is 2 there and 0 here") {
		t.Errorf("work without a lag: exit code %d, want %d and what differs: %s", code, exitFailed, errs)
	}
}
