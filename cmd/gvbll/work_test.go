package main

import (
	"bufio"
	"bytes"
	"context"
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
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestWork runs a worker as a process, as an operator does: it trains a model, sends a
// data set and records that cannot be decoded, reads the metrics and ends the worker with
// SIGINT. Every arrival must be predicted once, and the metrics must agree with the
// topics.
func TestWork(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs gvbll as a process, which the race detector does not see")
	}
	onKafkaItself(t, testWork)
}

func testWork(t *testing.T, sh *shell) {
	prefix := fmt.Sprintf("work-test-%d", time.Now().UnixNano())
	data := []string{"--data", generated(t, "--nodes", "1200", "--steps", "10")}
	file := filepath.Join(t.TempDir(), "m.safetensors")
	sh.gvbll(append([]string{"train", "--out", file, "--epochs", "20", "--hidden", "16", "--embedding", "8"}, data...)...)

	exe, err := os.Executable()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	work := exec.CommandContext(ctx, exe, "work", "--model", file, "--brokers", sh.addr, "--prefix", prefix, "--http", "127.0.0.1:0", "--linger", "20ms", "--commit-interval", "20ms")
	work.Env = append(os.Environ(), asProgram+"=1")
	stderr, err := work.StderrPipe()
	must(t, err)
	must(t, work.Start())
	logs := bufio.NewReader(stderr)
	url := ""
	for url == "" {
		line, err := logs.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting until the worker says where its page is: %v; %s", err, line)
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

	sh.sendPoison(prefix)
	out := sh.gvbll(append([]string{"send", "--brokers", sh.addr, "--prefix", prefix, "--labels", "predicted", "--label-delay", "1"}, data...)...)
	const arrivals = 345 // nodes after those of training and warm-up
	if !strings.Contains(out, "sent 1200 nodes and 1200 labels") {
		t.Errorf("gvbll send prints %q, want 1200 nodes and 1200 labels", out)
	}

	// The metrics agree with the topics. The gauges are set when the last labels are
	// committed, a moment after they are sent, and one after the other: a scrape may come between.
	m := metricsWhen(t, url, func(m metricsPage) bool {
		return m.sum("gvbll_prequential_labels", "head", "online") == float64(arrivals) &&
			m.sum("gvbll_level", "of", "pending-predictions") == 0
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
		t.Errorf("/healthz answers %q, want ok", body)
	}
	if body := get(t, url+"/readyz"); body != "ready\n" {
		t.Errorf("/readyz answers %q, want ready", body)
	}

	must(t, work.Process.Signal(syscall.SIGINT))
	log := kafkatest.Receive(t, rest, "the worker has ended")
	if err := work.Wait(); err != nil {
		t.Errorf("after SIGINT the worker ends with %v\n%s", err, log)
	}
	if !bytes.Contains(log, []byte("everything is committed")) {
		t.Errorf("the log does not say that everything is committed: %s", log)
	}

	// gvbll tail prints each arrival once.
	seen := make(map[float64]bool)
	for _, line := range strings.Split(strings.TrimSpace(sh.gvbll("tail", "--brokers", sh.addr, "--prefix", prefix, "--json", "--no-follow")), "\n") {
		var p struct {
			Node          float64
			Probabilities map[string]float64
			Confidence    float64
		}
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if seen[p.Node] || len(p.Probabilities) != 10 || p.Confidence <= 0 {
			t.Errorf("prediction %+v: the node was predicted before, or it has no 10 probabilities and a confidence", p)
		}
		seen[p.Node] = true
	}
	if len(seen) != arrivals {
		t.Errorf("%d nodes are predicted, want %d", len(seen), arrivals)
	}
	table := sh.gvbll("tail", "--brokers", sh.addr, "--prefix", prefix, "--no-follow", "-n", "3")
	if strings.Count(table, "\n") != 4 || !strings.Contains(table, "EPIST") {
		t.Errorf("tail -n 3 prints %q, want a header and 3 lines", table)
	}
	if list := sh.gvbll("topics", "--brokers", sh.addr, "--prefix", prefix); strings.Count(list, "there") != 7 {
		t.Errorf("gvbll topics prints %q, want 7 topics that are there", list)
	}
}

// TestNoBroker: that no broker answers is said in one line, by a demo before it trains. A worker waits, and its probes say for what.
func TestNoBroker(t *testing.T) {
	file, graph := tenClasses(t), smallGraph(t)
	kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
		sh := &shell{t: t, addr: "127.0.0.1:1", dialer: n.DialContext, listen: n.Listen}
		code, _, errs := sh.command("demo", "--data", graph, "--epochs", "1000000", "--http", ":0", "--brokers", sh.addr)
		if code != exitFailed || !strings.HasPrefix(errs[strings.LastIndex(strings.TrimSpace(errs), "\n")+1:], "gvbll: no Kafka broker answers at 127.0.0.1:1: check the address") {
			t.Errorf("demo: exit code %d, want %d and that no broker answers: %s", code, exitFailed, errs)
		}
		ctx, stop := context.WithCancel(t.Context())
		var out, said lines
		ended := make(chan int, 1)
		go func() {
			ended <- run(ctx, []string{"work", "--model", file, "--http", "127.0.0.1:8473", "--brokers", sh.addr}, sh.process(&out, &said))
		}()
		time.Sleep(time.Minute)
		client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}
		for path, want := range map[string]string{"/healthz": "ok", "/readyz": "waiting for Kafka: no Kafka broker answers at 127.0.0.1:1", "/": "waiting for"} {
			res, err := client.Get("http://127.0.0.1:8473" + path)
			must(t, err)
			body, err := io.ReadAll(res.Body)
			must(t, err)
			if !strings.Contains(string(body), want) {
				t.Errorf("a worker without a broker says %s of %s, want %s", body, path, want)
			}
		}
		stop()
		if code := kafkatest.Receive(t, ended, "the worker has ended"); code != exitFailed || strings.Count(said.String(), "this start waits for Kafka") < 3 {
			t.Errorf("work: exit code %d, want %d and lines that say what it waits for: %s", code, exitFailed, &said)
		}
	})
}

// sendPoison creates the topics and sends five node events that the worker must refuse:
// four that cannot be decoded, and one with the wrong number of features.
func (sh *shell) sendPoison(prefix string) {
	t := sh.t
	t.Helper()
	p, err := sh.dial().NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix)
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
	must(t, p.Send(t.Context(), records))
}

// metricsPage holds the values of /metrics by series: name and labels, as written there.
type metricsPage map[string]float64

// sum returns the sum of the series of a name whose label has the value; of all its
// series if label is "".
func (m metricsPage) sum(name, label, value string) (sum float64) {
	for series, v := range m {
		base, labels, _ := strings.Cut(series, "{")
		if base == name && (label == "" || strings.Contains(labels, label+`="`+value+`"`)) {
			sum += v
		}
	}
	return sum
}

// metricsWhen reads /metrics until ok accepts the page.
func metricsWhen(t *testing.T, url string, ok func(metricsPage) bool) metricsPage {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(get(t, url+"/metrics"))); err != nil {
			t.Fatalf("/metrics is not in Prometheus' text format: %v", err)
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
			t.Fatalf("after 30 s the metrics are still %v", m)
		}
	}
}
