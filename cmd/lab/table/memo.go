package table

import "time"

// memo caches models and embeddings that several systems share. It is not safe for
// concurrent use.
type memo struct {
	kept map[any]kept
	// spent is the time that a system would have taken without the cache: the times to
	// produce all values that it asked for since spent was last set to 0.
	spent time.Duration
}

type kept struct {
	value any
	took  time.Duration // to produce
}

// recall returns the cached value of a key, producing it the first time. Calls must
// not nest, so that no time counts twice.
func recall[T any](m *memo, key any, produce func() (T, error)) (T, error) {
	k, known := m.kept[key]
	if !known {
		begin := time.Now()
		value, err := produce()
		if err != nil {
			return value, err
		}
		k = kept{value: value, took: time.Since(begin)}
		if m.kept == nil {
			m.kept = map[any]kept{}
		}
		m.kept[key] = k
	}
	m.spent += k.took
	return k.value.(T), nil
}
