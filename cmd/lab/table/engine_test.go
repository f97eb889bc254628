package table

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// trained returns the model of a source at seed 3, with the trainer and the replay.
func trained(t *testing.T, source Source, settings Settings) (*model.Model, *trainer, *replay) {
	t.Helper()
	tr, stream := ready(t, source, settings, 3)
	m, err := tr.gvbll()
	if err != nil {
		t.Fatal(err)
	}
	return m, tr, stream
}

// stepped returns an engine that has served and learned all steps of the stream.
func stepped(t *testing.T, m *model.Model, cfg pipeline.Config, stream *replay) *engine {
	t.Helper()
	e, err := newEngine(m, cfg, stream, strict, stream.context.nodes)
	if err != nil {
		t.Fatal(err)
	}
	for step := range stream.steps {
		e.serve(stream.span(step))
		e.label(stream.span(step))
	}
	return e
}

// TestEngine: under the strict protocol Table I's scores of GVBLL have the same bits as
// the engine's own summaries, so the table measures what the program serves. For
// gvbll-static the table uses an engine without labels; its scores equal those of the
// static head beside the online one.
func TestEngine(t *testing.T) {
	cfg, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes, cfg.Classes, cfg.Dim, cfg.Steps = 400, 5, 12, 9
	for _, source := range []Source{Drifting(cfg), easySource()} {
		t.Run(source.Name, func(t *testing.T) {
			settings := quick()
			m, _, stream := trained(t, source, settings)
			engine := stepped(t, m, pipeline.Config{Update: settings.Update, Bins: settings.Bins}, stream)
			results := run(t, Plan{
				Sources: []Source{source}, Protocols: []string{strict}, Seeds: []uint64{3}, Settings: settings,
				Systems: []string{"gvbll-online", "gvbll-static"},
			})
			for i, summary := range engine.Summaries() {
				got, mean, stream := results[i], summary.WindowMeans(), summary.LabelMeans()
				if got.System != "gvbll-"+summary.Head {
					t.Fatalf("result %d is of system %s, want gvbll-%s as in the engine's summaries", i, got.System, summary.Head)
				}
				if want := (Scores{N: summary.Total().Labels, Acc: mean.Acc, NLL: mean.NLL, ECE: mean.ECE}); got.Mean != want {
					t.Errorf("%s: mean over steps %+v, want the engine's %+v", got.System, got.Mean, want)
				}
				if want := (Scores{N: summary.Total().Labels, Acc: stream.Acc, NLL: stream.NLL, ECE: stream.ECE}); got.Stream != want {
					t.Errorf("%s: mean over the stream %+v, want the engine's %+v", got.System, got.Stream, want)
				}
			}
			online, static := results[0], results[1]
			if online.Mean == static.Mean {
				t.Errorf("online and static both have the scores %+v, want different ones", online.Mean)
			}
		})
	}
}

// TestEngineOfThePool: Table I's scores of the pool and of its heads are those of the
// engine's summaries. The stream has no warm-up, since the engine scores it and the table
// does not.
func TestEngineOfThePool(t *testing.T) {
	cfg, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes, cfg.Classes, cfg.Dim, cfg.Steps, cfg.Warmup = 400, 5, 12, 9, cfg.Train
	for _, source := range []Source{Drifting(cfg), easySource()} {
		t.Run(source.Name, func(t *testing.T) {
			settings := quick()
			m, tr, stream := trained(t, source, settings)
			spec, err := tr.start(model.DefaultPool(tr.data))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.AddPool(tr.data, spec); err != nil {
				t.Fatal(err)
			}
			engine := stepped(t, m, pipeline.Config{Bins: settings.Bins}, stream)
			result := run(t, Plan{
				Sources: []Source{source}, Protocols: []string{strict}, Seeds: []uint64{3}, Settings: settings, Systems: []string{"pool"},
			})[0]
			summaries := engine.Summaries()
			mean := summaries[0].WindowMeans()
			if want := (Scores{N: summaries[0].Total().Labels, Acc: mean.Acc, NLL: mean.NLL, ECE: mean.ECE}); result.Mean != want {
				t.Errorf("mean over steps %+v, want the engine's %+v", result.Mean, want)
			}
			for k, h := range result.Heads {
				mean := summaries[1+k].WindowMeans()
				if h.Name != summaries[1+k].Head || math.Abs(h.NLL-mean.NLL) > 1e-6 || math.Abs(h.Acc-mean.Acc) > 1e-6 {
					t.Errorf("head %s: scores %+v, want those of the engine's %s: %+v", h.Name, h.Scores, summaries[1+k].Head, mean)
				}
			}
		})
	}
}

// TestTransductive: encoders are trained on the features and edges of the whole graph, and on no label of the stream. The
// baselines with a GNN and both of the paper's systems run on them.
func TestTransductive(t *testing.T) {
	encoder := func(source Source) map[string]safetensors.Tensor {
		tr, stream := ready(t, source, quick(), 3)
		if err := tr.seeWhole(stream); err != nil {
			t.Fatal(err)
		}
		if n := len(tr.graph.Features); len(tr.rows.X) != n || len(tr.rows.Train) >= n/2 {
			t.Fatalf("training sees %d nodes and %d labels, of %d", len(tr.rows.X), len(tr.rows.Train), n)
		}
		m, err := tr.gvbll()
		if err != nil {
			t.Fatal(err)
		}
		return m.Encoder.Tensors()
	}
	source := easySource()
	wrong := source
	wrong.Open = func(c dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
		d, cut, err := source.Open(c)
		other := *d
		other.Labels = slices.Clone(d.Labels)
		for _, v := range slices.Concat(cut.Steps...) {
			other.Labels[v] = (d.Labels[v] + 1) % 3
		}
		return &other, cut, err
	}
	alone, _, _ := trained(t, source, quick())
	whole := encoder(source)
	if !reflect.DeepEqual(whole, encoder(wrong)) {
		t.Error("other labels in the stream give another encoder")
	}
	if reflect.DeepEqual(whole, alone.Encoder.Tensors()) {
		t.Error("the encoder is that of the training nodes alone")
	}
	plan := Plan{
		Sources: []Source{source}, Protocols: []string{full, transductive, strict}, Seeds: []uint64{3}, Settings: quick(),
		Systems: []string{"graphsage", "temp-scale", "gvbll-online", "pool"},
	}
	for i, r := range run(t, plan) {
		if r.Protocol != plan.Protocols[i/4] || r.Mean.Acc < .6 {
			t.Errorf("%s, %s: accuracy %v", r.Protocol, r.System, r.Mean.Acc)
		}
	}
}

// TestFull: under the full protocol nodes are served on the whole graph. The engine
// serves only arrivals, so nodes leave and arrive again; the probabilities must still be
// those of embeddings computed on the whole graph at once.
func TestFull(t *testing.T) {
	settings := quick()
	_, tr, stream := trained(t, easySource(), settings)
	static, err := newStatic(tr, stream, full)
	if err != nil {
		t.Fatal(err)
	}
	m := static.Model()
	head := posterior.NewStatic(m.Prior)
	z := stream.embeddings(m.Encoder, full)
	for step := range stream.steps {
		n := len(stream.stepLabels(step))
		rows := posterior.Rows{Z: z[step], Tau: make([]float64, n)}
		for i := range rows.Tau {
			rows.Tau[i] = m.Temperature.At(z[step][i*m.Prior.Dim : (i+1)*m.Prior.Dim])
		}
		got, want := make([]float64, n*len(m.Classes)), make([]float64, n*len(m.Classes))
		static.predict(step, got)
		head.Predict(rows, want)
		for i := range want {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				t.Fatalf("step %d: probability %d is %v, want %v as on the whole graph", step, i, got[i], want[i])
			}
		}
	}
}

// TestAblations: every ablation of the pool's config serves well above chance, and its
// NLL differs from the whole pool's if its part was there. Late labels make the NLL worse.
func TestAblations(t *testing.T) {
	plan := Plan{Sources: []Source{easySource()}, Protocols: []string{strict, full}, Seeds: []uint64{1}, Settings: quick(), Systems: append([]string{"pool"}, ablations...)}
	whole := 0.0
	for _, r := range run(t, plan) {
		if r.System == "pool" {
			whole = r.Mean.NLL
		} else if _, part := without(pool.Default(pool.Traits{Density: 1, Negative: true}), r.System); part && r.Mean.NLL == whole {
			t.Errorf("%s: NLL %v, as with the whole pool", r.System, whole)
		}
		if r.Mean.Acc < 0.5 {
			t.Errorf("%s, %s: accuracy %.3f, want at least 0.5", r.System, r.Protocol, r.Mean.Acc)
		}
	}
	plan.Settings.Delay = 3
	late := run(t, plan)
	if late[0].Mean.NLL <= whole {
		t.Errorf("NLL %.3f with labels three steps late, want more than the %.3f with labels at once", late[0].Mean.NLL, whole)
	}
}

// TestBatchesOfOne: the pool's NLL hardly depends on whether labels come one at a time or
// 15 at once, so the size of a step need not be tuned.
func TestBatchesOfOne(t *testing.T) {
	var nll []float64
	for _, steps := range []int{7, 105} {
		source := easySource()
		open := source.Open
		source.Open = func(c dataset.Cut) (*dataset.Dataset, dataset.Stream, error) {
			c.Steps = steps
			return open(c)
		}
		r := run(t, Plan{Sources: []Source{source}, Protocols: []string{strict}, Seeds: []uint64{1}, Settings: quick(), Systems: []string{"pool"}})[0]
		if len(r.Steps) != steps {
			t.Fatalf("%d steps, want %d", len(r.Steps), steps)
		}
		nll = append(nll, r.Stream.NLL)
	}
	if math.Abs(nll[0]-nll[1]) > 0.08 {
		t.Errorf("NLL %.3f with batches of 15 and %.3f with batches of one, want at most 0.08 between them", nll[0], nll[1])
	}
}
