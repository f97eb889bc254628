package kernel

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for huge pages under what lies at p: rows are read far from
// each other, and with small pages most of that time goes to finding the page.
// It is advice: where it is refused, everything is the same but slower.
func adviseHuge(p unsafe.Pointer, bytes uintptr) {
	const huge = 1 << 21
	skip := -uintptr(p) & (huge - 1)
	if bytes < skip+huge {
		return
	}
	inside := unsafe.Slice((*byte)(unsafe.Add(p, skip)), (bytes-skip)&^(huge-1))
	_ = syscall.Madvise(inside, syscall.MADV_HUGEPAGE)
}
