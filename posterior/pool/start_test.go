package pool

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestStart: a pool that starts with what another has learned weighs its heads and experts
// as that does, but for biases; with a share of 0 it is a pool of the defaults, and between
// it lies between. It forgets towards what it started with.
func TestStart(t *testing.T) {
	cfg := everything(true)
	old := newPool(t, cfg)
	live(old, true, 0, 8)
	for _, share := range []float64{0, 0.25, 1} {
		c := cfg
		c.Start = old.Start(share)
		p := newPool(t, c)
		for j, w := range p.weights {
			for k := range w.heads {
				def := cfg.Weights.Total / float64(w.heads-1)
				if p.members[k] == p.fitted {
					def = 0 // it is an expert by itself
				}
				want := (1-share)*def + share*old.weights[j].theta[k]
				if got := w.theta[k]; math.Abs(got-want) > 1e-12 || w.prior[k] != got {
					t.Errorf("share %v, product %d, head %d: weight %v, prior %v, want %v", share, j, k, got, w.prior[k], want)
				}
			}
			if bias := w.theta[w.heads:]; slices.ContainsFunc(bias, func(x float64) bool { return x != 0 }) {
				t.Errorf("share %v, product %d: biases %v, want 0", share, j, bias)
			}
			w.discount(0) // all of the past is forgotten
			if !closeTo(w.theta[:w.heads], c.Start.Weights[j], 1e-12) {
				t.Errorf("share %v, product %d forgets towards %v, want %v", share, j, w.theta[:w.heads], c.Start.Weights[j])
			}
		}
		for e := range p.mixture.score {
			want := share * (old.mixture.score[e] - slices.Max(old.mixture.score))
			if got := p.mixture.score[e]; math.Abs(got-want) > 1e-9 {
				t.Errorf("share %v, expert %d: score %v, want %v", share, e, got, want)
			}
		}
	}
	c := cfg
	c.Start = old.Start(1)
	if got, want := newPool(t, c).Shares(), old.Shares(); !closeTo(got, want, 1e-9) {
		t.Errorf("shares of the mixture %v, want %v", got, want)
	}
}

func closeTo(a, b []float64, within float64) bool {
	for i, x := range a {
		if math.Abs(x-b[i]) > within {
			return false
		}
	}
	return len(a) == len(b)
}

// TestStartInFile: a start survives a model file bit for bit, and one that does not fit the
// heads, or has numbers that are none, is refused.
func TestStartInFile(t *testing.T) {
	cfg := everything(false)
	old := newPool(t, cfg)
	live(old, false, 0, 5)
	cfg.Start = old.Start(0.3)
	b, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var back Config
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, cfg) {
		t.Errorf("the configuration comes back as %+v: %v", back, err)
	}
	for _, c := range []struct {
		want   string
		breaks func(*Start)
	}{
		{"start: weights of 1 products: give those of 2", func(s *Start) { s.Weights = s.Weights[:1] }},
		{"one for each head that is not a shadow", func(s *Start) { s.Weights[1] = s.Weights[1][1:] }},
		{"start: 0 scores: give", func(s *Start) { s.Scores = nil }},
		{"start: NaN: give numbers up to", func(s *Start) { s.Weights[0][0] = math.NaN() }},
		{"start: 1e+09: give numbers up to", func(s *Start) { s.Weights[0][0] = 1000 * maxStart }},
		{"start: -Inf: give numbers up to", func(s *Start) { s.Scores[0] = math.Inf(-1) }},
	} {
		broken := cfg
		broken.Start = old.Start(0.3)
		c.breaks(broken.Start)
		if err := broken.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	alone := cfg
	alone.Mixture, alone.Start = nil, &Start{Weights: [][]float64{cfg.Start.Weights[0][1:]}}
	alone.Heads = slices.DeleteFunc(slices.Clone(cfg.Heads), func(h HeadConfig) bool { return h.Fitted != nil })
	if err := alone.Validate(); err != nil {
		t.Errorf("a start of one product, for a pool without a mixture: %v", err)
	}
}
