package flags

import (
	"strings"
	"testing"

	"github.com/gvbll/gvbll/posterior"
)

// TestUpdateFlag: --update changes the constants that it names, and no others; what it
// prints is read as the same. A gradient that is neither of the two is refused.
func TestUpdateFlag(t *testing.T) {
	want := posterior.DefaultConfig()
	want.Clip, want.Gradient = 0.5, posterior.AsWritten
	for _, text := range []string{"gradient=as-written,clip=0.5", "eta=1,clip=0.5,batch=50,gradient=as-written"} {
		f := Proposition1{Lambda: want.Lambda}
		must(t, f.Update.UnmarshalText([]byte(text)))
		if got := f.Config(); got != want {
			t.Errorf("%s: the update's constants are %+v, want %+v", text, got, want)
		}
		var again updateFlag
		must(t, again.UnmarshalText([]byte(f.Update.String())))
		if again != f.Update {
			t.Errorf("%s is printed as %s, which is read as %+v, want %+v", text, f.Update, again, f.Update)
		}
	}
	var f updateFlag
	if err := f.UnmarshalText([]byte("gradient=z")); err == nil || !strings.Contains(err.Error(), "scaled or as-written") {
		t.Errorf("gradient=z: error %v, want one that names both gradients", err)
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
