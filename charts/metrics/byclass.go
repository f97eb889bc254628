package metrics

// maxClasses is the number of classes that have series of their own. All others
// share the series named otherClasses, so that a model of many classes does not
// have as many series.
const (
	maxClasses   = 64
	otherClasses = "(other)"
)

// byClass makes series of type T on demand, for the first maxClasses names asked
// for; all later names share one.
type byClass[T any] struct {
	series map[string]T
	create func(name string) T
}

func newByClass[T any](create func(name string) T) byClass[T] {
	return byClass[T]{make(map[string]T), create}
}

func (b *byClass[T]) of(name string) T {
	if s, ok := b.series[name]; ok {
		return s
	}
	if len(b.series) >= maxClasses {
		if name = otherClasses; len(b.series) > maxClasses {
			return b.series[name]
		}
	}
	s := b.create(name)
	b.series[name] = s
	return s
}
