package flags

import (
	"fmt"

	"github.com/gvbll/gvbll/pipeline"
)

// Pending bounds the predictions that wait for their label, and their memory.
type Pending struct {
	Max    int
	Memory Size
}

const (
	PendingMemory      = 1 << 30 // the default
	leastPendingMemory = 1 << 20
)

func (f *Pending) pairs() []Pair {
	return []Pair{{Name: "max", count: &f.Max}, {Name: "memory", size: &f.Memory}}
}

func (f Pending) String() string { return JoinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Pending) UnmarshalText(text []byte) error {
	f.Max, f.Memory = 1<<18, PendingMemory
	if err := ParsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	if f.Max < 1 || f.Max > pipeline.MostPending {
		return fmt.Errorf("max=%d: give a number from 1 to %d", f.Max, pipeline.MostPending)
	}
	if f.Memory < leastPendingMemory {
		return fmt.Errorf("memory=%v: give at least %v", f.Memory, Size(leastPendingMemory))
	}
	return nil
}
