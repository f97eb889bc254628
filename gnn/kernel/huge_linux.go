package kernel

import (
	"syscall"
	"unsafe"
)

// adviseHuge asks for huge pages under what lies at p: rows are read far from
// each other, and with small pages most of that time goes to finding the page.
// The first and the last page reach beyond, into what lies beside it on the heap:
// that is likely to be more of the kind. It is advice: where it is refused,
// everything is the same but slower.
func adviseHuge(p unsafe.Pointer, bytes uintptr) {
	const huge = 1 << 21
	if bytes < huge/4 {
		return
	}
	from := uintptr(p) &^ (huge - 1)
	to := (uintptr(p) + bytes + huge - 1) &^ (huge - 1)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_HUGEPAGE)
}
