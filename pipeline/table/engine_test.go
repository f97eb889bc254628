package table

import (
	"testing"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline"
)

// TestEngine: GVBLL under the strict protocol scores to the last digit what the
// program's engine scores on the same stream with labels that come at once.
func TestEngine(t *testing.T) {
	cfg, err := dataset.DriftPreset("strong")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Nodes, cfg.Classes, cfg.Dim, cfg.Steps = 400, 5, 12, 9
	for _, source := range []Source{Drifting(cfg), easySource()} {
		t.Run(source.Name, func(t *testing.T) {
			settings := quick()
			d, cut, err := source.Open(Cut{Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			s, err := newSchool(t.Context(), d, cut.Train, settings, 3)
			if err != nil {
				t.Fatal(err)
			}
			m, err := s.bayesian()
			if err != nil {
				t.Fatal(err)
			}
			engine, err := pipeline.New(m, pipeline.Config{Update: settings.Update, Bins: settings.Bins})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range windows(d, cut, 0) {
				engine.Step(&w.Window)
			}
			results := run(t, Plan{
				Sources: []Source{source}, Protocols: []string{Strict}, Seeds: []uint64{3}, Settings: settings,
				Systems: []string{"gvbll-online", "gvbll-static"},
			})
			for i, summary := range engine.Summaries() {
				got, mean, stream := results[i], summary.Batches(), summary.Stream()
				if got.System != "gvbll-"+summary.Head {
					t.Fatalf("result %d is of %s, the engine's of %s", i, got.System, summary.Head)
				}
				if want := (Scores{N: summary.Labels, Acc: mean.Acc, NLL: mean.NLL, ECE: mean.ECE}); got.Mean != want {
					t.Errorf("%s: mean over steps %+v, the engine's %+v", got.System, got.Mean, want)
				}
				if want := (Scores{N: summary.Labels, Acc: stream.Acc, NLL: stream.NLL, ECE: stream.ECE}); got.Stream != want {
					t.Errorf("%s: stream %+v, the engine's %+v", got.System, got.Stream, want)
				}
			}
			online, static := results[0], results[1]
			if online.Mean == static.Mean || online.AnchorDistance[0] == 0 || static.AnchorDistance[0] != 0 {
				t.Errorf("online and static are not told apart: %+v, %+v", online.Mean, static.Mean)
			}
		})
	}
}
