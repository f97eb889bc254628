package look

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
)

// TestLetterRoundTrip: sent again as --json printed it, a record is what it was, whatever
// its bytes are.
func TestLetterRoundTrip(t *testing.T) {
	names, err := topics.Under("g")
	must(t, err)
	for name, value := range map[string][]byte{
		"JSON": []byte(`{"id":"<7>","features":[0.10,1e3]}`), "text": []byte(`id=7, "x"`), "a list": []byte(`[1]`), "empty": {}, "null": nil,
		"msgpack": {0x81, 0xa2, 'i', 'd', 7}, "JSON in quotes": []byte(`"{}"`), "JSON that is no text": []byte("{\"id\":\"\xff\"}"),
	} {
		origin := event.Origin{
			Topic: "g.labels", Partition: 2, Offset: 9, Key: value, Value: value,
			Headers: []event.Header{{Key: "b", Value: value}, {Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}},
		}
		var line strings.Builder
		must(t, PrintLetter(&line, &event.Refusal{Reason: event.Undecodable, Origin: &origin}, false, time.Time{}))
		r, from, err := ReadLetter([]byte(line.String()), names)
		must(t, err)
		want := kafka.Record{Topic: origin.Topic, Key: value, Value: value}
		for _, h := range origin.Headers {
			want.Headers = append(want.Headers, kafka.Header(h))
		}
		if diff := cmp.Diff(want, r); diff != "" || from != SourceOf(&origin) {
			t.Errorf("%s: %sfrom %v, -want +got\n%s", name, line.String(), from, diff)
		}
	}
}

// TestLetterThatCannotBeRead: a line that was edited wrongly is an error that says how.
func TestLetterThatCannotBeRead(t *testing.T) {
	names, err := topics.Under("g")
	must(t, err)
	for line, want := range map[string]string{
		`{"topic":"g.nodes","value":7}`:                         "value: give a text in quotes, an object, or null",
		`{"topic":"g.nodes","value":"x","value_base64":"eA=="}`: "value: there is also one in base64",
		`{"topic":"g.nodes","headers":{"a":"x"}}`:               "cannot unmarshal object into Go struct field",
		`{"topic":"g.nodes","headers":[{"key":"a","value":7}]}`: `header "a": give a text`,
		`{"topic":"g.predictions"}`:                             "want g.nodes, g.labels or g.commands",
	} {
		if _, _, err := ReadLetter([]byte(line), names); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", line, err, want)
		}
	}
}

// FuzzReadLetter: a line that was edited by hand is refused, or gives a record for an
// input topic. Memory is bounded in proportion to the line.
func FuzzReadLetter(f *testing.F) {
	names, err := topics.Under("g")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"reason":"undecodable","detail":"x","topic":"g.nodes","partition":1,"offset":7,"time":1,"key":"k","value":{"id":1},"headers":[{"key":"content-type","value":"x"},{"key":"b","value_base64":"eA=="}]}`))
	f.Add([]byte(`{"topic":"g.labels","key":null,"value_base64":"ew==","headers":[{"key":"a","value":"1"},{"key":"a","value":"2"}]}`))
	f.Add([]byte(`{"topic":"g.nodes","truncated":true}`))
	f.Add([]byte(`{"topic":"other"}`))
	f.Add([]byte(`{"topic":"g.nodes","value":[255]}`))
	f.Add([]byte(strings.Repeat("[", 100)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, _, err := ReadLetter(b, names)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(256*len(b)+64<<10) {
			t.Fatalf("a line of %d bytes allocates %d bytes", len(b), got)
		}
		if err == nil && r.Topic != names.Nodes && r.Topic != names.Labels && r.Topic != names.Commands {
			t.Fatalf("a record for topic %q, which is no input", r.Topic)
		}
	})
}
