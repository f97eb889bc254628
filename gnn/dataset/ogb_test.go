package dataset

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// official returns the files of a small graph as the Open Graph Benchmark unpacks one: the
// tables in raw, the ids in mapping, the split in split.
func official() map[string]string {
	files := map[string]string{
		"mapping/nodeidx2paperid.csv.gz":           "node idx,paper id\n0,9657784\n2,41886\n1,39886\n3,116214\n",
		"mapping/labelidx2arxivcategeory.csv.gz":   "label idx,arxiv category\n0,arxiv cs na\n",
		"mapping/README.md":                        "x",
		"split/time/train.csv.gz":                  "1\n",
		"split/time/valid.csv.gz":                  "2\n",
		"split/time/test.csv.gz":                   "3\n",
		"raw/node-label.csv.gz":                    "0\nnan\n-1\n2\n",
		"processed/geometric_data_processed.pt.gz": "x",
	}
	for name, text := range toy() {
		if _, other := files["raw/"+name]; !other {
			files["raw/"+name] = text
		}
	}
	return files
}

// TestOpenOGBFolders: ids and split are read beside the raw tables, whether the data set's
// folder or its folder raw is given. A label may be missing, and a node in no part of the
// split loses its label.
func TestOpenOGBFolders(t *testing.T) {
	files := official()
	files["raw/node-label.csv.gz"] = "1\n\nnan\n0.0\n"
	dir := write(t, files)
	for _, path := range []string{dir, filepath.Join(dir, "raw")} {
		d, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(IDs{Numbers: []int64{9657784, 39886, 41886, 116214}}, d.IDs); diff != "" || d.Name != "toy" {
			t.Errorf("data set %s has the ids (-want +got)\n%s", d.Name, diff)
		}
		if diff := cmp.Diff([]int32{Unlabelled, Unlabelled, Unlabelled, 0}, d.Labels); diff != "" {
			t.Errorf("labels (-want +got)\n%s", diff)
		}
		want := &GivenSplit{Parts: [][]Part{{InNone, InTrain, inValid, InTest}}, How: "split time"}
		if diff := cmp.Diff(want, d.Given); diff != "" {
			t.Errorf("split (-want +got)\n%s", diff)
		}
	}
}

// TestOpenOGBFoldersRefuses: the error for an invalid mapping or split is one line that
// names the file and the line.
func TestOpenOGBFoldersRefuses(t *testing.T) {
	const mapping, train = "mapping/nodeidx2paperid.csv.gz", "split/time/train.csv.gz"
	for _, c := range []struct{ file, text, want string }{
		{mapping, "", "nodeidx2paperid.csv.gz is empty"},
		{mapping, "a,b\n0,7\n", "has no id for 3 of the 4 nodes"},
		{mapping, "a,b\n0,7\n0,8\n", `line 3: node 0 has the id "7" already`},
		{mapping, "a,b\n0,7\n1,7\n", `line 3: id "7" occurs twice`},
		{mapping, "a,b\n4,7\n", "line 2: 4 is not between 0 and 3"},
		{mapping, "a,b\n0,\n", "line 2: the id is empty"},
		{mapping, "a\n0\n", "line 2: want two columns"},
		{"mapping/nodeidx2asin.csv", "a,b\n", "mapping/nodeidx2asin.csv and nodeidx2paperid.csv.gz are both there"},
		{train, "x\n", `train.csv.gz line 1: "x" is not an integer`},
		{train, "4\n", "line 1: 4 is not between 0 and 3"},
		{train, "2\n", "valid.csv.gz line 1: node 2 is in the part train already"},
		{"split/random/train.csv", "0\n", "split/random and time are both there: keep one"},
	} {
		files := maps.Clone(official())
		files[c.file] = c.text
		d, err := Open(write(t, files))
		if d != nil || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %q: got %v, want one line with %q", c.file, c.text, err, c.want)
		}
	}
}

// FuzzOpenOGBFolders opens any tables of ids and of a split.
func FuzzOpenOGBFolders(f *testing.F) {
	f.Add("a,b\n0,x\n1,y\n2,z\n3,\"7,8\"\n", "0\n1\n", "2\n", "0\n-1\nnan\n2\n", "1\n2\n3\n4.5\n")
	f.Add("a,b\n3,0\n2,1\n1,2\n0,3\n", "3", "", "\n\n\n\n", "1e300\n-1\n0\n0\n")
	f.Fuzz(func(t *testing.T, mapping, train, test, labels, times string) {
		files := make(fstest.MapFS)
		for name, text := range map[string]string{
			"mapping/nodeidx2id.csv": mapping, "split/time/train.csv": train, "split/time/test.csv": test,
			"num-node-list.csv": "4", "num-edge-list.csv": "0", "edge.csv": "", "node-feat.csv": "1\n2\n3\n4",
			"node-label.csv": labels, "time.csv": times,
		} {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		opens(t, func() (*Dataset, error) {
			raw, err := newFolder(files, "toy", "toy", "", nil)
			if err != nil {
				t.Fatal(err)
			}
			return openOGB(raw, files, "toy")
		})
	})
}
