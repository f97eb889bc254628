package dataset

import (
	"errors"
	"fmt"
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
