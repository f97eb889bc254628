package table

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestSystems: all twelve, under both protocols, do much better than chance on a
// graph that is easy, in accuracy and NLL, and each has the encoder of its name.
func TestSystems(t *testing.T) {
	results := run(t, Plan{Sources: []Source{easySource()}, Seeds: []uint64{1}, Settings: quick(), Parallel: 2})
	if len(results) != len(Systems)*len(Protocols) {
		t.Fatalf("%d results", len(results))
	}
	for _, r := range results {
		if r.Mean.Acc < .75 || r.Stream.NLL > .8 || r.Mean.N != 105 || len(r.Steps) != 8 {
			t.Errorf("%s, %s: %+v over %d steps", r.Protocol, r.System, r.Mean, len(r.Steps))
		}
		counted := int64(0)
		for _, b := range r.Bins {
			counted += b.Count
		}
		if counted != int64(r.Stream.N) || r.Seconds <= 0 {
			t.Errorf("%s, %s: %d of %d predictions in bins, %v seconds", r.Protocol, r.System, counted, r.Stream.N, r.Seconds)
		}
	}
}

func TestKinds(t *testing.T) {
	s, _ := ready(t, easySource(), quick())
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		c, err := s.classifier(member{kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.encoder.Kind(); got != kind {
			t.Errorf("encoder %s was trained for %s", got, kind)
		}
	}
}

// TestEnsemble: the probabilities are the members' mean, and the members differ.
func TestEnsemble(t *testing.T) {
	s, stream := ready(t, easySource(), quick())
	e, err := newEnsemble(s, stream, Strict)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := newStandalone(s, stream, Strict, gnn.KindSAGE)
	if err != nil {
		t.Fatal(err)
	}
	if e.members[0].head != alone.head {
		t.Error("the first member is not the GraphSAGE that stands alone")
	}
	n := len(stream.stepLabels(2)) * 3
	got, want, own := make([]float64, n), make([]float64, n), make([]float64, n)
	e.predict(2, got)
	for k, m := range e.members {
		first := own[0]
		m.predict(2, own)
		if k > 0 && own[0] == first {
			t.Errorf("members %d and %d are the same", k-1, k)
		}
		for i, p := range own {
			want[i] += p / 3
		}
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("probability %d is %v, the members' mean %v", i, got[i], want[i])
		}
	}
}

// TestDropout: passes without dropout are the GraphSAGE itself; with it they are
// less sure on average, and the same for the same seed.
func TestDropout(t *testing.T) {
	s, stream := ready(t, easySource(), quick())
	for _, protocol := range Protocols {
		alone, err := newStandalone(s, stream, protocol, gnn.KindSAGE)
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDropout(s, stream, protocol)
		if err != nil {
			t.Fatal(err)
		}
		n := len(stream.stepLabels(1)) * 3
		want, got, again := make([]float64, n), make([]float64, n), make([]float64, n)
		alone.predict(1, want)
		d.predict(1, got)
		d.predict(1, again)
		differs := false
		for i := range got {
			if got[i] != again[i] {
				t.Errorf("%s: the same passes give %v, then %v", protocol, got[i], again[i])
			}
			differs = differs || math.Abs(got[i]-want[i]) > 1e-4
		}
		if !differs {
			t.Errorf("%s: nothing was dropped", protocol)
		}
		d.settings.Dropout = 0
		d.predict(1, got)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				t.Errorf("%s: without dropout %v, GraphSAGE %v", protocol, got[i], want[i])
			}
		}
	}
}
