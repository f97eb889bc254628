package kernel

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for huge pages (2 MiB) under the memory at p: rows are read
// far from each other, and with pages of 4 KiB most of that time goes to
// address translation. The first and the last page extend into neighbouring
// memory of the heap, which is likely to be more of the same. It is advice:
// where it is refused nothing changes but the time, so errors are ignored.
// Below a quarter of a huge page it does nothing.
func adviseHuge(p unsafe.Pointer, bytes uintptr) {
	const huge = 1 << 21
	if bytes < huge/4 {
		return
	}
	from := uintptr(p) &^ (huge - 1)
	to := (uintptr(p) + bytes + huge - 1) &^ (huge - 1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE)
}
