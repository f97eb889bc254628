package main

import (
	"fmt"
	"log/slog"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/topics/blocks"
)

// pendingFlag bounds the predictions that wait for their label, and their memory.
type pendingFlag struct {
	Max    int
	Memory size
}

const (
	pendingMemory      = 1 << 30 // the default
	leastPendingMemory = 1 << 20
)

func (f *pendingFlag) pairs() []pair {
	return []pair{{name: "max", count: &f.Max}, {name: "memory", size: &f.Memory}}
}

func (f pendingFlag) String() string { return joinPairs(f.pairs()...) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *pendingFlag) UnmarshalText(text []byte) error {
	f.Max, f.Memory = 1<<18, pendingMemory
	if err := parsePairs(string(text), f.pairs()...); err != nil {
		return err
	}
	if f.Max < 1 || f.Max > pipeline.MostPending {
		return fmt.Errorf("max=%d: give a number from 1 to %d", f.Max, pipeline.MostPending)
	}
	if f.Memory < leastPendingMemory {
		return fmt.Errorf("memory=%v: give at least %v", f.Memory, size(leastPendingMemory))
	}
	return nil
}

// withFiles returns cfg for an engine that keeps what was served in files of the folder
// beyond this much memory, and a function that removes them. Without a folder, everything
// is in memory.
func withFiles(cfg pipeline.Config, folder string, memory size, log *slog.Logger) (pipeline.Config, func(), error) {
	if folder == "" {
		return cfg, func() {}, nil
	}
	files, err := blocks.Open(folder)
	if err != nil {
		return cfg, nil, usagef("--state-dir %s: %v", folder, err)
	}
	cfg.PendingMemory, cfg.Blocks = int64(memory), files
	return cfg, func() {
		if err := files.Close(); err != nil {
			log.Warn("files in --state-dir were not removed", "err", err)
		}
	}, nil
}
