package dataset

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

type edgeTable struct {
	memory         *budget
	number         map[string]int32 // a node's number by its id
	source, target int              // columns
	edges          [][2]int32

	// Columns of kinds, -1 where there is none, and what they hold.
	kind, weight, directed int
	kinds                  gnn.EdgeKinds // in the order in which they come
	marks                  []Mark
}

func (e *edgeTable) header(fields []string) error {
	column := func(name string) int { return slices.Index(fields, name) }
	e.source, e.target = column("source"), column("target")
	e.kind, e.weight, e.directed = column("kind"), column("weight"), column("directed")
	if e.source < 0 || e.target < 0 {
		return fmt.Errorf("the header is %.80q, want columns source and target", strings.Join(fields, ","))
	}
	return nil
}

func (e *edgeTable) row(fields []string) error {
	u, known := e.number[keyOf(fields[e.source])]
	if !known {
		return fmt.Errorf("source %.80q is not an id of the node table", fields[e.source])
	}
	v, known := e.number[keyOf(fields[e.target])]
	if !known {
		return fmt.Errorf("target %.80q is not an id of the node table", fields[e.target])
	}
	if len(e.edges) == maxEdges {
		return fmt.Errorf("more than %d edges", maxEdges)
	}
	if err := e.mark(fields); err != nil {
		return err
	}
	e.edges = append(e.edges, [2]int32{u, v})
	return e.memory.claim(edgeBytes)
}

// mark reads kind, weight and directed, if one of the columns is there.
func (e *edgeTable) mark(fields []string) error {
	if max(e.kind, e.weight, e.directed) < 0 {
		return nil
	}
	field := func(column int) string {
		if column < 0 {
			return ""
		}
		return fields[column]
	}
	w, err := strconv.ParseFloat(cmp.Or(field(e.weight), "1"), 32)
	if err != nil || !(float32(w) >= leastWeight && float32(w) <= largestWeight) {
		return fmt.Errorf("column weight: %.40q: want a positive number from %g to %g, or nothing for 1", field(e.weight),
			leastWeight, largestWeight)
	}
	directed, err := strconv.ParseBool(cmp.Or(field(e.directed), "false"))
	if err != nil {
		return fmt.Errorf("column directed: %.40q: want true, false or nothing", field(e.directed))
	}
	name := field(e.kind)
	if text, ok := unquoted(name); ok {
		name = text
	}
	if len(name) > maxKind {
		return fmt.Errorf("column kind: a name of %d bytes, at most %d are allowed", len(name), maxKind)
	}
	k := slices.IndexFunc(e.kinds, func(kind gnn.EdgeKind) bool { return kind.Name == name })
	if k < 0 {
		k = len(e.kinds)
		e.kinds = append(e.kinds, gnn.EdgeKind{Name: strings.Clone(name), Directed: directed})
		if e.kinds.Means() > gnn.MaxMeans {
			return fmt.Errorf("column kind: more than %d kinds of edges, a directed one counted twice", gnn.MaxMeans)
		}
	}
	if e.kinds[k].Directed != directed {
		return fmt.Errorf("column directed: edges of kind %.40q are directed in some lines and not in others", name)
	}
	e.marks = append(e.marks, Mark{Kind: uint8(k), Weight: float32(w)})
	return e.memory.claim(markBytes)
}

// Bounds of a weight, as those of events.
const leastWeight, largestWeight = 1e-9, 1e9

const (
	maxKind   = 256 // bytes in the name of a kind
	markBytes = 8   // memory of a [Mark]
)

// Mark says what the edges are, by the kinds of a list. Those without edges are left out, the others in order of their names.
func (d *Dataset) Mark(kinds gnn.EdgeKinds, marks []Mark) {
	used := make([]bool, len(kinds))
	for _, m := range marks {
		used[m.Kind] = true
	}
	var sorted gnn.EdgeKinds
	for k, kind := range kinds {
		if used[k] {
			sorted = append(sorted, kind)
		}
	}
	slices.SortFunc(sorted, func(a, b gnn.EdgeKind) int { return cmp.Compare(a.Name, b.Name) })
	for i := range marks {
		marks[i].Kind = uint8(slices.Index(sorted, kinds[marks[i].Kind]))
	}
	d.Kinds, d.Marks = apart(sorted, marks)
}

// apart returns the kinds and marks, or nil if they tell no edges apart: all are of one
// undirected kind and of weight 1, which is a graph without kinds.
func apart(kinds gnn.EdgeKinds, marks []Mark) (gnn.EdgeKinds, []Mark) {
	if kinds.Means() < 2 && !slices.ContainsFunc(marks, func(m Mark) bool { return m.Weight != 1 }) {
		return nil, nil
	}
	return kinds, marks
}
