package ledger

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gvbll/gvbll/pipeline/event"
)

// TestRecordRoundTrip: a record is the same after encoding and decoding.
func TestRecordRoundTrip(t *testing.T) {
	const settings event.Settings = `{"lambda":0.97}`
	r := &Record{
		Version: Version, Epoch: 2, Window: 7, Cause: "count", Model: "0123456789abcdef", Terms: Terms{Settings: settings.Hash(), Configuration: settings, Classes: []string{"red", "blue"}, Begins: &Beginning{Why: "a new encoder", Program: "v2"}},
		Predictions: 5, Labels: 2, Refused: 1, Updates: 4, Posterior: "aa", Chain: "bb",
		Reasons: map[event.Reason]int{event.NonFinite: 1}, Outputs: &Outputs{4, 1}, Changes: []change{{"adwin", true}},
		Scores: &Scores{
			Served: Tally{Labels: 2, Correct: 1, LogLoss: 0.75, Brier: 0.5, Confidence: 1.25}, Bins: []Bin{{19, 2, 1, 1.25}},
			Heads: []Group{{Name: "online"}}, Degrees: []Group{{Name: "0"}}, Classes: []Group{{Name: "red", Predicted: 2}}, Delay: 3, Delayed: 1,
		},
	}
	got, err := Decode(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
	}
}

// TestFollows: within an epoch the settings stay the same, and the next epoch has the next
// number and says that it begins.
func TestFollows(t *testing.T) {
	inFirst := &Record{Version: Version, Terms: Terms{Settings: "x"}}
	for _, c := range []struct {
		name   string
		before *Record
		r      Record
		want   bool
	}{
		{"the same epoch", inFirst, Record{Version: Version, Terms: Terms{Settings: "x"}}, true},
		{"other settings", inFirst, Record{Version: Version, Terms: Terms{Settings: "y"}}, false},
		{"the next epoch", inFirst, Record{Version: Version, Epoch: 1, Terms: Terms{Settings: "y", Begins: &Beginning{}}}, true},
		{"the next epoch, which does not begin", inFirst, Record{Version: Version, Epoch: 1, Terms: Terms{Settings: "x"}}, false},
		{"an epoch that is left out", inFirst, Record{Version: Version, Epoch: 2, Terms: Terms{Begins: &Beginning{}}}, false},
		{"an epoch that begins twice", inFirst, Record{Version: Version, Terms: Terms{Begins: &Beginning{}}}, false},
	} {
		if got := c.r.follows(c.before); got != c.want {
			t.Errorf("%s: follows is %t, want %t", c.name, got, c.want)
		}
	}
}

// TestDecodeRefuses: a record that a reader could not rely on is an error that names the
// defect.
func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{"not JSON", "x", "ledger record"},
		{"a later format", `{"v":2}`, "format 2"},
		{"no format", `{}`, "format 0"},
		{"settings that are not an object", `{"v":1,"settings":"x","configuration":[]}`, "not a JSON object"},
		{"settings with another hash", `{"v":1,"settings":"x","configuration":{"lambda":1}}`, "hash"},
		{"an epoch without its settings", `{"v":1,"epoch":1,"begins":{"why":"x"}}`, "epoch 1 does not begin as it should"},
		{"an epoch that begins with records", `{"v":1,"epoch":1,"settings":"44136fa355b3678a","configuration":{},"begins":{"why":"x"},"ranges":[{"topic":"a","partition":0,"from":0,"to":3}]}`, "does not begin as it should"},
		{"a negative epoch", `{"v":1,"epoch":-1}`, "epoch -1"},
		{"a negative window", `{"v":1,"window":-1}`, "window -1"},
		{"an empty range", `{"v":1,"ranges":[{"topic":"a","partition":0,"from":3,"to":3}]}`, "range 3 to 3"},
		{"a bin that does not exist", `{"v":1,"scores":{"bins":[{"bin":20}]}}`, "bin 20"},
		{"outputs without partitions", `{"v":1,"outputs":{"predictions":0,"dead_letters":1}}`, "0 and 1 partitions"},
		{"a range without a topic", `{"v":1,"ranges":[{"partition":0,"from":0,"to":3}]}`, "range"},
		{"a negative partition", `{"v":1,"ranges":[{"topic":"a","partition":-1,"from":0,"to":3}]}`, "partition -1"},
		{"a length beyond the limit", strings.Repeat(" ", maxRecord+1), "at most"},
	} {
		if _, err := Decode([]byte(c.json)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// perByte bounds how many bytes may be allocated for each byte of a record. The worst case is
// a list of empty ranges: three bytes of JSON become 48 bytes, in a list that grows by
// copying.
const perByte = 128

// meanwhile bounds what other goroutines of a test allocate, in bytes.
const meanwhile = 64 << 10

// TestAttacks: a record that nests or repeats as much as its length allows is refused, with a
// short error and without allocating more than a small multiple of its length.
func TestAttacks(t *testing.T) {
	repeat := func(head, item, tail string) []byte {
		return []byte(head + strings.Repeat(item, (maxRecord-len(head)-len(tail))/len(item)) + tail)
	}
	for name, b := range map[string][]byte{
		"deep":         repeat(``, `[`, ``),
		"deep ranges":  repeat(`{"v":1,"ranges":`, `[`, ``),
		"deep unknown": repeat(`{"v":1,"x":`, `{"a":`, ``),
		"many ranges":  repeat(`{"v":1,"ranges":[`, `{},`, `{}]}`),
		"many classes": repeat(`{"v":1,"window":-1,"classes":[`, `"",`, `""]}`),
		"many groups":  repeat(`{"v":1,"window":-1,"scores":{"classes":[`, `{},`, `{}]}}`),
		"many keys":    repeat(`{`, `"v":1,`, `"v":9}`),
		"long number":  repeat(`{"v":`, `1`, `}`),
	} {
		var err error
		if got := allocated(func() { _, err = Decode(b) }); got > perByte*maxRecord {
			t.Errorf("%s: %d bytes allocated for a record of %d, want at most %d", name, got, len(b), perByte*maxRecord)
		}
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: error %.200v, want one of at most 1000 bytes", name, err)
		}
	}
}

// FuzzDecode: a record is refused, or its window and ranges are valid and it stays the same
// when it is encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"window":3,"cause":"linger","ranges":[{"topic":"a","partition":0,"from":0,"to":3}]}`))
	f.Add([]byte(`{"v":1,"window":0,"settings":"2afd9e0d5bd29ddb","configuration":{ "a<" : "b\u2028" }}`))
	f.Add([]byte(`[[[[[[`))
	_, _ = Decode([]byte(`{"v":1}`)) // encoding/json analyses the type at its first use, which allocates about 20 KB
	f.Fuzz(func(t *testing.T, b []byte) {
		var r *Record
		var err error
		if got := allocated(func() { r, err = Decode(b) }); got > uint64(perByte*len(b)+meanwhile) {
			t.Fatalf("%d bytes allocated for a record of %d", got, len(b))
		}
		if err != nil {
			return
		}
		if r.Window < 0 {
			t.Fatalf("window %d is accepted", r.Window)
		}
		for _, g := range r.Ranges {
			if g.Topic == "" || g.Partition < 0 || g.From < 0 || g.To <= g.From {
				t.Fatalf("range %+v is accepted", g)
			}
		}
		again, err := Decode(r.Append(nil))
		if err != nil {
			t.Fatalf("an accepted record is refused after encoding it again: %v", err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}
