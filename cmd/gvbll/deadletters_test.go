package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// TestDeadLetters: refused records are listed with their reasons. A record that was
// repaired is sent back to its topic with its key and headers, once, and the list says so.
// A record of which the dead letter holds only a part cannot be sent again.
func TestDeadLetters(t *testing.T) { onKFake(t, testDeadLetters) }

func testDeadLetters(t *testing.T, sh *shell) {
	client, names := sh.dial(), topicsUnder(t, "gvbll")
	if _, err := topics.Create(t.Context(), client, names, topics.Layout{Partitions: 2, Replication: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := client.NewProducer(t.Context(), kafka.ProducerConfig{})
	must(t, err)
	for _, r := range []event.Refusal{
		{Reason: event.Undecodable, Detail: "no map", Origin: &event.Origin{
			Topic: names.Nodes, Partition: 1, Offset: 7, Time: 1_700_000_000_000, Key: []byte("k"), Value: []byte(`{"id": 1, `), Headers: []event.Header{{Key: "trace", Value: []byte("1")}},
		}},
		{Reason: event.TooLarge, Detail: "long", Origin: &event.Origin{Topic: names.Labels, Value: make([]byte, wire.MaxDeadLetterValue+1)}},
	} {
		must(t, p.Send(t.Context(), []kafka.Record{{Topic: names.DeadLetters, Value: wire.AppendDeadLetter(nil, &r)}}))
	}
	deadLetters := func(args ...string) (code int, stdout, stderr string) {
		t.Helper()
		return sh.command(append([]string{"dead-letters", "--brokers", sh.addr}, args...)...)
	}

	if code, out, _ := deadLetters(); code != exitOK || !strings.Contains(out, "undecodable") || !strings.Contains(out, "gvbll.nodes/1:7 ") || !strings.Contains(out, "2023-11-14T22:13:20Z") || strings.Count(out, "\n") != 3 {
		t.Errorf("the list: exit code %d:\n%s", code, out)
	}
	code, out, _ := deadLetters("--json", "--reason", "undecodable")
	want := `{"reason":"undecodable","detail":"no map","topic":"gvbll.nodes","partition":1,"offset":7,"time":1700000000000,"key":"k","value":"{\"id\": 1, ","headers":[{"key":"trace","value":"1"}]}` + "\n"
	if code != exitOK || out != want {
		t.Fatalf("--json --reason undecodable: exit code %d:\n%swant:\n%s", code, out, want)
	}

	// Repaired by hand: the text becomes an object, and a header is added.
	repaired := strings.NewReplacer(`"{\"id\": 1, "`, `{"id": 1, "features": [1]}`, `"value":"1"}`, `"value":"1"}, {"key": "content-type", "value": "application/json"}`).Replace(out)
	path := filepath.Join(t.TempDir(), "repaired")
	must(t, os.WriteFile(path, []byte(repaired), 0o644))
	if code, out, errs := deadLetters("--resend", path); code != exitOK || out != "sent 1 records again\n" {
		t.Fatalf("--resend: exit code %d: %s%s", code, out, errs)
	}
	var back []kafka.Record
	must(t, client.ReadAll(t.Context(), names.Nodes, func(r *kafka.Record) {
		back = append(back, kafka.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}))
	if diff := cmp.Diff([]kafka.Record{{
		Topic: names.Nodes, Key: []byte("k"), Value: []byte(`{"id": 1, "features": [1]}`),
		Headers: []kafka.Header{{Key: "trace", Value: []byte("1")}, {Key: "content-type", Value: []byte("application/json")}, {Key: "gvbll-resent", Value: []byte("gvbll.nodes/1:7")}},
	}}, back); diff != "" {
		t.Errorf("the nodes topic, -want +got\n%s", diff)
	}

	// From now on the list says so, and the record is not sent twice.
	if _, out, _ := deadLetters(); !strings.Contains(out, "no map (sent again 2") || strings.Count(out, "\n") != 3 {
		t.Errorf("the list after a record was sent again:\n%s", out)
	}
	if _, out, _ := deadLetters("--json"); !strings.Contains(out, `"sent_again":"2`) {
		t.Errorf("--json after a record was sent again: %s", out)
	}
	if code, _, errs := deadLetters("--resend", path); code != exitFailed || !strings.Contains(errs, "line 1: the record was sent again at 2") {
		t.Errorf("--resend a second time: exit code %d, want %d: %s", code, exitFailed, errs)
	}

	_, part, _ := deadLetters("--json", "--reason", "too-large")
	must(t, os.WriteFile(path, []byte(part), 0o644))
	if code, _, errs := deadLetters("--resend", path); code != exitFailed || !strings.Contains(errs, "line 1: the dead letter holds only a part") {
		t.Errorf("--resend of a part: exit code %d, want %d: %s", code, exitFailed, errs)
	}
	// A record of another program in the topic does not hide the dead letters.
	must(t, p.Send(t.Context(), []kafka.Record{{Topic: names.DeadLetters, Value: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}}}))
	if code, out, errs := deadLetters(); code != exitFailed || strings.Count(out, "\n") != 3 || !strings.Contains(errs, "not dead letters: 1, the first is gvbll.dead-letters partition 0 offset 4") {
		t.Errorf("the list with a record that is no dead letter: exit code %d, want %d: %s%s", code, exitFailed, out, errs)
	}
	if code, _, errs := deadLetters("--prefix", "other"); code != exitFailed || !strings.Contains(errs, "topic other.dead-letters does not exist") {
		t.Errorf("a topic that does not exist: exit code %d, want %d: %s", code, exitFailed, errs)
	}
	if code, _, errs := deadLetters("--reason", "boredom"); code != exitUsage || !strings.Contains(errs, "--reason boredom") {
		t.Errorf("an unknown reason: exit code %d, want %d: %s", code, exitUsage, errs)
	}
}
