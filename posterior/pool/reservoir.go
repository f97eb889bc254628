package pool

import "github.com/gvbll/gvbll/posterior/internal/words"

// reservoir keeps labelled rows, at most a number of them. Where there are more, the class with the most
// rows gives way, so rare classes are kept whole; of the labels of a class all have the same chance to
// be kept. What is kept depends on the order of labels and on nothing else. A row stays when its node leaves the graph.
type reservoir struct {
	limit  int
	rows   [][]kept        // by class
	seen   []float64       // labels by class, those left out included
	labels float64         // sum of seen
	at     map[int64]place // rows by their keys
	draws  uint64          // random numbers drawn
	cursor place           // of the sweep
}

// kept is a row of a reservoir.
type kept struct {
	// key is the number of its node, none where another node has it now, and of a training row a smaller number that depends on
	// its node's features: the node may come by its number.
	key    int64
	weight float64
	square float64   // |φ|²
	said   []float64 // q of dual ascent, by strength and class
	phi
}

type place struct{ class, row int }

// none is the number of no node, and leftOut the place of no row.
const (
	none    = -1
	leftOut = -2
)

func newReservoir(limit, classes int) reservoir {
	return reservoir{limit: limit, rows: make([][]kept, classes), seen: make([]float64, classes), at: make(map[int64]place)}
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

// rename gives a row another key.
func (s *reservoir) rename(at place, key int64) {
	r := &s.rows[at.class][at.row]
	if s.at[r.key] == at {
		delete(s.at, r.key)
	}
	if r.key = key; key != none {
		s.at[key] = at
	}
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

// find makes a row of a class be known by a key that it shares with others.
func (s *reservoir) find(key int64, class int) {
	for i := range s.rows[class] {
		if s.rows[class][i].key == key {
			s.at[key] = place{class, i}
			return
		}
	}
}

func (s *reservoir) put(key int64, class int, x *phi) *kept {
	s.rows[class] = append(s.rows[class], kept{key: none})
	last := len(s.rows[class]) - 1
	s.rename(place{class, last}, key)
	r := &s.rows[class][last]
	r.set(x)
	return r
}

// drop removes a row; the last of its class takes its place.
func (s *reservoir) drop(class, i int) {
	list := s.rows[class]
	last := len(list) - 1
	s.rename(place{class, i}, none)
	if key := list[last].key; i < last {
		s.rename(place{class, last}, none)
		list[i] = list[last]
		s.rename(place{class, i}, key)
	}
	list[last] = kept{}
	s.rows[class] = list[:last]
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

func (r *kept) set(x *phi) {
	r.Set(&x.Row)
	r.square = 0
	_, value := x.Entries()
	for _, v := range value {
		r.square += float64(v * v)
	}
}

// state declares the rows, of so many columns, with so many numbers of q.
func (s *reservoir) state(t *words.Stream, columns, numbers int) {
	if t.Reads {
		*s = newReservoir(s.limit, len(s.rows))
	}
	t.Counts(s.seen)
	if t.Reads {
		for _, n := range s.seen {
			s.labels += n
		}
	}
	t.Uint(&s.draws)
	t.Below(&s.cursor.class, len(s.rows), "a class")
	t.Below(&s.cursor.row, s.limit+1, "a row")
	left := s.limit
	for class := range s.rows {
		n := len(s.rows[class])
		t.Below(&n, left+1, "rows")
		for i := range n {
			if s.rowState(t, class, i, columns, numbers); t.Err != nil {
				return
			}
		}
		left -= n
	}
}

// rowState declares a row, which is put behind those of its class when it is read.
func (s *reservoir) rowState(t *words.Stream, class, i, columns, numbers int) {
	r := kept{key: none}
	if !t.Reads {
		r = s.rows[class][i]
	}
	key := r.key
	t.Integer(&key)
	at, has := s.at[key]
	known := has && at == place{class, i} // of the rows that share a key, one is known by it
	t.Flag(&known, "whether a row is known by its key")
	weight := []float64{r.weight}
	t.Counts(weight)
	if t.Reads {
		if len(t.B) < 8*numbers {
			t.Check(false, "too short")
		}
		if t.Err != nil {
			return
		}
		r.said = make([]float64, numbers)
	}
	t.Counts(r.said)
	column, value := r.Entries()
	entries, last := len(column), none
	t.Below(&entries, columns+1, "columns")
	var x phi
	for e := range entries {
		var j int
		var v float64
		if !t.Reads {
			j, v = int(column[e]), value[e]
		}
		t.Below(&j, columns, "a column")
		t.Float(&v)
		if !t.Reads {
			continue
		}
		if t.Check(j > last && v != 0, "column %d after %d: %v", j, last, v); t.Err != nil {
			return
		}
		last = j
		x.Append(j, v)
	}
	if !t.Reads {
		return
	}
	t.Check(!known || !has && key != none, "key %d has two rows", key)
	row := s.put(none, class, &x)
	if row.key = key; known {
		s.at[key] = place{class, i}
	}
	row.weight, row.said = weight[0], r.said
}
