package page

// ring keeps the last items that were added, at most size of them. Items are
// numbered from 0 in the order in which they were added.
type ring[T any] struct {
	size  int
	items []T // item i is at i mod size
	count int // items added
}

// replaced returns the item that the next add will remove, or the zero value.
func (r *ring[T]) replaced() (old T) {
	if len(r.items) == r.size {
		old = *r.at(r.count)
	}
	return old
}

// add adds an item, and returns the one that it removed if the ring was full.
func (r *ring[T]) add(x T) (old T, full bool) {
	old, full = r.replaced(), len(r.items) == r.size
	if full {
		*r.at(r.count) = x
	} else {
		r.items = append(r.items, x)
	}
	r.count++
	return old, full
}

// first returns the number of the oldest item that is kept, end that of the next to
// come.
func (r *ring[T]) first() int { return r.count - len(r.items) }
func (r *ring[T]) end() int   { return r.count }

// at returns item i, first ≤ i < end.
func (r *ring[T]) at(i int) *T { return &r.items[i%r.size] }

// newest returns the last n items that are kept, the newest first.
func (r *ring[T]) newest(n int) []T {
	n = min(n, len(r.items))
	list := make([]T, 0, n)
	for i := r.count - 1; i >= r.count-n; i-- {
		list = append(list, *r.at(i))
	}
	return list
}
