package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/sender"
)

// lines collects output and tells when a text has been written.
type lines struct {
	mu   sync.Mutex
	b    []byte
	when []func([]byte)
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	for _, f := range l.when {
		f(l.b)
	}
	return len(p), nil
}

func (l *lines) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.b, []byte(s))
}

// small is a demo of a second or two.
func small(more ...string) []string {
	return append([]string{"demo", "--data", smallGraph(), "--label-delay", "2", "--epochs", "30", "--json"}, more...)
}

// smallGraph is the folder of a graph, which TestMain removes.
var smallGraph = sync.OnceValue(func() string {
	dir := filepath.Join(scratch(), "small")
	var out, errs lines
	if code := run(context.Background(), []string{"generate", "--out", dir, "--nodes", "1500", "--steps", "12"}, &out, &errs); code != exitOK {
		panic(string(errs.b))
	}
	return dir
})

// generated returns the folder of a graph that 'gvbll generate' makes.
func generated(t *testing.T, args ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "graph")
	gvbll(t, append([]string{"generate", "--out", dir}, args...)...)
	return dir
}

// demo runs a demo to its end in this process.
func demo(t *testing.T, args []string) demoSummary {
	t.Helper()
	var out, errs lines
	if code := run(t.Context(), args, &out, &errs); code != exitOK {
		t.Fatalf("gvbll %s: exit code %d\n%s", strings.Join(args, " "), code, errs.b)
	}
	return summaryOf(t, out.b)
}

func summaryOf(t *testing.T, b []byte) (s demoSummary) {
	t.Helper()
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return s
}

// kafkas are the brokers to test on: an embedded one, by the empty address, and
// the Kafka of GVBLL_KAFKA.
func kafkas() map[string]string {
	m := map[string]string{"embedded": ""}
	if addr := os.Getenv("GVBLL_KAFKA"); addr != "" {
		m["kafka"] = addr
	}
	return m
}

func on(addr string) []string {
	if addr == "" {
		return nil
	}
	return []string{"--brokers", addr, "--prefix", fmt.Sprintf("demo-test-%d", time.Now().UnixNano())}
}

// TestDemoEqualsTheEngine: through the broker or fed directly, the same windows
// give the same scores to the last digit, and the same hashes.
func TestDemoEqualsTheEngine(t *testing.T) {
	for name, addr := range kafkas() {
		for _, delay := range []string{"0", "2"} {
			t.Run(name+" delay "+delay, func(t *testing.T) {
				got := demo(t, small(append(on(addr), "--label-delay", delay)...))
				if got.Arrivals == 0 || got.Arrivals != got.Predictions || got.Arrivals != got.Labels || got.Steps != 12 {
					t.Errorf("%d arrivals, %d predictions, %d labels, %d steps", got.Arrivals, got.Predictions, got.Labels, got.Steps)
				}
				want := direct(t, delay == "2")
				if got.Online.Means != want.Online.Means || got.Online.Stream != want.Online.Stream || got.Static.Means != want.Static.Means {
					t.Errorf("through the broker %+v and %+v, directly %+v and %+v", got.Online, got.Static, want.Online, want.Static)
				}
				if got.Posterior != want.Posterior || got.Chain != want.Chain {
					t.Error("the hashes differ")
				}
				if got.Online.NLL >= got.Static.NLL {
					t.Errorf("under strong drift online has NLL %v and static %v", got.Online.NLL, got.Static.NLL)
				}
			})
		}
	}
}

// direct feeds the demo's windows to an engine of its own.
func direct(t *testing.T, late bool) (s demoSummary) {
	t.Helper()
	set, err := dataFlags{Data: smallGraph(), Seed: 1}.open()
	if err != nil {
		t.Fatal(err)
	}
	var flags trainFlags
	must(t, kong.ApplyDefaults(&flags))
	flags.Epochs = 30
	m, err := flags.train(t.Context(), set, &lines{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	stream := set.stream()
	delay := 0
	if late {
		delay = 2
	}
	windows := []event.Window{{Nodes: slices.Clone(stream.Context)}, {}}
	for _, item := range stream.Known {
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
	of := func(s *pipeline.Summary) demoScores {
		return demoScores{Means: s.WindowMeans(), Stream: s.LabelMeans()}
	}
	s.Head, s.Served, s.Online, s.Static = "pool", of(&sums[0]), of(named(sums, "online")), of(named(sums, "static"))
	s.Posterior, s.Chain = fmt.Sprintf("%x", out.Posterior), fmt.Sprintf("%x", out.Chain)
	return s
}

// TestDemoKilled kills the program with SIGKILL again and again, wherever it
// is in the stream, and starts it anew: it ends with the summary of a run that
// nobody touched.
func TestDemoKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("processes of their own: not under the race detector")
	}
	for name, addr := range kafkas() {
		t.Run(name, func(t *testing.T) {
			want := demo(t, small())
			args := small(append(on(addr), "--dir", t.TempDir(), "--rate", "500")...)
			killed := 0
			for attempt := range 20 {
				// The rate makes a step take 70 ms: time to be killed in.
				out, dead := child(t, args, attempt%5+1)
				if dead {
					killed++
					continue
				}
				if killed < 2 {
					t.Fatalf("killed %d times only", killed)
				}
				if got := summaryOf(t, out); got != want {
					t.Errorf("after %d kills %+v, undisturbed %+v", killed, got, want)
				}
				return
			}
			t.Fatal("it does not come to an end")
		})
	}
}

// child runs the program as a process, and kills it once it has shown as many
// lines of scores.
func child(t *testing.T, args []string, scores int) (out []byte, dead bool) {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, exe, args...)
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
	if err != nil && ctx.Err() == nil {
		t.Fatalf("%v\n%s", err, stderr.b)
	}
	return stdout.Bytes(), err != nil
}

// TestDemoOfAnotherDirectory: a directory that holds the model of other data is
// not taken for this one's.
func TestDemoOfAnotherDirectory(t *testing.T) {
	dir := t.TempDir()
	first := demo(t, small("--dir", dir))
	if again := demo(t, small("--dir", dir)); again != first {
		t.Errorf("first %+v, then %+v", first, again)
	}
	for _, other := range [][]string{
		{"--seed", "2"},
		{"--epochs", "31"},
		{"--steps", "11"},
		{"--data", generated(t, "--nodes", "1501", "--steps", "12")},
		{"--data", generated(t, "--nodes", "1500", "--steps", "12", "--drift", "none")},
	} {
		var out, errs lines
		if code := run(t.Context(), small(append(other, "--dir", dir)...), &out, &errs); code != exitFailed || !errs.has("use another --dir") {
			t.Errorf("%v: exit code %d: %s", other, code, errs.b)
		}
	}
}

// TestDemoAgain: a demo on topics where it has already been replays and ends
// with the same; one with another model, or other settings, says so in a line.
func TestDemoAgain(t *testing.T) {
	b, err := broker.Start(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	args := small("--brokers", b.Addr())
	first := demo(t, args)
	if again := demo(t, args); again != first {
		t.Errorf("first %+v, then %+v", first, again)
	}
	for _, c := range []struct{ flag, value, want string }{
		{"--epochs", "31", "belongs to model"},
		{"--coverage", "0.9", "was written with other settings: coverage is 0 there and 0.9 here"},
	} {
		var out, errs lines
		code := run(t.Context(), append(args, c.flag, c.value), &out, &errs)
		last := strings.TrimSpace(string(errs.b))
		last = last[strings.LastIndex(last, "\n")+1:]
		if code != exitFailed || !strings.Contains(last, c.want) {
			t.Errorf("%s %s: exit code %d, %q", c.flag, c.value, code, last)
		}
	}
}

// TestDemoWindows: a large context is cut, so that no window is larger than what
// the worker holds at once; labels come as many steps late as they should.
func TestDemoWindows(t *testing.T) {
	s := &sender.Stream{Context: make([]event.Node, 25_000), Steps: [][]sender.Item{make([]sender.Item, 3), make([]sender.Item, 2)}}
	got := demoWindows(s, 1)
	want := []intake.Size{{Nodes: 10_000}, {Nodes: 10_000}, {Nodes: 5000}, {Nodes: 3}, {Nodes: 2}, {Labels: 3}, {Labels: 2}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
