package neighbourhood

import (
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// The tensors of n nodes' features: dense ones, or sparse ones, of which there
// are so many in all.
const (
	tensorDense  = "features.rows"    // n × d
	tensorLength = "features.lengths" // n
	tensorIndex  = "features.index"
	tensorValue  = "features.value"
)

// still is the features as they were when Freeze was called. Those that change
// are copied before.
type still struct {
	n       int
	entries int
	sparse  map[int32][]entry
	dense   map[int32][]float32
}

// Freeze holds the features as they are, for [Vicinity.Parts] to be read while
// nodes come and change, until Release. All else can be made of them, of the
// graph, and of the labels.
func (s *Vicinity) Freeze() {
	if s.still != nil {
		panic("vicinity: it is frozen already")
	}
	s.still = &still{n: s.Len(), sparse: make(map[int32][]entry), dense: make(map[int32][]float32)}
	if s.sparse != nil {
		s.still.entries = s.sparse.entries
	}
}

// Release ends what Freeze began.
func (s *Vicinity) Release() { s.still = nil }

// keep copies the features of v, which are about to change.
func (s *Vicinity) keep(v int32) {
	if s.still == nil || int(v) >= s.still.n {
		return
	}
	switch {
	case s.dense != nil:
		if _, there := s.still.dense[v]; !there {
			s.still.dense[v] = slices.Clone(s.dense.Row(v))
		}
	case s.sparse != nil:
		if _, there := s.still.sparse[v]; !there {
			s.still.sparse[v] = slices.Clone(s.sparse.view(v))
		}
	}
}

// Parts returns what was frozen. They are to be read between calls of other
// methods, and once.
func (s *Vicinity) Parts() []safetensors.Part {
	if s.dense != nil {
		v := int32(-1)
		return []safetensors.Part{safetensors.NewPart[float32](tensorDense, func(b []byte) []byte {
			v++
			if row, kept := s.still.dense[v]; kept {
				return safetensors.Append(b, row...)
			}
			return safetensors.Append(b, s.dense.Row(v)...)
		}, s.still.n, s.features)}
	}
	if s.sparse == nil {
		return nil
	}
	walk := func() func() []entry {
		v := int32(-1)
		return func() []entry {
			v++
			if list, kept := s.still.sparse[v]; kept {
				return list
			}
			return s.sparse.view(v)
		}
	}
	length, index, value := walk(), walk(), walk()
	return []safetensors.Part{
		safetensors.NewPart[int32](tensorLength, func(b []byte) []byte { return safetensors.Append(b, int32(len(length()))) }, s.still.n),
		safetensors.NewPart[int32](tensorIndex, func(b []byte) []byte {
			for _, e := range index() {
				b = safetensors.Append(b, e.index)
			}
			return b
		}, s.still.entries),
		safetensors.NewPart[float32](tensorValue, func(b []byte) []byte {
			for _, e := range value() {
				b = safetensors.Append(b, e.value)
			}
			return b
		}, s.still.entries),
	}
}

// Thaw reads what [Vicinity.Parts] gave into a Vicinity without nodes, of a graph
// that is there with its nodes and edges; labels are their classes, None for
// none. It returns an error that wraps [safetensors.ErrDamaged] where it is no
// such thing.
func (s *Vicinity) Thaw(file *safetensors.Reader, labels []int32) error {
	n := len(labels)
	switch {
	case s.dense != nil:
		if err := safetensors.ReadRows(file, tensorDense, s.dense, func(row []float32) error {
			for _, x := range row {
				if !finite(x) {
					return damaged("a feature is %v", x)
				}
			}
			return nil
		}, n, s.features); err != nil {
			return err
		}
	case s.sparse != nil:
		if err := s.thawSparse(file, n); err != nil {
			return err
		}
	}
	s.label = make([]int32, n)
	for v := range s.label {
		s.label[v] = None
	}
	if s.counts != nil {
		s.counts.Grow(n)
	}
	for v, y := range labels {
		if y != None {
			s.Label(int32(v), y)
		}
	}
	return nil
}

func (s *Vicinity) thawSparse(file *safetensors.Reader, n int) error {
	length, err := safetensors.Read[int32](file, tensorLength, n)
	if err != nil {
		return err
	}
	all := file.Len(tensorIndex)
	index, err := safetensors.Read[int32](file, tensorIndex, all)
	if err != nil {
		return err
	}
	value, err := safetensors.Read[float32](file, tensorValue, all)
	if err != nil {
		return err
	}
	s.sparse.grow(n)
	s.by = make([]float32, n)
	for v, m := range length {
		if m < 0 || int(m) > len(index) {
			return damaged("node %d has %d features, there are %d more", v, m, len(index))
		}
		s.entries = s.entries[:0]
		last := int32(-1)
		for k, j := range index[:m] {
			if j <= last || int(j) >= s.features || value[k] == 0 || !finite(value[k]) {
				return damaged("node %d has feature %d of value %v after feature %d, of %d", v, j, value[k], last, s.features)
			}
			s.entries = append(s.entries, entry{j, value[k]})
			last = j
		}
		s.sparse.set(int32(v), s.entries)
		s.by[v] = inverse(s.entries)
		index, value = index[m:], value[m:]
	}
	if len(index) > 0 {
		return damaged("%d features of no node", len(index))
	}
	return nil
}

func finite(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: features: "+format, append([]any{safetensors.ErrDamaged}, args...)...)
}
