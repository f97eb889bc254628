package wire

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
)

// TestDeparture: a record with a null value is the departure of the node that its key names.
// A value with departed set is the departure of the node of its id, and its other fields are
// ignored.
func TestDeparture(t *testing.T) {
	keyed := func(key string) *event.Origin { return &event.Origin{Key: []byte(key)} }
	byKey := func(id event.ID) event.Node { return event.Node{ID: id, Departed: true, ByKey: true} }
	for name, c := range map[string]struct {
		o      *event.Origin
		want   event.Node
		reason event.Reason
	}{
		"string key":     {keyed("paper-7"), byKey(event.ID{Str: "paper-7"}), ""},
		"integer key":    {keyed("-42"), byKey(event.ID{Num: -42}), ""},
		"not canonical":  {keyed("007"), byKey(event.ID{Str: "007"}), ""},
		"beyond 64 bits": {keyed("9223372036854775808"), byKey(event.ID{Str: "9223372036854775808"}), ""},
		"no key":         {&event.Origin{}, byKey(event.ID{}), event.BadID},
		"empty key":      {keyed(""), byKey(event.ID{}), event.BadID},
		"long key":       {keyed(strings.Repeat("x", 1025)), byKey(event.ID{}), event.BadID},
		"framed id":      {keyed("\x00\x00\x00\x00\x01" + `{"id":7}`), byKey(event.ID{Num: 7}), ""},
		"framed, no id":  {keyed("\x00\x00\x00\x00\x01{}"), byKey(event.ID{}), event.BadID},
		"a long, as [1]": {keyed("\x00\x00\x00\x00\x01[1]"), event.Node{ID: event.ID{Num: 22753629}, Departed: true, ByKey: true}, ""},
		"Avro":           {keyed("\x00\x00\x00\x00\x01\x06abc"), byKey(event.ID{}), event.Undecodable},
		"empty text":     {keyed(`""`), byKey(event.ID{}), event.BadID},
		"enveloped null": {keyed(`{"schema":{},"payload":null}`), byKey(event.ID{}), event.BadID},
		"key not UTF-8":  {keyed("\xff"), byKey(event.ID{}), event.BadID},
		"msgpack":        {record(pack(t, fields{"id": "7", "departed": true, "time": 5})), event.Node{ID: event.ID{Str: "7"}, Departed: true, Time: 5}, ""},
		"with features":  {record(pack(t, fields{"id": 7, "departed": true, "features": []float32{1}, "neighbours": []int{1}, "context": true})), event.Node{ID: event.ID{Num: 7}, Departed: true}, ""},
		"JSON":           {jsonRecord(`{"id":7,"departed":true}`), event.Node{ID: event.ID{Num: 7}, Departed: true}, ""},
		"not departed":   {jsonRecord(`{"id":7,"departed":false,"features":[1]}`), event.Node{ID: event.ID{Num: 7}, Dense: []float32{1}}, ""},
		"not a boolean":  {jsonRecord(`{"id":7,"departed":1}`), event.Node{}, event.Undecodable},
		"without an id":  {jsonRecord(`{"departed":true}`), event.Node{}, event.BadID},
	} {
		t.Run(name, func(t *testing.T) {
			for _, memory := range []*Memory{nil, {}} {
				d, n := Decoder{Memory: memory}, event.Node{}
				reason, detail := d.Node(c.o, &n)
				if reason != c.reason {
					t.Fatalf("reason %q (%s), want %q", reason, detail, c.reason)
				}
				if diff := cmp.Diff(c.want, n, cmpopts.IgnoreFields(event.Node{}, "Origin")); reason == "" && diff != "" {
					t.Fatalf("-want +got\n%s", diff)
				}
			}
		})
	}
}

// TestKeyWithoutID: what a registry's serializer framed, or Connect wrote with its schema, is never a text: without an id it is refused,
// with a map and without one.
func TestKeyWithoutID(t *testing.T) {
	mapped, err := ParseMap("nodes:\n- id: {pointer: /after/id}\n  features: /after\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, json := range []string{"null", "true", "1.5", `""`, "{}", "[1,2]", `{"id":null}`, `{"schema":{},"payload":null}`} {
		for _, m := range []*Map{nil, mapped} {
			d := Decoder{Map: m, Frames: func(uint32, []byte) ([]byte, error) { return []byte(json), nil }}
			var n event.Node
			if reason, detail := d.Node(&event.Origin{Key: []byte("\x00\x00\x00\x00\x01\x02ab")}, &n); reason != event.BadID {
				t.Errorf("framed %s, with a map %t: reason %q (%s), id %v", json, m != nil, reason, detail, n.ID)
			}
		}
	}
}

// FuzzDeparture: the id that is read from a departure's key has the same key, and a key that
// is an integer is never read as a string.
func FuzzDeparture(f *testing.F) {
	for _, key := range []string{"a", "7", "-7", "+7", "07", "-0", "9223372036854775807", `"a"`, `{"payload":1,"schema":{}}`, `{"a":{}}`, `""`, "\x00\x00\x00\x01", "\x00\x00\x00\x01\x00{}", "\x00\x00\x00\x00\x01{\"a\":7}"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		var d Decoder
		var n event.Node
		if reason, _ := d.Node(&event.Origin{Key: key}, &n); reason != "" {
			if !slices.Contains(event.Reasons(), reason) {
				t.Fatalf("unknown reason %q", reason)
			}
			return
		}
		checkNode(t, &n)
		if id, is, _ := keyID(&input{memory: new(Memory)}, key, d.Limits.withDefaults()); is {
			if n.ID != id || !n.Departed {
				t.Fatalf("the key %q of another form is read as %v and %v", key, n.ID, id)
			}
			return
		}
		if got := AppendKey(nil, n.ID); !n.Departed || !n.ByKey || !bytes.Equal(got, key) {
			t.Fatalf("departed %t, by key %t, key %q, want a departure by the key %q", n.Departed, n.ByKey, got, key)
		}
		if num, err := strconv.ParseInt(n.ID.Str, 10, 64); err == nil && strconv.FormatInt(num, 10) == n.ID.Str {
			t.Fatalf("the integer key %q is read as a string id", key)
		}
	})
}
