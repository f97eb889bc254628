package parts_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// published is the latest prediction of a node that waits for its label, and the degree of
// the node then.
type published struct {
	degree, revision int
	probabilities    []float32
}

// changes returns by how many edges the degree has changed since.
func (n *published) changes(r *pipeline.Report) int { return max(r.Degree-n.degree, n.degree-r.Degree) }

// TestRescoring compares revisions with a naive computation of the nodes that are due:
// those that wait for a label and whose degree or confidence has changed enough, in the
// order in which they became due, up to the limit. A revision is what a query returns at
// that time.
func TestRescoring(t *testing.T) {
	for _, r := range []pipeline.Rescoring{{After: 1}, {After: 3}, {After: 2, Limit: 2}, {Confidence: .5}, {After: 2, Confidence: .6, Limit: 3}} {
		t.Run(fmt.Sprintf("%+v", r), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, uint64(r.After)))
			m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
			cfg := pipeline.Config{Samples: 2, Rescore: r}
			e, plain := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2})
			l := pipelinetest.NewRandomStream(rng, m)
			latest := map[event.ID]*published{}
			revised, scored, differ := 0, 0, 0
			limit := e.Config().Rescore.Limit
			for range 150 {
				w := l.Window()
				// First the nodes alone, so that a query afterwards uses the posterior that
				// served, unless a waiting label was joined.
				labels := w.Labels
				w.Labels = nil
				out, bare := e.Step(w), plain.Step(w)
				if diff := cmp.Diff(bare.Predictions, out.Predictions); diff != "" {
					t.Fatalf("window %d: first predictions differ\n%s", w.Number, diff)
				}
				for id := range latest {
					if _, there := e.Node(id); !there {
						delete(latest, id)
					}
				}
				for _, p := range out.Predictions {
					report, _ := e.Node(p.Node)
					if report.Label == "" {
						latest[p.Node] = &published{degree: report.Degree, probabilities: p.Probabilities}
					}
				}
				if len(out.Revisions) > limit {
					t.Fatalf("window %d: %d revisions, want at most %d", w.Number, len(out.Revisions), limit)
				}
				for _, p := range out.Revisions {
					n := latest[p.Node]
					if n == nil {
						t.Fatalf("window %d: revision of %v, which does not wait for a label", w.Number, p.Node)
					}
					report, _ := e.Node(p.Node)
					if by := n.changes(report); r.Confidence == 0 && by < r.After {
						t.Errorf("window %d: %v was predicted again after %d changes, want at least %d", w.Number, p.Node, by, r.After)
					}
					if n.revision++; int(p.Revision) != n.revision || p.Window != w.Number || p.Model != m.ID {
						t.Errorf("window %d: %v has revision %d of window %d, want revision %d of this window", w.Number, p.Node, p.Revision, p.Window, n.revision)
					}
					if len(out.Labelled) == 0 && !reflect.DeepEqual(p.Probabilities, report.Now.Probabilities) {
						t.Errorf("window %d: %v revised to %v, want %v of a query", w.Number, p.Node, p.Probabilities, report.Now.Probabilities)
					}
					was := n.probabilities[argmaxOf(n.probabilities)]
					if c := float32(r.Confidence); c > 0 && (was >= c) == (p.Confidence >= c) {
						t.Errorf("window %d: confidence of %v revised from %v to %v, which does not cross %v", w.Number, p.Node, was, p.Confidence, c)
					}
					n.degree, n.probabilities = report.Degree, p.Probabilities
					revised++
				}
				if r.Confidence == 0 && len(out.Revisions) < limit {
					for id, n := range latest {
						if report, _ := e.Node(id); report.Label == "" && n.changes(report) >= r.After {
							t.Errorf("window %d: %v was not predicted again after %d changes", w.Number, id, n.changes(report))
						}
					}
				}
				// Then the labels alone. Without new edges, the only revisions are those that
				// were over the limit before.
				second := &event.Window{Number: l.Number, Labels: labels}
				l.Number++
				out, bare = e.Step(second), plain.Step(second)
				for _, p := range out.Revisions {
					latest[p.Node].revision++
					latest[p.Node].probabilities = p.Probabilities
					report, _ := e.Node(p.Node)
					latest[p.Node].degree = report.Degree
				}
				if out.Posterior != bare.Posterior {
					t.Fatalf("window %d: revisions changed the posterior", second.Number)
				}
				last := out.Heads[len(out.Heads)-1]
				if diff := cmp.Diff(bare.Heads, out.Heads[:len(out.Heads)-1]); diff != "" || last.Name != "revised" {
					t.Fatalf("window %d: last head %s, want revised; other heads (-want +got)\n%s", second.Number, last.Name, diff)
				}
				for i, joined := range out.Labelled {
					n := latest[joined.Node]
					if n == nil {
						continue
					}
					p := n.probabilities
					if got := last.Scores[i]; got.Class != int32(argmaxOf(p)) || got.Confidence != float64(p[argmaxOf(p)]) {
						t.Errorf("window %d: %v has score %+v, want that of the last published %v", second.Number, joined.Node, got, p)
					}
					if scored++; last.Scores[i] != out.Heads[0].Scores[i] {
						differ++
					}
					delete(latest, joined.Node)
				}
			}
			if revised == 0 || scored == 0 || differ == 0 {
				t.Errorf("%d revisions, %d of them scored, %d with another score than at first, want some of each", revised, scored, differ)
			}
			if s := e.Summaries(); s[len(s)-1].Head != "revised" || s[len(s)-1].Total().Labels != s[0].Total().Labels {
				t.Errorf("summaries %+v, want revised last, with all labels", s)
			}
		})
	}
}

// argmaxOf returns the lowest index of the largest probability.
func argmaxOf(p []float32) (best int) {
	for i := range p {
		if p[i] > p[best] {
			best = i
		}
	}
	return best
}

// TestRescoringIsRestored: a restored engine has the same nodes due and the same last
// published predictions as the one that was saved.
func TestRescoringIsRestored(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 12))
		m := pipelinetest.ModelOf(t, rng, gnn.KindGCN, 2)
		cfg := pipeline.Config{Samples: 2, Bounds: pipeline.Bounds{Pending: 30}, Rescore: pipeline.Rescoring{After: 1 + int(seed%3), Confidence: float64(seed%2) / 2, Limit: 1 + int(seed%4)}}
		e := pipelinetest.NewEngine(t, m, cfg)
		l := pipelinetest.NewRandomStream(rng, m)
		for range rng.IntN(80) {
			e.Step(l.Window())
		}
		for range 3 {
			e = pipelinetest.Followed(t, rng, l, e, m, cfg)
		}
	}
}

// TestRescoringOff: without rescoring, settings, snapshots and outcomes have no trace of
// it.
func TestRescoringOff(t *testing.T) {
	e, m, cfg, l := pipelinetest.Lived(t, 2, 30)
	off := cfg
	off.Rescore = pipeline.Rescoring{Limit: 7}
	other := pipelinetest.NewEngine(t, m, off)
	if got, want := other.Settings(), e.Settings(); got != want {
		t.Errorf("settings %q, want %q", got, want)
	}
	on := cfg
	on.Rescore = pipeline.Rescoring{After: 2}
	if got := pipelinetest.NewEngine(t, m, on).Settings(); got == e.Settings() {
		t.Errorf("settings %q with rescoring and without, want them to differ", got)
	}
	if out := e.Step(l.Window()); out.Revisions != nil || out.Heads[len(out.Heads)-1].Name == "revised" {
		t.Errorf("outcome %+v, want neither revisions nor the head revised", out)
	}
	// The settings in a snapshot have the names rescore-after, -confidence and -limit.
	if bytes.Contains(bytes.ReplaceAll(pipelinetest.SnapshotOf(t, e, nil), []byte("rescore-"), nil), []byte("rescore")) {
		t.Error("the snapshot has tensors of rescoring")
	}
	for _, r := range []pipeline.Rescoring{{After: -1}, {Confidence: 1}, {Confidence: -.1}, {After: 1, Limit: -1}} {
		if _, err := (pipeline.Config{Rescore: r}).WithDefaults(); err == nil {
			t.Errorf("%+v is accepted, want an error", r)
		}
	}
	s := pipelinetest.NewEngine(t, m, on).Snapshot(nil)
	defer s.Close()
	file, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pipelinetest.Restore(m, cfg, file); err == nil {
		t.Error("a snapshot with rescoring was restored without it, want an error")
	}
}
