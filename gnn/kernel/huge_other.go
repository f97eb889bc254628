//go:build !linux

package kernel

import "unsafe"

// adviseHuge does nothing: only Linux takes such advice.
func adviseHuge(unsafe.Pointer, uintptr) {}
