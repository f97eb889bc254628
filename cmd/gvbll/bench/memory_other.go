//go:build !linux

package bench

// availableMemory is how many bytes programs may take before the system has to
// take some from others, or 0 where it does not tell.
func availableMemory() int64 { return 0 }
