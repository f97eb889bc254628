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

// readNPZ reads numpy's archive of PyTorch Geometric's arrays: x, n×d numbers;
// edge_index, 2×e integers; y, n integers. r has the given size in bytes.
//
// Labels count classes from 0; -1 or nan is none, but -1 and 1 alone are two classes. Optional are node_year or time, n
// numbers; node_ids, n integers; and a split: train_mask, val_mask and test_mask, n
// booleans each. Other arrays are ignored. For kinds of edges, see marks.
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
	if !z.has("edge_index") {
		return nil, errors.New("no array edge_index: save x, edge_index and y (docs/datasets.md)")
	}
	for _, read := range []func(npz, *Dataset) error{npz.features, npz.edges, npz.labels, npz.marks, npz.times, npz.ids, npz.masks} {
		if err := read(z, d); err != nil {
			return nil, err
		}
	}
	return d, nil
}

type npz struct {
	members map[string]*zip.File
	memory  *budget
}

func (z npz) has(name string) bool { return z.members[name] != nil }

// read opens an array, and has read read all of it. Errors of each number get the array's name.
func (z npz) read(name string, read func(a *array) error) error {
	f := z.members[name]
	if f == nil {
		return fmt.Errorf("no array %s", name)
	}
	a, err := openArray(name, f)
	if err != nil {
		return err
	}
	defer a.member.Close()
	if err := read(a); err != nil {
		return err
	}
	return a.end()
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
	return z.read(name, func(a *array) error {
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
		return nil
	})
}

// labels reads the nodes' labels. Memory for them is counted with the features.
func (z npz) labels(d *Dataset) error {
	minus, zero, most := 0, false, 0
	gaps := make(map[int]bool) // nodes whose label is NaN
	err := z.eachNode("y", len(d.Features), func(y float64) error {
		class := Unlabelled
		var err error
		if math.IsNaN(y) {
			gaps[len(d.Labels)] = true
		} else {
			class, err = whole(y, Unlabelled, maxClasses-1)
			if class < 0 {
				minus++
			}
		}
		zero, most = zero || class == 0, max(most, class)
		d.Labels = append(d.Labels, int32(class))
		return err
	})
	if d.Classes = numbered(d.Labels); err == nil && !zero && most > 1 {
		d.Notes = append(d.Notes, "no node has label 0, from which labels count here: there is a class 0 without nodes")
	}
	if minus == 0 {
		return err
	}
	if !zero && most == 1 { // a coding of two classes, and no count
		labels := make([]string, len(d.Labels))
		for v, y := range d.Labels {
			if !gaps[v] {
				labels[v] = strconv.Itoa(int(y))
			}
		}
		d.Classes, d.Labels = classesOf(labels)
	} else {
		d.Notes = append(d.Notes, fmt.Sprintf("label -1 of %d nodes is taken for none", minus))
	}
	return err
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

func (z npz) times(d *Dataset) error {
	name := "node_year"
	if !z.has(name) {
		if name = "time"; !z.has(name) {
			return nil
		}
	}
	var units eras
	return z.eachNode(name, len(d.Features), func(at float64) error {
		if math.IsNaN(at) || math.IsInf(at, 0) {
			return fmt.Errorf("%v is not a finite number", at)
		}
		if err := units.add(len(d.Time), formatTime(at), at, false); err != nil {
			return err
		}
		d.Time = append(d.Time, at)
		return nil
	})
}

func (z npz) ids(d *Dataset) error {
	const name = "node_ids"
	if !z.has(name) {
		return nil
	}
	n := len(d.Features)
	return z.read(name, func(a *array) error {
		if err := a.perNode(n); err != nil {
			return err
		}
		if a.kind != 'i' && (a.kind != 'u' || a.width == 8) {
			return fmt.Errorf("%s has the type %c%d, want integers: convert with astype(int), or save a table "+
				"(docs/datasets.md)", name, a.kind, a.width)
		}
		if err := z.memory.claim(24 * n); err != nil { // with the map
			return err
		}
		var numbers []int64
		seen := make(map[int64]bool)
		for range n {
			bits, err := a.bits()
			if err != nil {
				return err
			}
			id := int64(bits)
			if seen[id] {
				return fmt.Errorf("%s: %d occurs twice: give each node its own", name, id)
			}
			seen[id], numbers = true, append(numbers, id)
		}
		d.IDs = numberedIDs(numbers)
		return nil
	})
}

// masks reads the split, if it is there: a mask for each part. Of masks of several splits, a
// column each, the first counts.
func (z npz) masks(d *Dataset) error {
	var parts []Part
	for i, name := range []string{"train_mask", "val_mask", "test_mask"} {
		if !z.has(name) {
			continue
		}
		if parts == nil {
			parts = make([]Part, len(d.Features))
		}
		if err := z.mask(name, InTrain+Part(i), parts); err != nil {
			return err
		}
	}
	if parts != nil {
		giveSplit(d, parts, "masks")
	}
	return nil
}

func (z npz) mask(name string, part Part, parts []Part) error {
	return z.read(name, func(a *array) error {
		n, splits := len(parts), 1
		if len(a.shape) == 2 && a.shape[0] == n && !a.fortran {
			splits = a.shape[1]
		} else if err := a.perNode(n); err != nil {
			return err
		}
		for i := range splits * n {
			in, err := a.integer(0, 1)
			if err != nil {
				return fmt.Errorf("%s, entry %d: %w", name, i, err)
			}
			v := i / splits
			if in == 0 || i%splits > 0 {
				continue
			}
			if parts[v] != InNone {
				return fmt.Errorf("%s: node %d is in the part %s too", name, v, parts[v])
			}
			parts[v] = part
		}
		return nil
	})
}

func (z npz) features(d *Dataset) error {
	const name = "x"
	return z.read(name, func(a *array) (err error) {
		if len(a.shape) != 2 || a.shape[0] == 0 || a.shape[1] == 0 || a.shape[0] > maxNodes || a.shape[1] > maxDim {
			return fmt.Errorf("%s has shape %v, want [nodes features], at most [%d %d]", name, a.shape, maxNodes, maxDim)
		}
		if a.fortran {
			return fmt.Errorf("%s is stored column after column: save numpy.ascontiguousarray(%s)", name, name)
		}
		d.Dim = a.shape[1]
		all := features{memory: z.memory}
		var row []float32 // grows as the numbers come
		for v := range a.shape[0] {
			row = row[:0]
			for j := range d.Dim {
				x, err := a.feature()
				if err != nil {
					return fmt.Errorf("%s, feature %d of node %d: %w", name, j, v, err)
				}
				row = append(row, x)
			}
			if err := all.add(row); err != nil {
				return err
			}
		}
		if d.Features, d.Sparse, err = all.finish(d.Dim); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	})
}

func (z npz) edges(d *Dataset) error {
	const name = "edge_index"
	return z.read(name, func(a *array) error {
		if len(a.shape) != 2 || a.shape[0] != 2 || a.shape[1] > maxEdges {
			return fmt.Errorf("%s has shape %v, want [2 edges], at most %d edges", name, a.shape, maxEdges)
		}
		m := a.shape[1]
		if err := z.memory.claim(edgeBytes * m); err != nil {
			return err
		}
		for i := range 2 * m {
			v, err := a.integer(0, len(d.Features)-1)
			if err != nil {
				return fmt.Errorf("%s, entry %d: %w", name, i, err)
			}
			e, end := i%m, i/m
			if a.fortran { // the ends of an edge stand together
				e, end = i/2, i%2
			}
			if e == len(d.Edges) { // as the numbers come
				d.Edges = append(d.Edges, [2]int32{})
			}
			d.Edges[e][end] = int32(v)
		}
		return nil
	})
}
