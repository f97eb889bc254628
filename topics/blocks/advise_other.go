//go:build !linux

package blocks

import "os"

// There is no such advice here.

func expectRandom(*os.File)           {}
func willNeed(*os.File, int64, int64) {}
