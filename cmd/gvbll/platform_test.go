package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestCopiedHeaders: predictions and dead letters have the headers of the records that they are of, byte
// for byte and in their order: those that are asked for, without what is too long or too many.
func TestCopiedHeaders(t *testing.T) { onKafka(t, testCopiedHeaders) }

func testCopiedHeaders(t *testing.T, sh *shell) {
	prefix := fmt.Sprintf("copied-%d", time.Now().UnixNano())
	file := tenClasses(t)
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix)
	stop := g.work("--model", file, "--prefix", prefix, "--copy-headers", "traceparent,b3")

	trace := []kafka.Header{{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")}, {Key: "b3", Value: []byte{0, 0xff, '\n'}}, {Key: "traceparent", Value: []byte{}}}
	long := kafka.Header{Key: "traceparent", Value: make([]byte, 8193)}
	var many []kafka.Header
	for i := range 20 {
		many = append(many, kafka.Header{Key: "b3", Value: []byte{byte(i)}})
	}
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	want := map[string][]kafka.Header{"traced": trace, "untraced": nil, "many": many[:16], "refused": trace}
	for id, headers := range map[string][]kafka.Header{"traced": append([]kafka.Header{{Key: "secret", Value: []byte("x")}, long}, trace...), "untraced": nil, "many": many, "refused": trace} {
		value := fmt.Sprintf(`{"id": %q, "indices": [1]}`, id)
		if id == "refused" {
			value = `{"id": "refused", "features": [1]}`
		}
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Key: []byte(id), Value: []byte(value), Headers: headers}}))
	}
	g.awaitTaken()
	stop()

	got := make(map[string][]kafka.Header)
	for _, topic := range []string{g.names.Predictions, g.names.DeadLetters} {
		must(t, g.client.ReadAll(t.Context(), topic, func(r *kafka.Record) {
			if r.Headers[0].Key != wire.ContentType {
				t.Errorf("%s: the first header is %s, want the encoding", r.Key, r.Headers[0].Key)
			}
			got[string(r.Key)] = append([]kafka.Header(nil), r.Headers[1:]...)
		}))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers of what was written (-want +got):\n%s", diff)
	}
	g.audit("--model", file, "--prefix", prefix)
	if code, _, errs := sh.command("work", "--model", file, "--brokers", sh.addr, "--copy-headers", "content-type"); code != exitUsage || !strings.Contains(errs, "--copy-headers content-type: give keys of headers other than content-type") {
		t.Errorf("copying content-type: exit code %d and %q", code, errs)
	}
}

// TestPredictionsOnRequest: a worker is killed while events ask for predictions of nodes of the graph. Each
// that names one is answered by one revision with its headers, the revisions of a node are numbered without a
// gap, those of nodes that are not there are dead letters with the reason, and an audit agrees.
func TestPredictionsOnRequest(t *testing.T) {
	onKafkaItself(t, testPredictionsOnRequest, shortSessions)
}

func testPredictionsOnRequest(t *testing.T, sh *shell) {
	file := threeClasses(t)
	m, err := model.Open(file)
	must(t, err)
	prefix := fmt.Sprintf("requests-%d", time.Now().UnixNano())
	sh.setenv("GVBLL_PREFIX", prefix)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr)
	flags := []string{
		"--model", file, "--window", "10", "--rescore", "after=1", "--copy-headers", "request", "--session-timeout", sessionTimeout(),
		"--state-dir", t.TempDir(), "--checkpoints", "every=20ms,keep=3",
	}
	exe, err := os.Executable()
	must(t, err)
	killed := exec.CommandContext(t.Context(), exe, append([]string{"work", "--brokers", sh.addr, "--http", "127.0.0.1:0", "--linger", "5ms", "--commit-interval", "5ms"}, flags...)...)
	killed.Env = append(os.Environ(), asProgram+"=1", "GVBLL_PREFIX="+prefix)
	must(t, killed.Start())
	g.send(50)
	g.sendUnlabelled(20)

	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	asked := 0
	ask := func(n int) {
		var records []kafka.Record
		for range n {
			value := fmt.Sprintf(`{"id": "node-%d", "predict": true, "time": %d}`, asked*7%80, asked) // 70 to 79 are not there
			records = append(records, kafka.Record{Topic: g.names.Nodes, Key: []byte("requests"), Value: []byte(value), Headers: []kafka.Header{{Key: "request", Value: fmt.Append(nil, asked)}}})
			asked++
		}
		must(t, p.Send(t.Context(), records))
	}
	ask(400)
	revisions := func(all []*ledger.Record) (n int) {
		for _, r := range all {
			n += r.Revisions
		}
		return n
	}
	g.await("50 nodes are predicted again", func(all []*ledger.Record) bool { return revisions(all) > 50 })
	must(t, killed.Process.Kill())
	_ = killed.Wait() // it was killed
	stop := g.work(flags...)
	ask(400)
	g.awaitTaken()
	stop()

	answers, last := make(map[string]int), make(map[event.ID]int32)
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var d event.Prediction
		must(t, wire.DecodePrediction(r.Value, &d))
		if d.Revision == 0 {
			return
		}
		if last[d.Node]++; d.Revision != last[d.Node] {
			t.Errorf("node %v has revision %d, want %d", d.Node, d.Revision, last[d.Node])
		}
		if (d.Reason == event.Requested) != (len(r.Headers) == 2) {
			t.Errorf("node %v has revision %d with the reason %q and headers %v", d.Node, d.Revision, d.Reason, r.Headers)
		} else if d.Reason != "" {
			answers[string(r.Headers[1].Value)]++
		}
	}))
	must(t, g.client.ReadAll(t.Context(), g.names.DeadLetters, func(r *kafka.Record) {
		var d event.Refusal
		must(t, wire.DecodeDeadLetter(r.Value, &d))
		if d.Reason == event.UnknownNode {
			answers["unknown "+string(r.Headers[1].Value)]++
		}
	}))
	for i := range asked {
		name := fmt.Sprint(i)
		if i*7%80 >= 70 {
			name = "unknown " + name
		}
		if answers[name] != 1 {
			t.Errorf("request %s is answered %d times", name, answers[name])
		}
	}
	if len(answers) != asked {
		t.Errorf("%d answers to %d requests", len(answers), asked)
	}
	if e := g.audit("--model", file).Epochs; len(e) != 1 || e[0].Proved != e[0].Windows {
		t.Errorf("the audit found %+v, want every window proved", e)
	}
}

// TestEmbeddings: predictions and revisions carry the embedding of their node where it is asked for, in both
// encodings; it is that of the encoder on the graph as it then was. An audit compares it where it is there, and
// proves the predictions without it before and after.
func TestEmbeddings(t *testing.T) { onKFake(t, testEmbeddings) }

func testEmbeddings(t *testing.T, sh *shell) {
	file, prefix := tenClasses(t), "embedded"
	m, err := model.Open(file)
	must(t, err)
	g := sh.graph(prefix, m.Encoder.In())
	sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix)
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	send := func(values ...string) {
		for _, value := range values {
			must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Nodes, Value: []byte(value)}}))
		}
		g.awaitTaken()
	}
	for _, run := range []struct{ output, node string }{{"msgpack", "a"}, {"msgpack,embedding", "b"}, {"json,embedding", "c"}, {"json", "d"}} {
		stop := g.work("--model", file, "--prefix", prefix, "--output", run.output)
		send(fmt.Sprintf(`{"id": %q, "indices": [1, 3]}`, run.node))
		send(fmt.Sprintf(`{"id": %q, "predict": true}`, run.node))
		stop()
	}
	z := m.Encoder.Encode([]gnn.Vector{m.Normalizer.Apply(gnn.Vector{}, gnn.Vector{Index: []uint32{1, 3}, Value: []float32{1, 1}})}, nil, nil)
	count := 0
	must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) {
		var p event.Prediction
		must(t, wire.DecodePrediction(r.Value, &p))
		count++
		want := z
		if p.Node.Str == "a" || p.Node.Str == "d" {
			want = nil
		}
		if diff := cmp.Diff(want, p.Embedding, cmpopts.EquateApprox(0, 1e-5)); diff != "" {
			t.Errorf("the embedding of %s, revision %d (-want +got):\n%s", p.Node, p.Revision, diff)
		}
	}))
	if count != 8 {
		t.Errorf("%d predictions, want 4 and a revision of each", count)
	}
	g.audit("--model", file, "--prefix", prefix)
	if code, _, errs := sh.command("work", "--model", file, "--brokers", sh.addr, "--output", "csv"); code != exitUsage || !strings.Contains(errs, "--output csv: give msgpack or json") {
		t.Errorf("an unknown output: exit code %d and %q", code, errs)
	}
}
