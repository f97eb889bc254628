package keys

import (
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel/double"
)

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
