package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
)

// apicurio speaks what the Java serializer of Apicurio Registry asks, by which it registers schemas, and what gvbll asks.
type apicurio struct {
	mu      sync.Mutex
	schemas []string // by number from 101
	down    atomic.Bool
	asked   []string
}

func (a *apicurio) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if user, password, _ := req.BasicAuth(); user != "gvbll" || password != "secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if req.Method == http.MethodPost && strings.HasPrefix(req.URL.Path, "/apis/registry/v2/groups/") {
		body, _ := io.ReadAll(req.Body)
		n := slices.Index(a.schemas, string(body))
		if n < 0 {
			n = len(a.schemas)
			a.schemas = append(a.schemas, string(body))
		}
		fmt.Fprintf(w, `{"id": %q, "groupId": "default", "version": "%d", "type": "AVRO", "state": "ENABLED", "globalId": %d, "contentId": %d, "createdOn": "2026-03-01T00:00:00+0000", "modifiedOn": "2026-03-01T00:00:00+0000"}`,
			req.Header.Get("X-Registry-ArtifactId"), n+1, 101+n, 101+n)
		return
	}
	id := 0
	fmt.Sscanf(req.URL.Path, "/schemas/ids/%d", &id)
	switch a.asked = append(a.asked, req.URL.Path); {
	case a.down.Load():
		w.WriteHeader(http.StatusServiceUnavailable)
	case id < 101 || id >= 101+len(a.schemas):
		w.WriteHeader(http.StatusNotFound)
	default:
		json.NewEncoder(w).Encode(map[string]string{"schema": a.schemas[id-101]})
	}
}

// TestRegistryOfJava: records that the Java serializer of Apicurio Registry writes to Apache Kafka, whose schema evolves twice in
// flight while the registry is away, get the bytes of predictions that plain JSON gets, and none is lost.
func TestRegistryOfJava(t *testing.T) { onKafkaItself(t, testRegistryOfJava) }

func testRegistryOfJava(t *testing.T, sh *shell) {
	if kafkatest.Apache() == "" {
		t.Skip("is of Java: .ci/kafka runs it on Apache Kafka")
	}
	dir := t.TempDir()
	jars := filepath.Join(dir, "jars")
	java := func(stdin string, command ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out[max(len(out)-2000, 0):])
		}
	}
	java("", "mvn", "-B", "-q", "-f", "testdata/serializers/pom.xml", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+jars)
	model, mapped, secret := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "map.yaml"), filepath.Join(dir, "secret")
	sh.gvbll("train", "--data", paymentsTable(t, 200), "--train-share", "0.3", "--epochs", "3", "--hidden", "8", "--embedding", "4", "--out", model)
	must(t, os.WriteFile(secret, []byte("secret\n"), 0o600))
	must(t, os.WriteFile(mapped, []byte(paymentsMap), 0o644))
	registry := &apicurio{}
	listening := httptest.NewServer(registry)
	defer listening.Close()
	server := listening.URL
	files := []string{}
	for i, schema := range paymentSchemas {
		files = append(files, filepath.Join(dir, fmt.Sprint("schema", i)))
		must(t, os.WriteFile(files[i], []byte(schema), 0o644))
	}
	var values [2][]string
	for i, prefix := range []string{"javaplain", "javaframed"} {
		g := sh.graph(prefix, 0)
		send := func(lines string) {
			java(lines, append([]string{"java", "-cp", jars + "/*", "testdata/serializers/Payments.java", sh.addr, server + "/apis/registry/v2", g.names.Nodes}, files...)...)
		}
		sh.gvbll("topics", "--create", "--brokers", sh.addr, "--prefix", prefix, "--partitions", "1")
		flags := []string{"--prefix", prefix, "--model", model, "--map", mapped, "--window", "20", "--linger", "2m"}
		if i == 1 {
			flags = append(flags, "--registry", server+",user=gvbll,password="+secret)
		}
		stop := g.work(flags...)
		g.awaitOwner()
		registry.down.Store(true)
		var records []kafka.Record
		lines := new(bytes.Buffer)
		for n := range 100 {
			if i == 1 && n == 40 { // two of three schemas have come, and wait
				send(lines.String())
				lines.Reset()
				g.await("records wait for the registry", func([]*ledger.Record) bool {
					return strings.Contains(g.log(), "records wait for the schema registry")
				})
				registry.down.Store(false)
			}
			p, _ := paid(t, n)
			records = append(records, kafka.Record{Topic: g.names.Nodes, Value: p[0]})
			card, tenths, at, country := paymentOf(n)
			fmt.Fprintln(lines, n/20%3, n, card, tenths, at, country, n%2 == 0)
		}
		if i == 0 {
			producer, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
			must(t, err)
			must(t, producer.Send(t.Context(), records))
		} else {
			send(lines.String())
		}
		g.awaitTaken()
		stop()
		must(t, g.client.ReadAll(t.Context(), g.names.Predictions, func(r *kafka.Record) { values[i] = append(values[i], string(r.Value)) }))
	}
	if len(values[0]) != 100 || !slices.Equal(values[0], values[1]) {
		t.Errorf("%d predictions of plain JSON and %d of frames, or they differ", len(values[0]), len(values[1]))
	}
	if len(registry.schemas) != 3 {
		t.Errorf("%d schemas were registered", len(registry.schemas))
	}
}
