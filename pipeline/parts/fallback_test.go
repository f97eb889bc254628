package parts_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior"
)

// TestFallback: wrong labels spoil the online head. The static head serves once its lead is
// large enough, and the online head again once the lead is gone. The loss of the served
// predictions exceeds that of either head by no more than the bound that is proved at type
// fallback.
func TestFallback(t *testing.T) {
	for seed := range uint64(8) {
		const threshold = 4
		s := pipelinetest.NewCalibratedStream(t, seed)
		update := posterior.DefaultConfig()
		update.Clip = 0.5
		e := pipelinetest.NewEngine(t, s.M, pipeline.Config{Update: update, Fallback: threshold})
		plain := pipelinetest.NewEngine(t, s.M, pipeline.Config{Update: update, Fallback: -1})
		var served, online, static, most float64
		switches, by, was := 0, []int{}, 0
		for step := range 90 {
			s.Twist = nil
			if step/15%3 == 1 {
				s.Twist = func(y int32) int32 { return (y + 1) % 3 }
			}
			nodes, labels := s.Next(12)
			out := e.Step(nodes)
			if out.ServedBy != was {
				switches++
			}
			was = out.ServedBy
			by = append(by, was)
			without := plain.Step(nodes)
			if was == 0 {
				for i := range out.Predictions {
					if !slices.Equal(out.Predictions[i].Probabilities, without.Predictions[i].Probabilities) {
						t.Fatal("the online head serves, but the probabilities are not those of an engine without fallback")
					}
				}
			} else if v := out.Predictions[0].PosteriorVersion; v != 0 {
				t.Fatalf("the static head serves with posterior version %d, want 0", v)
			}
			out = e.Step(labels)
			if again := plain.Step(labels); again.Posterior != out.Posterior || again.ServedBy != 0 || again.Heads[heads.ByStatic].Lead != 0 {
				t.Fatal("the fallback changed the posterior, or the engine without fallback falls back")
			}
			delta := 0.
			for i, l := range out.Labelled {
				if l.By != was {
					t.Fatalf("label of a prediction by head %d, want %d", l.By, was)
				}
				served += out.Heads[l.By].Scores[i].LogLoss
				online += out.Heads[0].Scores[i].LogLoss
				static += out.Heads[1].Scores[i].LogLoss
				delta += out.Heads[0].Scores[i].LogLoss - out.Heads[1].Scores[i].LogLoss
			}
			most = max(most, math.Abs(delta))
			if out.Heads[heads.ByStatic].Lead < 0 || out.Heads[heads.ByStatic].Lead > threshold {
				t.Fatalf("lead %v, want it in [0, %v]", out.Heads[heads.ByStatic].Lead, threshold)
			}
		}
		if !slices.Contains(by, 1) || by[0] != 0 || switches < 2 {
			t.Errorf("seed %d: heads that served %v, want the online one at first and at least two switches", seed, by)
		}
		bound := threshold + most
		if served > static+float64(switches/2+1)*bound+1e-9 || served > online+float64((switches+1)/2)*bound+1e-9 {
			t.Errorf("seed %d: loss %v served, %v online, %v static with %d switches, want it within %v for each switch", seed, served, online, static, switches, bound)
		}
	}
}

// TestFallbackIsConsistent: while the static head serves, queries and scores by slice use
// its predictions too.
func TestFallbackIsConsistent(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 5)
	update := posterior.DefaultConfig()
	update.Clip = 2
	e := pipelinetest.NewEngine(t, s.M, pipeline.Config{Update: update, Fallback: 2, Coverage: pipeline.Coverage{Target: 0.9}})
	s.Twist = func(y int32) int32 { return (y + 1) % 3 }
	for step := range 60 {
		if step == 20 {
			s.Twist = nil
		}
		nodes, labels := s.Next(10)
		out := e.Step(nodes)
		if out.ServedBy == 1 {
			r, known := e.Node(nodes.Nodes[3].ID)
			if !known || r.Served == nil {
				t.Fatal("the engine does not know the node, or what was served for it")
			}
			p := out.Predictions[3]
			for what, got := range map[string]*pipeline.Opinion{"served": r.Served, "now": &r.Now} {
				if got.Class != p.Class || !slices.Equal(got.Probabilities, p.Probabilities) {
					t.Errorf("%s: prediction %+v, want %+v", what, got.Prediction, p)
				}
			}
			if r.Now.Total != p.Total || r.Now.PosteriorVersion != 0 {
				t.Errorf("current prediction %+v, want total %v and version 0", r.Now.Prediction, p.Total)
			}
			out = e.Step(labels)
			for i, l := range out.Labelled {
				if l.Predicted != s.M.Classes[out.Heads[1].Scores[i].Class] {
					t.Errorf("label %d: predicted %s, want %s", i, l.Predicted, s.M.Classes[out.Heads[1].Scores[i].Class])
				}
			}
			return
		}
		e.Step(labels)
	}
	t.Fatal("the static head never served")
}

// TestFallbackSettings: the fallback is part of the ledger's settings, unless it is off.
func TestFallbackSettings(t *testing.T) {
	for fallback, want := range map[float64]string{0: "20", 7.5: "7.5", -1: "0"} {
		cfg, err := pipeline.Config{Fallback: fallback}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := pipeline.Config{Fallback: -1}.WithDefaults()
		if got := string(cfg.Settings()); got != strings.Replace(string(plain.Settings()), `"fallback":0,`, `"fallback":`+want+",", 1) {
			t.Errorf("fallback %v: settings %s, want \"fallback\":%s", fallback, got, want)
		}
	}
	if _, err := (pipeline.Config{Fallback: math.NaN()}).WithDefaults(); err == nil {
		t.Error("a fallback of NaN is accepted, want an error")
	}
}
