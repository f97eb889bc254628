package parts_test

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestRequests: each event that asks for a prediction of a node of the graph gives one revision, in the
// order of the events, numbered by node, and with what a query returns then; one of a node that is not
// there is refused. First predictions, scores and what is learned are as without any request.
func TestRequests(t *testing.T) {
	for _, after := range []int{0, 2} {
		rng := rand.New(rand.NewPCG(5, uint64(after)))
		m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
		cfg := pipeline.Config{Samples: 2, Rescore: pipeline.Rescoring{After: after}}
		e, plain := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, cfg)
		l := pipelinetest.NewRandomStream(rng, m)
		l.Asks = 4
		last, requested, refused := map[event.ID]int32{}, 0, 0
		for range 150 {
			w := l.Window()
			labels := w.Labels
			w.Labels = nil
			bare := *w
			bare.Nodes = slices.DeleteFunc(slices.Clone(w.Nodes), func(n event.Node) bool { return n.Predict })
			out, without := e.Step(w), plain.Step(&bare)
			if diff := cmp.Diff(without.Predictions, out.Predictions); diff != "" || without.Posterior != out.Posterior || !reflect.DeepEqual(without.Labelled, out.Labelled) {
				t.Fatalf("window %d: first predictions, or what was learned, differ from those without requests\n%s", w.Number, diff)
			}
			for _, n := range w.Nodes {
				if n.Departed { // it may come again in this window
					delete(last, n.ID)
					delete(last, event.ID{Str: n.ID.String()})
				}
			}
			revisions := out.Revisions
			for len(revisions) > 0 && revisions[0].Reason == "" {
				last[revisions[0].Node], revisions = revisions[0].Revision, revisions[1:]
			}
			for i := range w.Nodes {
				n := &w.Nodes[i]
				if !n.Predict {
					continue
				}
				report, there := e.Node(n.ID)
				if !there {
					if !slices.Contains(out.Refused, event.Refusal{Origin: n.Origin, Reason: event.UnknownNode, Detail: "a prediction is asked for, and the node is not in the graph"}) {
						t.Fatalf("window %d: the request of %v, which is not there, is not refused", w.Number, n.ID)
					}
					refused++
					continue
				}
				p := revisions[0]
				revisions = revisions[1:]
				if p.Node != n.ID || p.Reason != event.Requested || p.Origin != n.Origin || p.Time != n.Time || p.Window != w.Number || p.Revision <= last[n.ID] {
					t.Fatalf("window %d: revision %+v for the request of %v, whose last one was %d", w.Number, p, n.ID, last[n.ID])
				}
				last[n.ID] = p.Revision
				if len(out.Labelled) == 0 && !reflect.DeepEqual(p.Probabilities, report.Now.Probabilities) {
					t.Errorf("window %d: %v is predicted as %v on request, want %v of a query", w.Number, p.Node, p.Probabilities, report.Now.Probabilities)
				}
				requested++
			}
			if len(revisions) > 0 {
				t.Fatalf("window %d: %d revisions that nothing asked for", w.Number, len(revisions))
			}
			w = &event.Window{Number: l.Number, Labels: labels}
			l.Number++
			e.Step(w)
			plain.Step(w)
		}
		if requested < 100 || refused < 20 {
			t.Errorf("%d requests were served and %d refused, want more of both", requested, refused)
		}
	}
}

// TestRequestsAreRestored: a restored engine goes on with the numbers of revisions, and without requests
// a snapshot has no trace of them.
func TestRequestsAreRestored(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 14))
		m := pipelinetest.ModelOf(t, rng, gnn.KindGIN, 2)
		cfg := pipeline.Config{Samples: 2, Bounds: pipeline.Bounds{Pending: 30}, Rescore: pipeline.Rescoring{After: int(seed % 2)}}
		e := pipelinetest.NewEngine(t, m, cfg)
		l := pipelinetest.NewRandomStream(rng, m)
		l.Asks = int(1 + seed%3)
		for range rng.IntN(60) {
			e.Step(l.Window())
		}
		for range 3 {
			e = pipelinetest.Followed(t, rng, l, e, m, cfg)
		}
	}
	e, _, _, _ := pipelinetest.Lived(t, 2, 30)
	if bytes.Contains(pipelinetest.SnapshotOf(t, e, nil), []byte("revisions.")) {
		t.Error("a snapshot without requests has their tensors")
	}
}
