package table

import "time"

// memo keeps what several systems share, and adds up in spent what each would
// have spent on it alone. One goroutine uses it.
type memo struct {
	kept  map[any]kept
	spent time.Duration
}

type kept struct {
	value any
	took  time.Duration
}

// recall returns what produce returned for the key the first time. Calls do not
// nest, so that no time counts twice.
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
