package keys

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/gnn/kernel/double"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/gnn/spelling"
)

// State has what is known of the keys of all events so far. An event is read by Begin, Text and
// Number, and End; Enter then counts it. It is not safe for concurrent use.
//
// An event counts at its own time, also if it comes late: it follows those that have come and are
// not later. A span moves in sixths of its length, so that it is from 5/6 of it to all of it.
type State struct {
	keys    []keyed
	inputs  map[string]int // places in values, by attribute
	values  []value        // of the current event
	time    int64          // its time, ms since 1970
	columns []float64      // what it gets
	links   []To           // likewise
	nodes   *kernel.Table[int64]
	frozen  snapshot.Freeze[int64] // of nodes
	dropped int
}

// To is an edge to an event before.
type To struct {
	Node int32
	Kind string
}

// value is what an event says of an attribute that is read.
type value struct {
	hash   int64   // of the text, 0 for none
	number float64 // NaN for none
	// What is needed of it.
	hashed, isAmount bool
}

// keyed is a key with its rows.
type keyed struct {
	of      Key
	name    string
	table   *table
	at      layout
	empty   []int64 // the row before the first event
	columns int     // number of these
	class   int32   // of labels
	row     int32   // that of the current event's key, none before it came
	// Places in State.values of the key, of amounts, and of attributes of which different values are counted.
	input             int
	amounts, distinct []int
}

// layout says where the words of a row are.
type layout struct {
	near    int   // events in times, each 1 ms later, and nodes, the latest first
	nodes   int   // two int32 a word; 0 without links
	within  int64 // how old events may be that have an edge, ms; 0 for any age
	amounts int   // words for each: sum, what rounding took from it, the first one, and how many
	spans   []spanWords
	labels  int // a word: labels that came, and those of the class
	seen    int // seenWords for each attribute of which different values are counted
	width   int
}

// spanWords are the words of a span from at on: the latest step, how many events in each of the latest
// steps, and by amount their sums and how many have one.
type spanWords struct {
	length, every int64 // of the span and of a step, ms; 0 for all that came
	at            int
}

const (
	steps      = 6 // of a span
	countWords = steps / 2
	sumWords   = steps + countWords
	cells      = 64 // of the sketch of different values
	seenWords  = cells / 2
	amount     = 4       // words
	latest     = 1 << 53 // time of an event, ms
	allAlike   = 1 << 62 // beside a number of amounts: all are the first one
)

func layoutOf(k *Key) (l layout) {
	l.width = fixed
	take := func(words int) (at int) {
		at = l.width
		l.width += words
		return at
	}
	l.near = 1
	if k.Link != nil {
		l.near = k.Link.Last
	}
	take(l.near)
	if k.Link != nil {
		l.nodes, l.within = take((l.near+1)/2), k.Link.Within.milliseconds()
	}
	if slices.Contains(k.Velocity, All) {
		l.amounts = take(amount * len(k.Amounts))
	}
	for _, s := range k.Velocity {
		words := spanWords{length: s.milliseconds()}
		if s != All {
			words.at = take(1 + countWords + sumWords*len(k.Amounts))
			words.every = max(words.length/steps, 1)
		}
		l.spans = append(l.spans, words)
	}
	if k.Labels != "" {
		l.labels = take(1)
	}
	l.seen = take(seenWords * len(k.Distinct))
	return l
}

// New returns the state before the first event. A class whose labels are told must be among the given ones.
func New(d Declared, classes []string) (*State, error) {
	s := &State{inputs: make(map[string]int), columns: make([]float64, len(d.Columns()))}
	for i, name := range d.Inputs() {
		s.inputs[name] = i
	}
	s.values = make([]value, len(s.inputs))
	for _, name := range d.Names() {
		k := keyed{of: d[name], name: name, input: s.inputs[name], columns: len(Declared{name: d[name]}.Columns())}
		s.values[k.input].hashed = true
		for _, a := range k.of.Amounts {
			k.amounts = append(k.amounts, s.inputs[a])
			s.values[s.inputs[a]].isAmount = true
		}
		for _, other := range k.of.Distinct {
			k.distinct = append(k.distinct, s.inputs[other])
			s.values[s.inputs[other]].hashed = true
		}
		if k.class = int32(slices.Index(classes, k.of.Labels)); k.of.Labels != "" && k.class < 0 {
			return nil, fmt.Errorf("key %.40q: the class %.40q of \"labels\" is none of %.80q", name, k.of.Labels, classes)
		}
		k.at = layoutOf(&k.of)
		k.empty = make([]int64, k.at.width)
		most := k.of.Max
		if most == 0 {
			most = defaultMax
		}
		k.table = newTable(k.at.width, most)
		s.keys = append(s.keys, k)
	}
	s.nodes = kernel.NewTable[int64](max(len(s.keys)+len(s.columns), 1))
	return s, nil
}

// Begin begins an event. at is its time in milliseconds since 1970.
func (s *State) Begin(at int64) {
	s.time = min(max(at, 0), latest)
	for i := range s.values {
		s.values[i].hash, s.values[i].number = 0, math.NaN()
	}
}

// Text gives the value of an attribute; it may be that of a gap.
func (s *State) Text(name, text string) {
	i, read := s.inputs[name]
	if !read {
		return
	}
	v := &s.values[i]
	v.hash, v.number = 0, math.NaN()
	if v.isAmount {
		if number, ok := spelling.Number(text); ok {
			v.number = number
		}
	}
	if v.hashed && !spelling.IsGap(text) {
		v.hash = hashOf(spelling.Name(text))
	}
}

// Number gives the value of an attribute. NaN is a gap.
func (s *State) Number(name string, x float64) {
	i, read := s.inputs[name]
	if !read {
		return
	}
	v := &s.values[i]
	v.hash, v.number = 0, math.NaN()
	if math.Abs(x) <= math.MaxFloat64 {
		if v.number = x; v.hashed {
			v.hash = hashOf(spelling.NameOf(x))
		}
	}
}

// hashOf returns the hash of a text, never 0. Nobody can make a text with the hash of another one that he has not chosen.
func hashOf(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	if h := int64(binary.LittleEndian.Uint64(sum[:])); h != 0 {
		return h
	}
	return 1
}

// End ends an event, and returns its values of the columns, NaN in a gap, and its edges, each
// once: of a key the latest first. They are valid until the next event begins.
func (s *State) End() (columns []float64, links []To) {
	s.links = s.links[:0]
	to := s.columns[:0]
	for i := range s.keys {
		k := &s.keys[i]
		var row []int64
		h := s.values[k.input].hash
		if k.row = none; h != 0 {
			if k.row = k.table.find(h); k.row != none {
				row = k.table.rows.Row(k.row)
			}
		}
		to = k.append(to, s, row, h != 0)
		if row != nil && k.of.Link != nil {
			s.link(k, row)
		}
	}
	for i, x := range to {
		if !(math.Abs(x) <= math.MaxFloat64) {
			to[i] = math.NaN()
		}
	}
	return s.columns, s.links
}

// link adds the edges of a key.
func (s *State) link(k *keyed, row []int64) {
	for i := range k.at.near {
		age, v := s.time+1-row[fixed+i], k.node(row, i)
		if v == none || age < 0 || k.at.within > 0 && age > k.at.within {
			continue
		}
		if to := (To{Node: v, Kind: k.of.Link.Kind}); !slices.ContainsFunc(s.links, func(t To) bool {
			return t.Node == to.Node && t.Kind == to.Kind
		}) {
			s.links = append(s.links, to)
		}
	}
}

// half returns one of the two numbers of a word.
func half(word int64, i int) uint32 { return uint32(word >> (32 * (i & 1))) }

func setHalf(word *int64, i int, x uint32) {
	shift := 32 * (i & 1)
	*word = *word&^(math.MaxUint32<<shift) | int64(x)<<shift
}

// increase adds one to a number of a word, which stays at the largest.
func increase(word *int64, i int, by int) {
	setHalf(word, i, uint32(min(max(int64(half(*word, i))+int64(by), 0), math.MaxUint32)))
}

// node returns the i-th of the latest events, none if it has left: a row has one more than its number.
func (k *keyed) node(row []int64, i int) int32 {
	if k.at.nodes == 0 {
		return none
	}
	return int32(half(row[k.at.nodes+i/2], i)) - 1
}

func (k *keyed) setNode(row []int64, i int, v int32) {
	setHalf(&row[k.at.nodes+i/2], i, uint32(v+1))
}

// append appends the values of the key's columns. row is nil before the first event of the key.
func (k *keyed) append(to []float64, s *State, row []int64, given bool) []float64 {
	if !given {
		for range k.columns {
			to = append(to, math.NaN())
		}
		return to
	}
	if row == nil {
		row = k.empty
	}
	if len(k.of.Velocity) > 0 {
		gap := math.NaN()
		for _, at := range row[fixed : fixed+k.at.near] {
			if at > 0 && at <= s.time+1 {
				gap = float64(s.time+1-at) / 1000
				break
			}
		}
		to = append(to, gap)
	}
	for i := range k.at.spans {
		if w := &k.at.spans[i]; w.length == 0 {
			to = k.appendAll(to, s, row)
		} else {
			to = k.appendSpan(to, s, row, w)
		}
	}
	if k.of.Labels != "" {
		share, known := math.NaN(), half(row[k.at.labels], 0)
		if known > 0 {
			share = float64(half(row[k.at.labels], 1)) / float64(known)
		}
		to = append(to, share)
	}
	return to
}

func (k *keyed) appendAll(to []float64, s *State, row []int64) []float64 {
	to = append(to, float64(row[total]))
	for i, input := range k.amounts {
		w := row[k.amountAt(i):]
		mean := math.Float64frombits(uint64(w[2]))
		if n := w[3] &^ allAlike; n == 0 {
			mean = math.NaN()
		} else if w[3]&allAlike == 0 {
			mean = math.Float64frombits(uint64(w[0])) / float64(n)
		}
		to = append(to, ratio(s.values[input].number, mean))
	}
	for i := range k.distinct {
		to = append(to, k.different(row, i, 0))
	}
	return to
}

func (k *keyed) amountAt(i int) int { return k.at.amounts + amount*i }

// ratio returns x against a mean, NaN unless that is finite.
func ratio(x, mean float64) float64 {
	if r := x / mean; math.Abs(r) <= math.MaxFloat64 {
		return r
	}
	return math.NaN()
}

func (k *keyed) appendSpan(to []float64, s *State, row []int64, w *spanWords) []float64 {
	var list [steps]int // the steps of the span that are kept, the first one first
	kept := list[:0]
	now, newest := s.time/w.every, row[w.at]
	for step := max(now, newest) - steps + 1; step <= min(now, newest); step++ {
		if step > now-steps {
			kept = append(kept, place(step))
		}
	}
	counts := row[w.at+1:]
	n := 0.
	for _, i := range kept {
		n += float64(half(counts[i/2], i))
	}
	to = append(to, n)
	for j, input := range k.amounts {
		sums := counts[countWords+sumWords*j:]
		sum, known := 0., 0.
		for _, i := range kept {
			sum += math.Float64frombits(uint64(sums[i]))
			known += float64(half(sums[steps+i/2], i))
		}
		mean := sum / known
		if known == 0 {
			mean = math.NaN()
		}
		to = append(to, sum, mean, ratio(s.values[input].number, mean))
	}
	for i := range k.distinct {
		to = append(to, k.different(row, i, max(s.time-w.length, 0)))
	}
	return to
}

// place returns where a step is among those of a span.
func place(step int64) int { return int((step%steps + steps) % steps) }

// different estimates the number of different values after a time from the cells that are empty (Whang et al., 1990).
func (k *keyed) different(row []int64, i int, after int64) float64 {
	empty := 0
	words := row[k.at.seen+seenWords*i:][:seenWords]
	for c := range cells {
		if int64(half(words[c/2], c))*1000 <= after {
			empty++
		}
	}
	return cells * double.Log(cells/max(float64(empty), .5))
}

// Enter counts the event that has ended, as that of node v, whose number may have been another node's.
func (s *State) Enter(v int32) {
	s.nodes.Grow(max(int(v)+1-s.nodes.Len(), 0))
	node := s.nodes.Row(v)
	s.frozen.Keep(v, node)
	for i := range s.keys {
		k := &s.keys[i]
		node[i] = s.values[k.input].hash
		if node[i] == 0 {
			continue
		}
		row, dropped := k.table.touch(k.row, node[i])
		if dropped {
			s.dropped++
		}
		k.count(s, row, v)
	}
	for i, x := range s.columns {
		node[len(s.keys)+i] = int64(math.Float64bits(x))
	}
}

// count counts an event in the row of its key.
func (k *keyed) count(s *State, row []int64, v int32) {
	row[total]++
	times, at := row[fixed:][:k.at.near], s.time+1
	for i := range times {
		if times[i] > at {
			continue
		}
		times[i], at = at, times[i]
		if k.at.nodes > 0 {
			next := k.node(row, i)
			k.setNode(row, i, v)
			v = next
		}
	}
	for i := range k.at.spans {
		if w := &k.at.spans[i]; w.length == 0 {
			k.countAll(s, row)
		} else {
			k.countSpan(s, row, w)
		}
	}
	for i, input := range k.distinct {
		if h := s.values[input].hash; h != 0 {
			c := int(uint64(h) % cells)
			word := &row[k.at.seen+seenWords*i+c/2]
			setHalf(word, c, max(half(*word, c), uint32(min(max(s.time/1000, 1), math.MaxUint32))))
		}
	}
}

// countAll adds amounts to those of all events, with what rounding takes from the sum (Kahan, 1965). Where all are
// alike, their mean is that amount.
func (k *keyed) countAll(s *State, row []int64) {
	for i, input := range k.amounts {
		x, w := s.values[input].number, row[k.amountAt(i):]
		if math.IsNaN(x) {
			continue
		}
		if w[3] == 0 {
			w[2], w[3] = int64(math.Float64bits(x)), allAlike
		} else if math.Float64frombits(uint64(w[2])) != x {
			w[3] &^= allAlike
		}
		w[3]++
		sum, lost := math.Float64frombits(uint64(w[0])), math.Float64frombits(uint64(w[1]))
		y := x - lost
		next := sum + y
		w[0], w[1] = int64(math.Float64bits(next)), int64(math.Float64bits(next-sum-y))
	}
}

// countSpan counts an event in the step of its time, unless that is before all that are kept.
func (k *keyed) countSpan(s *State, row []int64, w *spanWords) {
	now := s.time / w.every
	counts := row[w.at+1:]
	for step := max(row[w.at]+1, now-steps+1); step <= now; step++ {
		setHalf(&counts[place(step)/2], place(step), 0)
		for j := range k.amounts {
			sums := counts[countWords+sumWords*j:]
			sums[place(step)] = 0
			setHalf(&sums[steps+place(step)/2], place(step), 0)
		}
	}
	row[w.at] = max(row[w.at], now)
	if now <= row[w.at]-steps {
		return
	}
	i := place(now)
	increase(&counts[i/2], i, 1)
	for j, input := range k.amounts {
		if x := s.values[input].number; !math.IsNaN(x) {
			sums := counts[countWords+sumWords*j:]
			sums[i] = int64(math.Float64bits(math.Float64frombits(uint64(sums[i])) + x))
			increase(&sums[steps+i/2], i, 1)
		}
	}
}

// Of returns the values of the columns of node v, as Enter counted it, for one that is sent again, and
// whether it has any. They are valid until the next event begins.
func (s *State) Of(v int32) (columns []float64, has bool) {
	if int(v) >= s.nodes.Len() {
		return nil, false
	}
	row := s.nodes.Row(v)
	for i := range s.columns {
		s.columns[i] = math.Float64frombits(uint64(row[len(s.keys)+i]))
	}
	return s.columns, slices.ContainsFunc(row[:len(s.keys)], func(h int64) bool { return h != 0 })
}

// rowOf returns the row of a key of node v for writing, nil if there is none, or none any more.
func (s *State) rowOf(i int, v int32) []int64 {
	if int(v) >= s.nodes.Len() || s.nodes.Row(v)[i] == 0 {
		return nil
	}
	at := s.keys[i].table.find(s.nodes.Row(v)[i])
	if at == none {
		return nil
	}
	return s.keys[i].table.change(at)
}

// Leave has no more edges go to node v. It still counts: it happened.
func (s *State) Leave(v int32) {
	for i := range s.keys {
		k := &s.keys[i]
		if k.at.nodes == 0 {
			continue
		}
		row := s.rowOf(i, v)
		for j := range k.at.near {
			if row != nil && k.node(row, j) == v {
				k.setNode(row, j, none)
			}
		}
	}
}

// Label counts that the label of node v, a class or negative for none, is another one.
func (s *State) Label(v, was, is int32) {
	for i := range s.keys {
		k := &s.keys[i]
		if k.of.Labels == "" || was == is {
			continue
		}
		row := s.rowOf(i, v)
		if row == nil {
			continue
		}
		for j, class := range [2]int32{was, is} {
			if class >= 0 {
				increase(&row[k.at.labels], 0, 2*j-1)
			}
			if class == k.class {
				increase(&row[k.at.labels], 1, 2*j-1)
			}
		}
	}
}

// Len returns how many keys are kept.
func (s *State) Len() (n int) {
	for i := range s.keys {
		n += s.keys[i].table.rows.Len()
	}
	return n
}

// TakeDropped returns how many keys made room for others since it was last called.
func (s *State) TakeDropped() (n int) {
	n, s.dropped = s.dropped, 0
	return n
}

// State declares the state, of count nodes of which gone says which have left.
func (s *State) State(f *snapshot.Schema, count int, gone func(v int32) bool) {
	n := f.Len("keys.nodes", s.nodes.Len(), count)
	snapshot.Rows(f, "keys.nodes", s.nodes, &s.frozen, nil, n, s.nodes.Width())
	for i := range s.keys {
		k := &s.keys[i]
		k.table.state(f, fmt.Sprintf("keys.%d", i), func(row []int64) error {
			if row[total] < 1 || k.of.Labels != "" && half(row[k.at.labels], 1) > half(row[k.at.labels], 0) {
				return snapshot.Damaged("key %.40q: %d events, and more labels of a class than of all", k.name, row[total])
			}
			for j := range k.at.near {
				if v := k.node(row, j); v != none && (v < 0 || int(v) >= n || gone(v) || s.nodes.Row(v)[i] != row[hash]) {
					return snapshot.Damaged("key %.40q: node %d is not of it", k.name, v)
				}
				at := row[fixed+j]
				if at < 0 || at > latest+1 || j > 0 && at > row[fixed+j-1] {
					return snapshot.Damaged("key %.40q: events in another order than that of time", k.name)
				}
			}
			return nil
		})
	}
}
