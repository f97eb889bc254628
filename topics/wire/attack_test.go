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

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// attacks returns short msgpack values that declare gigabytes, and values that are nested a
// million levels deep, by themselves and as the values of known and unknown keys.
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
			o := appendTo(nil, MsgPack)
			m := o.begin()
			o.key(key)
			o.end(m)
			all[name+" as "+key] = append(o.done(), header...)
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

// TestAttacks: a value that declares more than it contains, or that is nested too deeply, is
// refused by every decoder, without allocating what it declares.
func TestAttacks(t *testing.T) {
	const budget = 16 << 10 // for the decoder itself and the text of the refusal
	for name, b := range attacks() {
		o := record(b)
		var node, label event.Reason
		var prediction, dead error
		got := allocated(func() {
			d := Decoder{Limits: Limits{MaxValue: 16 << 20}}
			node, _ = d.Node(o, new(event.Node))
			label, _ = d.Label(o, new(event.Label))
			prediction = DecodePrediction(b, new(event.Prediction))
			dead = DecodeDeadLetter(b, new(event.Refusal))
		})
		if node == "" || label == "" || prediction == nil || dead == nil {
			t.Errorf("%s: node %q, label %q, prediction %v, dead letter %v: want all of them refused", name, node, label, prediction, dead)
		}
		if got > budget {
			t.Errorf("%s: %d bytes allocated for a value of %d, want at most %d", name, got, len(b), budget)
		}
	}
}

// TestLoneSurrogates: half of a pair of UTF-16 is no text, wherever it stands. Taken for U+FFFD, all of them would be one id.
func TestLoneSurrogates(t *testing.T) {
	for text, lone := range map[string]bool{
		`\ud800`: true, `\uDFFF`: true, `\ud800\ud800`: true, `\udc00\ud800`: true, `\ud83d\ude00\ud83d`: true, `\\\ud800`: true, `\ud800x`: true, `\ud800\n`: true,
		`\ud83d\ude00`: false, `\\ud800`: false, `\u0041`: false, `\ufffd`: false, `\"`: false, `\\`: false,
	} {
		var d Decoder
		for _, record := range []struct {
			name, value string
			decode      func(o *event.Origin) (event.Reason, string)
		}{
			{"node", `{"id":"%s","features":[1]}`, func(o *event.Origin) (event.Reason, string) { return d.Node(o, new(event.Node)) }},
			{"neighbour", `{"id":"a","features":[1],"neighbours":["%s"]}`, func(o *event.Origin) (event.Reason, string) { return d.Node(o, new(event.Node)) }},
			{"name", `{"id":"a","features":{"%s":1}}`, func(o *event.Origin) (event.Reason, string) { return d.Node(o, new(event.Node)) }},
			{"label", `{"node":"a","class":"%s"}`, func(o *event.Origin) (event.Reason, string) { return d.Label(o, new(event.Label)) }},
		} {
			value := strings.Replace(record.value, "%s", text, 1)
			reason, detail := record.decode(&event.Origin{Value: []byte(value)})
			if refused := reason == event.Undecodable && strings.Contains(detail, "surrogate"); refused != lone {
				t.Errorf("%s %s: reason %q, %s", record.name, value, reason, detail)
			}
		}
	}
}

// TestJSONAttacks: deeply nested JSON, long strings and numbers, and long content-type
// headers are refused too. The standard library parses them, so the test bounds what it
// allocates.
func TestJSONAttacks(t *testing.T) {
	deep := strings.Repeat(`[`, 1_000_000)
	objects := strings.Repeat(`{"a":`, 1_000_000)
	header := func(value string) *event.Origin {
		return &event.Origin{Value: []byte(`{"id":1,"features":[1]}`), Headers: []event.Header{{Key: ContentType, Value: []byte(value)}}}
	}
	var names strings.Builder
	names.WriteString(string(JSON))
	for i := range 1 << 16 {
		fmt.Fprintf(&names, ";a%d=b", i)
	}
	for name, o := range map[string]*event.Origin{
		"deep arrays": jsonRecord(deep), "deep objects": jsonRecord(objects),
		"deep neighbours": jsonRecord(`{"id":1,"neighbours":` + deep), "deep objects under an unknown key": jsonRecord(`{"id":1,"x":` + objects),
		"deep arrays that are closed":   jsonRecord(`{"x":` + deep[:500_000] + strings.Repeat("]", 500_000) + `,"id":1}`),
		"a long string of escapes":      jsonRecord(`{"id":"` + strings.Repeat(`\u0041`, 500_000) + `"}`),
		"a long exponent as id":         jsonRecord(`{"id":1e` + strings.Repeat("9", 3_000_000) + `}`),
		"a long number as feature":      jsonRecord(`{"id":1,"features":[` + strings.Repeat("9", 3_000_000) + `]}`),
		"a long content-type parameter": header(string(JSON) + ";a=" + strings.Repeat("b", 1<<20)),
		"many content-type parameters":  header(names.String()),
	} {
		var d Decoder
		var reason event.Reason
		got := allocated(func() { reason, _ = d.Node(o, new(event.Node)) })
		if reason == "" {
			t.Errorf("%s: accepted, want it refused", name)
		}
		if limit := uint64(8*len(o.Value) + 16<<10); got > limit {
			t.Errorf("%s, refused as %q: %d bytes allocated for a value of %d, want at most %d", name, reason, got, len(o.Value), limit)
		}
	}
}

// TestAllocationsAreProportional: a decoder allocates at most 32 bytes for each byte of a
// value, even for the values that cost most: long lists of short items, within the limits and
// just beyond them.
func TestAllocationsAreProportional(t *testing.T) {
	if testing.Short() {
		t.Skip("it counts allocations for megabytes, by one goroutine")
	}
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
		got := allocated(func() { reason, _ = d.Node(o, new(event.Node)) })
		if limit := uint64(32*len(o.Value) + 16<<10); got > limit {
			t.Errorf("%.40q…, reason %q: %d bytes allocated for a value of %d, want at most %d", o.Value, reason, got, len(o.Value), limit)
		}
		t.Logf("%.30q… of %d bytes, reason %q: %.1f bytes allocated per byte", o.Value, len(o.Value), reason, float64(got)/float64(len(o.Value)))
	}
}

// TestLongKeys: a name of an attribute, a key and a dead letter's own key that are far beyond their bounds are refused or cut, by one
// byte and by a megabyte.
func TestLongKeys(t *testing.T) {
	for _, more := range []int{1, 1 << 20} {
		long := strings.Repeat("n", maxAttributeName+more)
		var d Decoder
		if reason, detail := d.Node(jsonRecord(`{"id":1,"features":{"`+long+`":1}}`), new(event.Node)); reason != event.Undecodable {
			t.Errorf("a name of %d bytes: %q (%s)", len(long), reason, detail)
		}
		key := strings.Repeat("k", maxKey+more)
		value := append([]byte{0x81, 0xdb, byte(len(key) >> 24), byte(len(key) >> 16), byte(len(key) >> 8), byte(len(key))}, key...)
		if reason, detail := d.Node(record(append(value, 1)), new(event.Node)); reason != event.Undecodable {
			t.Errorf("a key of %d bytes: %q (%s)", len(key), reason, detail)
		}
		letter := event.Refusal{Origin: &event.Origin{Key: make([]byte, maxLetterKey+more)}}
		if got := len(LetterKey(&letter)); got != maxLetterKey {
			t.Errorf("a dead letter has a key of %d bytes, want %d", got, maxLetterKey)
		}
	}
}
