package pool

import "slices"

// reservoir keeps labelled rows, at most a number of them. Where there are more, the class with the most
// rows gives way, so rare classes are kept whole; of the labels of a class all have the same chance to
// be kept. What is kept depends on the order of labels and on nothing else. A row stays when its node leaves the graph.
type reservoir struct {
	limit  int
	rows   [][]kept        // by class
	seen   []float64       // labels by class, those left out included
	labels float64         // sum of seen
	at     map[int32]place // rows by their nodes' numbers
	draws  uint64          // random numbers drawn
	cursor place           // of the sweep
}

// kept is a row of a reservoir.
type kept struct {
	node    int32 // its number, or none: of training rows, and of those whose number another node has now
	trained bool  // a training row, whose node may come by its number
	weight  float64
	square  float64   // |φ|²
	said    []float64 // q, by strength and class
	entries
}

type place struct{ class, row int }

// none is the number of no node, and leftOut the place of no row.
const (
	none    = -1
	leftOut = -2
)

func newReservoir(limit, classes int) reservoir {
	return reservoir{limit: limit, rows: make([][]kept, classes), seen: make([]float64, classes), at: make(map[int32]place)}
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// draw returns a number below n.
func (s *reservoir) draw(n int) int {
	s.draws++
	return int(mix(s.draws) % uint64(n))
}

func (s *reservoir) count() (n int) {
	for _, list := range s.rows {
		n += len(list)
	}
	return n
}

func (s *reservoir) has(node int32) bool {
	_, has := s.at[node]
	return has
}

// weight returns what each row of a class counts for.
func (s *reservoir) weight(class int) float64 {
	return max(s.seen[class]/float64(len(s.rows[class])), 1)
}

// room returns which row makes room for one of a class whose label was counted: row i of the class from,
// none if there is room, or leftOut if the new row itself is not kept.
func (s *reservoir) room(class int) (from, i int) {
	if s.count() < s.limit {
		return 0, none
	}
	most := 0
	for c, list := range s.rows {
		if len(list) > len(s.rows[most]) {
			most = c
		}
	}
	if len(s.rows[class]) < len(s.rows[most]) {
		return most, s.draw(len(s.rows[most]))
	}
	if i := s.draw(int(s.seen[class])); i < len(s.rows[class]) {
		return class, i
	}
	return 0, leftOut
}

// put adds a row whose q has so many numbers, all 0.
func (s *reservoir) put(node int32, class int, x *entries, numbers int, trained bool) *kept {
	s.rows[class] = append(s.rows[class], kept{node: node, trained: trained, said: make([]float64, numbers)})
	last := len(s.rows[class]) - 1
	if node != none {
		s.at[node] = place{class, last}
	}
	r := &s.rows[class][last]
	r.set(x)
	return r
}

// drop removes a row; the last of its class takes its place.
func (s *reservoir) drop(class, i int) {
	list := s.rows[class]
	delete(s.at, list[i].node)
	last := len(list) - 1
	if list[i] = list[last]; i < last && list[i].node != none {
		s.at[list[i].node] = place{class, i}
	}
	list[last] = kept{}
	s.rows[class] = list[:last]
}

// trainedRow returns a training row of a class, none if there is none.
func (s *reservoir) trainedRow(class int) int {
	for i := len(s.rows[class]) - 1; i >= 0; i-- {
		if s.rows[class][i].trained {
			return i
		}
	}
	return none
}

// next returns the next row of the sweep, class none if the sweep passes to another class.
func (s *reservoir) next() (class, row int) {
	c := &s.cursor
	if c.row >= len(s.rows[c.class]) {
		c.class, c.row = (c.class+1)%len(s.rows), 0
		if len(s.rows[c.class]) == 0 {
			return none, 0
		}
	}
	c.row++
	return c.class, c.row - 1
}

func (r *kept) set(x *entries) {
	r.index, r.value = append(r.index[:0], x.index...), append(r.value[:0], x.value...)
	r.square = 0
	for _, v := range x.value {
		r.square += float64(float64(v) * float64(v))
	}
}

func (e *entries) equals(x *entries) bool {
	return slices.Equal(e.index, x.index) && slices.Equal(e.value, x.value)
}

func (s *reservoir) appendRows(w *writer) {
	w.floats(s.seen)
	w.uint(s.draws)
	w.uint(uint64(s.cursor.class))
	w.uint(uint64(s.cursor.row))
	for _, list := range s.rows {
		w.uint(uint64(len(list)))
		for i := range list {
			r := &list[i]
			w.uint(uint64(uint32(r.node)))
			trained := uint64(0)
			if r.trained {
				trained = 1
			}
			w.uint(trained)
			w.float(r.weight)
			w.floats(r.said)
			w.uint(uint64(len(r.index)))
			for e, j := range r.index {
				w.uint(uint64(j))
				w.float(float64(r.value[e]))
			}
		}
	}
}

// readRows reads rows of so many columns, with so many numbers of q.
func (s *reservoir) readRows(r *reader, columns, numbers int) {
	*s = newReservoir(s.limit, len(s.rows))
	r.counts(s.seen)
	for _, n := range s.seen {
		s.labels += n
	}
	s.draws = r.uint()
	s.cursor = place{int(r.below(len(s.rows), "a class")), int(r.below(s.limit+1, "a row"))}
	left := s.limit
	for class := range s.rows {
		n := r.below(left+1, "rows")
		for range n {
			node := int32(uint32(r.uint()))
			trained := r.below(2, "whether a row is of training") == 1
			weight := [1]float64{}
			r.counts(weight[:])
			if uint64(len(r.b)) < 8*uint64(numbers) {
				r.check(false, "too short")
			}
			if r.err != nil {
				return
			}
			var x entries
			said := make([]float64, numbers)
			r.counts(said)
			last := int32(none)
			for range r.below(columns+1, "columns") {
				j, v := int32(r.below(columns, "a column")), float32(r.float())
				if r.check(j > last, "column %d after %d", j, last); r.err != nil {
					return
				}
				last = j
				x.index, x.value = append(x.index, j), append(x.value, v)
			}
			if node != none {
				r.check(node >= 0 && !s.has(node), "node %d has two rows", node)
			}
			row := s.put(node, class, &x, 0, trained)
			row.weight, row.said = weight[0], said
		}
		left -= int(n)
	}
}

// below reads an integer below a bound.
func (r *reader) below(bound int, what string) uint64 {
	x := r.uint()
	if r.check(x < uint64(bound), "%s is %d, of %d", what, x, bound); r.err != nil {
		return 0
	}
	return x
}
