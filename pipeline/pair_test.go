package pipeline_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// twoModels returns models for one stream, with different encoders and weights.
func twoModels(t testing.TB, rng *rand.Rand) (a, b *model.Model) {
	t.Helper()
	a, b = pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2), pipelinetest.ModelOf(t, rng, gnn.KindGCN, 1)
	a.ID, b.ID = "first", "second"
	return a, b
}

// newPair returns a pair, and fails the test on an error.
func newPair(t testing.TB, cfg pipeline.Config, models ...*model.Model) *pipeline.Pair {
	t.Helper()
	pair, err := pipeline.NewPair(cfg, models...)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// promote returns the command that promotes a model.
func promote(model string) event.Command {
	return event.Command{Origin: &event.Origin{Topic: "commands"}, Name: event.Promote, Model: model}
}

// TestPair: whichever model serves or is promoted, each has the outcomes that it has alone,
// except for the promotion. A promotion takes effect from the next window on.
func TestPair(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	a, b := twoModels(t, rng)
	cfg := pipeline.Config{Samples: 2, Bounds: pipeline.Bounds{Pending: 40}}
	pair := newPair(t, cfg, a, b)
	alone := map[string]*pipelinetest.Engine{a.ID: pipelinetest.NewEngine(t, a, cfg), b.ID: pipelinetest.NewEngine(t, b, cfg)}
	l := pipelinetest.NewRandomStream(rng, a)
	serves, behind := a.ID, b.ID
	promotions := 0
	for range 120 {
		w := l.Window()
		want, shadow := alone[serves].Step(w), alone[behind].Step(w)
		if rng.IntN(4) == 0 {
			for range 1 + rng.IntN(2) {
				w.Commands = append(w.Commands, promote([]string{a.ID, b.ID}[rng.IntN(2)]))
			}
			if to := w.Commands[len(w.Commands)-1].Model; to != serves {
				serves, behind = behind, serves
				want.Promoted = serves
				promotions++
			}
		}
		want.Shadow, want.Compared = shadow, compared(want, shadow)
		if got := pair.Step(w); !reflect.DeepEqual(got, want) {
			t.Fatalf("window %d (-want +got)\n%s", w.Number, cmp.Diff(want, got))
		}
		if id := pair.Serving().Model().ID; id != serves || pair.Shadow().Model().ID != behind {
			t.Fatalf("model %s serves and %s is in the shadow, want %s and %s", id, pair.Shadow().Model().ID, serves, behind)
		}
	}
	if promotions < 10 {
		t.Errorf("%d promotions, want at least 10", promotions)
	}
}

// compared compares what two models of the same classes predicted for the labels of a window.
func compared(served, shadow *event.Outcome) (c event.Comparison) {
	for i, l := range served.Labelled {
		j := slices.IndexFunc(shadow.Labelled, func(other event.Labelled) bool { return other.Node == l.Node })
		if j >= 0 {
			c.Labels++
			c.Lead += served.Heads[l.By].Scores[i].LogLoss - shadow.Heads[shadow.Labelled[j].By].Scores[j].LogLoss
		}
	}
	return c
}

// TestTake: an engine that has stepped the same windows and is taken into the shadow is as if
// it had been there from the beginning. An engine at another window, or of a model that
// cannot form a pair, is not taken.
func TestTake(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 14))
	a, b := twoModels(t, rng)
	cfg := pipeline.Config{Samples: 2}
	pair, both, alone := newPair(t, cfg, a), newPair(t, cfg, a, b), pipelinetest.NewEngine(t, b, cfg)
	l := pipelinetest.NewRandomStream(rng, a)
	step := func() {
		w := l.Window()
		got, want := pair.Step(w), both.Step(w)
		if pair.Shadow() == nil {
			alone.Step(w)
			want.Shadow, want.Compared = nil, event.Comparison{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("window %d (-want +got)\n%s", w.Number, cmp.Diff(want, got))
		}
	}
	for range 20 {
		step()
	}
	other := *b
	other.Classes = []string{"a", "c", "b"}
	wrong := pipelinetest.NewEngine(t, &other, cfg)
	for range 20 {
		wrong.Step(&event.Window{Number: wrong.Next()})
	}
	if err := pair.Take(wrong.Engine); err == nil || pair.Shadow() != nil {
		t.Errorf("an engine of other classes was taken: error %v", err)
	}
	if err := pair.Take(alone.Engine); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		step()
	}
	if out := pair.Step(&event.Window{Number: l.Number, Commands: []event.Command{promote(b.ID)}}); out.Promoted != b.ID {
		t.Errorf("promoted %q, want %q: %v", out.Promoted, b.ID, out.Refused)
	}
}

// TestMoreClassesInTheShadow: a model with one more class may be in the shadow. It learns
// labels that the serving model refuses, whose names are listed; the two are compared by the
// others, on the classes that both have.
func TestMoreClassesInTheShadow(t *testing.T) {
	few := pipelinetest.TrainedOn(t, []event.ID{{Num: -1}, {Num: -2}})
	d := model.Data{Name: "three", Dim: 2, Classes: []string{"a", "b", "born"}, Labels: []int32{0, 1, 2}}
	for i := range d.Labels {
		d.X = append(d.X, gnn.Vector{Dense: pipelinetest.OneOf(i)})
	}
	more, err := model.Train(t.Context(), d, model.Config{Hidden: []int{2}, Embedding: 2, Epochs: 2, Samples: 2, Pool: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair := newPair(t, pipeline.Config{}, few, more)
	arrivals, labels := &event.Window{}, &event.Window{Number: 1}
	for i, class := range []string{"a", "b", "born", "a", "never"} {
		o, id := &event.Origin{Offset: int64(i)}, event.ID{Num: int64(i)}
		arrivals.Nodes = append(arrivals.Nodes, event.Node{Origin: o, ID: id, Dense: pipelinetest.OneOf(i)})
		labels.Labels = append(labels.Labels, event.Label{Origin: o, Node: id, Class: class})
	}
	labels.Labels = append(labels.Labels, event.Label{Origin: &event.Origin{}, Node: event.ID{}, Index: 7})
	before := pair.Step(arrivals)
	out := pair.Step(labels)
	if want := []string{"born", "never", "#7"}; !slices.Equal(out.Odd.Classes, want) || len(out.Refused) != 3 {
		t.Errorf("unknown classes %q and %d refusals, want %q", out.Odd.Classes, len(out.Refused), want)
	}
	if len(out.Labelled) != 3 || len(out.Shadow.Labelled) != 4 {
		t.Fatalf("the serving model learned %d labels and the shadow %d, want 3 and 4", len(out.Labelled), len(out.Shadow.Labelled))
	}
	var lead float64
	for i, y := range map[int]int{0: 0, 1: 1, 3: 0} {
		p, q := before.Predictions[i].Probabilities, before.Shadow.Predictions[i].Probabilities
		lead += -math.Log(float64(p[y])) + math.Log(float64(q[y])/(float64(q[0])+float64(q[1])))
	}
	if c := out.Compared; c.Labels != 3 || math.Abs(c.Lead-lead) > 1e-6 {
		t.Errorf("compared by %+v, want 3 labels and a lead of %v", c, lead)
	}
}

// TestPairReplaysWithoutTheOther: an engine that replays windows of a pair without the
// other model accepts and refuses the same commands, and has the chain of its model.
func TestPairReplaysWithoutTheOther(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	a, b := twoModels(t, rng)
	both, second := newPair(t, pipeline.Config{Samples: 2}, a, b), newPair(t, pipeline.Config{Samples: 2}, b)
	l := pipelinetest.NewRandomStream(rng, a)
	for i := range 20 {
		w := l.Window()
		if i == 7 || i == 11 {
			w.Commands = []event.Command{promote("third"), promote(b.ID), promote(b.ID)}
		}
		if i == 9 {
			w.Commands = []event.Command{promote(a.ID), {Origin: &event.Origin{}, Name: event.Forget, Nodes: []event.ID{{}}}}
		}
		serves, shadow := both.Serving().Model().ID, both.Shadow().Model().ID
		want := both.Step(w)
		second.AssignRoles(serves, shadow)
		got := second.Step(w)
		if got.Promoted != want.Promoted {
			t.Errorf("window %d: promoted %q, want %q", i, got.Promoted, want.Promoted)
		}
		if diff := cmp.Diff(want.Refused, got.Refused); diff != "" {
			t.Errorf("window %d: refusals (-want +got)\n%s", i, diff)
		}
		of := want
		if of.Model != b.ID {
			of = want.Shadow
		}
		if got.Chain != of.Chain {
			t.Fatalf("window %d: chain %x, want %x", i, got.Chain, of.Chain)
		}
	}
	if both.Serving().Model() != b {
		t.Errorf("model %s serves at the end, want %s", both.Serving().Model().ID, b.ID)
	}
}

// TestPromotionsRefused: only the model in the shadow can be promoted. Promoting the one
// that serves does nothing and is not an error. Commands stay in the window.
func TestPromotionsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	a, b := twoModels(t, rng)
	for _, c := range []struct {
		pair  *pipeline.Pair
		model string
		want  string // in the detail of the refusal; "" for none
	}{
		{newPair(t, pipeline.Config{}, a), b.ID, "no model in the shadow"},
		{newPair(t, pipeline.Config{}, a), a.ID, ""},
		{newPair(t, pipeline.Config{}, a, b), "third", "the model in the shadow is second"},
		{newPair(t, pipeline.Config{}, a, b), a.ID, ""},
		{newPair(t, pipeline.Config{}, a, b), b.ID, ""},
	} {
		w := &event.Window{Commands: []event.Command{promote(c.model)}}
		out := c.pair.Step(w)
		if c.want == "" {
			if len(out.Refused) != 0 {
				t.Errorf("promoting %s: refused: %s", c.model, out.Refused[0].Detail)
			}
			continue
		}
		if len(out.Refused) != 1 || out.Refused[0].Reason != event.ImpossibleCommand || !strings.Contains(out.Refused[0].Detail, c.want) || out.Promoted != "" {
			t.Errorf("promoting %s: %+v, want a refusal with %q", c.model, out.Refused, c.want)
		}
		if len(w.Commands) != 1 {
			t.Errorf("the window has %d commands after the step, want 1", len(w.Commands))
		}
	}
}

// TestModelsThatCannotRunTogether: two models of a pair must have different ids and the same
// features, and the classes of one must begin with those of the other.
func TestModelsThatCannotRunTogether(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	a, b := twoModels(t, rng)
	for want, spoil := range map[string]func(m *model.Model){
		"is the one that serves": func(m *model.Model) { m.ID = a.ID },
		"has the classes":        func(m *model.Model) { m.Classes = []string{"a", "c", "b"} },
		"has 5 features":         func(m *model.Model) { m.Encoder = randomModel(t, rng).Encoder },
	} {
		other := *b
		spoil(&other)
		if _, err := pipeline.NewPair(pipeline.Config{}, a, &other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// TestPairSnapshot: from a snapshot of two engines both can be restored, in either role, or
// only one of them.
func TestPairSnapshot(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 8))
		a, b := twoModels(t, rng)
		cfg := pipeline.Config{Samples: 2, BFloat16: seed%2 == 1}
		pair := newPair(t, cfg, a, b)
		l := pipelinetest.NewRandomStream(rng, a)
		for i := range 10 + rng.IntN(30) {
			w := l.Window()
			if i == 5 && seed%3 > 0 {
				w.Commands = []event.Command{promote(b.ID)}
			}
			pair.Step(w)
		}
		s := pair.Snapshot(map[string]string{"worker": "its own"})
		var file bytes.Buffer
		var later []*event.Window
		var outcomes []*event.Outcome
		for {
			_, err := io.CopyN(&file, s, 1+s.Len()/5)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			later = append(later, l.Window())
			outcomes = append(outcomes, pair.Step(later[len(later)-1]))
		}
		s.Close()
		for _, models := range [][]*model.Model{{a, b}, {b, a}, {a}, {b}} {
			name := fmt.Sprintf("seed %d, %d models, first %s", seed, len(models), models[0].ID)
			restored, meta, err := pipeline.RestorePair(cfg, bytes.NewReader(file.Bytes()), int64(file.Len()), models...)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if meta["worker"] != "its own" || len(meta) != 1 {
				t.Errorf("%s: metadata %v, want that of Snapshot only", name, meta)
			}
			for i, w := range later {
				got, want := restored.Step(w), outcomes[i]
				if len(models) == 2 && !reflect.DeepEqual(got, want) {
					t.Fatalf("%s: window %d (-want +got)\n%s", name, w.Number, cmp.Diff(want, got))
				}
				of := slices.IndexFunc([]*event.Outcome{want, want.Shadow}, func(o *event.Outcome) bool { return o.Model == got.Model })
				if chain := []event.Hash{want.Chain, want.Shadow.Chain}[of]; got.Chain != chain {
					t.Fatalf("%s: window %d: chain %x, want %x", name, w.Number, got.Chain, chain)
				}
			}
		}
		third := *a
		third.ID = "third"
		if _, _, err := pipeline.RestorePair(cfg, bytes.NewReader(file.Bytes()), int64(file.Len()), a, &third); !errors.Is(err, pipeline.ErrNotThere) {
			t.Errorf("a model that the snapshot does not have: got %v, want ErrNotThere", err)
		}
		one := newPair(t, cfg, a)
		single := one.Snapshot(nil)
		alone, err := io.ReadAll(single)
		single.Close()
		if err != nil || !bytes.Equal(alone, pipelinetest.SnapshotOf(t, pipelinetest.NewEngine(t, a, cfg), nil)) {
			t.Errorf("a pair of one model is saved as other bytes than its engine (%v)", err)
		}
	}
}
