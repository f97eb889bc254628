package dataset

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestGraphLayouts: graphs are read from their tables whatever the order of rows, and what is saved is read again.
func TestGraphLayouts(t *testing.T) {
	d, err := Open(write(t, map[string]string{
		"graphs.csv": "id,label\n0,1\n1,-1\n",
		"nodes.csv":  "id,graph,x,a,b\na,0,0.5,0,1\nb,0,1,1,0\nc,0,2,0,1\nd,1,3,1,0\ne,1,4,1,0\n",
		"edges.csv":  "source,target\na,b\nb,a\nb,c\nc,b\nd,e\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"-1", "1"}; !slices.Equal(d.Classes, want) || !slices.Equal(d.Labels, []int32{1, 0}) || d.Dim != 3 {
		t.Errorf("classes %q, labels %v, %d features", d.Classes, d.Labels, d.Dim)
	}
	x, ends := d.Graphs.At(0)
	if want := []uint32{0, 1, 1, 2}; !slices.Equal(ends, want) || !slices.Equal(x[1].Dense, []float32{1, 1, 0}) {
		t.Errorf("edges %v and features %v of node 1, want %v and 1, 1, 0", ends, x[1].Dense, want)
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

// FuzzOpenGraphs opens any tables of graphs.
func FuzzOpenGraphs(f *testing.F) {
	f.Add("id,label\ng,a\nh,b\n", "id,graph,x\n1,g,0\n2,h,1\n3,h,1\n", "source,target\n2,3\n")
	f.Add("\n", " ", "")
	f.Fuzz(func(t *testing.T, graphs, nodes, edges string) {
		files := map[string]string{"graphs.csv": graphs, "nodes.csv": nodes, "edges.csv": edges}
		opens(t, func() (*Dataset, error) { return Open(write(t, files)) })
	})
}
