package dataset

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/keys"
)

// Dataset is a graph of n nodes, numbered from 0, of which some or all have labels. See
// the package comment for what always holds.
type Dataset struct {
	Name     string
	IDs      IDs
	Features []gnn.Vector // n, all sparse or all dense
	Dim      int          // of each of Features
	Sparse   bool
	Labels   []int32       // n, indices of Classes, or Unlabelled
	Classes  []string      // names; some may have no nodes
	Kinds    gnn.EdgeKinds // of the edges, or nil: then edges have no weights
	Marks    []Mark        // by edge, if there are kinds
	Edges    [][2]int32    // as stored: direction, repeats and loops are kept
	Time     []float64     // n, in any unit, or nil: the order in which nodes arrive
	Context  []bool        // n, or nil for none: in the graph before the stream, never predicted; Unlabelled
	// LabelTime is when each node's label comes, n, in the unit of Time: not before it, [Never], or NaN
	// of a node without a label; nil where that is not known.
	LabelTime []float64
	Given     *GivenSplit // the split that comes with the data set, or nil

	// Table has the attributes of the nodes by name, for a table that is not one of plain
	// numbers. Features are then zero vectors until [Dataset.Encoded] made them.
	Table  []attributes.Column
	Notes  []string           // what was guessed of the files and is not certain, a line each, for people
	Schema *attributes.Schema // that made the features of Table, or nil

	// Keys make attributes and edges of events of the same account, and the like; nil for none. Where
	// [Dataset.Encoded] made them, Raw is the data set before.
	Keys keys.Declared
	Raw  *Dataset

	// Graphs, unless nil, are what has the ids, labels and times in place of nodes. Features are
	// zero vectors, Dim is that of the nodes of graphs, and there are no Edges.
	Graphs *gnn.Graphs
}

// Encoded returns the data set with features from its table of attributes, by a schema
// learned from the nodes that train. A data set without such a table is returned as it is.
func (d *Dataset) Encoded(train []int32) (*Dataset, error) {
	if d.Table == nil {
		return d, nil
	}
	d, err := d.keyed()
	if err != nil {
		return nil, err
	}
	times := d.milliseconds()
	schema, err := attributes.Learn(d.Table, times, train)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.Name, err)
	}
	schema.Keys = d.Keys
	encoded := *d
	encoded.Schema, encoded.Dim, encoded.Sparse = schema, schema.Width(), schema.Sparse
	encoded.Features = make([]gnn.Vector, len(d.Features))
	e := attributes.NewEncoder(schema)
	for v := range encoded.Features {
		if encoded.Features[v], err = attributes.EncodeRow(e, d.Table, times, v); err != nil {
			return nil, fmt.Errorf("%s: %w", d.Name, err)
		}
	}
	return &encoded, nil
}

// noteTimes notes that there are times of attributes without an age, because those of the nodes are in another unit.
func noteTimes(d *Dataset) {
	isTime := func(c attributes.Column) bool { return c.Kind == attributes.Time }
	if i := slices.IndexFunc(d.Table, isTime); i >= 0 && d.Time != nil && d.milliseconds() == nil {
		d.Notes = append(d.Notes, fmt.Sprintf("column %.40q has no age, because the column time is not in milliseconds "+
			"since 1970: give that, or dates", d.Table[i].Name))
	}
}

// milliseconds returns the times of all nodes, or nil if one is not in milliseconds.
func (d *Dataset) milliseconds() []int64 {
	var times []int64
	for v := range d.Time {
		at, ok := d.Milliseconds(int32(v))
		if !ok {
			return nil
		}
		times = append(times, at)
	}
	return times
}

// Milliseconds returns the time of a node if it can be milliseconds since 1970: after 1973.
// Other times, such as years, have another unit.
func (d *Dataset) Milliseconds(v int32) (at int64, ok bool) {
	if d.Time == nil || !attributes.IsMillis(d.Time[v]) {
		return 0, false
	}
	return int64(d.Time[v]), true
}

// Mark is what an edge is beside its ends.
type Mark struct {
	Kind   uint8   // index of Kinds
	Weight float32 // positive
}

// Unlabelled is the label of a node that has none. Such a node is part of the graph and
// of the stream, but never trains and is never scored.
const Unlabelled = -1

// Labelled returns the number of nodes that have a label.
func (d *Dataset) Labelled() (n int) {
	for _, y := range d.Labels {
		if y != Unlabelled {
			n++
		}
	}
	return n
}

// ClassOf returns the name of a node's class, "" if it is unlabelled.
func (d *Dataset) ClassOf(v int32) string {
	if y := d.Labels[v]; y != Unlabelled {
		return d.Classes[y]
	}
	return ""
}

// neighbours returns each node's distinct neighbours in ascending order, with edges
// taken as undirected and without loops.
func (d *Dataset) neighbours() [][]int32 {
	adj := make([][]int32, len(d.Features))
	for _, e := range d.Edges {
		if e[0] != e[1] {
			adj[e[0]] = append(adj[e[0]], e[1])
			adj[e[1]] = append(adj[e[1]], e[0])
		}
	}
	for v := range adj {
		slices.Sort(adj[v])
		adj[v] = slices.Compact(adj[v])
	}
	return adj
}

// Arrivals returns, for nodes that arrive batch after batch, the neighbours
// that each can name on arrival: those of earlier batches and of its own. An
// edge within a batch is named by the later of its two nodes. The result is
// indexed by node; nodes in no batch have nil.
func (d *Dataset) Arrivals(batches [][]int32) [][]int32 {
	order := make([]int, len(d.Features))
	n := 0
	for _, b := range batches {
		for _, v := range b {
			n++
			order[v] = n
		}
	}
	adj := d.neighbours()
	for v := range adj {
		adj[v] = slices.DeleteFunc(adj[v], func(u int32) bool { return order[u] == 0 || order[u] > order[v] })
		if order[v] == 0 {
			adj[v] = nil
		}
	}
	return adj
}

// Subgraph returns the edges between the given nodes, each once in both directions,
// with nodes renumbered by their places in the list.
func (d *Dataset) Subgraph(nodes []int32) (src, dst []int32) {
	place := make(map[int32]int32, len(nodes))
	for i, v := range nodes {
		place[v] = int32(i)
	}
	adj := d.neighbours()
	for i, v := range nodes {
		for _, u := range adj[v] {
			if j, in := place[u]; in {
				src, dst = append(src, j), append(dst, int32(i))
			}
		}
	}
	return src, dst
}

// MarkedSubgraph is Subgraph for edges with kinds: those between the given nodes in both
// directions, with the mean of the target in which each counts, and its weight. Of equal
// edges of one kind, the last counts.
func (d *Dataset) MarkedSubgraph(nodes []int32) (src, dst []int32, mean []uint8, weight []float32) {
	place := make(map[int32]int32, len(nodes))
	for i, v := range nodes {
		place[v] = int32(i)
	}
	type key struct {
		u, v int32
		mean int
	}
	at := make(map[key]int)
	add := func(u, v int32, k int, w float32) {
		if e, again := at[key{u, v, k}]; again {
			weight[e] = w
			return
		}
		at[key{u, v, k}] = len(src)
		src, dst, mean, weight = append(src, u), append(dst, v), append(mean, uint8(k)), append(weight, w)
	}
	for e, ends := range d.Edges {
		u, hasU := place[ends[0]]
		v, hasV := place[ends[1]]
		if !hasU || !hasV || u == v {
			continue
		}
		m := d.Marks[e]
		atSource, atTarget, _ := d.Kinds.Of(d.Kinds[m.Kind].Name)
		add(v, u, atSource, m.Weight)
		add(u, v, atTarget, m.Weight)
	}
	return src, dst, mean, weight
}

// EdgesBetween returns the numbers of the edges between two nodes, by the nodes in ascending
// order, as they are stored.
func (d *Dataset) EdgesBetween() map[[2]int32][]int {
	between := make(map[[2]int32][]int)
	for e, ends := range d.Edges {
		ends[0], ends[1] = min(ends[0], ends[1]), max(ends[0], ends[1])
		between[ends] = append(between[ends], e)
	}
	return between
}
