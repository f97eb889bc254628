// Package snapshot saves the state of a system while the system keeps running,
// and restores it.
//
// Each part of the system declares every tensor of its state once, to a
// [Schema]: its name, element type and shape, the source of its elements when
// saving, and their destination when restoring. A saving schema collects the
// tensors for a [safetensors.Stream]; a restoring one reads them from a
// [safetensors.Reader]. Both run the same declaration, so the format that is
// written and the format that is read cannot diverge. Restored values are
// validated next to their declaration, in [Schema.Check].
//
//	func (q *queue) state(s *snapshot.Schema) {
//		n := s.Len("queue.key", len(q.keys), q.limit)
//		snapshot.Slice(s, "queue.key", &q.keys, n)
//		s.Check(func() error { … })
//	}
//
// A stream produces the bytes of a tensor only when they are read, which may be
// long after the snapshot was taken. A store that changes in the meantime keeps
// a [Freeze], which copies a record before it changes unless it was already
// read: copy on write.
package snapshot
