package wire

import (
	"encoding/binary"
	"math"
	"unsafe"
)

// littleEndian reports whether this machine's memory is little-endian, as the wire is.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// memory returns the memory of x as bytes.
func memory(x []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), 4*len(x))
}

// readFloats reads a block of little-endian float32 into x.
func readFloats(x []float32, block []byte) {
	if littleEndian {
		copy(memory(x), block)
		return
	}
	for i := range x {
		x[i] = math.Float32frombits(binary.LittleEndian.Uint32(block[4*i:]))
	}
}
