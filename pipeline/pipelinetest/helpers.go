package pipelinetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// RandomStream is a random stream of windows. Nodes have ids of both kinds, are sent once
// or more often, leave and return, and name nodes that are in the graph, arrive later or
// never. Edges are added and removed between such nodes. Labels are early or late, agree or
// disagree with earlier ones, withdraw them, or are of no node.
type RandomStream struct {
	RNG    *rand.Rand
	M      *model.Model
	Number int64
	Nodes  int
	X      map[event.ID][]float32 // the last features of each node, which are sometimes sent again
	Asks   int                    // events in a window that ask for a prediction of a node
}

func NewRandomStream(rng *rand.Rand, m *model.Model) *RandomStream {
	return &RandomStream{RNG: rng, M: m, X: map[event.ID][]float32{}}
}

// ID returns the id of a node of the stream, or of one that may arrive later.
func (l *RandomStream) ID() event.ID {
	v := l.RNG.IntN(l.Nodes + 8)
	switch {
	case v%3 == 0:
		return event.ID{Str: fmt.Sprintf("node-%d", v)}
	case v%7 == 0:
		return event.ID{Num: -int64(v) << 40}
	}
	return event.ID{Num: int64(v)}
}

func (l *RandomStream) origin(topic string) *event.Origin {
	o := &event.Origin{Topic: topic, Partition: l.RNG.Int32N(4), Offset: l.RNG.Int64N(1 << 40)}
	switch l.RNG.IntN(4) {
	case 0:
		o.Key = []byte{}
	case 1:
		o.Value = []byte("value")
	case 2:
		o.Key, o.Headers = []byte("key"), []event.Header{{Key: "a"}, {Value: []byte{}}, {Key: "b", Value: []byte("c")}}
	}
	return o
}

// Window returns the next window.
func (l *RandomStream) Window() *event.Window {
	w := &event.Window{Number: l.Number}
	l.Number++
	for range l.RNG.IntN(12) {
		if l.RNG.IntN(6) == 0 {
			n := event.Node{Origin: l.origin("nodes"), ID: l.ID(), Departed: true, ByKey: l.RNG.IntN(2) == 0}
			w.Nodes = append(w.Nodes, n)
			continue
		}
		if l.RNG.IntN(4) == 0 {
			w.Nodes = append(w.Nodes, l.edges())
			continue
		}
		n := event.Node{Origin: l.origin("nodes"), ID: l.ID(), Context: l.RNG.IntN(5) == 0, Time: l.RNG.Int64N(1000)}
		if n.Dense = l.X[n.ID]; n.Dense == nil || l.RNG.IntN(2) == 0 {
			n.Dense = make([]float32, l.M.Encoder.In())
			for i := range n.Dense {
				n.Dense[i] = float32(l.RNG.NormFloat64())
			}
			l.X[n.ID] = n.Dense
		}
		for range l.RNG.IntN(6) {
			n.Neighbours = append(n.Neighbours, l.ID())
		}
		w.Nodes = append(w.Nodes, n)
		l.Nodes++
	}
	for range l.Asks {
		w.Nodes = append(w.Nodes, event.Node{Origin: l.origin("nodes"), ID: l.ID(), Predict: true, Time: l.RNG.Int64N(1000)})
	}
	for range l.RNG.IntN(9) {
		y := l.RNG.IntN(len(l.M.Classes))
		label := event.Label{Origin: l.origin("labels"), Node: l.ID(), Class: l.M.Classes[y], Time: l.RNG.Int64N(2000)}
		if l.RNG.IntN(2) == 0 {
			label.Class, label.Index = "", int32(y)
		}
		if label.Time%16 == 0 {
			label.Class, label.Index, label.Withdrawn = "", 0, true
		}
		w.Labels = append(w.Labels, label)
	}
	return w
}

// Wide returns a window with the events of several: enough arrivals for two threads.
func (l *RandomStream) Wide() *event.Window {
	w := l.Window()
	for range 19 {
		more := l.Window()
		w.Nodes, w.Labels = append(w.Nodes, more.Nodes...), append(w.Labels, more.Labels...)
	}
	l.Number = w.Number + 1
	return w
}

// edges returns an event of only edges, of which some are removed, and some of these again
// added.
func (l *RandomStream) edges() event.Node {
	if l.RNG.IntN(2) == 0 {
		l.Nodes++ // so that new ids come
	}
	n := event.Node{Origin: l.origin("nodes"), ID: l.ID()}
	if l.RNG.IntN(3) == 0 {
		n.Featureless, n.Remove = true, l.RNG.IntN(3) == 0
		for range 1 + l.RNG.IntN(3) {
			n.Neighbours = append(n.Neighbours, l.ID())
		}
		return n
	}
	for range 1 + l.RNG.IntN(5) {
		e := event.Edge{Source: l.ID(), Target: l.ID(), Remove: l.RNG.IntN(3) == 0}
		if last := len(n.Edges) - 1; last >= 0 && l.RNG.IntN(3) == 0 { // the same edge, or from the same source
			e.Source = n.Edges[last].Source
			if l.RNG.IntN(2) == 0 {
				e.Target = n.Edges[last].Target
			}
		}
		n.Edges = append(n.Edges, e)
	}
	return n
}

// ModelOf returns a model with random weights and an encoder of the given kind and depth.
func ModelOf(t testing.TB, rng *rand.Rand, kind gnn.Kind, depth int) *model.Model {
	t.Helper()
	return ModelOfWidth(t, rng, kind, []int{5, 6, 4, 7}[:depth+1]...)
}

// ModelOfWidth returns a model whose encoder has these widths: the number of features, then
// the outputs of each layer.
func ModelOfWidth(t testing.TB, rng *rand.Rand, kind gnn.Kind, width ...int) *model.Model {
	t.Helper()
	const classes = 3
	weights := func(n int) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() / 2)
		}
		return w
	}
	tensors := map[string]safetensors.Tensor{}
	for l := range len(width) - 1 {
		in, out, name := width[l], width[l+1], fmt.Sprintf("convs.%d.", l)
		matrix := func(suffix string, rows, cols int) {
			tensors[name+suffix] = safetensors.Of(weights(rows*cols), rows, cols)
		}
		bias := func(suffix string) { tensors[name+suffix] = safetensors.Of(weights(out), out) }
		switch kind {
		case gnn.KindSAGE:
			matrix("lin_l.weight", out, in)
			matrix("lin_r.weight", out, in)
			bias("lin_l.bias")
		case gnn.KindGCN:
			matrix("lin.weight", out, in)
			bias("bias")
		case gnn.KindGAT:
			matrix("lin.weight", out, in)
			bias("bias")
			tensors[name+"att_src"] = safetensors.Of(weights(out), 1, 1, out)
			tensors[name+"att_dst"] = safetensors.Of(weights(out), 1, 1, out)
		case gnn.KindGIN:
			matrix("nn.0.weight", out, in)
			bias("nn.0.bias")
			matrix("nn.2.weight", out, out)
			bias("nn.2.bias")
			tensors[name+"eps"] = safetensors.Of(weights(1), 1)
		}
	}
	enc, err := gnn.Load(kind, gnn.ReLU, tensors)
	if err != nil {
		t.Fatal(err)
	}
	m := &model.Model{
		ID:         "random",
		Meta:       model.Meta{Format: model.Format, Encoder: kind, Classes: []string{"a", "b", "c"}},
		Encoder:    enc,
		Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Prior:      posterior.Gaussian{Dim: enc.Out(), Classes: classes},
	}
	for range enc.Out() * classes {
		m.Prior.Mean = append(m.Prior.Mean, rng.NormFloat64()/2)
		m.Prior.Precision = append(m.Prior.Precision, 1+10*rng.Float64())
	}
	return m
}

// AddPool adds a pool of the default heads, without training rows, to a model.
func AddPool(t testing.TB, m *model.Model, sparse bool) {
	t.Helper()
	traits := pool.Traits{Density: 1, Negative: true}
	if sparse {
		traits.Density, traits.Negative, traits.Features = 0.01, false, 1000
	}
	spec := pool.Default(traits)
	p, err := pool.New(spec, m.Shape(), &m.Prior)
	if err != nil {
		t.Fatal(err)
	}
	m.Pool, m.PoolState = &spec, p.AppendState(nil)
}

// memoryBlocks are blocks in memory. Those that were freed can still be claimed, as from a
// checkpoint.
type memoryBlocks struct {
	Blocks [][]byte
	users  []int // of each block: how often it was written or claimed, and not freed
	Fail   error // of the next Write or ReadAt
}

func NewMemoryBlocks() *memoryBlocks { return &memoryBlocks{} }

func (m *memoryBlocks) Write(block []byte) (int64, error) {
	if m.Fail != nil {
		return 0, m.Fail
	}
	m.Blocks, m.users = append(m.Blocks, bytes.Clone(block)), append(m.users, 1)
	return int64(len(m.Blocks) - 1), nil
}

func (m *memoryBlocks) ReadAt(number int64, p []byte, offset int64) error {
	if m.users[number] < 1 {
		panic("a block is read that was freed")
	}
	if m.Fail != nil {
		return m.Fail
	}
	if copy(p, m.Blocks[number][offset:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (m *memoryBlocks) Prefetch(number, offset int64, n int) {
	if m.users[number] < 1 || offset+int64(n) > int64(len(m.Blocks[number])) {
		panic("bytes are announced that do not exist")
	}
}

func (m *memoryBlocks) Free(number int64) {
	if m.users[number]--; m.users[number] < 0 {
		panic("a block is freed twice")
	}
}

func (m *memoryBlocks) Name(number int64) string { return fmt.Sprintf("block in memory %d", number) }

func (m *memoryBlocks) Claim(number int64) (int64, error) {
	if number >= int64(len(m.Blocks)) {
		return 0, errors.New("no such block")
	}
	m.users[number]++
	return int64(len(m.Blocks[number])), nil
}

// InUse returns the number of blocks that were not freed.
func (m *memoryBlocks) InUse() (n int) {
	for _, users := range m.users {
		n += users
	}
	return n
}

// OracleGraph is a naive implementation of the graph of a stream with departures and
// events of edges.
type OracleGraph struct {
	Here  []event.ID
	X     map[event.ID][]float32
	Edges [][2]event.ID // between nodes that are in the graph
	Waits []waitingEdge
	Left  []event.ID // nodes that have left
	Taken int        // edges removed by events
}

// waitingEdge is an edge that an end of has not arrived.
type waitingEdge struct {
	Ends [2]event.ID
	// free means that neither end had arrived when the edge came, and the source has
	// not arrived since. Other edges are of their first end, which is in the graph.
	free bool
}

// leave removes a node, if it is in the graph.
func (v *OracleGraph) leave(id event.ID) {
	if _, here := v.X[id]; !here {
		return
	}
	delete(v.X, id)
	v.Left = append(v.Left, id)
	v.Here = slices.DeleteFunc(v.Here, func(h event.ID) bool { return h == id })
	v.Edges = slices.DeleteFunc(v.Edges, func(e [2]event.ID) bool { return e[0] == id || e[1] == id })
	v.Waits = slices.DeleteFunc(v.Waits, func(w waitingEdge) bool {
		return !w.free && w.Ends[0] == id || w.free && w.Ends[1] == id
	})
}

// add adds an edge, which may have to wait.
func (v *OracleGraph) add(a, b event.ID) {
	_, hasA := v.X[a]
	_, hasB := v.X[b]
	if !hasA && hasB {
		a, b = b, a
	}
	v.Waits = append(v.Waits, waitingEdge{Ends: [2]event.ID{a, b}, free: !hasA && !hasB && a != b})
}

// remove removes an edge, also from those that wait.
func (v *OracleGraph) remove(a, b event.ID) {
	is := func(e [2]event.ID) bool { return e == [2]event.ID{a, b} || e == [2]event.ID{b, a} }
	before := len(v.Edges) + len(v.Waits)
	v.Edges = slices.DeleteFunc(v.Edges, is)
	v.Waits = slices.DeleteFunc(v.Waits, func(w waitingEdge) bool { return is(w.Ends) })
	v.Taken += before - len(v.Edges) - len(v.Waits)
}

// bind adds to the graph the edges that no longer have to wait.
func (v *OracleGraph) bind() {
	v.Waits = slices.DeleteFunc(v.Waits, func(w waitingEdge) bool {
		e := w.Ends
		_, hasA := v.X[e[0]]
		_, hasB := v.X[e[1]]
		if (!hasA || !hasB) && e[0] != e[1] {
			return false
		}
		if e[0] != e[1] && !slices.Contains(v.Edges, e) && !slices.Contains(v.Edges, [2]event.ID{e[1], e[0]}) {
			v.Edges = append(v.Edges, e)
		}
		return true
	})
	for i := range v.Waits {
		if _, here := v.X[v.Waits[i].Ends[0]]; here {
			v.Waits[i].free = false
		}
	}
}

// Step applies a window and returns the nodes to serve, in order.
func (v *OracleGraph) Step(w *event.Window) (served []event.ID) {
	asks := make(map[int]bool) // by index in the window
	gone := make(map[int]bool) // events of nodes that leave after them
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch {
		case n.Departed:
			for _, id := range []event.ID{n.ID, {Str: n.ID.String()}} {
				if id != n.ID && (!n.ByKey || n.ID.Str != "") {
					continue
				}
				v.leave(id)
				for j := range w.Nodes[:i] {
					gone[j] = gone[j] || w.Nodes[j].ID == id
				}
			}
		case !n.OnlyEdges():
			if _, here := v.X[n.ID]; !here {
				v.Here = append(v.Here, n.ID)
				asks[i] = !n.Context
			}
			v.X[n.ID] = n.Dense
		}
	}
	for i := range w.Nodes {
		n := &w.Nodes[i]
		switch _, here := v.X[n.ID]; {
		case n.Departed, !n.OnlyEdges() && gone[i], n.Featureless && !here:
			continue
		case asks[i]:
			served = append(served, n.ID)
		}
		if !n.OnlyEdges() {
			for _, u := range n.Neighbours {
				v.add(n.ID, u)
			}
		}
		for _, e := range n.AllEdges() {
			if e.Remove {
				v.remove(e.Source, e.Target)
			} else {
				v.add(e.Source, e.Target)
			}
		}
		v.bind()
	}
	v.bind()
	return served
}

// Embed encodes the whole graph from scratch.
func (v *OracleGraph) Embed(enc gnn.Encoder) map[event.ID][]float32 {
	place := map[event.ID]int32{}
	var x []gnn.Vector
	for i, id := range v.Here {
		place[id] = int32(i)
		x = append(x, gnn.Vector{Dense: v.X[id]})
	}
	var src, dst []int32
	for _, e := range v.Edges {
		a, b := place[e[0]], place[e[1]]
		src, dst = append(src, a, b), append(dst, b, a)
	}
	z := enc.Encode(x, src, dst)
	all := map[event.ID][]float32{}
	for i, id := range v.Here {
		all[id] = z[i*enc.Out() : (i+1)*enc.Out()]
	}
	return all
}
