package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/sender"
)

// smallDemo returns the arguments of a demo that ends within two seconds.
func smallDemo(t *testing.T, more ...string) []string {
	return append([]string{"demo", "--data", smallGraph(t), "--label-delay", "2", "--epochs", "30", "--json"}, more...)
}

// demo runs a demo with the flag --json to its end, and returns the summary.
func (sh *shell) demo(args []string) demoSummary {
	sh.t.Helper()
	return summaryOf(sh.t, []byte(sh.gvbll(args...)))
}

func summaryOf(t *testing.T, b []byte) (s demoSummary) {
	t.Helper()
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return s
}

// brokerFlags returns the flags for a demo on Apache Kafka, none for one on its own broker.
func brokerFlags() []string {
	addr := kafkatest.Apache()
	if addr == "" {
		return nil
	}
	return []string{"--brokers", addr, "--prefix", fmt.Sprintf("demo-test-%d", time.Now().UnixNano())}
}

// TestDemoEqualsTheEngine: an engine that is fed the demo's windows directly has the
// same scores, to the last digit, and the same hashes as the demo. So the way through
// the broker changes nothing.
func TestDemoEqualsTheEngine(t *testing.T) {
	for _, delay := range []string{"0", "2"} {
		t.Run("delay "+delay, func(t *testing.T) {
			onKafka(t, func(t *testing.T, sh *shell) {
				got := sh.demo(smallDemo(t, append(brokerFlags(), "--label-delay", delay)...))
				if got.Arrivals == 0 || got.Arrivals != got.Predictions || got.Arrivals != got.Labels || got.Steps != 12 {
					t.Errorf("%d arrivals, %d predictions, %d labels, %d steps; want as many of each, and 12 steps", got.Arrivals, got.Predictions, got.Labels, got.Steps)
				}
				want := direct(t, delay == "2")
				if got.Online.Means != want.Online.Means || got.Online.Stream != want.Online.Stream || got.Static.Means != want.Static.Means {
					t.Errorf("online and static are %+v and %+v through the broker, %+v and %+v without it", got.Online, got.Static, want.Online, want.Static)
				}
				if got.Served != want.Served {
					t.Errorf("what served has %+v through the broker, %+v without it", got.Served, want.Served)
				}
				wantHeads(t, got.Heads, want.Heads)
				if got.Posterior != want.Posterior || got.Chain != want.Chain {
					t.Errorf("posterior %s and chain %s through the broker, %s and %s without it", got.Posterior, got.Chain, want.Posterior, want.Chain)
				}
				if got.Online.NLL >= got.Static.NLL {
					t.Errorf("under strong drift the online head has NLL %v, want less than the static head's %v", got.Online.NLL, got.Static.NLL)
				}
			})
		})
	}
}

// wantHeads compares heads with those of an engine: all are there with the same scores, and
// in the order of their NLL.
func wantHeads(t *testing.T, got, want []demoHead) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d heads beside what served, want %d", len(got), len(want))
	}
	for i, h := range got {
		at := slices.IndexFunc(want, func(w demoHead) bool { return w.Head == h.Head })
		if at < 0 || h.demoScores != want[at].demoScores || math.Abs(h.Behind-want[at].Behind) > 1e-12 {
			t.Errorf("head %+v, want one of %+v", h, want)
		}
		if i > 0 && h.NLL < got[i-1].NLL {
			t.Errorf("head %s with NLL %v comes after %s with %v", h.Head, h.NLL, got[i-1].Head, got[i-1].NLL)
		}
	}
}

// direct feeds the windows of a small demo to an engine, without a broker. If late, the
// labels come two steps after their nodes.
func direct(t *testing.T, late bool) (s demoSummary) {
	t.Helper()
	set, err := flags.Data{Data: smallGraph(t), Seed: 1}.Open()
	must(t, err)
	flags, err := defaultTraining()
	must(t, err)
	flags.Epochs = 30
	m, err := flags.train(t.Context(), set, flags.progress(&lines{}, false), nil)
	must(t, err)
	e, err := pipeline.New(m, pipeline.Config{})
	must(t, err)
	stream := set.Stream()
	delay := 0
	if late {
		delay = 2
	}
	windows := make([]event.Window, 2)
	for _, item := range stream.Context {
		windows[0].Nodes = append(windows[0].Nodes, item.Node)
		windows[1].Labels = append(windows[1].Labels, event.Label{Node: item.Node.ID, Class: item.Class, Time: item.Node.Time})
	}
	for step := range len(stream.Steps) + delay {
		if step < len(stream.Steps) {
			var w event.Window
			for _, item := range stream.Steps[step] {
				w.Nodes = append(w.Nodes, item.Node)
			}
			windows = append(windows, w)
		}
		if past := step - delay; past >= 0 {
			var w event.Window
			for _, item := range stream.Steps[past] {
				w.Labels = append(w.Labels, event.Label{Node: item.Node.ID, Class: item.Class, Time: item.Node.Time})
			}
			windows = append(windows, w)
		}
	}
	var out *event.Outcome
	for i := range windows {
		windows[i].Number = int64(i)
		out = e.Step(&windows[i])
	}
	sums := e.Summaries()
	scores := func(head string) demoScores { return scoresOf(&named(sums, head).Prequential) }
	s.Head, s.Served, s.Online, s.Static = "pool", scores("pool"), scores("online"), scores("static")
	for _, h := range sums[1:] {
		s.Heads = append(s.Heads, demoHead{Head: h.Head, demoScores: scores(h.Head), Behind: h.WindowMeans().NLL - s.Served.NLL})
	}
	s.Posterior, s.Chain = fmt.Sprintf("%x", out.Posterior), fmt.Sprintf("%x", out.Chain)
	return s
}

// TestDemoKilled ends the program with SIGTERM at several places of the stream, and
// starts it again each time. The run that gets to the end must print the summary of an
// undisturbed run: no event is lost or counted twice.
func TestDemoKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs gvbll as processes, which the race detector does not see")
	}
	t.Parallel()
	want := (&shell{t: t}).demo(smallDemo(t))
	args := smallDemo(t, append(brokerFlags(), "--dir", t.TempDir(), "--rate", "500")...)
	killed := 0
	for attempt := range 20 {
		// At this rate a step lasts 70 ms, long enough for the kill to come in time.
		out, dead := child(t, args, attempt%5+1)
		if dead {
			killed++
			continue
		}
		if killed < 2 {
			t.Fatalf("the demo was killed %d times, want at least 2", killed)
		}
		if got := summaryOf(t, out); !reflect.DeepEqual(got, want) {
			t.Errorf("after %d kills %+v, undisturbed %+v", killed, got, want)
		}
		return
	}
	t.Fatal("the demo was killed 20 times and never ended")
}

// child runs the program as a process, and ends it with SIGTERM after the given number of lines of
// scores. It reports whether the signal ended the process.
func child(t *testing.T, args []string, scores int) (out []byte, killed bool) {
	t.Helper()
	ctx, kill := context.WithTimeout(t.Context(), longest)
	defer kill()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = kafkatest.Patience // then it is killed
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stdout bytes.Buffer
	stderr := &lines{when: []func([]byte){func(b []byte) {
		_, table, _ := bytes.Cut(b, []byte(header))
		if bytes.Count(table, []byte("\n")) >= scores {
			kill()
		}
	}}}
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	err = cmd.Run()
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		t.Fatalf("the demo ended with %v, after %v at most\n%s", err, longest, stderr)
	}
	return stdout.Bytes(), err != nil
}

// TestDemoOfAnotherDirectory: a second demo with the same --dir continues the first. With
// other data or training flags it is refused, because the model there is another.
func TestDemoOfAnotherDirectory(t *testing.T) { onKFake(t, testDemoOfAnotherDirectory) }

func testDemoOfAnotherDirectory(t *testing.T, sh *shell) {
	dir := t.TempDir()
	first := sh.demo(smallDemo(t, "--dir", dir))
	if again := sh.demo(smallDemo(t, "--dir", dir)); !reflect.DeepEqual(again, first) {
		t.Errorf("the first demo gives %+v, the second %+v", first, again)
	}
	for _, other := range [][]string{
		{"--seed", "2"},
		{"--epochs", "31"},
		{"--steps", "11"},
		{"--data", generated(t, "--nodes", "1501", "--steps", "12")},
		{"--data", generated(t, "--nodes", "1500", "--steps", "12", "--drift", "none")},
	} {
		if code, _, errs := sh.command(smallDemo(t, append(other, "--dir", dir)...)...); code != exitFailed || !strings.Contains(errs, "use another --dir") {
			t.Errorf("%v: exit code %d, want %d: %s", other, code, exitFailed, errs)
		}
	}
}

// TestDemoAgain: a demo on the topics of an earlier one replays their ledger and prints
// the same summary. With another model or other settings it is refused with one line
// that says what differs.
func TestDemoAgain(t *testing.T) { onKFake(t, testDemoAgain) }

func testDemoAgain(t *testing.T, sh *shell) {
	args := smallDemo(t, "--brokers", sh.addr)
	first := sh.demo(args)
	if again := sh.demo(args); !reflect.DeepEqual(again, first) {
		t.Errorf("the first demo gives %+v, the second %+v", first, again)
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--epochs", "31", "belongs to model"},
		{"--coverage", "0.9", "was written with other settings: coverage is 0 there and 0.9 here"},
	} {
		code, _, errs := sh.command(append(args, c.flag, c.value)...)
		last := strings.TrimSpace(errs)
		last = last[strings.LastIndex(last, "\n")+1:]
		if code != exitFailed || !strings.Contains(last, c.want) || !strings.HasSuffix(last, "give another --prefix") {
			t.Errorf("%s %s: exit code %d and %q, want %d and %q", c.flag, c.value, code, last, exitFailed, c.want)
		}
	}
}

// TestDemoHeadIsBetter: with steps so large that they harm, the model as trained is better
// than the updated head that served, and the summary says by how much.
func TestDemoHeadIsBetter(t *testing.T) { onKFake(t, testDemoHeadIsBetter) }

func testDemoHeadIsBetter(t *testing.T, sh *shell) {
	s := sh.demo(smallDemo(t, "--head", "paper", "--eta", "20", "--clip", "5", "--fallback", "0"))
	by := s.Served.NLL - s.Static.NLL
	if best := s.Heads[0]; best.Head != "static" || by <= 0 || math.Abs(best.Behind+by) > 1e-9 {
		t.Errorf("static has NLL %v and what served %v, but the best head is %+v", s.Static.NLL, s.Served.NLL, best)
	}
}

// TestDemoFallsBack: if the fallback changes the head, what served is neither of the two, and
// both stand beside it.
func TestDemoFallsBack(t *testing.T) { onKFake(t, testDemoFallsBack) }

func testDemoFallsBack(t *testing.T, sh *shell) {
	s := sh.demo(smallDemo(t, "--head", "paper", "--eta", "20", "--clip", "5", "--fallback", "1"))
	if len(s.Heads) != 2 || !(s.Served.NLL < s.Online.NLL) || s.Served == s.Static {
		t.Errorf("served %+v, beside it %+v, want online and static, of which online is worse than what served", s.Served, s.Heads)
	}
}

// TestDemoWindows: a large context is cut into windows no larger than what the worker
// holds at once, and the labels of a step come the given number of steps later. Nodes
// without a label have none to wait for.
func TestDemoWindows(t *testing.T) {
	items := func(nodes, labels int) []sender.Item {
		list := make([]sender.Item, nodes)
		for i := range labels {
			list[i].Class = "a"
		}
		return list
	}
	s := &sender.Stream{Context: items(25_000, 10_001), Steps: [][]sender.Item{items(3, 2), items(2, 0), items(1, 1)}}
	got := demoWindows(s, 1)
	want := []intake.Size{
		{Nodes: 10_000},
		{Nodes: 10_000},
		{Nodes: 5000},
		{Labels: 10_000},
		{Labels: 1},
		{Nodes: 3},
		{Nodes: 2},
		{Labels: 2},
		{Nodes: 1},
		{Labels: 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("windows %v, want %v", got, want)
	}
	if got := scored(s, 0); got != 2 {
		t.Errorf("%d steps have labels, want 2", got)
	}
}
