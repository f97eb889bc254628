package dataset

import (
	"slices"
	"testing"
)

// fits fails unless the parts of a data set fit each other, and it can be cut.
func fits(t *testing.T, d *Dataset) {
	t.Helper()
	n := len(d.Features)
	if n == 0 || len(d.Labels) != n || d.Time != nil && len(d.Time) != n {
		t.Fatalf("%d nodes with %d labels and %d times", n, len(d.Labels), len(d.Time))
	}
	ids := make(map[string]bool)
	for v, x := range d.Features {
		if err := x.Validate(d.Dim); d.Graphs == nil && d.Table == nil && (err != nil || (x.Dense == nil) != d.Sparse || slices.Contains(x.Value, 0)) {
			t.Fatalf("node %d of a data set with sparse %v has features %+v: %v", v, d.Sparse, x, err)
		}
		if y := d.Labels[v]; y < Unlabelled || int(y) >= len(d.Classes) {
			t.Fatalf("node %d has class %d of %d", v, y, len(d.Classes))
		}
		id := d.IDs.String(int32(v))
		if ids[id] || id == "" || len(id) > maxID {
			t.Fatalf("node %d has the id %.80q", v, id)
		}
		ids[id] = true
	}
	for _, e := range d.Edges {
		if min(e[0], e[1]) < 0 || int(max(e[0], e[1])) >= n {
			t.Fatalf("edge %v in a graph of %d nodes", e, n)
		}
	}
	s, err := d.Cut(Cut{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if d.Table != nil { // else it is encoded as it is
		if encoded, err := d.Encoded(s.Train); err == nil {
			for v, x := range encoded.Features {
				if err := x.Validate(encoded.Dim); err != nil {
					t.Fatalf("node %d is encoded as %+v: %v", v, x, err)
				}
			}
		}
	}
	seen := make([]bool, n)
	for part, nodes := range append([][]int32{s.Train, s.Warmup}, s.Steps...) {
		for _, v := range nodes {
			if seen[v] || part == 0 && d.Labels[v] == Unlabelled {
				t.Fatalf("node %d with class %d is in part %d, or in two", v, d.Labels[v], part)
			}
			seen[v] = true
		}
	}
	if i := slices.Index(seen, false); i >= 0 {
		t.Fatalf("node %d is in no part", i)
	}
}

// opens fails unless open gives either a data set that fits or an error, and allocates no
// more than packed files may take.
func opens(t *testing.T, open func() (*Dataset, error)) {
	t.Helper()
	var d *Dataset
	var err error
	if took := allocated(func() { d, err = open() }); took > 16*freeBytes {
		t.Errorf("%d MiB allocated, want at most %d", took>>20, 16*freeBytes>>20)
	}
	if (d == nil) == (err == nil) {
		t.Fatalf("got %v and error %v, want one of them", d, err)
	}
	if err == nil {
		fits(t, d)
	}
}

// FuzzOpen opens any files in OGB's layout.
func FuzzOpen(f *testing.F) {
	f.Add("4", "3", "0.5,1\n1,2\n0,0\n4,5\n", "0\n1\n0\n2\n", "0,1\n2,1\n3,3\n")
	f.Add("2\r\n", "0", "0,0,0,0,1\r\n0,0,0,0,0\r\n", "0\r\n1.0\r\n", "")
	f.Add("1", "1", "1e39\n", "65536\n", "0,0,0\n")
	f.Add("3", "1", "1,\n,1\n1\n", "\n\n\n", "-1,0\n")
	f.Add("1e2", "99999999999", "", "", ",")
	f.Fuzz(func(t *testing.T, nodes, edges, features, labels, edge string) {
		dir := write(t, map[string]string{
			"num-node-list.csv": nodes, "num-edge-list.csv": edges,
			"node-feat.csv": features, "node-label.csv": labels, "edge.csv": edge,
		})
		opens(t, func() (*Dataset, error) { return Open(dir) })
	})
}

// FuzzOpenCSV opens any pair of tables of nodes and edges.
func FuzzOpenCSV(f *testing.F) {
	f.Add("id,label,x\na,p,1\nb,q,2\n", "source,target\na,b\n")
	f.Add("id,label,features,year\na,p,0:1 5:2,1999\n", "source,target\na,a\n")
	f.Add("id,label,features\na,p,1048575:1\nb,p,\n", "target,w,source\nb,,a\n")
	f.Add("\ufeffid,label,x\n\"a \"\"b\",p,-0\n", "source,target\n\"a \"\"b\",\"a \"\"b\"\n")
	f.Add("id,label,x\n\"a\nb\",p,1\n", "source,target,\n,,\n")
	f.Fuzz(func(t *testing.T, nodes, edges string) {
		dir := write(t, map[string]string{"nodes.csv": nodes, "edges.csv": edges})
		opens(t, func() (*Dataset, error) { return Open(dir) })
	})
}

// FuzzOpenNPZ opens any bytes as an archive, and sound archives with any members: few
// changes of bytes get past the checksums.
func FuzzOpenNPZ(f *testing.F) {
	x, edges := array2("<f4", 2, 2, false, floats(1, 0, 0, 2)), array2("|u1", 2, 1, false, "\x00\x01")
	labels := array2("|i1", 2, 1, false, "\x01\x00")
	f.Add(archive(f, map[string]any{"x": x, "edge_index": edges, "y": labels}), "", "", "")
	f.Add([]byte{}, x, edges, labels)
	f.Add([]byte{}, array2("|b1", 2, 2, true, "\x01\x00\x01\x01"), array2(">i8", 2, 1, true, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"), labels)
	f.Add([]byte{2, 2}, array2("<i8", 2, 1, false, "0000000011111111"), array2("|b1", 3, 2, false, "\x00\x01\x01\x00\x00\x00"), array2("<f4", 2, 1, true, floats(1, -2)))
	f.Fuzz(func(t *testing.T, b []byte, one, two, three string) {
		switch len(b) {
		case 0:
			b = archive(t, map[string]any{"x": one, "edge_index": two, "y": three})
		case 2: // the strings are what an archive may have besides
			b = archive(t, map[string]any{"x": x, "edge_index": edges, "y": labels, "node_ids": one, "test_mask": two, "time": three})
		}
		opens(t, func() (*Dataset, error) { return openArchive(t, b) })
	})
}
