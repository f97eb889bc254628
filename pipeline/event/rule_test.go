package event

import "testing"

// TestRule: the text of a rule is read and written as it is; anything else is refused.
func TestRule(t *testing.T) {
	for _, text := range []string{"", "after=1,if=nll", "after=500,if=nll"} {
		if r, err := ParseRule(text); err != nil || r.String() != text {
			t.Errorf("%q: %q and error %v", text, r, err)
		}
	}
	for _, text := range []string{"after=0,if=nll", "after=-1,if=nll", "after=99999999999999,if=nll", "after=5", "if=nll,after=5", "after=5,if=acc", " "} {
		if r, err := ParseRule(text); err == nil || r != (Rule{}) {
			t.Errorf("%q: read as %q, want an error", text, r)
		}
	}
}
