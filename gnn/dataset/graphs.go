package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
)

// graphNodes collects the nodes and edges of graphs, which may come in any order.
type graphNodes struct {
	memory *budget
	dim    int
	x      [][]float32 // by node
	graph  []int32     // by node
	ends   [][]uint32  // by graph: numbers of nodes, two for each edge
}

func (g *graphNodes) add(graph int32, x []float32) error {
	if len(g.x) == maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	g.x, g.graph = append(g.x, x), append(g.graph, graph)
	return g.memory.claim(nodeBytes + 4*len(x))
}

func (g *graphNodes) edge(u, v int32) error {
	if g.graph[u] != g.graph[v] {
		return errors.New("an edge between nodes of two graphs")
	}
	of := &g.ends[g.graph[u]]
	*of = append(*of, uint32(u), uint32(v))
	return g.memory.claim(edgeBytes)
}

func (g *graphNodes) finish() (*gnn.Graphs, error) {
	nodes := make([][]gnn.Vector, len(g.ends))
	place := make([]uint32, len(g.x))
	for v, x := range g.x {
		of := &nodes[g.graph[v]]
		place[v] = uint32(len(*of))
		*of = append(*of, gnn.Vector{Dense: x})
	}
	all := gnn.NewGraphs(g.dim)
	for i, x := range nodes {
		if len(x) == 0 {
			return nil, fmt.Errorf("graph %d has no nodes", i)
		}
		for k, v := range g.ends[i] {
			g.ends[i][k] = place[v]
		}
		all.Add(x, g.ends[i])
	}
	return all, nil
}

// openGraphs reads tables of graphs, their nodes and edges, see [Open].
func openGraphs(f folder) (*Dataset, error) {
	d := &Dataset{Name: f.name}
	t := newNodeTable(f.memory, &description{})
	t.ofGraphs = true
	if err := f.records("graphs", t.header, t.row); err != nil {
		return nil, err
	}
	if len(t.labels) == 0 {
		return nil, fmt.Errorf("%s has no graphs", f.path("graphs"))
	}
	n := graphNodes{memory: f.memory, ends: make([][]uint32, len(t.labels))}
	var id, graph int
	var columns []int
	number := make(map[string]int32)
	err := f.records("nodes", func(fields []string) error {
		id, graph = slices.Index(fields, "id"), slices.Index(fields, "graph")
		if id < 0 || graph < 0 || len(fields) == 2 {
			return fmt.Errorf("the header is %.80q, want columns id, graph, and one for each feature", strings.Join(fields, ","))
		}
		for i := range fields {
			if i != id && i != graph {
				columns = append(columns, i)
			}
		}
		n.dim = len(columns)
		return unique(fields)
	}, func(fields []string) error {
		of, known := t.number[keyOf(fields[graph])]
		if !known {
			return fmt.Errorf("graph %.80q is not an id of the table of graphs", fields[graph])
		}
		if _, twice := number[fields[id]]; twice {
			return fmt.Errorf("id %.80q occurs twice: give each node its own", fields[id])
		}
		number[strings.Clone(fields[id])] = int32(len(n.x))
		x := make([]float32, len(columns))
		for k, i := range columns {
			var err error
			if x[k], err = parseFeature(fields[i]); err != nil {
				return fmt.Errorf("feature %d: %w", k, err)
			}
		}
		return errors.Join(n.add(of, x), f.memory.claim(len(fields[id])+96))
	})
	if err != nil {
		return nil, err
	}
	e := edgeTable{memory: f.memory, number: number}
	if err := f.records("edges", e.header, e.row); err != nil {
		return nil, err
	}
	if e.kinds != nil {
		return nil, fmt.Errorf("%s: graphs that are classified have no kinds and weights of edges", f.path("edges"))
	}
	for _, ends := range e.edges {
		if err := n.edge(ends[0], ends[1]); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path("edges"), err)
		}
	}
	d.Time, d.IDs = t.times, idsOf(t.ids)
	if d, err = f.ofGraphs(d, &n, t.labels, t.parts); err != nil {
		return nil, err
	}
	if err := d.setLabelTimes(t.labelTimes); err != nil {
		return nil, fmt.Errorf("%s: %w", f.path("graphs"), err)
	}
	return d, nil
}

func (f folder) ofGraphs(d *Dataset, n *graphNodes, labels []string, parts []Part) (_ *Dataset, err error) {
	if d.Graphs, err = n.finish(); err != nil {
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	}
	d.Dim, d.Features = n.dim, make([]gnn.Vector, len(labels))
	text, err := f.description()
	if err != nil {
		return nil, err
	}
	labels, d.Notes = labelled(labels, &text)
	if d.Classes, d.Labels = classesOf(labels); len(d.Classes) > maxClasses {
		return nil, fmt.Errorf("%s: %d distinct labels, want at most %d", f.dir, len(d.Classes), maxClasses)
	}
	err = text.complete(d, labels)
	if err != nil {
		return nil, err
	}
	if parts != nil && d.Given == nil {
		giveSplit(d, parts, "column split")
	}
	return d, nil
}

// tuName returns what the files of a folder in the TU layout begin with.
func tuName(files fs.FS) (string, bool) {
	found, _ := fs.Glob(files, "*_graph_indicator.txt")
	if len(found) != 1 {
		return "", false
	}
	return strings.TrimSuffix(found[0], "_graph_indicator.txt"), true
}

// openTU reads the TU layout, see [Open]: a line for each node or graph, or "source, target" for
// each edge, all counted from 1.
func openTU(f folder, name string) (*Dataset, error) {
	size := int64(0)
	found, _ := fs.Glob(f.files, name+"_*.txt")
	for _, file := range found {
		if info, err := fs.Stat(f.files, file); err == nil {
			size += info.Size()
		}
	}
	f.memory = newBudget(size)
	lines := func(what string, optional bool, each func(line string) error) error {
		path := name + "_" + what + ".txt"
		file, err := f.files.Open(path)
		if err != nil {
			if optional && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return fmt.Errorf("%s: %w", path, cause(err))
		}
		defer file.Close()
		return scan(file, path, func(line []byte, _ int) error {
			if len(bytes.TrimSpace(line)) == 0 {
				return nil
			}
			return errors.Join(f.memory.claim(len(line)+16), each(string(line)))
		})
	}
	var labels []string
	if err := lines("graph_labels", false, func(line string) error { labels = append(labels, line); return nil }); err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, fmt.Errorf("%s_graph_labels.txt has no graph", name)
	}
	n := &graphNodes{memory: f.memory, ends: make([][]uint32, len(labels))}
	if err := lines("graph_indicator", false, func(line string) error {
		g, err := parseInt(line, 1, len(labels))
		if err != nil {
			return fmt.Errorf("the graph of a node: %w", err)
		}
		return n.add(int32(g-1), nil)
	}); err != nil {
		return nil, err
	}
	if err := f.tuFeatures(n, lines); err != nil {
		return nil, err
	}
	if err := lines("A", false, func(line string) error {
		u, v, err := parseEnds(line, 1, len(n.x))
		if err != nil {
			return err
		}
		return n.edge(u-1, v-1)
	}); err != nil {
		return nil, err
	}
	return f.ofGraphs(&Dataset{Name: name}, n, labels, nil)
}

// tuFeatures reads the attributes of nodes, and their labels as a feature for each. Nodes
// without either have one feature, 1.
func (f folder) tuFeatures(n *graphNodes, lines func(what string, optional bool, each func(line string) error) error) error {
	at, width := 0, 0
	if err := lines("node_attributes", true, func(line string) error {
		if at == len(n.x) {
			return fmt.Errorf("attributes of more than %d nodes", len(n.x))
		}
		var err error
		if n.x[at], err = addFeatures(nil, line); err != nil {
			return err
		}
		if width == 0 {
			width = len(n.x[at])
		}
		if len(n.x[at]) != width {
			return fmt.Errorf("%d attributes of node %d, want %d", len(n.x[at]), at, width)
		}
		at++
		return f.memory.claim(8 * width)
	}); err != nil {
		return err
	}
	var labels []string
	if err := lines("node_labels", true, func(line string) error { labels = append(labels, line); return nil }); err != nil {
		return err
	}
	if at > 0 && at != len(n.x) || labels != nil && len(labels) != len(n.x) {
		return fmt.Errorf("%s: attributes of %d nodes and labels of %d, want %d", f.dir, at, len(labels), len(n.x))
	}
	kinds, number := classesOf(labels)
	if n.dim = width + len(kinds); n.dim == 0 {
		n.dim, kinds, number = 1, []string{""}, make([]int32, len(n.x))
	}
	if n.dim > maxDim {
		return fmt.Errorf("%s: %d features, want at most %d", f.dir, n.dim, maxDim)
	}
	if err := f.memory.claim(4 * n.dim * len(n.x)); err != nil {
		return err
	}
	for v := range n.x {
		n.x[v] = append(n.x[v], make([]float32, len(kinds))...)
		if len(kinds) > 0 && number[v] != Unlabelled {
			n.x[v][width+int(number[v])] = 1
		}
	}
	return nil
}
