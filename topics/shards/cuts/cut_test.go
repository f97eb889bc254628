package cuts

import (
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/ledger"
)

var hashA = strings.Repeat("a", 64)

// TestCutRoundTrip: a cut is the same after encoding and decoding, and its hash is that of its
// bytes.
func TestCutRoundTrip(t *testing.T) {
	const settings event.Settings = `{"lambda":0.97}`
	c := &Cut{
		Version: CutFormat, Epoch: 1, Since: 7, Window: 7, Forgets: true, Exchange: []int64{5, 0, 7}, Cause: "count", Model: "m", Prev: hashA,
		Terms: ledger.Terms{Settings: settings.Hash(), Configuration: settings, Classes: []string{"red"}, Begins: &ledger.Beginning{Why: "another model", Program: "v2"}, Inputs: []ledger.Input{{Topic: "nodes", ID: "id", First: []int64{3}}}},
		Done:  &Complete{5, hashA},
	}
	b := c.Append(nil)
	got, err := DecodeCut(b)
	if err != nil {
		t.Fatal(err)
	}
	if got.Hash != hashOf(b) || !isHash(got.Hash) {
		t.Errorf("the hash is %q", got.Hash)
	}
	if diff := cmp.Diff(c, got, cmpopts.IgnoreFields(Cut{}, "Hash")); diff != "" {
		t.Errorf("encoded and decoded again, -before +after\n%s", diff)
	}
	if _, err := ledger.Decode(b); err == nil || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("a program without shards reads a cut: error %v, want one that names its format", err)
	}
}

// TestDecodeCutRefuses: a cut that a reader could not rely on is an error that names the
// defect.
func TestDecodeCutRefuses(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{"not JSON", "x", "cut"},
		{"a record of a shard", `{"v":1}`, "format 1"},
		{"a later format", `{"v":3}`, "format 3"},
		{"a negative window", `{"v":2,"window":-1}`, "window -1"},
		{"an empty range", `{"v":2,"ranges":[{"topic":"a","partition":0,"from":3,"to":3}]}`, "range 3 to 3"},
		{"settings with another hash", `{"v":2,"settings":"x","configuration":{"lambda":1}}`, "hash"},
		{"window 0 behind another", `{"v":2,"prev":"` + hashA + `"}`, "not the hash"},
		{"a window behind none", `{"v":2,"window":1}`, "not the hash"},
		{"a hash that is none", `{"v":2,"window":1,"prev":"` + strings.Repeat("A", 64) + `"}`, "not the hash"},
		{"done before it is cut", `{"v":2,"window":1,"prev":"` + hashA + `","done":{"window":1,"chain":"` + hashA + `"}}`, "window 1 is done"},
		{"a chain that is none", `{"v":2,"window":1,"prev":"` + hashA + `","done":{"window":0,"chain":"x"}}`, "with chain"},
		{"a length beyond the limit", strings.Repeat(" ", ledger.MaxRecord+1), "at most"},
	} {
		if _, err := DecodeCut([]byte(c.json)); err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: error %v, want a short one with %q", c.name, err, c.want)
		}
	}
}

// FuzzDecodeCut: a cut is refused, or is valid and stays the same when it is encoded and decoded
// again, and allocates a small multiple of its length.
func FuzzDecodeCut(f *testing.F) {
	f.Add([]byte(`{"v":2,"window":0,"cause":"linger","ranges":[{"topic":"a","partition":0,"from":0,"to":3}]}`))
	f.Add([]byte(`{"v":2,"window":1,"prev":"` + hashA + `","done":{"window":0,"chain":"` + hashA + `"}}`))
	f.Add([]byte(`[[[[[[`))
	_, _ = DecodeCut([]byte(`{"v":2}`)) // encoding/json analyses the type at its first use
	f.Fuzz(func(t *testing.T, b []byte) {
		var c *Cut
		var err error
		if got := allocatedBy(func() { c, err = DecodeCut(b) }); got > uint64(128*len(b)+64<<10) {
			t.Fatalf("%d bytes allocated for a cut of %d", got, len(b))
		}
		if err != nil {
			return
		}
		if c.Window < 0 || c.Prev != "" && !isHash(c.Prev) || c.Hash != hashOf(b) {
			t.Fatalf("%+v is accepted", c)
		}
		again, err := DecodeCut(c.Append(nil))
		if err != nil {
			t.Fatalf("an accepted cut is refused after encoding it again: %v", err)
		}
		if diff := cmp.Diff(c, again, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Cut{}, "Hash")); diff != "" {
			t.Fatalf("encoded and decoded again, -before +after\n%s", diff)
		}
	})
}

// allocatedBy returns how many bytes f allocates.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
