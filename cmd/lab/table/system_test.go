package table

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/gnn"
)

// TestSystems: on an easy graph all systems of Table I have an accuracy and an NLL far better
// than chance under both protocols, and every prediction is in a reliability bin.
func TestSystems(t *testing.T) {
	results := run(t, Plan{Protocols: protocols, Systems: Systems, Sources: []Source{easySource()}, Seeds: []uint64{1}, Settings: quick(), Parallel: 2})
	if len(results) != len(Systems)*len(protocols) {
		t.Fatalf("%d results, want %d", len(results), len(Systems)*len(protocols))
	}
	for _, r := range results {
		if r.Mean.Acc < .75 || r.Stream.NLL > .8 || r.Mean.N != 105 || len(r.Steps) != 8 {
			t.Errorf("%s, %s: mean %+v over %d steps, stream NLL %.3f, want accuracy of at least 0.75 and NLL of at most 0.8 over 105 nodes in 8 steps", r.Protocol, r.System, r.Mean, len(r.Steps), r.Stream.NLL)
		}
		counted := int64(0)
		for _, b := range r.Bins {
			counted += b.Count
		}
		if counted != int64(r.Stream.N) {
			t.Errorf("%s, %s: %d of %d predictions in bins, want all", r.Protocol, r.System, counted, r.Stream.N)
		}
	}
}

// TestKinds: a classifier is of its kind, and has an output for each class.
func TestKinds(t *testing.T) {
	tr, _ := ready(t, easySource(), quick(), 1)
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		c, err := tr.classifier(member{kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		if c.Kind() != kind || c.Out() != 3 {
			t.Errorf("trained %s with %d outputs, want %s with 3", c.Kind(), c.Out(), kind)
		}
	}
}

// TestEnsemble: the ensemble's probabilities are the mean of its members', the first
// member is the GraphSAGE baseline, and the others differ from it.
func TestEnsemble(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	e, err := newEnsemble(tr, stream, strict)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := newStandalone(tr, stream, strict, member{kind: gnn.KindSAGE})
	if err != nil {
		t.Fatal(err)
	}
	if &e.members[0].logits[0][0] != &alone.logits[0][0] {
		t.Error("the first member is not the GraphSAGE baseline")
	}
	n := len(stream.stepLabels(2)) * 3
	got, want, own := make([]float64, n), make([]float64, n), make([]float64, n)
	e.predict(2, got)
	for k, m := range e.members {
		first := own[0]
		m.predict(2, own)
		if k > 0 && own[0] == first {
			t.Errorf("members %d and %d predict the same, want different initial weights", k-1, k)
		}
		for i, p := range own {
			want[i] += p / 3
		}
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-12 {
			t.Errorf("probability %d is %v, want the members' mean %v", i, got[i], want[i])
		}
	}
}

// TestDropout: with dropout off, the passes give GraphSAGE's own probabilities. With it
// on, the probabilities differ, and are the same each time for the same seed.
func TestDropout(t *testing.T) {
	tr, stream := ready(t, easySource(), quick(), 1)
	for _, protocol := range protocols {
		alone, err := newStandalone(tr, stream, protocol, member{kind: gnn.KindSAGE})
		if err != nil {
			t.Fatal(err)
		}
		d, err := newDropout(tr, stream, protocol)
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
				t.Errorf("%s: probability %d is %v, and %v the second time; want the same for the same seed", protocol, i, got[i], again[i])
			}
			differs = differs || math.Abs(got[i]-want[i]) > 1e-4
		}
		if !differs {
			t.Errorf("%s: the same probabilities with dropout as without, want others", protocol)
		}
		d.settings.Phase1.Dropout = 0
		d.predict(1, got)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				t.Errorf("%s: without dropout probability %d is %v, want GraphSAGE's %v", protocol, i, got[i], want[i])
			}
		}
	}
}
