package train

// aggregation is a layer's product with its weights, followed by a sum over
// neighbours whose coefficients do not depend on the parameters: P = X·W, then
// A·P in the first columns. It is what passes of [sage], [gcn] and [gin] share.
type aggregation[T float] struct {
	x       *input[T]
	outputs int       // rows of A
	a       sparse[T] // A, outputs×X.rows: row i has the coefficients of i's sum
	at      sparse[T] // Aᵀ
	p, dp   []T       // P, X.rows×width, and its gradient
	width   int
}

func newAggregation[T float](x *input[T], a sparse[T], outputs, width int) aggregation[T] {
	s := aggregation[T]{x: x, a: a, outputs: outputs, width: width}
	s.p, s.dp = make([]T, x.rows*width), make([]T, x.rows*width)
	s.at = newSparse[T](x.rows, len(a.index))
	a.transpose(&s.at)
	return s
}

// project sets P to X·w.
func (s *aggregation[T]) project(w []T) { s.x.times(s.p, w, s.width) }

// row is row j of P, gradRow of its gradient.
func (s *aggregation[T]) row(j int) []T     { return s.p[j*s.width : (j+1)*s.width] }
func (s *aggregation[T]) gradRow(j int) []T { return s.dp[j*s.width : (j+1)*s.width] }

// add adds row i of A·P, in the first len(dst) columns, to dst.
func (s *aggregation[T]) add(dst []T, i int) {
	index, value := s.a.row(i)
	gather(dst, index, value, s.p, s.width)
}

// addBack adds row j of Aᵀ·dy, with dy outputs×len(dst), to dst.
func (s *aggregation[T]) addBack(dst []T, j int, dy []T) {
	index, value := s.at.row(j)
	gather(dst, index, value, dy, len(dst))
}
