package level

import "testing"

// TestChoose: the best level is chosen unless a lower one is asked for. A level that the
// machine does not have, or that does not exist, panics.
func TestChoose(t *testing.T) {
	if l := choose("", AVX2); l != AVX2 {
		t.Errorf("choose(\"\", avx2) = %s, want avx2", l)
	}
	if l := choose("go", AVX512); l != Plain {
		t.Errorf("choose(\"go\", avx512) = %s, want go", l)
	}
	for _, asked := range []string{"avx512", "sse9"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("choose(%q, avx2) does not panic", asked)
				}
			}()
			choose(asked, AVX2)
		}()
	}
}
