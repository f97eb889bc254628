// Package snapshot writes down the state of a running system while it goes on
// running, and reads it back.
//
// A part of the system declares each tensor of its state once, to a [Schema]:
// its name, element type and shape, where its elements come from, and where
// they go. The schema either saves, and then collects the tensors for a
// [safetensors.Stream], or restores from a [safetensors.Reader]; the
// declaration is the same, so that what is written and what is read back cannot
// drift apart. Checks of what was read stand beside the declaration, in
// [Schema.Check].
//
//	func (q *queue) state(s *snapshot.Schema) {
//		n := s.Len("queue.key", len(q.keys), q.limit)
//		snapshot.Slice(s, "queue.key", &q.keys, n)
//		s.Check(func() error { … })
//	}
//
// A stream makes the bytes of a tensor when they are asked for, which may be
// long after the moment that the snapshot is of. A store that changes in between
// has a [Freeze], which copies what is about to change and was not yet read.
package snapshot
