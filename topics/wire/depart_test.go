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

// TestDepartures: a null value takes out the node that its key names, and a value
// that says so the node of its id, whatever else it says.
func TestDepartures(t *testing.T) {
	keyed := func(key string) *event.Origin { return &event.Origin{Key: []byte(key)} }
	byKey := func(id event.ID) event.Node { return event.Node{ID: id, Departed: true, ByKey: true} }
	for name, c := range map[string]struct {
		o      *event.Origin
		want   event.Node
		reason event.Reason
	}{
		"name":            {keyed("paper-7"), byKey(event.ID{Str: "paper-7"}), ""},
		"number":          {keyed("-42"), byKey(event.ID{Num: -42}), ""},
		"not canonical":   {keyed("007"), byKey(event.ID{Str: "007"}), ""},
		"beyond 64 bits":  {keyed("9223372036854775808"), byKey(event.ID{Str: "9223372036854775808"}), ""},
		"no key":          {&event.Origin{}, byKey(event.ID{}), event.BadID},
		"empty key":       {keyed(""), byKey(event.ID{}), event.BadID},
		"long key":        {keyed(strings.Repeat("x", 1025)), byKey(event.ID{}), event.BadID},
		"key of no UTF-8": {keyed("\xff"), byKey(event.ID{}), event.BadID},
		"msgpack":         {record(pack(t, fields{"id": "7", "departed": true, "time": 5})), event.Node{ID: event.ID{Str: "7"}, Departed: true, Time: 5}, ""},
		"with features":   {record(pack(t, fields{"id": 7, "departed": true, "features": []float32{1}, "neighbours": []int{1}, "context": true})), event.Node{ID: event.ID{Num: 7}, Departed: true}, ""},
		"JSON":            {jsonRecord(`{"id":7,"departed":true}`), event.Node{ID: event.ID{Num: 7}, Departed: true}, ""},
		"not departed":    {jsonRecord(`{"id":7,"departed":false,"features":[1]}`), event.Node{ID: event.ID{Num: 7}, Dense: []float32{1}}, ""},
		"no boolean":      {jsonRecord(`{"id":7,"departed":1}`), event.Node{}, event.Undecodable},
		"without an id":   {jsonRecord(`{"departed":true}`), event.Node{}, event.BadID},
	} {
		t.Run(name, func(t *testing.T) {
			for _, memory := range []*Memory{nil, {}} {
				d, n := Decoder{Memory: memory}, event.Node{}
				reason, detail := d.Node(c.o, &n)
				if reason != c.reason {
					t.Fatalf("%q: %s", reason, detail)
				}
				if diff := cmp.Diff(c.want, n, cmpopts.IgnoreFields(event.Node{}, "Origin")); reason == "" && diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

// FuzzDeparture: whatever the key, a departure's id has that key again.
func FuzzDeparture(f *testing.F) {
	for _, key := range []string{"a", "7", "-7", "+7", "07", "-0", "9223372036854775807"} {
		f.Add([]byte(key))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		var d Decoder
		var n event.Node
		if reason, _ := d.Node(&event.Origin{Key: key}, &n); reason != "" {
			if !slices.Contains(event.Reasons(), reason) {
				t.Fatal(reason)
			}
			return
		}
		keeps(t, &n)
		if got := AppendKey(nil, n.ID); !n.Departed || !n.ByKey || !bytes.Equal(got, key) {
			t.Fatalf("key %q, of the id %q", key, got)
		}
		if num, err := strconv.ParseInt(n.ID.Str, 10, 64); err == nil && strconv.FormatInt(num, 10) == n.ID.Str {
			t.Fatalf("key %q is read as a string", key)
		}
	})
}
