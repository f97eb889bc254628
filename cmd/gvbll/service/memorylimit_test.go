package service

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestRoomForEngine: this process fits twice into the machine, and not into what it uses.
func TestRoomForEngine(t *testing.T) {
	if err := roomForEngine(); err != nil {
		t.Error(err)
	}
	before := debug.SetMemoryLimit(1 << 20)
	defer debug.SetMemoryLimit(before)
	if err := roomForEngine(); err == nil || !strings.Contains(err.Error(), "of 1 MiB are in use") {
		t.Errorf("a second engine fits into a megabyte: %v", err)
	}
}
