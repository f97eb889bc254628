package wire

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
)

// taken returns the bytes of memory that f takes.
func taken(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// attacks declare more than they bring, or nest deeper than a stack bears.
func attacks() map[string][]byte {
	all := make(map[string][]byte)
	headers := map[string][]byte{
		"array16": {0xdc, 0xff, 0xff}, "array32": {0xdd, 0xff, 0xff, 0xff, 0xff}, "array of 1e8": {0xdd, 0x05, 0xf5, 0xe1, 0x00},
		"map16": {0xde, 0xff, 0xff}, "map32": {0xdf, 0xff, 0xff, 0xff, 0xff},
		"str32": {0xdb, 0xff, 0xff, 0xff, 0xff}, "bin32": {0xc6, 0xff, 0xff, 0xff, 0xff},
		"bin32 of 2^32-4": {0xc6, 0xff, 0xff, 0xff, 0xfc}, "ext32": {0xc9, 0xff, 0xff, 0xff, 0xff, 0x01},
	}
	for name, header := range headers {
		all[name] = header
		for _, key := range []string{
			"id", "features", "indices", "values", "neighbours", "context", "time", "node", "class", "probabilities",
			"reason", "key", "value", "headers", "unknown",
		} {
			o := output{}
			o.fields(1)
			o.text(key)
			all[name+" as "+key] = append(o.b, header...)
		}
	}
	for name, level := range map[string][]byte{
		"arrays": {0x91}, "wide arrays": {0xdd, 0, 0, 0, 1}, "maps": {0x81, 0xa1, 'x'}, "maps as keys": {0x81},
	} {
		deep := append(bytes.Repeat(level, 1_000_000), 0xc0)
		all["deep "+name] = deep
		all["deep "+name+" under a key"] = append([]byte{0x81, 0xa1, 'x'}, deep...)
		all["deep "+name+" as neighbours"] = append([]byte{0x81, 0xaa}, append([]byte("neighbours"), deep...)...)
	}
	return all
}

func TestAttacks(t *testing.T) {
	const budget = 16 << 10 // for whatever was declared: the decoder itself and the text of the refusal
	for name, b := range attacks() {
		o := record(b)
		var node, label event.Reason
		var prediction, dead error
		got := taken(func() {
			d := Decoder{Limits: Limits{MaxValue: 16 << 20}}
			node, _ = d.Node(o, new(event.Node))
			label, _ = d.Label(o, new(event.Label))
			prediction = DecodePrediction(b, new(event.Prediction))
			dead = DecodeDeadLetter(b, new(event.Refusal))
		})
		if node == "" || label == "" || prediction == nil || dead == nil {
			t.Errorf("%s: taken: %q %q %v %v", name, node, label, prediction, dead)
		}
		if got > budget {
			t.Errorf("%s: %d bytes of memory for %d", name, got, len(b))
		}
	}
}

// What is dear to hold and cheap to send: the worst of each kind, within the
// limits and just beyond them.
func TestMemoryIsASmallMultiple(t *testing.T) {
	list := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	var values []*event.Origin
	for _, n := range []int{1 << 16, 1<<16 + 1, 1 << 20, 1<<20 + 1, 2_000_000} {
		for _, field := range []string{"neighbours", "features", "indices", "values", "later"} {
			values = append(values,
				jsonRecord(fmt.Sprintf(`{"id":1,%q:%s}`, field, list("0", n))),
				jsonRecord(fmt.Sprintf(`{"id":1,%q:%s}`, field, list("[]", n/2))),
				record(slices.Concat([]byte{0x82, 0xa2, 'i', 'd', 1, 0xa0 | byte(len(field))}, []byte(field),
					[]byte{0xdd, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, make([]byte, n))))
		}
		values = append(values, jsonRecord(`{`+strings.Repeat(`"x":1,`, n/4)+`"id":1}`))
	}
	for _, o := range values {
		var d Decoder
		var reason event.Reason
		got := taken(func() { reason, _ = d.Node(o, new(event.Node)) })
		if limit := uint64(32*len(o.Value) + 16<<10); got > limit {
			t.Errorf("%.40q…: %q: %d bytes of memory for %d", o.Value, reason, got, len(o.Value))
		}
		t.Logf("%.30q… %d: %q: %.1f times", o.Value, len(o.Value), reason, float64(got)/float64(len(o.Value)))
	}
}
