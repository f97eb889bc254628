package drift

import "fmt"

// Classes returns an MMD on predicted classes, 0 to cfg.Dim-1. Its kernel is 1 for equal
// classes and 0 for others, so the MMD is Σ_c (share of c in the block - share of c in
// the reference)². It panics if cfg does not validate; Add panics at a class out of
// range.
func Classes(cfg MMDConfig) *MMD[int32] {
	cfg.Features = max(cfg.Features, 1)
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return newMMD(cfg, kernel[int32](equal(cfg.Dim)))
}

// equal is the kernel over that many classes. Its features are indicators.
type equal int32

func (e equal) features() int { return int(e) }

func (e equal) check(class int32) {
	if class < 0 || class >= int32(e) {
		panic(fmt.Sprintf("drift: class %d of %d", class, int32(e)))
	}
}

func (e equal) clone(class int32) int32 { return class }

func (e equal) fit([]int32) {}

func (e equal) add(sum []float64, class int32) { sum[class]++ }

func (e equal) sums(total []float64, reference []int32) func(sum []float64, rows []int32) {
	for _, class := range reference {
		total[class]++
	}
	return func(sum []float64, rows []int32) {
		clear(sum)
		for _, i := range rows {
			sum[reference[i]]++
		}
	}
}

func (e equal) appendRow(b []byte, class int32) []byte { return appendCount(b, uint64(class)) }

func (e equal) row(r *reader) (class int32, ok bool) {
	n := r.count()
	return int32(n), n < uint64(e)
}

func (e equal) appendFit(b []byte) []byte { return b }

func (e equal) setFit(*reader) (kernel[int32], bool) { return e, true }
