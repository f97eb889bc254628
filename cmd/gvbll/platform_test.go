package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/kafka"
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
