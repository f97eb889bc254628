package keys

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/gvbll/gvbll/gnn/kernel"
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
		k.table = newTable(k.at.width, cmp.Or(k.of.Max, defaultMax))
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

// hashOf returns the hash of a text, never 0. It is of SHA-256, so that nobody can find another text with the hash of an account.
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
