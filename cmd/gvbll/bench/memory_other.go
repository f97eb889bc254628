//go:build !linux

package bench

// availableMemory returns how many bytes can be allocated without swapping, or 0 if the
// system does not report it.
func availableMemory() int64 { return 0 }
