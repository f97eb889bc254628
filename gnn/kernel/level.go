package kernel

import (
	"fmt"
	"os"
)

// level is an instruction set for which there are kernels, in ascending order.
type level int

const (
	plain level = iota
	avx2
	avx512
)

var names = [...]string{plain: "go", avx2: "avx2", avx512: "avx512"}

// active is the level in use. Only tests change it after the program has started.
var active = choose(os.Getenv("GVBLL_KERNEL"), best())

// Level names the instruction set in use: avx512, avx2 or go. It is the best
// that the machine has, or the one named by the environment variable
// GVBLL_KERNEL. It does not change a bit of any result.
func Level() string { return names[active] }

// choose returns the level asked for, or best for none. It panics for a level
// that the machine does not have: its kernels would end in an illegal
// instruction.
func choose(asked string, best level) level {
	for l, name := range names {
		if name == asked && level(l) <= best {
			return level(l)
		}
	}
	if asked != "" {
		panic(fmt.Sprintf("GVBLL_KERNEL=%s: this machine has %v; leave it out for the best", asked, names[:best+1]))
	}
	return best
}
