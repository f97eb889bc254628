package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestWork runs a worker as a process of its own: a model
// is trained, a data set and hostile bytes are sent, metrics are read, Ctrl-C
// ends it, and everything was served once.
func TestWork(t *testing.T) {
	if testing.Short() {
		t.Skip("a process of its own: not under the race detector")
	}
	for name, addr := range kafkas() {
		t.Run(name, func(t *testing.T) {
			if addr == "" {
				b, err := broker.Start(broker.Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				addr = b.Addr()
			}
			workDay(t, addr, fmt.Sprintf("work-test-%d", time.Now().UnixNano()))
		})
	}
}

func workDay(t *testing.T, addr, prefix string) {
	data := []string{"--data", generated(t, "--nodes", "1200", "--steps", "10")}
	file := filepath.Join(t.TempDir(), "m.safetensors")
	gvbll(t, append([]string{"train", "--out", file, "--epochs", "20", "--hidden", "16", "--embedding", "8"}, data...)...)

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	work := exec.CommandContext(t.Context(), exe, "work", "--model", file, "--brokers", addr, "--prefix", prefix, "--http", "127.0.0.1:0", "--linger", "20ms", "--commit-interval", "20ms")
	work.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := work.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := work.Start(); err != nil {
		t.Fatal(err)
	}
	logs := bufio.NewReader(stderr)
	url := ""
	for url == "" {
		line, err := logs.ReadString('\n')
		if err != nil {
			t.Fatalf("%v; %s", err, line)
		}
		if m := regexp.MustCompile(`http=(\S+)`).FindStringSubmatch(line); m != nil {
			url = m[1]
		}
	}
	rest := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(logs)
		rest <- b
	}()

	poison(t, addr, prefix)
	out := gvbll(t, append([]string{"send", "--brokers", addr, "--prefix", prefix, "--labels", "predicted", "--label-delay", "1"}, data...)...)
	arrivals := 345 // what comes after training and warm-up
	if !strings.Contains(out, "sent 1200 nodes and 1200 labels") {
		t.Errorf("send says %q", out)
	}

	// The metrics tell the same story as the topics. Labels are learned a
	// moment after they are sent; gauges are set when that is committed.
	m := metricsWhen(t, url, func(m metricsPage) bool {
		return m.sum("gvbll_prequential_labels", "head", "online") == float64(arrivals)
	})
	for _, c := range []struct {
		name, label, value string
		want               float64
	}{
		{"gvbll_arrivals_total", "", "", float64(arrivals)},
		{"gvbll_predictions_total", "", "", float64(arrivals)},
		{"gvbll_context_nodes_total", "", "", 1200 - float64(arrivals)},
		{"gvbll_scored_labels_total", "head", "online", float64(arrivals)},
		{"gvbll_calibration_predictions_total", "head", "static", float64(arrivals)},
		{"gvbll_level", "of", "nodes", 1200},
		{"gvbll_level", "of", "pending-predictions", 0},
		{"gvbll_refused_events_total", "", "", 5},
		{"gvbll_refused_events_total", "reason", "wrong-dimension", 1},
	} {
		if got := m.sum(c.name, c.label, c.value); got != c.want {
			t.Errorf("%s{%s=%q} is %v, want %v", c.name, c.label, c.value, got, c.want)
		}
	}
	if body := get(t, url+"/healthz"); body != "ok\n" {
		t.Errorf("/healthz says %q", body)
	}
	if body := get(t, url+"/readyz"); body != "ready\n" {
		t.Errorf("/readyz says %q", body)
	}

	if err := work.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	log := <-rest
	if err := work.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, log)
	}
	if !bytes.Contains(log, []byte("everything is committed")) {
		t.Errorf("the last words are %s", log)
	}

	// Each arrival once, in both forms that tail has.
	seen := make(map[float64]bool)
	for _, line := range strings.Split(strings.TrimSpace(gvbll(t, "tail", "--brokers", addr, "--prefix", prefix, "--json", "--no-follow")), "\n") {
		var p struct {
			Node          float64
			Probabilities []float64
			Confidence    float64
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if seen[p.Node] || len(p.Probabilities) != 10 || p.Confidence <= 0 {
			t.Errorf("%+v", p)
		}
		seen[p.Node] = true
	}
	if len(seen) != arrivals {
		t.Errorf("%d nodes predicted, want %d", len(seen), arrivals)
	}
	table := gvbll(t, "tail", "--brokers", addr, "--prefix", prefix, "--no-follow", "-n", "3")
	if strings.Count(table, "\n") != 4 || !strings.Contains(table, "EPISTEMIC") {
		t.Errorf("the table is %q", table)
	}
	if list := gvbll(t, "topics", "--brokers", addr, "--prefix", prefix); strings.Count(list, "there") != 6 {
		t.Errorf("topics says %q", list)
	}
}

// gvbll runs a command to its end in this process and returns its output.
func gvbll(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs lines
	if code := run(t.Context(), args, &out, &errs); code != exitOK {
		t.Fatalf("gvbll %s: exit code %d\n%s", strings.Join(args, " "), code, errs.b)
	}
	return string(out.b)
}

// poison sends what no graph is made of, once the worker has made the topics.
func poison(t *testing.T, addr, prefix string) {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	gvbll(t, "topics", "--create", "--brokers", addr, "--prefix", prefix)
	var records []kafka.Record
	for _, value := range [][]byte{
		nil,
		{},
		{0xdd, 0xff, 0xff, 0xff, 0xff},
		{0xc1},
		wire.AppendNode(nil, &event.Node{ID: event.ID{Str: "x"}, Dense: []float32{1, 2, 3}}),
	} {
		records = append(records, kafka.Record{Topic: prefix + ".nodes", Value: value, Time: time.Now()})
	}
	if err := p.Send(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// metricsPage is a page of metrics, by name and labels as they stand there.
type metricsPage map[string]float64

// sum adds up the series of a name in which label has the value, all of them
// without a label.
func (m metricsPage) sum(name, label, value string) (sum float64) {
	for series, v := range m {
		base, labels, _ := strings.Cut(series, "{")
		if base == name && (label == "" || strings.Contains(labels, label+`="`+value+`"`)) {
			sum += v
		}
	}
	return sum
}

// metricsWhen reads the page until it says what is waited for.
func metricsWhen(t *testing.T, url string, ok func(metricsPage) bool) metricsPage {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(get(t, url+"/metrics"))); err != nil {
			t.Fatalf("the page is not in Prometheus' format: %v", err)
		}
		m := make(metricsPage)
		for _, line := range strings.Split(get(t, url+"/metrics"), "\n") {
			at := strings.LastIndex(line, " ")
			if at < 0 || strings.HasPrefix(line, "#") {
				continue
			}
			v, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			m[line[:at]] = v
		}
		if ok(m) {
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("the metrics stay at %v", m)
		}
	}
}
