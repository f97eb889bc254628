//go:build !amd64

package kernel

func best() level { return plain }

var (
	gather       = plainGather
	gatherSum    = plainGatherSum
	product      = plainProduct
	productRows  = plainProductRows
	axpy         = plainAxpy
	add          = plainAdd
	scale        = plainScale
	combine      = plainCombine
	rectify      = plainRectify
	addRectified = plainAddRectified
	gate         = plainGate
	dropout      = plainDropout
	adam         = plainAdam

	gatherRectified = plainGatherRectified
	exchange        = plainExchange
	widen           = plainWiden
	narrow          = plainNarrow
)

// Prefetching is left to the processor.

func prefetchRows(*[]float32, int, int, []int32, int, int) {}
func prefetchLines([]uintptr)                              {}
