package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRecordRoundTrip(t *testing.T) {
	r := &Record{
		Version: Version, Window: 7, Cause: "count", Model: "0123456789abcdef", Settings: "lambda=0.97", Classes: []string{"red", "blue"},
		Ranges: []Range{{"g.nodes", 0, 3, 9}, {"g.labels", 1, 0, 2}}, Predictions: 5, Labels: 2, Refused: 1, Updates: 4, Posterior: "aa", Chain: "bb",
	}
	got, err := Decode(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ name, json, want string }{
		{"no JSON", "x", "ledger record"},
		{"another format", `{"v":2}`, "format 2"},
		{"a window before the first", `{"v":1,"window":-1}`, "window -1"},
		{"an empty range", `{"v":1,"ranges":[{"topic":"a","partition":0,"from":3,"to":3}]}`, "range 3 to 3"},
		{"a range of no topic", `{"v":1,"ranges":[{"partition":0,"from":0,"to":3}]}`, "range"},
		{"a negative partition", `{"v":1,"ranges":[{"topic":"a","partition":-1,"from":0,"to":3}]}`, "partition -1"},
		{"a length beyond the limit", strings.Repeat(" ", maxRecord+1), "at most"},
	} {
		if _, err := Decode([]byte(c.json)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"v":1,"window":3,"cause":"linger","ranges":[{"topic":"a","partition":0,"from":0,"to":3}]}`))
	f.Add([]byte(`[[[[[[`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(r.Append(nil))
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if diff := cmp.Diff(r, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}
