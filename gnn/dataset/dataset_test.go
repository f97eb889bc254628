package dataset

import (
	"bytes"
	"compress/gzip"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestRealDataSets opens the public graphs, if they are there, and compares their sizes
// with the published ones. Those with times are cut in order of time.
func TestRealDataSets(t *testing.T) {
	for _, c := range []struct {
		name                                    string
		nodes, edges, dim, train, stream, steps int
		classes                                 []int
		from, to                                float64 // times of the stream
	}{
		{name: "cora", nodes: 2708, edges: 5278, dim: 1433, train: 135, stream: 2573, steps: 30},
		{name: "cornell", nodes: 183, edges: 298, dim: 1703, train: 36, stream: 147, steps: 20, classes: []int{38, 16, 30, 82, 17}},
		{name: "texas", nodes: 183, edges: 325, dim: 1703, train: 36, stream: 147, steps: 20},
		{name: "wisconsin", nodes: 251, edges: 515, dim: 1703, train: 50, stream: 201, steps: 20},
		{name: "squirrel_f", nodes: 2223, edges: 46_998, dim: 2089, train: 222, stream: 2001, steps: 50},
		{name: "minesweeper", nodes: 10_000, edges: 39_402, dim: 7, train: 1000, stream: 9000, steps: 50},
		{name: "scotus", nodes: 7046, edges: 74_269, dim: 2318, train: 704, stream: 6342, steps: 50, from: 1952, to: 2001},
		{name: "patent", nodes: 12_214, edges: 41_916, dim: 1, train: 1221, stream: 10_993, steps: 50, from: 9, to: 99},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join("..", "..", "..", "shared", "datasets", c.name)
			if _, err := os.Stat(dir); err != nil {
				t.Skip("the public data sets are not here")
			}
			d, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Features) != c.nodes || len(d.Edges) != c.edges || d.Dim != c.dim || d.Labelled() != c.nodes {
				t.Fatalf("%d nodes, %d edges, %d features, %d labels", len(d.Features), len(d.Edges), d.Dim, d.Labelled())
			}
			count := make([]int, len(d.Classes))
			for _, y := range d.Labels {
				count[y]++
			}
			if c.classes != nil && !slices.Equal(count, c.classes) {
				t.Errorf("class counts %v, want %v", count, c.classes)
			}
			s, err := d.Cut(Cut{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			stream := slices.Concat(s.Steps...)
			if len(s.Train) != c.train || len(stream) != c.stream || len(s.Steps) != c.steps {
				t.Errorf("%d training nodes, %d in %d steps; want %d, %d and %d", len(s.Train), len(stream), len(s.Steps), c.train, c.stream, c.steps)
			}
			if c.to == 0 {
				return
			}
			var times []float64
			for _, v := range stream {
				times = append(times, d.Time[v])
			}
			if first, last := times[0], times[len(times)-1]; !slices.IsSorted(times) || first != c.from || last != c.to {
				t.Errorf("the stream goes from %v to %v, sorted: %t, want %v to %v", first, last, slices.IsSorted(times), c.from, c.to)
			}
			for _, v := range s.Train {
				if d.Time[v] > c.from {
					t.Errorf("training node %d is of the time %v", v, d.Time[v])
				}
			}
		})
	}
}

// TestSplit: a split draws the same share of every class for training, at least one node of
// each, and divides the other nodes into steps of about equal size. It is a function of the
// seed.
func TestSplit(t *testing.T) {
	d := &Dataset{Classes: []string{"a", "b", "c"}}
	for i := range 100 {
		y := int32(0)
		switch {
		case i >= 98:
			y = 2
		case i >= 60:
			y = 1
		}
		d.Labels = append(d.Labels, y)
	}
	s, err := d.Cut(Cut{Seed: 3, Share: .1, Steps: 7})
	if err != nil {
		t.Fatal(err)
	}
	count := make([]int, 3)
	seen := make(map[int32]bool)
	for _, v := range s.Train {
		count[d.Labels[v]]++
		seen[v] = true
	}
	if !slices.Equal(count, []int{6, 3, 1}) {
		t.Errorf("training nodes by class %v, want [6 3 1]", count)
	}
	var sizes []int
	for _, step := range s.Steps {
		sizes = append(sizes, len(step))
		for _, v := range step {
			if seen[v] {
				t.Fatalf("node %d is in two steps", v)
			}
			seen[v] = true
		}
	}
	if !slices.Equal(sizes, []int{13, 13, 13, 13, 13, 13, 12}) || len(seen) != 100 {
		t.Errorf("steps of %v with %d nodes in all, want six of 13, one of 12 and 100 nodes", sizes, len(seen))
	}
	again, _ := d.Cut(Cut{Seed: 3, Share: .1, Steps: 7})
	other, _ := d.Cut(Cut{Seed: 4, Share: .1, Steps: 7})
	if !reflect.DeepEqual(s, again) || reflect.DeepEqual(s, other) {
		t.Error("splits differ for the same seed, or are the same for another")
	}
	for _, bad := range []Cut{{Share: -.1}, {Share: 1.1}, {Share: math.NaN()}, {Share: .1, Steps: 91}, {Until: new(float64)}} {
		if _, err := d.Cut(bad); err == nil {
			t.Errorf("%+v: Cut succeeded, want an error", bad)
		}
	}
}

// TestArrivals: nodes that arrive in batches and name only neighbours that are there build
// the whole graph, each edge once.
func TestArrivals(t *testing.T) {
	d, s, err := Drift(small("none"))
	if err != nil {
		t.Fatal(err)
	}
	batches := append([][]int32{append(slices.Clone(s.Train), s.Warmup...)}, s.Steps...)
	want := make(map[[2]int32]bool)
	for _, e := range d.Edges {
		want[[2]int32{min(e[0], e[1]), max(e[0], e[1])}] = true
	}
	arrived := make(map[int32]bool)
	got := make(map[[2]int32]bool)
	named := d.Arrivals(batches)
	for _, b := range batches {
		for _, v := range b {
			arrived[v] = true
		}
		for _, v := range b {
			for _, u := range named[v] {
				e := [2]int32{min(u, v), max(u, v)}
				if !arrived[u] || got[e] {
					t.Fatalf("node %d names %d, which has not arrived, or again", v, u)
				}
				got[e] = true
			}
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%d edges arrive, want the %d of the graph", len(got), len(want))
	}
	src, dst := d.Subgraph(s.Train)
	for i := range src {
		u, v := s.Train[src[i]], s.Train[dst[i]]
		if !want[[2]int32{min(u, v), max(u, v)}] {
			t.Fatalf("the subgraph has the edge %d-%d, which the graph does not have", u, v)
		}
	}
}

// write writes the folder of a data set, with the folders in it. A file is packed if its
// name ends in .gz.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "toy")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		b := []byte(text)
		if strings.HasSuffix(name, ".gz") {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			if _, err := w.Write(b); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			b = packed.Bytes()
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// toy returns the files of a small graph in OGB's layout.
func toy() map[string]string {
	return map[string]string{
		"num-node-list.csv.gz": "4\n", "num-edge-list.csv": "3\n",
		"node-feat.csv.gz": "0.5,1,-2e-1\n1,2,3\n0,0,1\n4,5,6\n", "node-label.csv.gz": "0\n1.0\n0\n2\n",
		"edge.csv.gz": "0,1\n2,1\n3,3\n", "node_year.csv.gz": "2016\n2018\n2019\n2020\n",
	}
}

// TestOpen opens a graph in OGB's layout, splits it by year, and stores features with many
// zeros in sparse form.
func TestOpen(t *testing.T) {
	d, err := Open(write(t, toy()))
	if err != nil {
		t.Fatal(err)
	}
	want := &Dataset{
		Name: "toy", Dim: 3, Labels: []int32{0, 1, 0, 2}, Classes: []string{"0", "1", "2"},
		Edges: [][2]int32{{0, 1}, {2, 1}, {3, 3}}, Time: []float64{2016, 2018, 2019, 2020},
		Features: []gnn.Vector{{Dense: []float32{.5, 1, -.2}}, {Dense: []float32{1, 2, 3}}, {Dense: []float32{0, 0, 1}}, {Dense: []float32{4, 5, 6}}},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("data set %+v, want %+v", d, want)
	}
	d.Name = "ogbn-arxiv"
	s, err := d.Cut(Cut{Steps: 2})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Stream{Train: []int32{0}, Warmup: []int32{1}, Steps: [][]int32{{2}, {3}}, Ordered: true, How: "by year, 2 steps"}); !reflect.DeepEqual(s, want) {
		t.Errorf("split of ogbn-arxiv %+v, want %+v", s, want)
	}
	bag := toy()
	bag["node-feat.csv.gz"] = "0,0,0,0,1\n0,0,0,0,0\n1,0,0,0,0\n0,2,0,0,0\n"
	if d, err = Open(write(t, bag)); err != nil {
		t.Fatal(err)
	}
	if v := d.Features[3]; !d.Sparse || !slices.Equal(v.Index, []uint32{1}) || !slices.Equal(v.Value, []float32{2}) {
		t.Errorf("sparse %v with features %+v of node 3, want true with 1:2", d.Sparse, v)
	}
}

// TestDensity: features are sparse if at most a quarter of all numbers are nonzero, even if
// some rows are full.
func TestDensity(t *testing.T) {
	files := toy()
	files["node-feat.csv.gz"] = "1,1,1,1,1,1\n0,0,0,0,0,0\n0,0,0,0,0,0\n0,0,0,0,0,0\n"
	if d, err := Open(write(t, files)); err != nil || !d.Sparse || len(d.Features[0].Index) != 6 {
		t.Errorf("a quarter is nonzero: %+v, %v, want sparse features", d, err)
	}
	files["node-feat.csv.gz"] = "1,1,1,1,1,1\n0,0,0,1,0,0\n0,0,0,0,0,0\n0,0,0,0,0,0\n"
	if d, err := Open(write(t, files)); err != nil || d.Sparse || d.Features[1].Dense[3] != 1 {
		t.Errorf("more than a quarter is nonzero: %+v, %v, want dense features", d, err)
	}
}

// TestOpenErrors: the error for an invalid file of OGB's layout is one line that names the
// file and the line.
func TestOpenErrors(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"node-feat.csv.gz", "1,2\n1,x\n1,2\n1,2\n", "node-feat.csv.gz line 2: feature 1"},
		{"node-feat.csv.gz", "1,2\n1\n1,2\n1,2\n", "line 2: 1 features, the first line has 2"},
		{"node-feat.csv.gz", "1,2\n1,NaN\n1,2\n1,2\n", `line 2: feature 1: "NaN" is not a finite number`},
		{"node-feat.csv.gz", "1,2\n", "node-feat has 1 lines, num-node-list says 4"},
		{"node-feat.csv.gz", "1\n1\n1\n1\n1\n", "line 5: more lines than the 4 of num-node-list"},
		{"node-label.csv.gz", "0\n1\n-2\n0\n", "line 3: -2 is not between -1 and"},
		{"node-label.csv.gz", "0\n1\n.5\n0\n", "line 3: \".5\" is not an integer"},
		{"edge.csv.gz", "0,1\n2,4\n3,3\n", "line 2: 4 is not between 0 and 3"},
		{"edge.csv.gz", "0,1\n2\n3,3\n", "want source,target"},
		{"edge.csv.gz", "0,1\n", "edge has 1 lines, num-edge-list says 3"},
		{"num-node-list.csv.gz", "4\n4\n", "one count"},
		{"num-node-list.csv.gz", "", "holds no count"},
		{"num-node-list.csv.gz", "0\n", "0 is not between 1"},
		{"num-node-list.csv.gz", "99999999999\n", "not between"},
		{"node_year.csv.gz", "2016\n", "node_year has 1 lines"},
		{"num-edge-list.csv", "", "holds no count"},
	} {
		files := toy()
		files[c.file] = c.text
		_, err := Open(write(t, files))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %q: got %v, want one line with %q", c.file, c.text, err, c.want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "num-node-list") {
		t.Errorf("an empty folder: %v", err)
	}
}

// small returns a configuration of a small generated graph.
func small(kind string) DriftConfig {
	c, err := DriftPreset(kind)
	if err != nil {
		panic(err)
	}
	c.Nodes = 3000
	return c
}

// TestDriftLaw compares generated graphs with the statistics that the generator was
// designed for.
func TestDriftLaw(t *testing.T) {
	c, _ := DriftPreset("none")
	d, s, err := Drift(c)
	if err != nil {
		t.Fatal(err)
	}
	same, top := 0, 0
	degree := make([]int, c.Nodes)
	for _, e := range d.Edges {
		if d.Labels[e[0]] == d.Labels[e[1]] {
			same++
		}
		if e[1] >= e[0] {
			t.Fatalf("node %d cites %d, which arrives later", e[0], e[1])
		}
		degree[e[0]]++
		degree[e[1]]++
		top = max(top, degree[e[0]], degree[e[1]])
	}
	if h := float64(same) / float64(len(d.Edges)); h < .59 || h > .69 {
		t.Errorf("edge homophily %.3f, want about .64", h)
	}
	if mean := 2 * float64(len(d.Edges)) / float64(c.Nodes); mean < 11 || mean > 15 {
		t.Errorf("mean degree %.1f, want about 13", mean)
	}
	if top < 200 {
		t.Errorf("the largest degree is %d, want a heavy tail", top)
	}
	if len(s.Train) != 10740 || len(s.Warmup) != 3520 || len(s.Steps) != 100 {
		t.Errorf("%d training nodes, %d warm-up nodes and %d steps, want 10740, 3520 and 100", len(s.Train), len(s.Warmup), len(s.Steps))
	}
}

// TestDriftDrifts: the shares of the classes move by more the stronger the drift, and
// hardly without it.
func TestDriftDrifts(t *testing.T) {
	moved := make(map[string]float64)
	for _, kind := range []string{"none", "moderate", "strong", "abrupt"} {
		c, _ := DriftPreset(kind)
		c.Classes = 10
		d, s, err := Drift(c)
		if err != nil {
			t.Fatal(err)
		}
		share := func(nodes []int32) []float64 {
			p := make([]float64, c.Classes)
			for _, v := range nodes {
				p[d.Labels[v]] += 1 / float64(len(nodes))
			}
			return p
		}
		before, after := share(s.Train[len(s.Train)/2:]), share(slices.Concat(s.Steps[70:]...))
		for k := range before {
			moved[kind] += math.Abs(before[k]-after[k]) / 2
		}
	}
	if moved["none"] > .05 || moved["moderate"] < 2*moved["none"] || moved["strong"] < moved["moderate"] || moved["abrupt"] < 2*moved["none"] {
		t.Errorf("total variation of the class shares %v, want it to rise with the drift from at most .05", moved)
	}
}

// TestDriftIsAFunctionOfItsSeed: the same seed gives the same graph, and another seed
// another.
func TestDriftIsAFunctionOfItsSeed(t *testing.T) {
	c := small("strong")
	a, sa, _ := Drift(c)
	b, sb, _ := Drift(c)
	if !reflect.DeepEqual(a, b) || !reflect.DeepEqual(sa, sb) {
		t.Error("the same seed gives another graph")
	}
	c.Seed++
	if other, _, _ := Drift(c); reflect.DeepEqual(a.Edges, other.Edges) {
		t.Error("another seed gives the same graph")
	}
}

// TestDriftRefuses: the error for an invalid configuration names the field.
func TestDriftRefuses(t *testing.T) {
	for _, c := range []struct {
		want   string
		breaks func(*DriftConfig)
	}{
		{"nodes 3: give 100 to", func(c *DriftConfig) { c.Nodes = 3 }},
		{"classes 1:", func(c *DriftConfig) { c.Classes = 1 }},
		{"dim 0:", func(c *DriftConfig) { c.Dim = 0 }},
		{"steps 0:", func(c *DriftConfig) { c.Steps = 0 }},
		{"late 40:", func(c *DriftConfig) { c.Drift.Late = 40 }},
		{"train-share 1e-09:", func(c *DriftConfig) { c.Train = 1e-9 }},
		{"train-share 0.8:", func(c *DriftConfig) { c.Train = .8 }},
		{"20000000 nodes × dim 128", func(c *DriftConfig) { c.Nodes = 20_000_000 }},
	} {
		bad := small("none")
		c.breaks(&bad)
		if _, _, err := Drift(bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error with %q", err, c.want)
		}
	}
	two := small("strong")
	two.Classes, two.Drift.Late = 2, 1
	if _, _, err := Drift(two); err != nil {
		t.Errorf("two classes: got %v, want no error", err)
	}
}

// TestDriftFields: each field has the effect that its comment states, and one of extreme
// values can be generated.
func TestDriftFields(t *testing.T) {
	shape := func(change func(*DriftConfig)) (edges, top, same, largest, spread float64) {
		c := small("none")
		c.Classes = 10
		change(&c)
		d, _, err := Drift(c)
		if err != nil {
			t.Fatal(err)
		}
		degree, class := make([]int, c.Nodes), make([]int, c.Classes)
		for _, e := range d.Edges {
			if d.Labels[e[0]] == d.Labels[e[1]] {
				same += 1 / float64(len(d.Edges))
			}
			degree[e[0]]++
			degree[e[1]]++
		}
		for v, y := range d.Labels {
			class[y]++
			spread += math.Abs(float64(d.Features[v].Dense[0])) / float64(c.Nodes)
		}
		return float64(len(d.Edges)), float64(slices.Max(degree)), same, float64(slices.Max(class)) / float64(c.Nodes), spread
	}
	edges, top, same, largest, spread := shape(func(*DriftConfig) {})
	if e, _, _, _, _ := shape(func(c *DriftConfig) { c.Citing.Cites *= 2 }); e < 1.5*edges {
		t.Errorf("twice the citations give %v edges, without them %v", e, edges)
	}
	if e, _, _, _, _ := shape(func(c *DriftConfig) { c.Citing.MaxCites = 1 }); e != 2999 {
		t.Errorf("one citation a node gives %v edges", e)
	}
	if e, _, _, _, _ := shape(func(c *DriftConfig) { c.Citing.CitesSpread, c.Citing.Cites = 0, 0 }); e != 2999 {
		t.Errorf("one citation a node gives %v edges", e)
	}
	if _, n, _, _, _ := shape(func(c *DriftConfig) { c.Citing.Recency = .5 }); n < 1.5*top {
		t.Errorf("old entries preferred, the largest degree is %v; with recency %v", n, top)
	}
	if _, _, h, _, _ := shape(func(c *DriftConfig) { c.Citing.Home, c.Citing.Cross = .1, 0 }); h > .5*same {
		t.Errorf("homophily %.2f away from home, %.2f at home", h, same)
	}
	if _, _, h, _, _ := shape(func(c *DriftConfig) { c.Citing.Cross = 0 }); h < 1.2*same {
		t.Errorf("homophily %.2f without crossing nodes, %.2f with", h, same)
	}
	if _, _, _, l, _ := shape(func(c *DriftConfig) { c.Spread = 0 }); l > .13 || largest < .15 {
		t.Errorf("the largest class has %.2f of the nodes without spread, %.2f with", l, largest)
	}
	if _, _, _, _, s := shape(func(c *DriftConfig) { c.FeatureNoise = 3 }); s < 2*spread {
		t.Errorf("features of size %.2f with noise, %.2f without", s, spread)
	}
	if _, _, _, _, s := shape(func(c *DriftConfig) { c.Noise = 10 }); s < 2*spread {
		t.Errorf("features of size %.2f with noise in the latent space, %.2f without", s, spread)
	}
	shape(func(c *DriftConfig) {
		c.SubSpread, c.Citing.CitesSpread, c.Citing.Recency, c.Citing.MaxCites = 0, 5, .1, 10_000
	})
	shape(func(c *DriftConfig) {
		c.Citing.Recency, c.Citing.Cites, c.Spread, c.Drift.ShareJump, c.Drift.Rot = 100, 0, 10, 100, 100
	})
}

// TestDriftAtArxivSize compares the preset with the statistics of ogbn-arxiv. Features do
// not affect them, so that few are generated.
func TestDriftAtArxivSize(t *testing.T) {
	c, err := DriftPreset("none")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes, c.Citing.Cites, c.Dim, c.Latent = 169_343, 4.66, 1, 2
	d, s, err := Drift(c)
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for _, e := range d.Edges {
		if d.Labels[e[0]] == d.Labels[e[1]] {
			same++
		}
	}
	edges := float64(len(d.Edges))
	if math.Abs(edges/1_166_243-1) > .01 || math.Abs(2*edges/169_343-13.77) > .15 || math.Abs(float64(same)/edges-.655) > .01 {
		t.Errorf("%v edges, mean degree %.2f, edge homophily %.3f; arxiv has 1166243, 13.77, .655", edges, 2*edges/169_343, float64(same)/edges)
	}
	if len(d.Classes) != 40 || len(s.Steps) != 100 {
		t.Errorf("%d classes, %d steps", len(d.Classes), len(s.Steps))
	}
}

// FuzzParseInt: parsing an integer does not panic, and gives a number within the given
// bounds.
func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"1", "-1", "2.0", "1e3", "x", "9223372036854775808"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, err := parseInt(string(b), 0, 1000); err == nil && (v < 0 || v > 1000) {
			t.Fatalf("number %d from %q", v, b)
		}
	})
}
