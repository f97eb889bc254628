package dataset

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// tu are two graphs in the TU layout: a path of three nodes, and an edge.
var tu = map[string]string{
	"DS_A.txt":               "1, 2\n2, 1\n2,3\n3,2\n4, 5\n5, 4\n",
	"DS_graph_indicator.txt": "1\n1\n1\n2\n2\n",
	"DS_graph_labels.txt":    "1\n-1\n",
}

// TestGraphLayouts: the same graphs are read from the TU layout and from tables, whatever the order of rows
// there, and what is saved is read again.
func TestGraphLayouts(t *testing.T) {
	files := map[string]string{"DS_node_labels.txt": "7\n3\n7\n3\n3\n", "DS_node_attributes.txt": "0.5\n1\n2\n3\n4\n"}
	for name, text := range tu {
		files[name] = text
	}
	d, err := Open(write(t, files))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-1", "1"}; !slices.Equal(d.Classes, want) || !slices.Equal(d.Labels, []int32{1, 0}) || d.Dim != 3 || d.Name != "DS" {
		t.Errorf("classes %q, labels %v, %d features, name %q", d.Classes, d.Labels, d.Dim, d.Name)
	}
	x, ends := d.Graphs.At(0)
	if want := []uint32{0, 1, 1, 2}; !slices.Equal(ends, want) || !slices.Equal(x[1].Dense, []float32{1, 1, 0}) {
		t.Errorf("edges %v and features %v of node 1, want %v and its attribute, then its label", ends, x[1].Dense, want)
	}
	saved := t.TempDir() + "/DS"
	if err := d.Save(saved); err != nil {
		t.Fatal(err)
	}
	again, err := Open(saved)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Graphs, d.Graphs) || !slices.Equal(again.Labels, d.Labels) || !slices.Equal(again.Classes, d.Classes) {
		t.Errorf("saved and read again: %+v, want %+v", again.Graphs, d.Graphs)
	}
	shuffled, err := Open(write(t, map[string]string{
		"graphs.csv": "id,label\n0,1\n1,-1\n",
		"nodes.csv":  "x,graph,id,a,b\n3,1,d,1,0\n0.5,0,a,0,1\n1,0,b,1,0\n4,1,e,1,0\n2,0,c,0,1\n",
		"edges.csv":  "source,target\nb,c\nb,a\nb,b\ne,d\nd,e\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shuffled.Graphs, d.Graphs) {
		t.Errorf("from shuffled tables: %+v, want %+v", shuffled.Graphs, d.Graphs)
	}
	if constant, err := Open(write(t, tu)); err != nil || constant.Dim != 1 || constant.Graphs.X[4].Dense[0] != 1 {
		t.Errorf("nodes without features: %+v (%v), want one feature, 1", constant, err)
	}
}

// TestGraphsRefused: what is wrong in tables of graphs is an error that names it.
func TestGraphsRefused(t *testing.T) {
	good := map[string]string{"graphs.csv": "id,label\ng,a\nh,b\n", "nodes.csv": "id,graph,x\n1,g,0\n2,h,1\n3,h,1\n", "edges.csv": "source,target\n2,3\n"}
	for _, c := range []struct{ file, text, want string }{
		{"graphs.csv", "id,label,x\ng,a,1\nh,b,1\n", "features are those of nodes"},
		{"graphs.csv", "id,label\n", "has no graphs"},
		{"graphs.csv", "id,label\ng,a\nh,b\ni,b\n", "graph 2 has no nodes"},
		{"nodes.csv", "id,graph\n1,g\n", "want columns id, graph, and one for each feature"},
		{"nodes.csv", "id,graph,x\n1,k,0\n", `graph "k" is not an id`},
		{"nodes.csv", "id,graph,x\n1,g,0\n1,h,0\n", "occurs twice"},
		{"nodes.csv", "id,graph,x\n1,g,DE\n2,h,1\n3,h,1\n", "feature 0"},
		{"edges.csv", "source,target\n1,2\n", "between nodes of two graphs"},
		{"edges.csv", "source,target,kind\n2,3,paid\n", "no kinds"},
	} {
		files := map[string]string{}
		for name, text := range good {
			files[name] = text
		}
		files[c.file] = c.text
		if _, err := Open(write(t, files)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v, want one with %q", c.file, c.text, err, c.want)
		}
	}
}

// FuzzOpenGraphs opens any files of graphs, in both layouts.
func FuzzOpenGraphs(f *testing.F) {
	f.Add("id,label\ng,a\nh,b\n", "id,graph,x\n1,g,0\n2,h,1\n3,h,1\n", "source,target\n2,3\n", true)
	f.Add("\n", " ", "", false)
	f.Add(tu["DS_graph_labels.txt"], tu["DS_graph_indicator.txt"], tu["DS_A.txt"], false)
	f.Fuzz(func(t *testing.T, graphs, nodes, edges string, tables bool) {
		files := map[string]string{"graphs.csv": graphs, "nodes.csv": nodes, "edges.csv": edges}
		if !tables {
			files = map[string]string{"DS_graph_labels.txt": graphs, "DS_graph_indicator.txt": nodes, "DS_A.txt": edges, "DS_node_labels.txt": nodes}
		}
		opens(t, func() (*Dataset, error) { return Open(write(t, files)) })
	})
}
