// Package level chooses the instruction set of the kernels when the program starts.
package level

import (
	"fmt"
	"os"
)

// Level is an instruction set for which there are kernels, in ascending order.
type Level int

const (
	Plain Level = iota // Go
	AVX2
	AVX512
)

var names = [...]string{Plain: "go", AVX2: "avx2", AVX512: "avx512"}

// String returns "go", "avx2" or "avx512".
func (l Level) String() string { return names[l] }

// Active is the level in use: the best that the machine has, or the one named by the
// environment variable GVBLL_KERNEL. It does not change a bit of any result. Only tests
// change it after the program has started.
var Active = choose(os.Getenv("GVBLL_KERNEL"), Best())

// choose returns the level asked for, or best for none. It panics for a level that the
// machine does not have: its kernels would end in an illegal instruction.
func choose(asked string, best Level) Level {
	for l, name := range names {
		if name == asked && Level(l) <= best {
			return Level(l)
		}
	}
	if asked != "" {
		panic(fmt.Sprintf("GVBLL_KERNEL=%s: this machine has levels up to %v; leave it out for the best", asked, best))
	}
	return best
}
