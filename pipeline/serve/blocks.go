package serve

import (
	"errors"
)

// Blocks stores blocks of bytes outside of the engine's memory, such as in files. The
// engine writes and reads what it wrote: outcomes do not depend on where it lies. Blocks
// that a [snapshots.Snapshot] names must be there when it is restored.
//
// Numbers of blocks are never used twice, so that one of an older snapshot cannot be taken
// for another.
type Blocks interface {
	// Write stores a block and returns its number.
	Write(block []byte) (number int64, err error)
	// ReadAt fills p with the block's bytes from an offset on.
	ReadAt(number int64, p []byte, offset int64) error
	// Prefetch announces that n bytes will be read soon. It does not wait for them.
	Prefetch(number, offset int64, n int)
	// Free is called once for every block that was written or claimed, when it is not
	// needed any more.
	Free(number int64)
	// Claim takes over a block of the snapshot that is being restored, and returns its
	// length.
	Claim(number int64) (n int64, err error)
	// Name says where a block is, for errors.
	Name(number int64) string
}

// noBlocks is for an engine that keeps everything in memory, or has lost its blocks.
type noBlocks struct{}

var errNoBlocks = errors.New("predictions that wait for their label lie in files, and there is no folder for such " +
	"files: give one, as the program had that wrote it")

func (noBlocks) Write([]byte) (int64, error)       { return none, errNoBlocks }
func (noBlocks) ReadAt(int64, []byte, int64) error { return errNoBlocks }
func (noBlocks) Prefetch(int64, int64, int)        {}
func (noBlocks) Free(int64)                        {}
func (noBlocks) Claim(int64) (int64, error)        { return 0, errNoBlocks }
func (noBlocks) Name(int64) string                 { return "" }
