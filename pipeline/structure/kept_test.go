package structure_test

import (
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// TestPartialUpdates: an engine that gets what changed of a node has the bits of one that gets
// all of it again, whatever leaves, comes again, is refused or comes twice in a window; also
// when it is restored from a snapshot that was read while the engine went on. Histories agree,
// and what is counted of attributes is the same.
func TestPartialUpdates(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	m := pipelinetest.AccountModel(t, rng)
	cfg := pipeline.Config{Reading: structure.Reading{Partial: true}, Samples: 2}
	partial, whole := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2})
	histories := make([]*pipeline.History, 3) // by the schema, of changes and of all; by name, of changes
	for i := range histories {
		c := pipeline.HistoryConfig{Features: m.Encoder.In(), Schema: m.Schema, Settings: pipeline.Config{Reading: structure.Reading{Partial: i != 1}}}
		if i == 2 {
			c.Schema = nil
		}
		h, err := pipeline.NewHistory(c)
		if err != nil {
			t.Fatal(err)
		}
		histories[i] = h
	}
	known := make([]map[string]string, 20)
	for number := range int64(80) {
		changes, all := accountsWindow(rng, number, known)
		var file []byte
		s := partial.Snapshot(nil)
		file = append(file, make([]byte, s.Len())...)
		half := file[:len(file)/2]
		if number%9 == 4 {
			if _, err := io.ReadFull(s, half); err != nil {
				t.Fatal(err)
			}
		}
		x, y := partial.Step(changes), whole.Step(all)
		if x.Chain != y.Chain || len(x.Predictions) != len(y.Predictions) {
			t.Fatalf("window %d: the chains differ", number)
		}
		if d := cmp.Diff(y.Odd.Attributes, x.Odd.Attributes); d != "" {
			t.Fatalf("window %d: counted of whole events and of changes\n%s", number, d)
		}
		if number%9 == 4 {
			if _, err := io.ReadFull(s, file[len(half):]); err != nil {
				t.Fatal(err)
			}
			s.Close()
			again, _, err := pipelinetest.Restore(m, cfg, file)
			if err != nil {
				t.Fatal(err)
			}
			if again.Step(changes).Chain != y.Chain {
				t.Fatalf("window %d: the engine that was restored differs", number)
			}
			partial = again
		} else {
			s.Close()
		}
		histories[0].Step(changes)
		histories[1].Step(all)
		changes.Nodes = slices.DeleteFunc(changes.Nodes, func(n event.Node) bool { return slices.ContainsFunc(n.Named, isWrong) })
		histories[2].Step(changes) // without a schema nothing is refused
	}
	list := func(h *pipeline.History) []pipeline.Recorded {
		nodes, _ := h.Nodes(func(*pipeline.Recorded) bool { return true })
		return nodes
	}
	byChanges, byAll, byName := list(histories[0]), list(histories[1]), list(histories[2])
	if len(byAll) < 5 || len(byChanges) != len(byAll) {
		t.Fatalf("%d and %d nodes", len(byChanges), len(byAll))
	}
	for i := range byAll {
		if d := cmp.Diff(byAll[i].Features, byChanges[i].Features); d != "" {
			t.Fatalf("features of %v\n%s", byAll[i].ID, d)
		}
	}
	for _, n := range byName {
		got := make(map[string]string)
		for i := range n.Named {
			got[n.Named[i].Name] = n.Named[i].String()
		}
		if d := cmp.Diff(known[n.ID.Num], got); d != "" {
			t.Fatalf("names of %v\n%s", n.ID, d)
		}
	}
}

// accountsWindow returns a window of what changes of accounts, and one with all of their
// values. known has those of the accounts in the graph, nil for one that is not.
func accountsWindow(rng *rand.Rand, number int64, known []map[string]string) (changes, all *event.Window) {
	changes, all = &event.Window{Number: number}, &event.Window{Number: number}
	id := func() event.ID { return event.ID{Num: int64(rng.IntN(len(known)))} }
	for range 6 {
		n := event.Node{Origin: &event.Origin{}, ID: id(), Time: pipelinetest.AccountTime + number*100_000 + int64(rng.IntN(3))}
		v, w := n.ID.Num, n
		switch rng.IntN(12) {
		case 0:
			n.Departed, w.Departed, known[v] = true, true, nil
		default:
			now := pipelinetest.Account(rng)
			n.Neighbours = []event.ID{id()}
			n.Named, w.Neighbours = []event.Attribute{}, n.Neighbours
			for _, name := range pipelinetest.AccountNames {
				if known[v] != nil && rng.IntN(2) == 0 {
					now[name] = known[v][name]
				} else {
					n.Named = append(n.Named, sent(name, now[name]))
				}
				w.Named = append(w.Named, sent(name, now[name]))
			}
			known[v] = now
			if rng.IntN(6) == 0 { // another event, which is refused
				bad := n
				bad.Named = []event.Attribute{sent("amount", "7"), sent("country", "C1"), sent("new", wrong)}
				changes.Nodes, all.Nodes = append(changes.Nodes, n, bad), append(all.Nodes, w, bad)
				continue
			}
		}
		changes.Nodes, all.Nodes = append(changes.Nodes, n), append(all.Nodes, w)
	}
	for range 3 {
		l := event.Label{Origin: &event.Origin{}, Node: id(), Index: int32(rng.IntN(2))}
		changes.Labels, all.Labels = append(changes.Labels, l), append(all.Labels, l)
	}
	return changes, all
}

// wrong is no boolean.
const wrong = "perhaps"

func isWrong(a event.Attribute) bool { return a.Text == wrong }

// sent returns a value as a producer sends it.
func sent(name, text string) event.Attribute {
	if text == "" {
		return event.Attribute{Name: name}
	}
	return event.Attribute{Name: name, Kind: event.Text, Text: text}
}
