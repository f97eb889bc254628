package dataset

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// readNPZ reads numpy's archive of arrays of one of these layouts. r has the given size
// in bytes.
//
//   - PyTorch Geometric's: x, n×d numbers; edge_index, 2×e integers; y, n integers.
//   - That of the heterophilous graphs: node_features, edges (e×2) and node_labels.
//
// Labels count classes from 0; -1 or nan is none. Optional are node_year or time, n
// numbers; node_ids, n integers or texts; and a split: train_mask, val_mask and
// test_mask, or with an s at the end, n booleans each, or n for each of several splits.
// Other arrays are ignored. For kinds of edges, see marks.
func readNPZ(r io.ReaderAt, size int64, name string) (*Dataset, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, err
	}
	z := npz{members: make(map[string]*zip.File), memory: newBudget(size)}
	for _, f := range archive.File {
		z.members[strings.TrimSuffix(f.Name, ".npy")] = f
	}
	d := &Dataset{Name: name}
	at := slices.IndexFunc(layouts, func(l layout) bool { return z.has(l.sign) })
	if at < 0 {
		return nil, errors.New("neither edge_index (with x and y) nor edges (with node_features and node_labels) is there: save x, edge_index and y (docs/datasets.md)")
	}
	for _, read := range []func(npz, *Dataset) error{layouts[at].graph, layouts[at].labels, npz.marks, npz.times, npz.ids, npz.masks} {
		if err := read(z, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// layout is a set of arrays that hold a graph.
type layout struct {
	sign          string                    // an array that only this layout has
	graph, labels func(npz, *Dataset) error // read its features and edges, and its labels
}

var layouts = []layout{
	{"edge_index", tensors("x", "edge_index", columnEdges), labels("y")},
	{"edges", tensors("node_features", "edges", rowEdges), labels("node_labels")},
}

// npz is an archive of arrays by name.
type npz struct {
	members map[string]*zip.File
	memory  *budget
}

func (z npz) has(name string) bool { return z.members[name] != nil }

// open opens an array of numbers.
func (z npz) open(name string) (*array, error) {
	f := z.members[name]
	if f == nil {
		return nil, fmt.Errorf("no array %s", name)
	}
	a, err := openArray(name, f)
	if err == nil && a.element.isText() {
		a.close()
		return nil, fmt.Errorf("%s holds texts, want numbers", name)
	}
	return a, err
}

// perNode returns an error unless an array has an entry for each of n nodes, or edges, in the shape
// [n] or [n 1].
func (a *array) perNode(n int) error {
	if slices.Equal(a.shape, []int{n}) || slices.Equal(a.shape, []int{n, 1}) {
		return nil
	}
	return fmt.Errorf("%s has shape %v, want [%d], one for each node or edge", a.name, a.shape, n)
}

// eachNode calls each with the number of every node in an array.
func (z npz) eachNode(name string, n int, each func(v float64) error) error {
	a, err := z.open(name)
	if err != nil {
		return err
	}
	defer a.close()
	if err := a.perNode(n); err != nil {
		return err
	}
	for v := range n {
		number, err := a.next()
		if err == nil {
			err = each(number)
		}
		if err != nil {
			return fmt.Errorf("%s, entry %d: %w", name, v, err)
		}
	}
	return a.end()
}

// labels returns a function that reads the nodes' labels. Memory for them is counted
// with the features.
func labels(name string) func(npz, *Dataset) error {
	return func(z npz, d *Dataset) error {
		err := z.eachNode(name, len(d.Features), func(y float64) error {
			if math.IsNaN(y) {
				y = Unlabelled
			}
			class, err := whole(y, Unlabelled, maxClasses-1)
			d.Labels = append(d.Labels, int32(class))
			return err
		})
		d.Classes = numbered(d.Labels)
		return err
	}
}

// marks reads the kinds and weights of edges, edge_type and edge_weight, if one of them is
// there. Types count from 0. One is undirected if all its edges come in both directions, as
// PyTorch Geometric has them, and else directed. Edges without types are undirected.
func (z npz) marks(d *Dataset) error {
	typed, weighted := z.has("edge_type"), z.has("edge_weight")
	if !typed && !weighted {
		return nil
	}
	if err := z.memory.claim(markBytes * len(d.Edges)); err != nil {
		return err
	}
	d.Kinds, d.Marks = gnn.EdgeKinds{{}}, make([]Mark, len(d.Edges))
	for e := range d.Marks {
		d.Marks[e].Weight = 1
	}
	if typed {
		e, most := 0, 0
		if err := z.eachNode("edge_type", len(d.Edges), func(x float64) error {
			kind, err := whole(x, 0, gnn.MaxMeans-1)
			d.Marks[e].Kind, most = uint8(kind), max(most, kind)
			e++
			return err
		}); err != nil {
			return err
		}
		there := make(map[[3]int32]bool, len(d.Edges))
		if err := z.memory.claim(32 * len(d.Edges)); err != nil {
			return err
		}
		for e, ends := range d.Edges {
			there[[3]int32{ends[0], ends[1], int32(d.Marks[e].Kind)}] = true
		}
		d.Kinds = make(gnn.EdgeKinds, most+1)
		for k := range d.Kinds {
			d.Kinds[k].Name = strconv.Itoa(k)
		}
		for e, ends := range d.Edges {
			if k := d.Marks[e].Kind; !there[[3]int32{ends[1], ends[0], int32(k)}] {
				d.Kinds[k].Directed = true
			}
		}
		if d.Kinds.Means() > gnn.MaxMeans {
			return fmt.Errorf("edge_type: more than %d kinds of edges, a directed one counted twice", gnn.MaxMeans)
		}
	}
	if weighted {
		e := 0
		if err := z.eachNode("edge_weight", len(d.Edges), func(w float64) error {
			if !(w >= leastWeight && w <= largestWeight) {
				return fmt.Errorf("%v: want a positive number from %g to %g", w, leastWeight, largestWeight)
			}
			d.Marks[e].Weight = float32(w)
			e++
			return nil
		}); err != nil {
			return err
		}
	}
	d.Kinds, d.Marks = apart(d.Kinds, d.Marks)
	return nil
}

// times reads the nodes' times, if they are there.
func (z npz) times(d *Dataset) error {
	name := "node_year"
	if !z.has(name) {
		if name = "time"; !z.has(name) {
			return nil
		}
	}
	return z.eachNode(name, len(d.Features), func(at float64) error {
		if math.IsNaN(at) || math.IsInf(at, 0) {
			return fmt.Errorf("%v is not a finite number", at)
		}
		d.Time = append(d.Time, at)
		return nil
	})
}

// ids reads the nodes' ids, if they are there.
func (z npz) ids(d *Dataset) error {
	const name = "node_ids"
	if !z.has(name) {
		return nil
	}
	a, err := openArray(name, z.members[name])
	if err != nil {
		return err
	}
	defer a.close()
	n := len(d.Features)
	if err := a.perNode(n); err != nil {
		return err
	}
	if a.element.isText() {
		if d.IDs.Texts, err = a.texts(n, z.memory); err != nil {
			return err
		}
		seen := make(map[string]bool)
		for v, id := range d.IDs.Texts {
			if err := checkID(id); err != nil {
				return fmt.Errorf("%s, entry %d: %w", name, v, err)
			}
			if seen[id] {
				return fmt.Errorf("%s: %.80q occurs twice: give each node its own", name, id)
			}
			seen[id] = true
		}
		return a.end()
	}
	numbers, err := a.integers(n, z.memory)
	if err != nil {
		return err
	}
	seen := make(map[int64]bool)
	for _, id := range numbers {
		if seen[id] {
			return fmt.Errorf("%s: %d occurs twice: give each node its own", name, id)
		}
		seen[id] = true
	}
	d.IDs = numberedIDs(numbers)
	return a.end()
}

// masks reads the split, if it is there: a mask for each part, or several masks in an
// array of one row or one column for each.
func (z npz) masks(d *Dataset) error {
	n := len(d.Features)
	var parts [][]Part
	for _, m := range []struct {
		part  Part
		names []string
	}{
		{InTrain, []string{"train_mask", "train_masks"}},
		{inValid, []string{"val_mask", "val_masks", "valid_mask"}},
		{InTest, []string{"test_mask", "test_masks"}},
	} {
		at := slices.IndexFunc(m.names, z.has)
		if at < 0 {
			continue
		}
		if err := z.mask(m.names[at], m.part, n, &parts); err != nil {
			return err
		}
	}
	if parts != nil {
		d.givenSplits(parts, "masks")
	}
	return nil
}

// mask adds a mask of n nodes, or several, to the splits.
func (z npz) mask(name string, part Part, n int, parts *[][]Part) error {
	a, err := z.open(name)
	if err != nil {
		return err
	}
	defer a.close()
	splits, byNode := 1, true // entries of a node stand together
	switch shape := a.shape; {
	case len(shape) == 1 && shape[0] == n:
	case len(shape) == 2 && shape[0] == n:
		splits, byNode = shape[1], !a.fortran
	case len(shape) == 2 && shape[1] == n:
		splits, byNode = shape[0], a.fortran
	default:
		splits = 0
	}
	if splits < 1 || splits > maxSplits || *parts != nil && len(*parts) != splits {
		return fmt.Errorf("%s has shape %v, want [%d], one for each node, or as many for each of several splits, at most %d", name, a.shape, n, maxSplits)
	}
	if *parts == nil {
		if err := z.memory.claim(splits * n); err != nil {
			return err
		}
		for range splits {
			*parts = append(*parts, make([]Part, n))
		}
	}
	for i := range splits * n {
		in, err := a.integer(0, 1)
		if err != nil {
			return fmt.Errorf("%s, entry %d: %w", name, i, err)
		}
		if in == 0 {
			continue
		}
		s, v := i%splits, i/splits
		if !byNode {
			s, v = i/n, i%n
		}
		p := &(*parts)[s][v]
		if *p != InNone {
			return fmt.Errorf("%s: node %d is in the part %s too", name, v, *p)
		}
		*p = part
	}
	return a.end()
}

// tensors returns a function that reads features from an n×d array, and edges from an
// array that has their ends in the given way.
func tensors(x, edges string, ends edgeEnds) func(npz, *Dataset) error {
	return func(z npz, d *Dataset) error {
		if err := z.dense(d, x); err != nil {
			return err
		}
		return z.edges(d, edges, ends)
	}
}

// dense reads the nodes' features from an n×d array.
func (z npz) dense(d *Dataset, name string) error {
	a, err := z.open(name)
	if err != nil {
		return err
	}
	defer a.close()
	if len(a.shape) != 2 || a.shape[0] == 0 || a.shape[1] == 0 || a.shape[0] > maxNodes || a.shape[1] > maxDim {
		return fmt.Errorf("%s has shape %v, want [nodes features], at most [%d %d]", name, a.shape, maxNodes, maxDim)
	}
	n, dim := a.shape[0], a.shape[1]
	all := features{memory: z.memory}
	if a.fortran {
		err = all.addColumns(a, n, dim)
	} else {
		err = all.addRows(a, n, dim)
	}
	if err != nil {
		return err
	}
	if err := a.end(); err != nil {
		return err
	}
	d.Dim = dim
	if d.Features, d.Sparse, err = all.finish(dim); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (f *features) addRows(a *array, n, dim int) error {
	var row []float32 // grows as the numbers come
	for v := range n {
		row = row[:0]
		for j := range dim {
			x, err := a.feature()
			if err != nil {
				return fmt.Errorf("%s, feature %d of node %d: %w", a.name, j, v, err)
			}
			row = append(row, x)
		}
		if err := f.add(row); err != nil {
			return err
		}
	}
	return nil
}

// addColumns adds n vectors that come column after column. It holds the nonzero
// numbers, and adds the nodes only as the first column is read.
func (f *features) addColumns(a *array, n, dim int) error {
	for j := range dim {
		for v := range n {
			x, err := a.feature()
			if err != nil {
				return fmt.Errorf("%s, feature %d of node %d: %w", a.name, j, v, err)
			}
			if j == 0 {
				if err := f.addSparse(nil, nil); err != nil {
					return err
				}
			}
			if x == 0 {
				continue
			}
			f.x[v].Index, f.x[v].Value = append(f.x[v].Index, uint32(j)), append(f.x[v].Value, x)
			f.nonzero++
			if err := f.memory.claim(12); err != nil {
				return err
			}
		}
	}
	return nil
}

// edgeEnds says how an array has the ends of edges.
type edgeEnds bool

const (
	columnEdges edgeEnds = false // [2 e]: an edge is a column
	rowEdges    edgeEnds = true  // [e 2]: an edge is a row
)

// edges reads the edges from an array with their ends.
func (z npz) edges(d *Dataset, name string, ends edgeEnds) error {
	a, err := z.open(name)
	if err != nil {
		return err
	}
	defer a.close()
	of, count, want := 0, 1, "[2 edges]"
	if ends == rowEdges {
		of, count, want = 1, 0, "[edges 2]"
	}
	if len(a.shape) != 2 || a.shape[of] != 2 || a.shape[count] > maxEdges {
		return fmt.Errorf("%s has shape %v, want %s, at most %d edges", name, a.shape, want, maxEdges)
	}
	m := a.shape[count]
	if err := z.memory.claim(edgeBytes * m); err != nil {
		return err
	}
	list, err := a.rest(0, len(d.Features)-1, z.memory)
	if err != nil {
		return err
	}
	d.Edges = make([][2]int32, m)
	for e := range d.Edges {
		if bool(ends) != a.fortran { // the ends of an edge stand together
			d.Edges[e] = [2]int32{list[2*e], list[2*e+1]}
		} else {
			d.Edges[e] = [2]int32{list[e], list[m+e]}
		}
	}
	return nil
}
