package event

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestDiff: settings are compared by name, whatever their order and white space.
func TestDiff(t *testing.T) {
	const a, b Settings = `{"lambda":0.99,"head":"default","walk":0}`, `{"walk":0, "head":"paper", "lambda":0.5, "coverage":0.9}`
	want := "[coverage is not set there and 0.9 here head is default there and paper here lambda is 0.99 there and 0.5 here]"
	if got := fmt.Sprint(Diff(a, b)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := Diff(a, a); got != nil {
		t.Errorf("equal settings differ by %v, want no differences", got)
	}
	if got, want := fmt.Sprint(Diff(`{"groups":""}`, `{}`)), `[groups is "" there and not set here]`; got != want {
		t.Errorf("an empty value: got %s, want %s", got, want)
	}
}

// TestSettingsRoundTrip: settings, and so their hash, do not change however often they are
// read and written. Readers rely on that to compare them by hash.
func TestSettingsRoundTrip(t *testing.T) {
	for _, text := range []string{`{"a":1}`, `{ "a" : [1, 2],  "<b>": "\u2028" }`, `{}`} {
		var s, again Settings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, &again); err != nil || again != s || s.Hash() != again.Hash() {
			t.Errorf("%s is read as %s, and after writing it as %s (error %v), want the same", text, s, again, err)
		}
	}
}

// FuzzSettings: what is read of a ledger stays the same when it is written and read again, and differs from itself in nothing.
func FuzzSettings(f *testing.F) {
	f.Add(`{"window": 1, "a": "<b>\u2028", "n": 1e400}`)
	f.Fuzz(func(t *testing.T, text string) {
		var s, again Settings
		if json.Unmarshal([]byte(text), &s) != nil {
			return
		}
		b, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(b, &again)
		}
		if err != nil || again != s {
			t.Fatalf("%q is read again as %q (%v)", s, again, err)
		}
		if _, err := s.Values(); err != nil {
			t.Errorf("%q has no values: %v", s, err)
		}
	})
}
