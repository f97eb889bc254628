//go:build !linux

package bench

import "os"

// availableMemory returns how many bytes can be allocated without swapping, or 0 if the
// system does not report it.
func availableMemory() int64 { return 0 }

// notNeeded does nothing here: files may be in the cache.
func notNeeded(*os.File) error { return nil }
