package main

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
		f := updateFlags{Lambda: want.Lambda}
		must(t, f.Update.UnmarshalText([]byte(text)))
		if got := f.update(); got != want {
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
