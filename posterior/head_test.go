package posterior

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn/kernel/kerneltest"
)

// TestLearnWithoutRowsChangesNothing: a batch without labels neither forgets nor counts as
// an update, so that empty windows leave the posterior as it is.
func TestLearnWithoutRowsChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	head := NewOnline(randomGaussian(rng, 4, 3), Config{Lambda: 0.5, Eta: 1, Beta: 1, Clip: 1})
	rows, labels := randomRows(rng, 5, 4, 3)
	if r := head.Learn(rows, labels); r.Step == 0 || head.Version() != 1 {
		t.Fatalf("report %+v and version %d after a batch, want a step and version 1", r, head.Version())
	}
	was := head.AppendState(nil)
	if r := head.Learn(Rows{}, nil); r != (Report{}) {
		t.Errorf("report %+v of an empty batch, want zeros", r)
	}
	if !bytes.Equal(head.AppendState(nil), was) {
		t.Error("an empty batch changed the state")
	}
}

// TestHeadsKeepTheirPrior: learning does not write to the prior that heads share, and later
// writes to the prior do not change a head.
func TestHeadsKeepTheirPrior(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	prior := randomGaussian(rng, 4, 3)
	was := prior.Clone()
	online, static := NewOnline(prior, DefaultConfig()), NewStatic(prior)
	rows, labels := randomRows(rng, 6, 4, 3)
	a, b := make([]float64, 18), make([]float64, 18)
	online.Predict(rows, a)
	static.Predict(rows, b)
	kerneltest.WantSame(t, "before learning", a, b)
	for _, h := range []Head{online, static} {
		h.Learn(rows, labels)
	}
	kerneltest.WantSame(t, "the prior's mean", prior.Mean, was.Mean)
	kerneltest.WantSame(t, "the prior's precision", prior.Precision, was.Precision)
	clear(prior.Mean)
	static.Predict(rows, a)
	kerneltest.WantSame(t, "the static head after learning", a, b)
}

// TestOnlineLearns: on classes that can be separated, the NLL of the online head falls to a
// third or less.
func TestOnlineLearns(t *testing.T) {
	const dim, classes = 4, 4
	prior := Gaussian{Dim: dim, Classes: classes, Mean: make([]float64, 16), Precision: make([]float64, 16)}
	for i := range prior.Precision {
		prior.Precision[i] = 1
	}
	head := NewOnline(prior, DefaultConfig())
	rng := rand.New(rand.NewPCG(5, 6))
	probs := make([]float64, 20*classes)
	var first, last float64
	for batch := range 60 {
		rows, labels := randomRows(rng, 20, dim, classes)
		for i, y := range labels {
			rows.Z[i*dim+int(y)] += 3
		}
		head.Predict(rows, probs)
		var loss float64
		for i, y := range labels {
			loss -= math.Log(probs[i*classes+int(y)]) / 20
		}
		if batch == 0 {
			first = loss
		}
		last = loss
		head.Learn(rows, labels)
	}
	if last > first/3 {
		t.Errorf("NLL %v in the last batch, %v in the first, want a third of it at most", last, first)
	}
}

// TestOnlineState: a head with a restored state has the same state and learns the same as
// the head that was saved. A posterior obtained before SetState is the restored one
// afterwards.
func TestOnlineState(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	prior := randomGaussian(rng, 3, 2)
	a, b := NewOnline(prior, DefaultConfig()), NewOnline(prior, DefaultConfig())
	for range 3 {
		rows, labels := randomRows(rng, 5, 3, 2)
		a.Learn(rows, labels)
	}
	state := a.AppendState([]byte("before"))
	if !bytes.HasPrefix(state, []byte("before")) {
		t.Fatal("AppendState does not append")
	}
	state = state[len("before"):]
	posterior := b.Posterior()
	if err := b.SetState(state); err != nil {
		t.Fatal(err)
	}
	if b.Version() != 3 || !bytes.Equal(b.AppendState(nil), state) {
		t.Errorf("restored version %d, want 3 and the saved bytes", b.Version())
	}
	kerneltest.WantSame(t, "mean of a posterior obtained before SetState", posterior.Mean, a.Posterior().Mean)
	rows, labels := randomRows(rng, 5, 3, 2)
	a.Learn(rows, labels)
	b.Learn(rows, labels)
	if !bytes.Equal(a.AppendState(nil), b.AppendState(nil)) {
		t.Error("the saved and the restored head differ after the same batch")
	}
}

// TestSetStateRefuses: a state of another shape or with invalid numbers is an error, and
// the head keeps the state that it had.
func TestSetStateRefuses(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	head := NewOnline(randomGaussian(rng, 3, 2), DefaultConfig())
	good := head.AppendState(nil)
	put := func(word int, x uint64) []byte {
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint64(b[8*word:], x)
		return b
	}
	for name, b := range map[string][]byte{
		"nothing":            nil,
		"a byte too few":     good[:len(good)-1],
		"a byte too many":    append(bytes.Clone(good), 0),
		"another dimension":  put(1, 2),
		"huge dimension":     put(1, math.MaxUint64),
		"another class":      put(2, 3),
		"mean NaN":           put(3, math.Float64bits(math.NaN())),
		"precision negative": put(9, math.Float64bits(-1)),
		"precision infinite": put(14, math.Float64bits(math.Inf(1))),
	} {
		if head.SetState(b) == nil {
			t.Errorf("%s: SetState succeeded, want an error", name)
		}
		if !bytes.Equal(head.AppendState(nil), good) {
			t.Fatalf("%s: the refused state changed the head", name)
		}
	}
}

// TestStaticHasNoState: the state of a static head is empty, its version 0, and only an
// empty state can be restored.
func TestStaticHasNoState(t *testing.T) {
	head := NewStatic(Gaussian{Dim: 1, Classes: 2, Mean: []float64{0, 1}, Precision: []float64{1, 1}})
	if b := head.AppendState([]byte("x")); string(b) != "x" || head.SetState(nil) != nil || head.SetState(b) == nil {
		t.Errorf("state %q, want none, and an error for SetState of any bytes", b[1:])
	}
	if head.Version() != 0 || head.Name() != "static" {
		t.Errorf("version %d and name %q, want 0 and \"static\"", head.Version(), head.Name())
	}
}

// FuzzSetState: SetState does not panic, and saving a state that it accepts gives the same
// bytes.
func FuzzSetState(f *testing.F) {
	prior := Gaussian{Dim: 2, Classes: 2, Mean: make([]float64, 4), Precision: []float64{1, 1, 1, 1}}
	f.Add(NewOnline(prior, DefaultConfig()).AppendState(nil))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		head := NewOnline(prior, DefaultConfig())
		if head.SetState(b) != nil {
			return
		}
		if !bytes.Equal(head.AppendState(nil), b) {
			t.Error("an accepted state is saved as other bytes")
		}
	})
}

// TestMisusePanics: invalid configurations, shapes and labels panic.
func TestMisusePanics(t *testing.T) {
	q := Gaussian{Dim: 2, Classes: 2, Mean: make([]float64, 4), Precision: []float64{1, 1, 1, 1}}
	rows := Rows{Z: make([]float32, 4), Tau: []float64{1, 1}}
	for name, f := range map[string]func(){
		"prior":             func() { NewOnline(Gaussian{}, DefaultConfig()) },
		"config":            func() { NewOnline(q, Config{}) },
		"rows":              func() { MAP(&q, Rows{Z: make([]float32, 3), Tau: rows.Tau}, make([]float64, 4)) },
		"probabilities":     func() { MAP(&q, rows, make([]float64, 3)) },
		"labels":            func() { collect(&q, rows, []int32{0}, DefaultConfig()) },
		"label of no class": func() { collect(&q, rows, []int32{0, 2}, DefaultConfig()) },
		"statistics":        func() { apply(&q, &q, newStatistics(1, 4), DefaultConfig()) },
		"samples":           func() { NewPredictive(2, 0) },
		"classes":           func() { NewPredictive(3, 4).Predict(&q, rows, nil, make([]Uncertainty, 2)) },
	} {
		kerneltest.WantPanic(t, name, f)
	}
}
