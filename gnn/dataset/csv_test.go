package dataset

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
)

// TestOpenCSV: one graph in every form that is accepted: features as dense columns or as
// index:value pairs, quoted fields, a byte order mark, years, further columns of edges,
// packed files, and a pair of files with a prefix.
func TestOpenCSV(t *testing.T) {
	context := "id,label,context,year,features\n\"a, the first\",10,,2017,0:1 4:0\nb ,9,0,2018,  1:2.5\nc,,True,2019,\n"
	edges := "target,note,source\nb,1,\"a, the first\"\nc,2, c\n"
	dense := "\ufeffid,f1,label,f2,f3,f4,f5,year\r\n\"a, the first\",1,10,0,0,0,0,2017\r\nb,0,9,2.5,0,0,0,2018\r\n\nc,0,10,0,0,0,0,2019\r\n"
	pairs := "id,label,year,features\n\"a, the first\",10,2017,0:1 4:0\nb ,9,2018,  1:2.5\nc,10,2019,\n"
	want := Dataset{
		Name: "toy", Dim: 5, Sparse: true, Classes: []string{"9", "10"}, Labels: []int32{1, 0, 1}, Time: []float64{2017, 2018, 2019}, IDs: IDs{Texts: []string{"a, the first", "b", "c"}},
		Features: []gnn.Vector{{Index: []uint32{0}, Value: []float32{1}}, {Index: []uint32{1}, Value: []float32{2.5}}, {Index: []uint32{}, Value: []float32{}}},
		Edges:    [][2]int32{{0, 1}, {2, 2}},
	}
	for _, c := range []struct {
		what, path, name string
		files            map[string]string
	}{
		{"dense", "", "toy", map[string]string{"nodes.csv": dense, "edges.csv": edges}},
		{"pairs, packed", "", "toy", map[string]string{"nodes.csv.gz": pairs, "edges.csv.gz": edges}},
		{"by the path of nodes.csv", "nodes.csv", "toy", map[string]string{"nodes.csv": dense, "edges.csv": edges}},
		{"a pair with a prefix", "web.nodes.csv.gz", "web", map[string]string{"web.nodes.csv.gz": pairs, "web.edges.csv": edges, "nodes.csv": "id\n"}},
		{"with context", "", "toy", map[string]string{"nodes.csv": context, "edges.csv": edges}},
		{"with label times", "", "toy", map[string]string{"nodes.csv": strings.NewReplacer("year,f", "label_time,year,f", "2017,0", "1999,2017,0", "2018,", "never,2018,", "2019,", "2019.5,2019,").Replace(pairs), "edges.csv": edges}},
		{"with label times by another name", "", "toy", map[string]string{
			"nodes.csv": strings.NewReplacer("year,f", "seen,year,f", "2017,0", "2017,2017,0", "2018,", "Never,2018,", "2019,", "2019.5,2019,").Replace(pairs), "edges.csv": edges,
			"dataset.json": `{"label_time": "seen"}`,
		}},
		{"with label times apart", "", "toy", map[string]string{"nodes.csv": pairs, "edges.csv": edges, "label_times.csv": "id,label_time\nc,2019.5\n\"a, the first\",2017\nb,never\n"}},
		{"with labels apart", "", "toy", map[string]string{
			"nodes.csv": "id,year,features\n\"a, the first\",2017,0:1 4:0\nb ,2018,  1:2.5\nc,2019,\n", "edges.csv": edges,
			"labels.csv": "node,class,time\nc,10,2019.5\nb,9,never\n\"a, the first\",10,2017\n",
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, err := Open(filepath.Join(write(t, c.files), c.path))
			if err != nil {
				t.Fatal(err)
			}
			want := want
			if c.what == "with label times" {
				want.Notes = []string{"1 labels come before their nodes, and are taken to come with them"}
			}
			if strings.Contains(c.what, "label") {
				want.LabelTime = []float64{2017, Never, 2019.5}
			}
			if want.Name = c.name; c.what == "with context" {
				want.Labels, want.Context = []int32{1, 0, Unlabelled}, []bool{false, false, true}
			}
			if d := cmp.Diff(&want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestOpenCSVRefuses: the error for invalid tables is one line that names the file, the
// line and the column, or says what to do.
func TestOpenCSVRefuses(t *testing.T) {
	const timed = "id,label,time,x\na,p,1,1\nb,q,1,2\n"
	const nodes, edges = "id,label,x\na,p,1\nb,q,2\n", "source,target\na,b\n"
	var kinds, classes strings.Builder
	for i := range 2 * maxClasses {
		fmt.Fprintf(&classes, "%d,%[1]d,1\n", i)
	}
	for i := range 100 * gnn.MaxMeans {
		fmt.Fprintf(&kinds, "a,b,%d\n", i)
	}
	for _, c := range []struct{ nodes, edges, want string }{
		{"", edges, "nodes.csv is empty"},
		{"id,x\na,1\n", edges, "nodes.csv line 1: the header is"},
		{"id,label\na,p\n", edges, "no features"},
		{"id,label,x,x\na,p,1,1\n", edges, `column "x" occurs twice`},
		{",id,label,x\n0,a,p,1\n", edges, "column 1 of the header has no name (pandas"},
		{"id,label,features,y\na,p,,1\n", edges, "a column features, and 1 more (\"y\")"},
		{"id,label,year,time,x\na,p,1,1,1\n", edges, "columns time and year: keep the one"},
		{"id,label,x\n", edges, "has no nodes"},
		{"id,label,x\na,p,1\na,q,2\n", edges, `nodes.csv line 3: id "a" occurs twice`},
		{"id,label,x\n,p,1\n", edges, "line 2: the id is empty"},
		{"id,label,x\n" + strings.Repeat("a", 1000*maxID) + ",p,1\n", edges, "of 1024000 bytes: want at most 1024"},
		{"id,label,x\na,p\n", edges, "line 2: 2 fields, the header has 3"},
		{"id,label,x\na,p,1e39\n", edges, `column "x": "1e39" is not a finite number`},
		{"id,label,x\n" + many("p,1", 40) + "z,p,1o\n", edges, `nodes: column "x": "1o" in row 41 is none of the numbers that nearly all others are: mend it`},
		{"id,label,x\na,\"p,1\n", edges, "line 2: a quoted field is not closed"},
		{"id,label,year,x\na,p,soon,1\n", edges, `column year: "soon" is not a finite number: give times as numbers`},
		{"id,label,split,x\na,p,dev,1\n", edges, `column split: "dev": want train, valid, test or nothing`},
		{"id,label,context,x\na,p,account,1\n", edges, `nodes.csv line 2: column context: "account": want true, false or nothing`},
		{"id,label,context,x\na,p,true,1\n", edges, `column context: a context node is never predicted, and has the label "p": leave one of them empty`},
		{"id,label,features\na,p,1:1\nb,p,1\n", edges, `"1": want index:value`},
		{"id,label,features\na,p,1 2\nb,p,1:2\n", edges, `"1:2": want index:value`},
		{"id,label,features\na,p,1 2\nb,p,1\n", edges, "line 3: column features: 1 numbers, the first node has 2"},
		{"id,label,features\na,p,\nb,p,1\n", edges, "line 3: column features: 1 numbers, the first node has 0"},
		{"id,label,features\na,p,[1 red]\n", edges, `column features: feature 1: "red" is text`},
		{"id,label,features\na,p,1:1 1:2\n", edges, "feature 1 after 1"},
		{"id,label,features\na,p,-1:1\n", edges, "index: -1 is not between"},
		{"id,label,features\na,p,99999999:1\n", edges, "99999999 is not between"},
		{nodes, "", "edges.csv is empty"},
		{nodes, "from,to\na,b\n", "edges.csv line 1: the header is \"from,to\", want columns source and target"},
		{nodes, fmt.Sprintf("source,target,weight\na,b,%g\n", 1e9*largestWeight), "want a positive number from 1e-09 to 1e+09"},
		{nodes, "source,target,kind\na,b," + strings.Repeat("k", 1000*maxKind) + "\n", "a name of 256000 bytes, at most 256"},
		{nodes, "source,target,kind\n" + kinds.String(), "more than 32 kinds of edges"},
		{"id,label,x\n" + classes.String(), "source,target\n", "131074 distinct labels, want at most 65537"},
		{nodes, "source,target\na,c\n", `edges.csv line 2: target "c" is not an id of the node table`},
		{nodes, "source,target\na,b\nc,a\n", `edges.csv line 3: source "c" is not an id of the node table`},
	} {
		d, err := Open(write(t, map[string]string{"nodes.csv": c.nodes, "edges.csv": c.edges}))
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("nodes %.200q and edges %.200q: got %v, want one line with %q", c.nodes, c.edges, err, c.want)
		}
	}
	for what, c := range map[string]struct {
		files      map[string]string
		path, want string
	}{
		"a label of nobody":   {map[string]string{"nodes.csv": timed, "edges.csv": edges, "labels.csv": "node,time\nz,1\n"}, "", `labels.csv line 2: node "z" is not in the table of nodes`},
		"a label twice":       {map[string]string{"nodes.csv": timed, "edges.csv": edges, "labels.csv": "node,time\na,1\na,1\n"}, "", `node "a" has a label already`},
		"a label without one": {map[string]string{"nodes.csv": timed, "edges.csv": edges, "labels.csv": "node,time\na,1\n"}, "", `nodes.csv row 2: the label of node "b" has no time: give one, or never`},
		"label times alone":   {map[string]string{"nodes.csv": nodes, "edges.csv": edges, "labels.csv": "node,time\na,1\nb,1\n"}, "", "labels have times, and nodes have none: give these a column time"},
		"no label anywhere":   {map[string]string{"nodes.csv": "id,time,x\na,1,1\n", "edges.csv": edges, "labels.csv": "node,time\na,1\n"}, "", "has no column label, and no table labels has classes"},
		"labels twice":        {map[string]string{"nodes.csv": timed, "edges.csv": edges, "labels.csv": "node,class,time\na,p,1\n"}, "", "classes, and a column label in the table of nodes: keep one"},
		"a label some day":    {map[string]string{"nodes.csv": timed, "edges.csv": edges, "labels.csv": "node,time\na,soon\n"}, "", `"soon" is not a finite number`},
		"no edges":            {map[string]string{"nodes.csv": nodes}, "", "edges (.csv, .csv.gz): file does not exist"},
		"twice":               {map[string]string{"nodes.csv": nodes, "nodes.csv.gz": nodes, "edges.csv": edges}, "", "are both there: keep one"},
		"another file":        {map[string]string{"graph.json": "{}"}, "graph.json", "want a folder, an .npz file, or a table of nodes"},
		"nothing":             {nil, "", "neither a table of nodes (nodes.csv, nodes.csv.gz) nor num-node-list.csv"},
		"no such path":        {nil, "nowhere", "nowhere: no such file"},
		"no such npz":         {nil, "nowhere.npz", "nowhere.npz: no such file"},
		"not packed":          {map[string]string{"nodes.csv": nodes, "edges.csv": edges}, "nodes.csv.gz", "no such file"},
		"a folder's npz":      {map[string]string{"few.npz": "PK no zip"}, "few.npz", "few.npz: zip"},
	} {
		if d, err := Open(filepath.Join(write(t, c.files), c.path)); d != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", what, err, c.want)
		}
	}
}

// TestClasses: classes are in numerical order if all are numbers, else in alphabetical order, in one spelling. What stands
// for no label is none, by one rule, and is said where it is not certain, as is a class that may be one.
func TestClasses(t *testing.T) {
	type list = []string
	for _, c := range []struct {
		labels, want list
		text         description
		said         string // "" for nothing
	}{
		{labels: list{"10", "9", "10", "-1.5"}, want: list{"-1.5", "9", "10"}},
		{labels: list{"10", "9", "x"}, want: list{"10", "9", "x"}},
		{labels: list{"1.0", "01", "1"}, want: list{"01", "1"}},
		{labels: list{"True", "false", "true", " FALSE"}, want: list{"false", "true"}},
		{labels: list{"nan", "10", "9", "", "NULL"}, want: list{"9", "10"}},
		{labels: list{"NaN", "bad", "good"}, want: list{"bad", "good"}},
		{labels: list{"None", "bad", "<NA>", `\N`, "NaT"}, want: list{"bad"}, said: "is taken for none"},
		{labels: list{"NA", "n/a", "?", "-", "bad"}, want: list{"bad"}, said: `label "?" of 1 nodes is taken for none`},
		{labels: list{"none", "mild", "severe"}, want: list{"mild", "none", "severe"}, said: `label "none" of 1 nodes is taken for a class: if it stands for none, give "unlabelled": ["none"]`},
		{labels: list{"unknown", "2", "1"}, want: list{"1", "2"}, said: `"unknown" of 1 nodes is taken for none`},
		{labels: list{"unknown", "bad", "good"}, want: list{"bad", "good", "unknown"}, said: "is taken for a class"},
		{labels: list{"unknown", "bad"}, text: description{Unlabelled: list{"unknown"}}, want: list{"bad"}},
		{labels: list{"NA", "bad"}, text: description{Unlabelled: list{"x"}}, want: list{"NA", "bad"}},
		{labels: list{"b", "", "a"}, want: list{"a", "b"}},
		{labels: list{"2", "-1", "0"}, want: list{"0", "2"}, said: `"-1" of 1 nodes is taken for none`},
		{labels: list{"-1", "2", "1"}, want: list{"1", "2"}, said: `"-1" of 1 nodes is taken for none`},
		{labels: list{"-1.0", "1.0", "0.0"}, want: list{"0", "1"}, said: `"-1" of 1 nodes is taken for none`},
		{labels: list{"-1", "0", "1"}, text: description{Classes: list{"-1", "0", "1"}}, want: list{"-1", "0", "1"}},
		{labels: list{"-1", "1"}, want: list{"-1", "1"}},                                             // a coding of two
		{labels: list{"-1", "0", "0.5"}, want: list{"-1", "0", "0.5"}, said: "is taken for a class"}, // labels do not count
	} {
		names, notes := labelled(c.labels, &c.text)
		got, y := classesOf(names)
		if !slices.Equal(got, c.want) {
			t.Errorf("classes of %q are %q, want %q", c.labels, got, c.want)
			continue
		}
		if said := strings.Join(notes, "\n"); (c.said == "") != (said == "") || !strings.Contains(said, c.said) {
			t.Errorf("of labels %q it is said %q, want %q", c.labels, said, c.said)
		}
		for i, k := range y {
			if k == Unlabelled != (names[i] == "") || k != Unlabelled && got[k] != names[i] {
				t.Errorf("label %q has index %d in %q", c.labels[i], k, got)
			}
		}
	}
}

// TestPackedBombs: a small packed table that unpacks to a huge one is refused before it
// takes much memory, in either layout.
func TestPackedBombs(t *testing.T) {
	const many = 3 << 19
	nodes := new(strings.Builder)
	nodes.WriteString("id,label")
	for j := range 2000 {
		fmt.Fprintf(nodes, ",x%d", j)
	}
	ones := strings.Repeat(",1", 2000)
	for i := range 3000 {
		fmt.Fprintf(nodes, "\n%d,b%s", i, ones)
	}
	for what, files := range map[string]map[string]string{
		"OGB's nodes": {"num-node-list.csv": "100000000", "num-edge-list.csv": "0", "node-feat.csv.gz": strings.Repeat("0\n", many)},
		"OGB's edges": {
			"num-node-list.csv": "1", "num-edge-list.csv": "2000000000", "node-feat.csv": "0", "node-label.csv": "0",
			"edge.csv.gz": strings.Repeat("0,0\n", many),
		},
		"nodes": {"nodes.csv.gz": nodes.String(), "edges.csv": "source,target"},
		"edges": {"nodes.csv": "id,label,x\na,b,0\n", "edges.csv.gz": "source,target\n" + strings.Repeat("a,a\n", many)},
	} {
		t.Run(what, func(t *testing.T) {
			dir := write(t, files)
			var err error
			took := allocated(func() { _, err = Open(dir) })
			if err == nil || !strings.Contains(err.Error(), "line") || !strings.Contains(err.Error(), "give it unpacked") {
				t.Fatalf("got %v, want an error with the line and \"give it unpacked\"", err)
			}
			// The bound includes what parsing a line allocates and frees at once.
			if took > 16*freeBytes {
				t.Errorf("%d MiB allocated, want at most %d", took>>20, 16*freeBytes>>20)
			}
		})
	}
}

// TestHugeLines: a line may have 16 MiB. Longer lines, and lines of nothing but commas, are
// refused before they take more memory than a few buffers of that size.
func TestHugeLines(t *testing.T) {
	const length = 17 << 20
	long, commas := strings.Repeat("x", length), strings.Repeat(",", 4<<20)
	for what, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a header": {map[string]string{"nodes.csv": long, "edges.csv": ""}, "line 1: bufio.Scanner: token too long"},
		"packed":   {map[string]string{"nodes.csv.gz": long + long + long, "edges.csv": ""}, "line 1: bufio.Scanner: token too long"},
		"a label":  {map[string]string{"nodes.csv": "id,label,x\na," + long + ",1\n", "edges.csv": "source,target\n"}, "line 2: bufio.Scanner: token too long"},
		"quotes":   {map[string]string{"nodes.csv": "id,label,x\na,\"" + long[:4<<20] + "\n", "edges.csv": "source,target\n"}, "quoted"},
		"columns":  {map[string]string{"nodes.csv": "id,label,x" + commas + "\n", "edges.csv": ""}, "4194306 commas"},
		"fields":   {map[string]string{"nodes.csv": "id,label,x\na,b,1" + commas + "\n", "edges.csv": ""}, "4194306 commas"},
		"pairs":    {map[string]string{"nodes.csv": "id,label,features\na,b," + strings.Repeat("0:1 ", 1<<20) + "\n", "edges.csv": ""}, "want them ascending"},
		"OGB": {map[string]string{
			"num-node-list.csv": "1", "num-edge-list.csv": "0", "node-feat.csv": strings.Repeat("0,", 2<<20), "node-label.csv": "0", "edge.csv": "",
		}, "more than 1048576 features"},
	} {
		dir := write(t, c.files)
		var err error
		took := allocated(func() { _, err = Open(dir) })
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000 {
			t.Errorf("%s: got %.300v, want a short error with %q", what, err, c.want)
		}
		if took > 12*freeBytes {
			t.Errorf("%s: %d MiB allocated, want at most %d", what, took>>20, 12*freeBytes>>20)
		}
	}
}

// allocated returns the number of bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// many returns rows of ids and the given rest.
func many(rest string, n int) (rows string) {
	for i := range n {
		rows += fmt.Sprintf("n%d,%s\n", i, rest)
	}
	return rows
}
