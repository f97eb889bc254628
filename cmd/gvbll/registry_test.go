package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hamba/avro/v2"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
)

// The schemas of a payment, which evolves twice, and of a chargeback.
var (
	paymentSchemas = []string{
		`{"type": "record", "name": "Payment", "fields": [{"name": "payment", "type": "long"}, {"name": "card", "type": "string"},
			{"name": "amount", "type": "double"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}`,
		`{"type": "record", "name": "Payment", "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
			{"name": "payment", "type": "long"}, {"name": "card", "type": ["null", "string"]}, {"name": "amount", "type": "double"},
			{"name": "country", "type": ["null", "string"], "default": null}]}`,
		`{"type": "record", "name": "Payment", "fields": [{"name": "payment", "type": "long"}, {"name": "card", "type": "string"},
			{"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 1}},
			{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "country", "type": "string"}, {"name": "new", "type": "boolean"}]}`,
	}
	chargeback = `syntax = "proto3"; message Chargeback { int64 payment = 1; string outcome = 2; }`
)

// paymentOf returns the values of the i-th payment.
func paymentOf(i int) (card string, tenths, at int64, country string) {
	at = time.Date(2026, time.March, 1, i, 0, 0, 0, time.UTC).UnixMilli()
	return fmt.Sprintf("c%d", i*i%13), int64(i*37%101)*10 + 5, at, fmt.Sprintf("C%02d", i%23)
}

// paymentsMap is the map of payments and chargebacks.
const paymentsMap = `
nodes: [{id: {pointer: /payment, prefix: "p:"}, time: {pointer: /at}, features: "", neighbours: [{pointer: /card, prefix: "card:", implicit: true}]}]
labels: [{node: {pointer: /payment, prefix: "p:"}, class: {pointer: /outcome, map: {chargeback: fraud, settled: good}}}]
`

// paid returns the i-th payment and chargeback as plain JSON, and as a registry's serializers frame them.
func paid(t *testing.T, i int) (plain, framed [2][]byte) {
	card, tenths, when, country := paymentOf(i)
	amount := float64(tenths) / 10
	version := i / 20 % len(paymentSchemas)
	b := fmt.Appendf(nil, `{"payment": %d, "card": %q, "amount": %v, "at": %d`, i, card, amount, when)
	// The encoder of Avro wants the values as its schema has them.
	values := []byte{}
	w := avro.NewWriter(nil, 64)
	amountBytes := []byte{byte(int(amount*10) >> 8), byte(int(amount * 10))}
	switch version {
	case 0:
		w.WriteLong(int64(i))
		w.WriteString(card)
		w.WriteDouble(amount)
		w.WriteLong(when)
	case 1:
		b = fmt.Appendf(b, `, "country": %q`, country)
		w.WriteLong(when)
		w.WriteLong(int64(i))
		w.WriteLong(1)
		w.WriteString(card)
		w.WriteDouble(amount)
		w.WriteLong(1)
		w.WriteString(country)
	case 2:
		b = fmt.Appendf(b, `, "country": %q, "new": %t`, country, i%2 == 0)
		w.WriteLong(int64(i))
		w.WriteString(card)
		w.WriteBytes(amountBytes)
		w.WriteLong(when)
		w.WriteString(country)
		w.WriteBool(i%2 == 0)
	}
	values = append(values, w.Buffer()...)
	outcome := []string{"settled", "chargeback"}[i%7/3%2]
	message := binary.AppendUvarint([]byte{0, 1 << 3}, uint64(i))
	message = append(append(message, 2<<3|2, byte(len(outcome))), outcome...)
	label := fmt.Appendf(nil, `{"payment": %d, "outcome": %q}`, i, outcome)
	frame := func(id byte, payload []byte) []byte { return append([]byte{0, 0, 0, 0, id}, payload...) }
	plain = [2][]byte{append(b, '}'), label}
	framed = [2][]byte{frame(byte(11+version), values), frame(21, message)}
	if i%10 == 9 { // JSON Schema
		framed[1] = frame(31, label)
	}
	return plain, framed
}

// fakeRegistry speaks the API of a schema registry.
type fakeRegistry struct {
	down  atomic.Bool
	asked atomic.Int32
}

func (f *fakeRegistry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	user, password, _ := req.BasicAuth()
	if f.asked.Add(1); f.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if user != "gvbll" || password != "secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var id int
	fmt.Sscanf(req.URL.Path, "/schemas/ids/%d", &id)
	answer := map[string]string{"schema": chargeback, "schemaType": "PROTOBUF"}
	switch {
	case id >= 11 && id < 11+len(paymentSchemas):
		answer = map[string]string{"schema": paymentSchemas[id-11]}
	case id != 21:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	json.NewEncoder(w).Encode(answer)
}

// serve serves the registry, writes the password into the file, and returns the value of --registry.
func (f *fakeRegistry) serve(t *testing.T, sh *shell, secret string) string {
	t.Helper()
	must(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	l, err := sh.listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: f}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + ",user=gvbll,password=" + secret
}

// TestRegistry: records in Avro and Protobuf, whose schema evolves twice, get the bytes of predictions that plain JSON gets. A
// registry that is away is waited for, at the start and in flight, and nothing is lost; what it does not have is refused. A
// replay and an audit need none.
func TestRegistry(t *testing.T) { onKFake(t, testRegistry) }

func testRegistry(t *testing.T, sh *shell) {
	dir := t.TempDir()
	model, mapped, secret := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "map.yaml"), filepath.Join(dir, "secret")
	sh.gvbll("train", "--data", paymentsTable(t, 200), "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--embedding", "4", "--out", model)
	must(t, os.WriteFile(mapped, []byte(paymentsMap), 0o644))
	registry := &fakeRegistry{}
	address := registry.serve(t, sh, secret)

	graphs := map[string]*testGraph{"plain": sh.graph("plain", 0), "framed": sh.graph("framed", 0)}
	send := func(prefix string, from, to int) {
		t.Helper()
		g := graphs[prefix]
		p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		must(t, err)
		var records []kafka.Record
		for i := from; i < to; i++ {
			values, framed := paid(t, i)
			if prefix == "framed" {
				values = framed
			}
			records = append(records, kafka.Record{Topic: g.names.Nodes, Value: values[0]}, kafka.Record{Topic: g.names.Labels, Value: values[1]})
		}
		must(t, p.Send(t.Context(), records))
	}
	work := []string{"--model", model, "--map", mapped, "--window", "20", "--linger", "2s"}
	read := func(g *testGraph) (values []string) {
		must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) { values = append(values, string(r.Value)) }))
		return values
	}
	for prefix, g := range graphs {
		sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix, "--partitions", "1")
		send(prefix, 0, 100)
		flags := append([]string{"--prefix", prefix}, work...)
		if prefix == "framed" {
			registry.down.Store(true) // at the start
			flags = append(flags, "--registry", address, "--state-dir", filepath.Join(dir, "state"))
		}
		stop := g.work(flags...)
		if prefix == "framed" {
			time.Sleep(3 * time.Minute)
			if n := g.predictions(); n > 0 || !strings.Contains(g.log(), "records wait for the schema registry") {
				t.Errorf("%d predictions without a registry, and the worker says\n%s", n, g.log())
			}
			registry.down.Store(false)
		}
		g.awaitTaken()
		stop()
	}
	plain, framed := read(graphs["plain"]), read(graphs["framed"])
	if len(plain) != 100 || strings.Join(plain, "\n") != strings.Join(framed, "\n") {
		t.Errorf("%d predictions of plain JSON and %d of frames, or they differ", len(plain), len(framed))
	}

	// In flight: a new process, which knows the schemas from the ledger, and no others.
	g := graphs["framed"]
	asked := registry.asked.Load()
	must(t, os.WriteFile(secret, []byte("wrong\n"), 0o600))
	if code, _, stderr := sh.command("work", "--brokers", sh.addr, "--prefix", "framed", "--model", model, "--registry", address); code != exitUsage || !strings.Contains(stderr, "401") {
		t.Errorf("a wrong password: exit code %d, %s", code, stderr)
	}
	must(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	stop := g.work(append([]string{"--prefix", "framed", "--registry", address, "--state-dir", filepath.Join(dir, "state")}, work...)...)
	g.awaitOwner()
	if log := g.log(); !strings.Contains(log, "checkpoint") {
		t.Errorf("the worker did not go on from its checkpoint: %s", log)
	}
	registry.down.Store(true)
	send("framed", 100, 120)
	g.awaitTaken()
	if n := registry.asked.Load() - asked; n != 2 { // both starts
		t.Errorf("%d questions, though the ledger has all schemas", n)
	}
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	must(t, p.Send(t.Context(), []kafka.Record{{Topic: g.names.Labels, Value: []byte{0, 0, 0, 0, 99, 1, 2, 3}}}))
	time.Sleep(time.Minute)
	send("framed", 120, 140)
	time.Sleep(time.Minute)
	registry.down.Store(false)
	g.awaitTaken()
	stop()
	audited := g.audit("--prefix", "framed", "--model", model)
	if audited.Predictions != 140 || audited.DeadLetters != 1 || audited.Epochs[0].Proved != audited.Epochs[0].Windows {
		t.Errorf("an audit without a registry finds %+v", audited)
	}
	var ids []uint32
	must(t, ledger.Scan(t.Context(), g.client, g.names.LedgerAt(), func(r *ledger.Record) bool {
		for _, s := range r.Schemas {
			ids = append(ids, s.ID)
		}
		return true
	}))
	if len(ids) != 4 {
		t.Errorf("the ledger has schemas %v, want four, each once", ids)
	}
	if out := sh.gvbll("map", "--try", mapped, "--brokers", sh.addr, "--topic", g.names.Nodes, "-n", "1", "--registry", address); !strings.Contains(out, `"p:0"`) {
		t.Errorf("map shows %s", out)
	}
	if out := sh.gvbll("dead-letters", "--brokers", sh.addr, "--prefix", "framed"); !strings.Contains(out, "schema 99") || !strings.Contains(out, string(event.Undecodable)) {
		t.Errorf("the dead letter is %s", out)
	}
}
