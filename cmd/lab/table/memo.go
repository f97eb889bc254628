package table

// memo keeps models and embeddings that several systems share, by key. It is not safe for
// concurrent use.
type memo map[any]any

// recall returns the kept value of a key, producing it the first time.
func recall[T any](m memo, key any, produce func() (T, error)) (T, error) {
	if value, known := m[key]; known {
		return value.(T), nil
	}
	value, err := produce()
	if err == nil {
		m[key] = value
	}
	return value, err
}
