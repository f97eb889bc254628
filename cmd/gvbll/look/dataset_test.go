package look

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
)

// oddTexts are ids, names and values that a table could take for something else.
var oddTexts = []string{
	"j\n1", " j2", "j2 ", "j2", "7", "007", "-1", `"7"`, `"`, `""`, "a,b", "a;b", "NaN", "null", "None", "NA", "?", "id", "label", "time", "features", "context", "split", "year",
	"\t", "\ufeff", "\ufeffx", "true", "True", "3.0", "1e5", "2026-03-01", "x0", "attribute 0", "=1+1", "#c", "é", "\u00a0", "\x00", "sep=;", "\r\n", `a"b`, "attribute", "label_time", "Time", "kind",
	"1774800000", "0,5", "12 %", "1;2", "[1, 2]", "31.12.2025", "-999", "f1.x",
}

// FuzzExport: any graph that a history can hold is exported to a folder from which the same graph is read: ids with their types,
// edges with their kinds, directions and weights, labels, times, and the names and values of attributes; in csv and in Parquet.
func FuzzExport(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed, "more", seed%2 == 0, seed%3 == 0, seed%7 < 3)
	}
	f.Fuzz(func(t *testing.T, seed uint64, more string, named, marked, plain bool) {
		more = strings.ToValidUTF8(more, "")
		if len(more) > 200 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		odd := func() string {
			if i := rng.IntN(len(oddTexts) + 2); i < len(oddTexts) {
				return oddTexts[i]
			}
			return "v" + more
		}
		value := func() string { // or a number, so that whole columns may be plain
			if plain {
				return []string{"1", "2.5", "-7", "", "1e5"}[rng.IntN(4+int(seed%2))]
			}
			return odd()
		}
		kinds := []string{odd(), odd(), ""}
		edges := make(map[[2]event.ID]map[string]float32) // weights of what was sent, by the ends and the kind
		classes := []string{"1", "None", "good " + strings.TrimSpace(odd())}
		w := &event.Window{}
		var ids []event.ID
		for i := range 1 + rng.IntN(8) {
			id := event.ID{Str: odd()}
			if rng.IntN(3) == 0 || seed%5 == 0 {
				id = event.ID{Num: int64(rng.IntN(9) - 1)}
			}
			n := event.Node{Origin: &event.Origin{}, ID: id, Index: []uint32{}, Time: []int64{0, 5, 1774800000, 1774800000000}[rng.IntN(4)]}
			if named {
				n.Index = nil
				for range 1 + rng.IntN(3) {
					if name := odd(); !slices.ContainsFunc(n.Named, func(a event.Attribute) bool { return a.Name == name }) {
						n.Named = append(n.Named, []event.Attribute{
							{Name: name, Kind: event.Text, Text: value()},
							{Name: name, Kind: event.Text, Text: value()},
							{Name: name, Kind: event.Gap},
							{Name: name, Kind: event.Number, Number: rng.NormFloat64()},
							{Name: name, Kind: event.Bool, Number: float64(i % 2)},
							{Name: name, Kind: event.Numbers, Numbers: []float32{rng.Float32(), float32(i)}},
						}[rng.IntN(6)])
					}
				}
			} else if rng.IntN(2) == 0 {
				n.Index, n.Value = []uint32{uint32(rng.IntN(4))}, []float32{rng.Float32()}
			}
			if i > 0 {
				n.Neighbours = []event.ID{ids[rng.IntN(len(ids))], ids[rng.IntN(len(ids))]}
			}
			for range n.Neighbours {
				if !marked {
					break
				}
				m := event.Mark{Kind: kinds[rng.IntN(3)], Weight: []float32{0, 1, .1, 1e-9, 3e8}[rng.IntN(5)]}
				m.In = m.Kind != "" && m.Kind == kinds[0] && rng.IntN(2) == 0
				n.Marks = append(n.Marks, m)
			}
			ids = append(ids, id)
			w.Nodes = append(w.Nodes, n)
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: id, Class: append(classes, "refused")[rng.IntN(4)]})
		}
		of := pipeline.HistoryConfig{Features: 5, Classes: classes}
		var found kindsOfEvents
		h, err := found.record(&of, func(visit func(*event.Window) error) error { return visit(w) })
		if err != nil {
			t.Fatal(err)
		}
		directed := func(kind string) bool {
			return slices.ContainsFunc(of.Kinds, func(k gnn.EdgeKind) bool { return k.Name == kind && k.Directed })
		}
		between := func(u, v event.ID, kind string) [2]event.ID {
			if !directed(kind) && (u.Str > v.Str || u.Str == v.Str && u.Num > v.Num) {
				u, v = v, u
			}
			return [2]event.ID{u, v}
		}
		for i := range w.Nodes {
			for k := range w.Nodes[i].Neighbours {
				e := w.Nodes[i].To(k)
				ends := between(e.Source, e.Target, e.Kind)
				if e.In {
					ends = between(e.Target, e.Source, e.Kind)
				}
				if edges[ends] == nil {
					edges[ends] = make(map[string]float32)
				}
				if e.Source != e.Target {
					edges[ends][e.Kind] = cmp.Or(e.Weight, 1)
				}
			}
		}
		known := map[string]bool{}
		for _, c := range classes {
			known[c] = true
		}
		d := exported(h, "ledger", &of, known, io.Discard)
		for _, format := range []string{"csv", "parquet"} {
			dir := filepath.Join(t.TempDir(), "out")
			if err := flags.SaveData(d, dir, format); err != nil {
				t.Fatal(err)
			}
			got, err := flags.OpenData(dir)
			if err != nil {
				t.Fatal(err)
			}
			same(t, d, got)
			rows := make([]int32, len(got.Labels))
			for i := range rows {
				rows[i] = int32(i)
			}
			if _, err := got.Encoded(rows); err != nil {
				t.Fatal(err)
			}
			idOf := func(v int32) event.ID {
				text, number := got.IDs.At(v)
				return event.ID{Str: text, Num: number}
			}
			sent := 0
			for _, kinds := range edges {
				sent += len(kinds)
			}
			if len(got.Edges) > sent || marked && len(got.Edges) != sent {
				t.Fatalf("%d edges are read, %d were sent: %v", len(got.Edges), sent, edges)
			}
			for e, ends := range got.Edges {
				mark, kind := dataset.Mark{Weight: 1}, gnn.EdgeKind{}
				if got.Kinds != nil {
					mark, kind = got.Marks[e], got.Kinds[got.Marks[e].Kind]
				}
				u, v := idOf(ends[0]), idOf(ends[1])
				weight, there := edges[between(u, v, kind.Name)][kind.Name]
				if got.Kinds == nil { // all are alike, whatever their kind is called
					weight, there = 1, len(edges[between(u, v, "")])+len(edges[between(v, u, "one")]) > 0
				}
				if !there || weight != mark.Weight || kind.Directed != directed(kind.Name) {
					t.Fatalf("edge %v %v of kind %+v and weight %v, want %v of %v", u, v, kind, mark.Weight, weight, edges)
				}
			}
		}
	})
}

// same compares data sets.
func same(t *testing.T, want, got *dataset.Dataset) {
	t.Helper()
	if len(want.Labels) != len(got.Labels) || want.Dim != got.Dim && want.Table == nil || !slices.Equal(want.Edges, got.Edges) || !slices.Equal(want.Time, got.Time) {
		t.Fatalf("%d nodes of %d features, edges %v, times %v; read as %d of %d, %v, %v", len(want.Labels), want.Dim, want.Edges, want.Time, len(got.Labels), got.Dim, got.Edges, got.Time)
	}
	for v := range int32(len(want.Labels)) {
		text, number := want.IDs.At(v)
		if gotText, gotNumber := got.IDs.At(v); text != gotText || number != gotNumber {
			t.Fatalf("id %q or %d is read as %q or %d", text, number, gotText, gotNumber)
		}
		if want.ClassOf(v) != got.ClassOf(v) {
			t.Fatalf("class %q is read as %q", want.ClassOf(v), got.ClassOf(v))
		}
		if a, b := want.Features[v], got.Features[v]; want.Table == nil && (!slices.Equal(a.Index, b.Index) || !slices.Equal(a.Value, b.Value)) {
			t.Fatalf("features %v are read as %v", a, b)
		}
	}
	if len(want.Table) != len(got.Table) {
		t.Fatalf("%d attributes are read as %d", len(want.Table), len(got.Table))
	}
	for i, c := range want.Table {
		for v, text := range c.Texts {
			read := got.Table[i].Texts[v]
			v, isNumber := spelling.Number(text)
			w, _ := spelling.Number(read)
			alike := spelling.Name(text) == spelling.Name(read) || isNumber && v == w || got.Table[i].Kind == attributes.Number && spelling.IsGap(text+read)
			if c.Name != got.Table[i].Name || !alike {
				t.Fatalf("%q of attribute %q is read as %q of %q", text, c.Name, read, got.Table[i].Name)
			}
		}
	}
}

// TestExported: what was refused and what is not known is said, and ids keep their types.
func TestExported(t *testing.T) {
	node := func(id event.ID, at int64) event.Node {
		return event.Node{Origin: &event.Origin{}, ID: id, Named: []event.Attribute{{Name: "id", Kind: event.Number, Number: 1}, {Name: "card", Kind: event.Text, Text: "c1"}, {Name: "in", Kind: event.Nested}}, Time: at}
	}
	h, err := pipeline.NewHistory(pipeline.HistoryConfig{Features: 1, Classes: []string{"good"}})
	if err != nil {
		t.Fatal(err)
	}
	h.Step(&event.Window{
		Nodes:  []event.Node{node(event.ID{Num: 7}, 0), node(event.ID{Str: "7"}, 1774800000000), node(event.ID{Str: " a"}, 0)},
		Labels: []event.Label{{Origin: &event.Origin{}, Node: event.ID{Num: 7}, Class: "god"}, {Origin: &event.Origin{}, Node: event.ID{Str: "7"}, Class: "good"}},
	})
	var said strings.Builder
	d := exported(h, "ledger", &pipeline.HistoryConfig{Features: 1}, map[string]bool{"good": true}, &said)
	if want := "2 nodes came without an event time, and have that of the node before here\n1 labels are left out: they are of classes that no model of the ledger has\n"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
	if fmt.Sprint(d.Time, d.Classes, d.Labels, len(d.Table)) != fmt.Sprint([]float64{1774800000000, 1774800000000, 1774800000000}, []string{"good"}, []int32{-1, 0, -1}, 2) {
		t.Errorf("times %v, classes %q, labels %v, %d attributes", d.Time, d.Classes, d.Labels, len(d.Table))
	}
}
