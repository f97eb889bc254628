package retrain_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/retrain"
	"github.com/gvbll/gvbll/posterior/calibration"
)

// windows returns a data set as a stream: first the training and warm-up nodes as context,
// with their labels; then for each step a window of its nodes, and a window of the labels
// of the step that came delay steps before.
func windows(d *dataset.Dataset, cut dataset.Stream, delay int) (list []event.Window) {
	batches := append([][]int32{slices.Concat(cut.Train, cut.Warmup)}, cut.Steps...)
	neighbours := d.Arrivals(batches)
	add := func(nodes, labels []int32, context bool) {
		w := event.Window{Number: int64(len(list))}
		for _, v := range nodes {
			x := d.Features[v]
			n := event.Node{Origin: &event.Origin{}, ID: id(v), Dense: x.Dense, Index: x.Index, Value: x.Value, Context: context}
			for _, u := range neighbours[v] {
				n.Neighbours = append(n.Neighbours, id(u))
			}
			w.Nodes = append(w.Nodes, n)
		}
		for _, v := range labels {
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: id(v), Class: d.Classes[d.Labels[v]]})
		}
		list = append(list, w)
	}
	add(batches[0], batches[0], true)
	for t, step := range cut.Steps {
		add(step, nil, false)
		if t >= delay {
			add(nil, cut.Steps[t-delay], false)
		}
	}
	return list
}

func id(v int32) event.ID { return event.ID{Num: int64(v)} }

// streamOf returns a list of windows as a stream.
func streamOf(list []event.Window) retrain.Stream {
	return func(ctx context.Context, visit func(*event.Window) error) error {
		for i := range list {
			if err := visit(&list[i]); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
}

// phase1 trains the model with which a stream begins.
func phase1(t testing.TB, d *dataset.Dataset, cut dataset.Stream, cfg model.Config) *model.Model {
	t.Helper()
	data := model.Data{Name: d.Name, Dim: d.Dim, Classes: d.Classes}
	for _, v := range cut.Train {
		data.IDs, data.X, data.Labels = append(data.IDs, id(v)), append(data.X, d.Features[v]), append(data.Labels, d.Labels[v])
	}
	data.Src, data.Dst = d.Subgraph(cut.Train)
	m, err := model.Train(t.Context(), data, cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve returns the mean log loss of each head of a model that plays the windows, over the
// nodes that came in a window from on.
func serve(t testing.TB, m *model.Model, list []event.Window, from int64) map[string]float64 {
	t.Helper()
	e, err := pipeline.New(m, pipeline.Config{Local: pipeline.Local{Unwatched: true}})
	if err != nil {
		t.Fatal(err)
	}
	tallies := make(map[string]*calibration.Tally)
	for i := range list {
		out := e.Step(&list[i])
		for h, head := range out.Heads {
			if tallies[head.Name] == nil {
				tallies[head.Name] = &calibration.Tally{}
			}
			for j := range out.Labelled {
				if out.Labelled[j].Served >= from {
					tallies[head.Name].Add((*calibration.Score)(&out.Heads[h].Scores[j]))
				}
			}
		}
	}
	losses := make(map[string]float64)
	for name, x := range tallies {
		losses[name] = x.Means().NLL
	}
	return losses
}

// drifting returns a graph that drifts strongly, of ten classes in fifty steps.
func drifting(t testing.TB, nodes int) (*dataset.Dataset, dataset.Stream) {
	t.Helper()
	return generated(t, func(c *dataset.DriftConfig) { c.Nodes, c.Classes, c.Steps = nodes, 10, 50 })
}

// generated returns a graph of the generator that drifts strongly, changed as said.
func generated(t testing.TB, change func(*dataset.DriftConfig)) (*dataset.Dataset, dataset.Stream) {
	t.Helper()
	c, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	change(&c)
	d, cut, err := dataset.Drift(c)
	if err != nil {
		t.Fatal(err)
	}
	return d, cut
}

// scotus returns the citations of the Supreme Court in order of term; the earliest fifth is
// for training. It skips the test if the data set is not there.
func scotus(t *testing.T) (*dataset.Dataset, dataset.Stream) {
	t.Helper()
	const dir, steps = "../../../shared/datasets/scotus", 100
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no shared/datasets/scotus beside the repository")
	}
	d, err := dataset.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	cut := dataset.Stream{Steps: make([][]int32, steps)}
	n := len(d.Labels)
	for v := range d.Labels {
		if v < n/5 {
			cut.Train = append(cut.Train, int32(v))
			continue
		}
		s := (v - n/5) * steps / (n - n/5)
		cut.Steps[s] = append(cut.Steps[s], int32(v))
	}
	return d, cut
}

// TestRetrainingPays: on a stream that drifts, a model that is retrained half-way has better
// heads on the embedding, over the second half, than the one that the stream began with, and
// the pool of heads, in which little hangs on the embedding, is not worse by more than chance.
// Heads that read no embedding are the same; those that count labels differ a little, since
// a neighbour counts as what was served for it until its label comes.
func TestRetrainingPays(t *testing.T) {
	for _, graph := range []struct {
		name           string
		open           func(*testing.T) (*dataset.Dataset, dataset.Stream)
		static, online float64 // the least gain of these heads, nats a label
	}{
		{"drift", func(t *testing.T) (*dataset.Dataset, dataset.Stream) { return drifting(t, 6000) }, 1, 0.1},
		{"scotus", scotus, 0.3, 0.2},
	} {
		t.Run(graph.name, func(t *testing.T) {
			d, cut := graph.open(t)
			without, with := halfway(t, d, cut, 1, 1)
			for _, head := range slices.Sorted(maps.Keys(with)) {
				t.Logf("%-14s log loss %.3f, retrained %.3f", head, without[head], with[head])
			}
			gain := func(head string) float64 { return without[head] - with[head] }
			const chance = 0.003
			if gain("pool") < -chance || gain("static") < graph.static || gain("online") < graph.online {
				t.Errorf("retraining gains %.3f nats a label for the pool, %.3f for the static head and %.3f for the online one, want %v, %v and %v at least",
					gain("pool"), gain("static"), gain("online"), -chance, graph.static, graph.online)
			}
			for head, most := range map[string]float64{
				"labels": 1e-3, "labels-scaled": 1e-3, "labels-second": 1e-3, "votes": 1e-3, "all": 1e-3,
				"wide": 1e-6, "wide-own": 1e-6, "bayes": 1e-6,
			} {
				if math.Abs(gain(head)) > most {
					t.Errorf("head %s, which reads no embedding, gains %v", head, gain(head))
				}
			}
		})
	}
}

// halfway returns the mean log loss of each head over the second half of a stream whose
// labels come delay steps late, for the model that the stream began with, and for one that
// is trained on the first half and promoted then.
func halfway(t testing.TB, d *dataset.Dataset, cut dataset.Stream, seed uint64, delay int) (without, with map[string]float64) {
	t.Helper()
	list := windows(d, cut, delay)
	cfg := model.Config{Pool: true, Seed: seed}
	first := phase1(t, d, cut, cfg)
	half := int64(len(list) / 2)
	r, err := retrain.Train(t.Context(), streamOf(list[:half]), retrain.Config{Name: d.Name, Model: cfg, Serving: first})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, first, list, half), serve(t, r.Model, list, half)
}

// BenchmarkHalfway prints what one retraining half-way brings on the generator's strong
// drift at the size of docs/table.md, as log losses over the second half, nats a label.
func BenchmarkHalfway(b *testing.B) {
	for _, delay := range []int{1, 10} {
		for seed := range uint64(3) {
			b.Run(fmt.Sprintf("late=%d/seed=%d", delay, seed+1), func(b *testing.B) {
				for b.Loop() {
					d, cut := generated(b, func(c *dataset.DriftConfig) { c.Seed = seed + 1 })
					without, with := halfway(b, d, cut, seed+1, delay)
					for _, head := range []string{"static", "online", "pool"} {
						b.ReportMetric(without[head], head)
						b.ReportMetric(with[head], head+"-retrained")
					}
				}
			})
		}
	}
}

// small trains quickly.
var small = model.Config{Pool: true, Seed: 1, Epochs: 5, Hidden: []int{8}}

// TestTrainFromStream: the model is trained on every node with a label, and knows their
// ids; candidate and serving model are scored on the same labels, as engines with them
// would score; the same stream gives the same model.
func TestTrainFromStream(t *testing.T) {
	d, cut := drifting(t, 600)
	list := windows(d, cut, 1)
	first := phase1(t, d, cut, small)
	cfg := retrain.Config{Name: "log", Model: small, Serving: first}
	r, err := retrain.Train(t.Context(), streamOf(list), cfg)
	if err != nil {
		t.Fatal(err)
	}
	labels := 0
	for i := range list {
		for _, l := range list[i].Labels {
			labels++
			if !r.Model.TrainedOn(l.Node) {
				t.Errorf("the model does not know that it was trained on node %v", l.Node)
			}
		}
	}
	v := r.Model.Training.Validation
	if r.Model.Training.Nodes != labels || r.Windows != int64(len(list)) || v == nil || v.Serving != first.ID || v.Cut != r.Cut {
		t.Errorf("trained on %d nodes of %d windows, validation %+v, want %d, %d and that of model %s", r.Model.Training.Nodes, r.Windows, v, labels, len(list), first.ID)
	}
	scored := 0
	for i := range list {
		for _, l := range list[i].Labels {
			if arrived(list, l.Node) >= r.Cut {
				scored++
			}
		}
	}
	if v.Labels != scored || r.Served[0].Total().Labels != scored || scored == 0 {
		t.Errorf("scored %d labels of the candidate and %d of the serving model, want %d", v.Labels, r.Served[0].Total().Labels, scored)
	}
	if got, want := v.Served["static"].NLL, serve(t, first, list, r.Cut)["static"]; math.Abs(got-want) > 1e-12 {
		t.Errorf("the serving model's static head has log loss %v, an engine with it %v", got, want)
	}
	again, err := retrain.Train(t.Context(), streamOf(list), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if again.Model.ID != r.Model.ID || !reflect.DeepEqual(again.Candidate, r.Candidate) {
		t.Errorf("the same stream gives models %s and %s", r.Model.ID, again.Model.ID)
	}
}

// arrived returns the window in which a node arrived.
func arrived(list []event.Window, v event.ID) int64 {
	for i := range list {
		if slices.ContainsFunc(list[i].Nodes, func(n event.Node) bool { return n.ID == v }) {
			return int64(i)
		}
	}
	return -1
}

// TestNothingLater: the candidate does not know the labels after the cut. With others there,
// its static head, which learns nothing while it is played, is as confident in every node,
// and right about others.
func TestNothingLater(t *testing.T) {
	d, cut := drifting(t, 600)
	first := phase1(t, d, cut, small)
	list := windows(d, cut, 1)
	static := func() (confidence float64, correct int) {
		r, err := retrain.Train(t.Context(), streamOf(list), retrain.Config{Name: "log", Model: small, Serving: first})
		if err != nil {
			t.Fatal(err)
		}
		for i := int(r.Cut); i < len(list); i++ {
			for j := range list[i].Labels {
				l := &list[i].Labels[j]
				l.Class = d.Classes[(slices.Index(d.Classes, l.Class)+1)%len(d.Classes)]
			}
		}
		i := slices.IndexFunc(r.Candidate, func(s pipeline.Summary) bool { return s.Head == "static" })
		total := r.Candidate[i].Total()
		for _, b := range total.Bins {
			confidence += b.SumConfidence
		}
		return confidence, total.Correct
	}
	confidence, correct := static()
	if c, n := static(); c != confidence || n == correct {
		t.Errorf("with other labels after the cut, the candidate's confidences sum to %v and %d are correct, before to %v and %d", c, n, confidence, correct)
	}
}

// TestNewClasses: a class that the serving model lacks becomes one of the new model after
// those it has, if it has labels enough or was named. Rare names are left out and said.
func TestNewClasses(t *testing.T) {
	d, cut := drifting(t, 600)
	first := phase1(t, d, cut, small)
	list := windows(d, cut, 1)
	renamed := map[string]int{"young": 8, "slip": 2}
	for i := range list {
		for j := range list[i].Labels {
			for _, name := range []string{"slip", "young"} {
				if i > 2 && i%3 == 0 && renamed[name] > 0 {
					list[i].Labels[j].Class = name
					renamed[name]--
					break
				}
			}
		}
	}
	r, err := retrain.Train(t.Context(), streamOf(list), retrain.Config{Name: "log", Model: small, Serving: first, More: []string{"named"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := append(slices.Clone(first.Classes), "named", "young"); !slices.Equal(r.Model.Classes, want) || !slices.Equal(r.Rare, []string{"slip"}) {
		t.Errorf("classes %q, rare %q, want %q and slip", r.Model.Classes, r.Rare, want)
	}
	if _, err := pipeline.New(r.Model, pipeline.Config{}); err != nil {
		t.Error(err)
	}
}

// TestWithoutServing: without a model that serves, classes are those of the labels.
func TestWithoutServing(t *testing.T) {
	d, cut := drifting(t, 600)
	r, err := retrain.Train(t.Context(), streamOf(windows(d, cut, 1)), retrain.Config{Name: "log", Model: small, Features: d.Dim})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Served) != 0 || r.Candidate[0].Total().Labels == 0 || len(r.Model.Classes) < 5 {
		t.Errorf("%d served scores, %d of the candidate, classes %q", len(r.Served), r.Candidate[0].Total().Labels, r.Model.Classes)
	}
}

// TestNothingToTrainOn: streams that cannot be trained on are refused with the reason, and
// an error of the stream is passed on.
func TestNothingToTrainOn(t *testing.T) {
	d, cut := drifting(t, 600)
	list := windows(d, cut, 1)
	lost := errors.New("the topic is gone")
	for _, test := range []struct {
		name   string
		stream retrain.Stream
		cfg    retrain.Config
		want   string
	}{
		{"no labels", streamOf(list[:0]), retrain.Config{}, "no label of these windows"},
		{"one window", streamOf(list[:2]), retrain.Config{}, "all labels came in window 0"},
		{"since later", streamOf(list), retrain.Config{Since: int64(len(list))}, "no label of these windows"},
		{"lost", func(context.Context, func(*event.Window) error) error { return lost }, retrain.Config{}, lost.Error()},
	} {
		test.cfg.Model, test.cfg.Features = small, d.Dim
		if _, err := retrain.Train(t.Context(), test.stream, test.cfg); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}
