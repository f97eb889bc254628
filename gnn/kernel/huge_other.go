//go:build !linux

package kernel

import "unsafe"

func adviseHuge(unsafe.Pointer, uintptr) {}
