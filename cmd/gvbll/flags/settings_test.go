package flags

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/gvbll/gvbll/posterior"
)

// TestUpdateFlags: the constants of the update are those that are given, and the others have their
// defaults.
func TestUpdateFlags(t *testing.T) {
	want := posterior.DefaultConfig()
	var f Proposition1
	must(t, kong.ApplyDefaults(&f))
	if got := f.Config(); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	want.Clip, want.Gradient = 0.5, posterior.AsWritten
	f.Others.Clip, f.Others.Gradient = 0.5, "as-written"
	if got := f.Config(); got != want {
		t.Errorf("the constants are %+v, want %+v", got, want)
	}
}

// TestRowsFlag: --rows has the format of the graph's vectors, the nodes to allocate memory
// for, or both; what it prints is read as the same.
func TestRowsFlag(t *testing.T) {
	for text, want := range map[string]rowsFlag{
		"float32": {}, "bfloat16": {bfloat16: true}, "reserve=7": {reserve: 7}, "bfloat16,reserve=1000000": {bfloat16: true, reserve: 1_000_000},
	} {
		var got, again rowsFlag
		must(t, got.UnmarshalText([]byte(text)))
		must(t, again.UnmarshalText([]byte(got.String())))
		if got != want || again != want {
			t.Errorf("%s: got %+v, printed as %s and read as %+v, want %+v", text, got, got, again, want)
		}
	}
	for text, want := range map[string]string{
		"": "float32 or bfloat16", "float16": "float32 or bfloat16", "reserve=-1": "give a number of nodes", "bfloat16,": "reserve=NUMBER",
		"bfloat16,reserve=1,reserve=2": "once", "float32,reserve=3000000000": "give a number of nodes", "reserve=1,reserve=2": "float32 or bfloat16",
	} {
		var f rowsFlag
		if err := f.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
}
