package neighbourhood_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline/neighbourhood"
	"github.com/gvbll/gvbll/posterior/pool"
)

const (
	dim     = 70 // more than a word of bits
	classes = 11 // more than are looked at in one word
)

// means is the number of kinds of edges.
const means = 3

// graph is a plain graph. Neighbours are in the order in which edges were added. Edges have one or
// two of the kinds.
type graph struct {
	near  [][]int32
	kinds [][]gnn.WeighedEdge // by source, of which the kind is AtSource
}

func (g *graph) EachWeighed(v int32, count func(u int32, mean uint8, weight float32)) {
	if int(v) < len(g.kinds) {
		for _, e := range g.kinds[v] {
			count(e.Target, e.AtSource, e.Weight)
		}
	}
}

// drop drops the kinds of the edge between v and u.
func (g *graph) drop(v, u int32) {
	g.kinds[v] = slices.DeleteFunc(g.kinds[v], func(e gnn.WeighedEdge) bool { return e.Target == u })
	g.kinds[u] = slices.DeleteFunc(g.kinds[u], func(e gnn.WeighedEdge) bool { return e.Target == v })
}

func (g *graph) Len() int                   { return len(g.near) }
func (g *graph) Degree(v int32) int         { return len(g.near[v]) }
func (g *graph) Neighbours(v int32) []int32 { return g.near[v] }

// world is a graph that changes at random, and the Features that follow it.
type world struct {
	rng    *rand.Rand
	g      *graph
	sparse bool
	x      []gnn.Vector
	label  []int32
	served [][]float64 // probabilities, nil if none count
	s      *neighbourhood.Features
	spec   pool.Config
}

// newWorld returns an empty graph for sparse or dense features.
func newWorld(seed uint64, sparse bool) *world {
	density := 1.0
	if sparse {
		density = 0.01
	}
	spec := pool.Default(pool.Traits{Density: density, Features: 1000}).WithKinds()
	w := &world{rng: rand.New(rand.NewPCG(seed, 9)), g: &graph{}, sparse: sparse, spec: spec}
	w.s = w.fresh()
	return w
}

// fresh returns empty Features of the graph.
func (w *world) fresh() *neighbourhood.Features {
	return neighbourhood.New(w.g, w.spec, pool.Shape{Classes: classes, Features: dim, Embedding: 2, Means: means}, nil)
}

// vector returns a random vector in sparse or dense form, whichever form the Features
// store.
func (w *world) vector() gnn.Vector {
	share := 1.0
	if w.sparse {
		share = 0.1 * w.rng.Float64()
	}
	var x gnn.Vector
	dense := make([]float32, dim)
	for j := range dense {
		if w.rng.Float64() < share {
			dense[j] = float32(w.rng.NormFloat64())
			x.Index, x.Value = append(x.Index, uint32(j)), append(x.Value, dense[j])
		}
	}
	if w.rng.IntN(2) == 0 {
		return gnn.Vector{Dense: dense}
	}
	return x
}

// step makes a random change.
func (w *world) step() {
	n := int32(len(w.x))
	if n > 0 {
		if v := w.rng.Int32N(n); len(w.g.kinds[v]) > 0 { // another weight
			e := &w.g.kinds[v][w.rng.IntN(len(w.g.kinds[v]))]
			e.Weight = 0.1 + 9*w.rng.Float32()
		}
	}
	switch k := w.rng.IntN(13); {
	case n < 2 || k < 4: // a new node, with edges
		w.arrive()
		w.link(n, w.rng.IntN(6))
		if w.rng.IntN(4) > 0 { // others are context
			w.serve(n)
		}
	case k < 6:
		w.link(w.rng.Int32N(n), 1+w.rng.IntN(4))
	case k < 7:
		v := w.rng.Int32N(n)
		w.x[v] = w.vector()
		w.s.SetFeatures(v, w.x[v])
	case k < 8 && w.rng.IntN(4) == 0:
		v := w.rng.Int32N(n)
		w.remove(append([]int32{v}, w.g.near[v][:min(len(w.g.near[v]), w.rng.IntN(3))]...))
	case k < 9:
		w.unlink(w.rng.Int32N(n), w.rng.IntN(3))
	default:
		w.setLabel(w.rng.Int32N(n), w.rng.Int32N(1+classes)-1)
	}
}

// arrive adds a node without edges.
func (w *world) arrive() {
	v := int32(len(w.x))
	w.g.near, w.x, w.label, w.served = append(w.g.near, nil), append(w.x, w.vector()), append(w.label, neighbourhood.None), append(w.served, nil)
	w.g.kinds = append(w.g.kinds, nil)
	w.s.SetFeatures(v, w.x[v])
}

// serve sets probabilities for v, in 128ths, which the Features keep exactly.
func (w *world) serve(v int32) {
	w.served[v] = make([]float64, classes)
	for i := range 128 {
		w.served[v][w.rng.IntN(1+i%classes)] += 1.0 / 128
	}
	w.s.SetServed(v, w.s.Reader.AppendPart(nil, w.served[v]))
}

// know sets the label of v.
func (w *world) know(v int32) { w.setLabel(v, w.rng.Int32N(classes)) }

// setLabel sets, corrects or withdraws the label of v. While there is one, it takes the place of
// what was served.
func (w *world) setLabel(v, class int32) {
	w.label[v] = class
	w.s.SetLabel(v, w.label[v])
}

// part is what v counts for at its neighbours: one of its class, or half of what was served.
func (w *world) part(v int32) []float64 {
	part := make([]float64, classes)
	if y := w.label[v]; y != neighbourhood.None {
		part[y] = 1
	} else {
		for c, p := range w.served[v] {
			part[c] = p / 2
		}
	}
	return part
}

// link adds at most the given number of edges to v, a third of them to node 0, which
// becomes a hub.
func (w *world) link(v int32, edges int) {
	before := len(w.g.near[v])
	for range edges {
		u := w.rng.Int32N(int32(len(w.x)))
		if w.rng.IntN(3) == 0 {
			u = 0
		}
		if u != v && !slices.Contains(w.g.near[v], u) {
			w.g.near[v], w.g.near[u] = append(w.g.near[v], u), append(w.g.near[u], v)
			for k := range w.rng.Perm(means)[:1+w.rng.IntN(2)] {
				weight := 0.1 + 9*w.rng.Float32()
				w.g.kinds[v] = append(w.g.kinds[v], gnn.WeighedEdge{Source: v, Target: u, AtSource: uint8(k), Weight: weight})
				w.g.kinds[u] = append(w.g.kinds[u], gnn.WeighedEdge{Source: u, Target: v, AtSource: uint8((k + 1) % means), Weight: weight})
			}
		}
	}
	w.s.AddEdges(v, w.g.near[v][before:])
}

// unlink removes at most the given number of edges of v.
func (w *world) unlink(v int32, edges int) {
	var removed [][2]int32
	for range min(edges, len(w.g.near[v])) {
		u := w.g.near[v][w.rng.IntN(len(w.g.near[v]))]
		for _, end := range [][2]int32{{v, u}, {u, v}} {
			w.g.near[end[0]] = slices.DeleteFunc(w.g.near[end[0]], func(x int32) bool { return x == end[1] })
		}
		w.g.drop(v, u)
		removed = append(removed, [2]int32{u, v})
	}
	w.s.RemoveEdges(removed)
}

// remove removes nodes with their edges and labels, and some of their features.
func (w *world) remove(nodes []int32) {
	w.s.Remove(nodes)
	for _, v := range nodes {
		for _, u := range w.g.near[v] {
			w.g.near[u] = slices.DeleteFunc(w.g.near[u], func(x int32) bool { return x == v })
			w.g.drop(v, u)
		}
		w.g.near[v], w.label[v], w.served[v] = nil, neighbourhood.None, nil
		if w.rng.IntN(2) == 0 {
			w.s.ClearFeatures(v)
			w.x[v] = gnn.Vector{}
		}
	}
}

// features returns the features of v in dense form.
func (w *world) features(v int32) []float64 {
	x := make([]float64, dim)
	for j, value := range w.x[v].Dense {
		x[j] = float64(value)
	}
	for k, j := range w.x[v].Index {
		x[j] = float64(w.x[v].Value[k])
	}
	return x
}

// row is what Features compute of a node, in dense form.
type row struct {
	X, S, Labelled, Second, Kinds []float64
	Degree                        int
}

// want returns the row of node v with the given neighbours, kinds of edges and features, computed from the
// whole graph. A node that has not arrived is None, and counts in the degree of each
// neighbour.
func (w *world) want(near []int32, kinds []gnn.WeighedEdge, x []float64, v int32) row {
	own, more := make([]float64, classes), 1.0
	if v != neighbourhood.None {
		own, more = w.part(v), 0
	}

	r := row{X: x, S: make([]float64, dim), Labelled: make([]float64, classes), Second: make([]float64, classes), Kinds: make([]float64, means*classes), Degree: len(near)}
	for _, e := range kinds {
		mean, n := 0.0, 0.0 // weight of the edges of this kind
		for _, f := range kinds {
			if f.AtSource == e.AtSource {
				mean, n = mean+float64(f.Weight), n+1
			}
		}
		mean /= n
		for c, part := range w.part(e.Target) {
			r.Kinds[int(e.AtSource)*classes+c] += float64(e.Weight) / mean * part
		}
	}
	for _, u := range near {
		xu, norm := w.features(u), 1.0
		if w.sparse {
			norm = 0
			for _, value := range xu {
				norm += value * value
			}
			norm = max(math.Sqrt(norm), 1e-300)
		}
		for j, value := range xu {
			r.S[j] += value / norm
		}
		by := 1 / (float64(len(w.g.near[u])) + more)
		for c, part := range w.part(u) {
			r.Labelled[c] += part
			for _, t := range w.g.near[u] {
				r.Second[c] += w.part(t)[c] * by
			}
			r.Second[c] -= own[c] * by
		}
	}
	return r
}

// last returns the last row of rows.
func last(rows *pool.Rows) row {
	r := row{X: numbers(&rows.X), S: numbers(&rows.S), Degree: int(rows.Degree[rows.N-1])}
	for _, n := range rows.Labelled[(rows.N-1)*classes:] {
		r.Labelled = append(r.Labelled, float64(n))
	}
	for _, n := range rows.Second[(rows.N-1)*classes:] {
		r.Second = append(r.Second, float64(n))
	}
	for _, n := range rows.Kinds[(rows.N-1)*means*classes:] {
		r.Kinds = append(r.Kinds, float64(n))
	}
	return r
}

// numbers returns the last row of features, in dense form.
func numbers(f *pool.Features) []float64 {
	x := make([]float64, dim)
	if f.Start == nil {
		for j, value := range f.Dense[len(f.Dense)-dim:] {
			x[j] = float64(value)
		}
		return x
	}
	before := int32(-1)
	for k := f.Start[len(f.Start)-2]; k < f.Start[len(f.Start)-1]; k++ {
		if f.Index[k] <= before {
			panic("indices do not ascend")
		}
		before = f.Index[k]
		x[before] = float64(f.Value[k])
	}
	return x
}

// near compares numbers with a tolerance for sums of float32.
var near = cmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) <= 2e-5*(1+math.Abs(x)) })

// TestFeaturesTwice: a new node may be sent twice before the graph has it, also while there
// are cached sums of hubs.
func TestFeaturesTwice(t *testing.T) {
	w := newWorld(1, true)
	for range 50 {
		v := int32(len(w.x))
		w.arrive()
		if v > 0 {
			w.g.near[v], w.g.near[0] = []int32{0}, append(w.g.near[0], v)
			w.s.AddEdges(v, w.g.near[v])
		}
	}
	var rows pool.Rows
	w.s.Reader.Reset(&rows)
	w.s.Reader.Append(&rows, 0) // caches the sum
	v := int32(len(w.x))
	w.x = append(w.x, w.vector())
	w.s.SetFeatures(v, w.vector())
	w.s.SetFeatures(v, w.x[v])
	w.g.near, w.g.kinds, w.label, w.served = append(w.g.near, nil), append(w.g.kinds, nil), append(w.label, neighbourhood.None), append(w.served, nil)
	w.s.Reader.Append(&rows, v)
	if diff := cmp.Diff(w.want(nil, nil, w.features(v), v), last(&rows), near); diff != "" {
		t.Errorf("the second features count (-want +got)\n%s", diff)
	}
}

// TestOracle: after new and changed features, late, repeated and removed edges, labels,
// nodes that were served or not, and departures, the row of a node is that computed from the whole graph. So are the row
// without one of its edges and that of a node that has not arrived.
func TestOracle(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		for seed := range uint64(2) {
			w := newWorld(seed, sparse)
			var rows pool.Rows
			most := 0 // node 0 leaves now and then
			for i := range 900 {
				w.step()
				most = max(most, w.g.Degree(0))
				if i%3 != 0 {
					continue
				}
				v := w.rng.Int32N(int32(len(w.x)))
				if w.rng.IntN(3) == 0 {
					v = 0 // a hub
				}
				w.s.Reader.Reset(&rows)
				w.s.Reader.Append(&rows, v)
				if diff := cmp.Diff(w.want(w.g.near[v], w.g.kinds[v], w.features(v), v), last(&rows), near); diff != "" {
					t.Fatalf("sparse %t, seed %d, step %d, node %d of degree %d (-want +got)\n%s", sparse, seed, i, v, w.g.Degree(v), diff)
				}
				if d := w.g.Degree(v); d > 0 {
					u := w.g.near[v][w.rng.IntN(d)]
					others := slices.DeleteFunc(slices.Clone(w.g.near[v]), func(x int32) bool { return x == u })
					kinds := slices.DeleteFunc(slices.Clone(w.g.kinds[v]), func(e gnn.WeighedEdge) bool { return e.Target == u })
					want := w.want(others, kinds, w.features(v), v)
					w.s.Reader.AppendTrial(&rows, v, nil, []int32{u}, false)
					if diff := cmp.Diff(want, last(&rows), near); diff != "" {
						t.Fatalf("node %d without its edge to %d (-want +got)\n%s", v, u, diff)
					}
					other := w.rng.Int32N(int32(len(w.x)))
					want = w.want(nil, nil, w.features(other), v)
					w.s.Reader.AppendTrial(&rows, v, &w.x[other], slices.Clone(w.g.near[v]), i%2 == 0)
					if diff := cmp.Diff(want, last(&rows), near); diff != "" {
						t.Fatalf("node %d with other features and without edges (-want +got)\n%s", v, diff)
					}
					w.s.Reader.AppendLike(&rows, 0, w.x[other])
					if diff := cmp.Diff(w.want(w.g.near[v], w.g.kinds[v], w.features(other), v), last(&rows), near); diff != "" {
						t.Fatalf("node %d with other features, like the first row (-want +got)\n%s", v, diff)
					}
					w.s.Reader.AppendTrial(&rows, v, nil, nil, true)
					want = w.want(w.g.near[v], w.g.kinds[v], w.features(v), v)
					for _, counts := range [][]float64{want.Labelled, want.Second, want.Kinds} {
						clear(counts)
					}
					if diff := cmp.Diff(want, last(&rows), near); diff != "" {
						t.Fatalf("node %d without labels (-want +got)\n%s", v, diff)
					}
				}
				w.x = append(w.x, w.vector())
				n := int32(len(w.x) - 1)
				edges := slices.Clone(w.g.kinds[v]) // as many in either direction
				for i := range edges {
					if e := &edges[i]; i%2 == 0 {
						e.Source = n
					} else {
						*e = gnn.WeighedEdge{Source: e.Target, Target: n, AtTarget: e.AtSource, Weight: e.Weight}
					}
				}
				want := w.want(w.g.near[v], w.g.kinds[v], w.features(n), neighbourhood.None)
				w.s.Reader.AppendArrival(&rows, w.x[n], w.g.near[v], edges)
				if diff := cmp.Diff(want, last(&rows), near); diff != "" {
					t.Fatalf("a node that would arrive (-want +got)\n%s", diff)
				}
				w.x = w.x[:n]
			}
			if most < 40 {
				t.Errorf("node 0 has %d neighbours, want at least 40 for a hub", most)
			}
		}
	}
}

// TestDegreeAlone: heads that read the degree and no features have no features summed.
func TestDegreeAlone(t *testing.T) {
	g := &graph{near: [][]int32{{1, 2}, {0}, {0}}}
	degree := pool.HeadConfig{Name: "degree", Wide: &pool.Wide{Blocks: []pool.Block{pool.LogDegree}, Scale: pool.Standard}}
	s := neighbourhood.New(g, pool.Config{Heads: []pool.HeadConfig{degree}}, pool.Shape{Classes: classes, Features: dim}, nil)
	for v := range g.near {
		s.SetFeatures(int32(v), gnn.Vector{Dense: make([]float32, dim)})
	}
	var rows pool.Rows
	s.Reader.Reset(&rows)
	s.Reader.Append(&rows, 0)
	s.Reader.AppendArrival(&rows, gnn.Vector{Dense: make([]float32, dim)}, []int32{1}, nil)
	if diff := cmp.Diff(pool.Rows{N: 2, Degree: []int32{2, 1}}, rows, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("rows (-want +got)\n%s", diff)
	}
}

// TestState: the restored rows are those of the moment when saving began, although features
// changed while the state was read. A state for another number of nodes is an error.
func TestState(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		w := newWorld(4, sparse)
		for range 800 {
			w.step()
		}
		want := allRows(w)
		labels, served := slices.Clone(w.label), slices.Clone(w.served)
		saving := snapshot.Saving()
		w.s.State(saving, len(w.x))
		stream, err := safetensors.NewStream(nil, saving.Parts())
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		edges := make([][]int32, len(w.g.near))
		for v := range edges {
			edges[v] = slices.Clone(w.g.near[v])
		}
		for {
			if _, err := io.CopyN(&b, stream, 100); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			v := w.rng.Int32N(int32(len(w.x)))
			w.x[v] = w.vector()
			w.s.SetFeatures(v, w.x[v])
			if w.label[v] == neighbourhood.None {
				w.serve(v)
				if w.rng.IntN(2) == 0 {
					w.know(v)
				}
			}
		}
		saving.Release()
		w.g.near = edges
		file, err := safetensors.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		w.s = w.fresh()
		restoring := snapshot.Restoring(file)
		w.s.State(restoring, len(labels))
		if err := restoring.Finish(); err != nil {
			t.Fatal(err)
		}
		for v, y := range labels {
			if y != neighbourhood.None {
				w.s.SetLabel(int32(v), y)
			}
		}
		w.label, w.served = labels, served
		if diff := cmp.Diff(want, allRows(w)); diff != "" {
			t.Errorf("sparse %t: restored rows (-want +got)\n%s", sparse, diff)
		}
		file, err = safetensors.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		restoring = snapshot.Restoring(file)
		w.fresh().State(restoring, len(labels)-1)
		if err := restoring.Finish(); !errors.Is(err, safetensors.ErrDamaged) {
			t.Errorf("restoring for one node less: got %v, want ErrDamaged", err)
		}
	}
}

// allRows returns the rows of all nodes.
func allRows(w *world) *pool.Rows {
	rows := &pool.Rows{}
	w.s.Reader.Reset(rows)
	for v := range w.x {
		w.s.Reader.Append(rows, int32(v))
	}
	return rows
}

// TestReaders: readers that append rows at once, hubs' too, append what one appends alone.
func TestReaders(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		w := newWorld(7, sparse)
		var nodes []int32
		for range 400 {
			w.step()
		}
		for v := range w.x {
			nodes = append(nodes, int32(v))
		}
		w.link(0, 60)
		w.s.Ready(nodes)
		var read [2]pool.Rows
		var group sync.WaitGroup
		for i, r := range []*neighbourhood.Reader{&w.s.Reader, w.s.NewReader()} {
			group.Go(func() {
				r.Reset(&read[i])
				for _, v := range nodes {
					r.Append(&read[i], v)
				}
			})
		}
		group.Wait()
		want := *allRows(w)
		for i := range read {
			if diff := cmp.Diff(want, read[i]); diff != "" {
				t.Errorf("sparse %t, reader %d (-alone +at once)\n%s", sparse, i, diff)
			}
		}
		if d := w.g.Degree(0); d < 40 {
			t.Errorf("node 0 has %d neighbours, want at least 40 for a hub", d)
		}
	}
}

// TestFillBatch: a batch has each edge between its nodes once. Batch by batch, a sweep replays every
// labelled node that is not in the batch in turn, each as it is now.
func TestFillBatch(t *testing.T) {
	w := newWorld(5, true)
	for range 1000 {
		w.step()
	}
	var batch []int32
	for v := range w.x {
		if w.label[v] == neighbourhood.None && w.rng.IntN(2) == 0 {
			batch = append(batch, int32(v))
			w.know(int32(v))
		}
	}
	var b pool.Batch
	w.s.FillBatch(&b, batch)
	pairs := 0
	for i, v := range batch {
		for _, u := range batch[i+1:] {
			if slices.Contains(w.g.near[v], u) {
				pairs++
			}
		}
	}
	if len(b.Pairs) != pairs || pairs == 0 {
		t.Errorf("%d pairs, want %d", len(b.Pairs), pairs)
	}
	var known []int32
	for v, y := range w.label {
		if y != neighbourhood.None {
			known = append(known, int32(v))
		}
	}
	if b.Known != len(known) {
		t.Errorf("%d nodes with a label, want %d", b.Known, len(known))
	}
	var want, got []float32 // labels and counts around the nodes
	for range 2 {           // once, and again from the beginning
		for _, v := range known {
			if !slices.Contains(batch, v) {
				rows := pool.Rows{}
				w.s.Reader.Reset(&rows)
				w.s.Reader.Append(&rows, v)
				want = append(append(want, float32(w.label[v])), rows.Labelled...)
			}
		}
	}
	for len(got) <= len(want)/2 {
		for i, y := range b.ReplayLabels {
			got = append(append(got, float32(y)), b.Replay.Labelled[i*classes:(i+1)*classes]...)
		}
		w.s.FillBatch(&b, batch)
	}
	if diff := cmp.Diff(want[:len(got)], got); diff != "" {
		t.Errorf("replayed rows (-want +got)\n%s", diff)
	}
}

// star is a graph in which nodes 1 to n are neighbours of node 0, and of no other.
type star struct{ leaves, hub []int32 }

func (s *star) Len() int { return 1 + len(s.leaves) }

func (s *star) EachWeighed(int32, func(u int32, mean uint8, weight float32)) {}

func (s *star) Degree(v int32) int { return len(s.Neighbours(v)) }

func (s *star) Neighbours(v int32) []int32 {
	if v == 0 {
		return s.leaves
	}
	return s.hub
}

// TestMillionNeighbours: the sums over a million equal neighbours, which came in two parts,
// are right to 10⁻⁶.
func TestMillionNeighbours(t *testing.T) {
	const n, x = 1_000_000, 0.1
	for _, density := range []float64{0.01, 1} {
		g := &star{hub: []int32{0}}
		spec := pool.Default(pool.Traits{Density: density, Features: 1000})
		s := neighbourhood.New(g, spec, pool.Shape{Classes: classes, Features: 2, Embedding: 2}, nil)
		s.SetFeatures(0, gnn.Vector{Dense: []float32{1, 0}})
		var rows pool.Rows
		for range 2 {
			for range n / 2 {
				v := int32(g.Len())
				s.SetFeatures(v, gnn.Vector{Dense: []float32{x, 3 * x}})
				g.leaves = append(g.leaves, v)
				s.AddEdges(v, g.hub)
				s.SetLabel(v, v%classes)
			}
			s.Reader.Reset(&rows)
			s.Reader.Append(&rows, 0)
		}
		// Sparse features are scaled to unit length.
		want := []float64{n * float64(float32(x)), n * float64(float32(3*x))}
		if density < 1 {
			want = []float64{n / math.Sqrt(10), n * 3 / math.Sqrt(10)}
		}
		sums := rows.S.Dense
		if density < 1 {
			sums = rows.S.Value
		}
		for j, sum := range sums {
			if off := math.Abs(float64(sum)/want[j] - 1); off > 1e-6 {
				t.Errorf("density %v: the sum of feature %d is %v, want %v: off by %.1e", density, j, sum, want[j], off)
			}
		}
		for c, labelled := range rows.Labelled {
			if math.Abs(float64(labelled)-n/classes) > 1 {
				t.Errorf("%v neighbours of class %d, want a third of %d", labelled, c, n)
			}
		}
		// Two steps from a leaf are the other leaves.
		s.Reader.Reset(&rows)
		s.Reader.Append(&rows, 1)
		for c, second := range rows.Second {
			if math.Abs(float64(second)-1.0/classes) > 1e-5 {
				t.Errorf("second-order count %v of class %d, want 1/%d", second, c, classes)
			}
		}
	}
}
