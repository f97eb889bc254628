package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// keyedFolder writes the tables of a data set with keys.
func keyedFolder(t *testing.T, nodes, description, edges string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "payments")
	for name, text := range map[string]string{"nodes.csv": nodes, "dataset.json": description, "edges.csv": edges} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if text != "" {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// column returns the texts of an attribute, nil if there is none.
func columnOf(d *Dataset, name string) []string {
	for _, c := range d.Table {
		if c.Name == name {
			return c.Texts
		}
	}
	return nil
}

// TestKeyed: rows in any order get columns and edges in the order of their times. The column of the key is no attribute,
// unless it is given a kind, and edges of a table stay beside those of keys, each of its own kind.
func TestKeyed(t *testing.T) {
	const nodes = `id,label,time,amount,account
c,ok,2026-03-01T02:00:00Z,30,a
a,ok,2026-03-01T00:00:00Z,10,a
b,fraud,2026-03-01T01:00:00Z,20,a
d,ok,2026-03-01T03:00:00Z,5,
e,fraud,2026-03-01T03:00:00Z,8,a
`
	const declared = `{"keys": {"account": {"link": {"last": 1, "kind": "same", "directed": true}, "velocity": true, "amounts": ["amount"]}}`
	for _, kind := range []string{"", "category"} {
		more := ""
		if kind != "" {
			more = `, "columns": {"account": "category"}`
		}
		d, err := Open(keyedFolder(t, nodes, declared+more+"}", "source,target\nd,a\n"))
		if err != nil {
			t.Fatal(err)
		}
		d, err = d.Encoded([]int32{0, 1, 2, 3, 4})
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]string{
			"gap_account": {"3600", "", "3600", "", "3600"}, "n_account": {"2", "0", "1", "", "3"},
			"ratio_amount_account": {"2", "", "2", "", "0.4"},
		} {
			if got := columnOf(d, name); !slices.Equal(got, want) {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if isThere := columnOf(d, "account") != nil; isThere != (kind != "") {
			t.Errorf("kind %q: the column of the key is an attribute: %v", kind, isThere)
		}
		if want := [][2]int32{{3, 1}, {2, 1}, {0, 2}, {4, 0}}; !slices.Equal(d.Edges, want) {
			t.Errorf("edges %v, want %v", d.Edges, want)
		}
		want := gnn.EdgeKinds{{}, {Name: "same", Directed: true}}
		if !slices.Equal(d.Kinds, want) || d.Marks[0].Kind != 0 || d.Marks[1].Kind != 1 {
			t.Errorf("kinds %v, marks %v, want %v", d.Kinds, d.Marks, want)
		}
		if d.Schema.Keys == nil || d.Raw == nil || len(d.Raw.Edges) != 1 || columnOf(d.Raw, "account") == nil {
			t.Error("the schema has no keys, or the data set is not kept as it was")
		}
	}
}

// TestKeyedLeak: a payment is told no label that comes after it. The plant: the label of each payment comes an hour after the next
// one of its account, which has the same label. A share that counted labels at once would tell all of them; this one tells none.
func TestKeyedLeak(t *testing.T) {
	nodes := "id,label,time,label_time,account\n"
	for i := range 100 {
		label := []string{"ok", "fraud"}[i/2%2]
		nodes += fmt.Sprintf("p%d,%s,%d,%d,a%d\n", i, label, 1772323200000+i*3_600_000, 1772323200000+i*3_600_000+7_200_000, i/2)
	}
	dir := keyedFolder(t, nodes, `{"keys": {"account": {"labels": "fraud", "velocity": true}}}`, "")
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := func(d *Dataset) (told int) {
		d, err := d.Encoded(d.arrivals())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range columnOf(d, "share_fraud_account") {
			if text != "" {
				told++
			}
		}
		return told
	}
	if told := count(d); told != 0 {
		t.Errorf("%d shares tell a label that has not come", told)
	}
	for v := range d.LabelTime { // as if labels came at once
		d.LabelTime[v] = d.Time[v]
	}
	if told := count(d); told != 50 {
		t.Errorf("the plant is found %d times, want 50", told)
	}
	d.LabelTime = slices.Repeat([]float64{Never}, len(d.Time))
	if told := count(d); told != 0 {
		t.Errorf("%d shares tell a label that never comes", told)
	}
}

// TestKeyedRefused: what keys lack is said in one line, with the remedy.
func TestKeyedRefused(t *testing.T) {
	const velocity = `{"keys": {"account": {"velocity": true, "amounts": ["amount"]}}}`
	for name, test := range map[string]struct{ nodes, description, want string }{
		"no column": {"id,label,time,amount\na,x,2026-03-01,1\nb,y,2026-03-02,2\n", velocity, `there is no column "account"`},
		"no time":   {"id,label,amount,account\na,x,1,c\nb,y,2,c\n", velocity, "give it in a column time"},
		"a year":    {"id,label,time,amount,account\na,x,2019,1,c\nb,y,2020,2,c\n", velocity, "milliseconds since 1970"},
		"its column": {
			"id,label,time,amount,account,n_account\na,x,2026-03-01,1,c,1\nb,y,2026-03-02,2,c,2\n", velocity,
			"which is there already",
		},
		"labels": {
			"id,label,time,account\na,x,2026-03-01,c\nb,y,2026-03-02,c\n", `{"keys": {"account": {"labels": "x"}}}`, "label_time",
		},
		"declaration": {"id,label,time,account\na,x,2026-03-01,c\n", `{"keys": {"account": {"velocity": ["day"]}}}`, "such as 30d"},
	} {
		_, err := Open(keyedFolder(t, test.nodes, test.description, ""))
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want a line with %q", name, err, test.want)
		}
	}
	d, err := Open(keyedFolder(t, "id,label,time,amount,account\na,x,2026-03-01,one,c\nb,y,2026-03-02,2,c\n", velocity, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Encoded([]int32{0, 1}); err == nil || !strings.Contains(err.Error(), `"one" in row 1`) {
		t.Errorf("an amount that is a word: %v", err)
	}
}

// TestKeyedSaved: a data set with keys that is saved and read again is the same, and its rows without a label warm up before
// the last one that trains.
func TestKeyedSaved(t *testing.T) {
	nodes := "id,label,time,amount,account\n"
	for i := range 40 {
		label := []string{"ok", "fraud", ""}[i%3]
		nodes += fmt.Sprintf("p%d,%s,%d,%d,a%d\n", i, label, 1772323200000+i*1000, i, i%4)
	}
	d, err := Open(keyedFolder(t, nodes, `{"keys": {"account": {"link": {"last": 2}, "velocity": ["1h"], "max": 5}}}`, ""))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "payments")
	if err := d.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !d.Keys.Equal(again.Keys) || !reflect.DeepEqual(d.Table, again.Table) {
		t.Errorf("keys %v and table %v, want %v and %v", again.Keys, again.Table, d.Keys, d.Table)
	}
	s, err := d.Cut(Cut{Share: .5})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Train) != 13 || len(s.Warmup) != 6 || s.Warmup[5] != 17 {
		t.Errorf("%d train, and %v warm up", len(s.Train), s.Warmup)
	}
}
