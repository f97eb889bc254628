package blocks

import (
	"os"

	"golang.org/x/sys/unix"
)

// expectRandom tells the system that small parts of the file will be read here and there:
// it then reads no more than is asked for.
func expectRandom(f *os.File) {
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM) // advice: nothing depends on it
}

// willNeed makes the system begin to read a part of the file.
func willNeed(f *os.File, offset, n int64) {
	_ = unix.Fadvise(int(f.Fd()), offset, n, unix.FADV_WILLNEED)
}
