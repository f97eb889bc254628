package pool

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/posterior"
)

// lessonsOf are the rows from to below to of a batch that p is about to learn, to
// be taken back so many batches later.
func lessonsOf(p *Pool, b *Batch, from, to, batches int) Lessons {
	n, c, z := to-from, p.shape.Classes, p.shape.Embedding
	part := func(f Features) Features {
		if f.Start == nil {
			return Features{Dense: f.Dense[from*p.shape.Features : to*p.shape.Features]}
		}
		return Features{Start: f.Start[from : to+1], Index: f.Index, Value: f.Value}
	}
	l := Lessons{Labels: b.Labels[from:to], Met: make([]float32, n*c)}
	l.Rows = Rows{
		N: n, X: part(b.X), S: part(b.S), Degree: b.Degree[from:to],
		Labelled: b.Labelled[from*c : to*c], Second: b.Second[from*c : to*c],
		Embedded: posterior.Rows{Z: b.Embedded.Z[from*z : to*z], Tau: b.Embedded.Tau[from:to]},
	}
	for i := range n {
		l.Batches, l.Elapsed = append(l.Batches, uint64(batches)), append(l.Elapsed, float64(batches))
		for _, pair := range b.Pairs {
			v, u := int(pair[0]), int(pair[1])
			if u == from+i {
				v, u = u, v
			}
			if v == from+i && (u < from || u >= to || u > v) { // once where both are taken back
				l.Met[i*c+int(b.Labels[u])]++
			}
		}
	}
	m := p.NotesPerRow()
	b.Notes = make([]float64, b.N*m) // to be written when p learns
	l.Notes = b.Notes[from*m : to*m]
	return l
}

func learn(p *Pool, b Batch) {
	b.Said = make([]float32, b.N*p.SaidPerRow())
	p.Predict(b.Rows, b.Said)
	p.Learn(b)
}

// numbers are what a head knows: counts, or means and precisions.
func numbers(h head) (counts, mean, precision []float64) {
	switch h := h.(type) {
	case *bayes:
		return slices.Concat(h.total, h.counts), nil, nil
	case *label:
		return slices.Clone(h.h), nil, nil
	case *vote:
		return slices.Clone(h.counts), nil, nil
	case *joint:
		return nil, slices.Clone(h.mean), slices.Clone(h.precision)
	case *full:
		for _, t := range h.precision {
			for j := range h.dim {
				precision = append(precision, t[j*h.dim+j:(j+1)*h.dim]...)
			}
		}
		return nil, slices.Clone(h.mean), precision
	case *wide:
		for i, t := range h.precision { // as they are now
			keep := math.Pow(h.Lambda, h.clock-h.touched[i/h.stride])
			precision = append(precision, keep*t+(1-keep)/h.Variance)
		}
		return nil, slices.Clone(h.mean), precision
	case *embedded:
		if o, is := h.layer.(*posterior.Online); is {
			return nil, slices.Clone(o.Posterior().Mean), slices.Clone(o.Posterior().Precision)
		}
	}
	return nil, nil, nil
}

func apart(a, b []float64) (d float64) {
	for i := range a {
		d = math.Hypot(d, a[i]-b[i])
	}
	return d
}

// TestRemoveLast: a batch that is taken back as soon as it was learned leaves
// counts exactly as they were, precisions as if only time had passed, and of how
// it moved the means the small part that is promised.
func TestRemoveLast(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		rng := rand.New(rand.NewPCG(3, 71))
		first := classified(rng, 60, dense)
		p.Train(first)
		q.Train(first)
		for range 5 {
			b := classified(rng, 30, dense)
			learn(p, b)
			learn(q, b)
		}
		b := classified(rng, 9, dense)
		l := lessonsOf(p, &b, 0, 9, 0)
		learn(p, b)
		learned := newPool(t, everything(dense))
		if err := learned.SetState(p.AppendState(nil)); err != nil {
			t.Fatal(err)
		}
		p.Remove(l)
		for _, h := range q.heads { // time passes
			switch h := h.(type) {
			case *wide:
				h.clock += q.spec.Share(9)
			case *joint:
				for i := range h.precision {
					keep := math.Pow(h.Lambda, q.spec.Share(9))
					h.precision[i] = keep*h.precision[i] + (1-keep)*h.least[i]
				}
			case *full:
				h.forget(math.Pow(h.Lambda, q.spec.Share(9)))
			case *embedded:
				if o, is := h.layer.(*posterior.Online); is {
					for i := range o.Posterior().Precision {
						o.Posterior().Precision[i] *= .99
					}
				}
			}
		}
		for k, h := range p.heads {
			name := fmt.Sprintf("dense %t: %s", dense, p.spec.Heads[k].Name)
			counts, mean, precision := numbers(h)
			wantCounts, wantMean, wantPrecision := numbers(q.heads[k])
			_, moved, _ := numbers(learned.heads[k])
			wantClose(t, name, counts, wantCounts, 1e-13)
			wantClose(t, name+" precision", precision, wantPrecision, 1e-9)
			if mean == nil {
				continue
			}
			whole, left := apart(moved, wantMean), apart(mean, wantMean)
			t.Logf("%s: the mean moved by %.3g, %.3g of it stays", name, whole, left)
			if !(left <= whole/10) {
				t.Errorf("%s: the mean moved by %v, and is still off by %v", name, whole, left)
			}
		}
		if p.Version() != learned.Version() {
			t.Error("taking back counts as a batch")
		}
	}
}

// classified has rows that tell their class, three times in four: by the features,
// their neighbours', the embedding, and the labels around.
func classified(rng *rand.Rand, n int, dense bool) Batch {
	b := randomBatch(rng, n, small, dense)
	b.Refresh, b.RefreshLabels = b.Refresh.none(), nil
	signs := func(f *Features, i, y int) {
		if f.Start == nil {
			for j := y; j < small.Features; j += small.Classes {
				f.Dense[i*small.Features+j] += 2
			}
			return
		}
		for k := f.Start[i]; k < f.Start[i+1]; k++ {
			if int(f.Index[k])%small.Classes == y {
				f.Value[k] += 3
			}
		}
	}
	for i, y := range b.Labels {
		if rng.IntN(4) == 0 {
			continue
		}
		signs(&b.X, i, int(y))
		signs(&b.S, i, int(y))
		b.Embedded.Z[i*small.Embedding+int(y)] += 2
		b.Labelled[i*small.Classes+int(y)] += 2
		b.Second[i*small.Classes+int(y)]++
	}
	return b
}

// none returns no rows of the same kind.
func (r Rows) none() (none Rows) {
	if r.X.Start != nil {
		none.X.Start, none.S.Start = []int{0}, []int{0}
	}
	return none
}

// TestRemoveLater: rows of a batch, taken back some batches later, bring what
// a head says nearer to what it would say without them; heads that learn in passes
// hardly farther.
func TestRemoveLater(t *testing.T) {
	for _, dense := range []bool{false, true} {
		for _, since := range []int{0, 3, 10} {
			near := make(map[string][2]float64)
			for trial := range uint64(5) {
				rng := rand.New(rand.NewPCG(trial, 72))
				p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
				same := func(b Batch) {
					learn(p, b)
					learn(q, b)
				}
				first := classified(rng, 60, dense)
				p.Train(first)
				q.Train(first)
				for range 15 {
					same(classified(rng, 30, dense))
				}
				b := classified(rng, 12, dense)
				l := lessonsOf(p, &b, 0, 4, since)
				learn(p, b)
				rest := lessonsOf(q, &b, 4, 12, 0)
				without := Batch{Rows: rest.Rows, Labels: rest.Labels, Refresh: b.Refresh, RefreshLabels: b.RefreshLabels}
				learn(q, without)
				for range since {
					same(classified(rng, 12, dense))
				}
				fresh := classified(rng, 60, dense)
				off := func(at int) { // in what they say
					a, b := make([]float32, 60*p.SaidPerRow()), make([]float32, 60*p.SaidPerRow())
					p.Predict(fresh.Rows, a)
					q.Predict(fresh.Rows, b)
					for i := range a {
						name := p.Names()[i%p.SaidPerRow()/small.Classes]
						pair := near[name]
						pair[at] += math.Abs(math.Exp(float64(a[i]))-math.Exp(float64(b[i]))) / float64(5*60)
						near[name] = pair
					}
				}
				off(0)
				p.Remove(l)
				off(1)
			}
			for name, d := range near {
				if d[0] == 0 {
					continue
				}
				t.Logf("dense %t, %d batches later: %s: off by %.3g, after by %.3g", dense, since, name, d[0], d[1])
				most := d[0]
				switch name {
				case PoolName, "wide", "wide-own", "joint":
					// What their rows did fades by itself as other batches come.
					if most *= 0.5; since > 0 {
						most = 1.6 * d[0]
					}
				}
				if d[1] > most {
					t.Errorf("dense %t, %d batches later: %s: off by %v, and after they were taken back by %v, want at most %v", dense, since, name, d[0], d[1], most)
				}
			}
		}
	}
}

// TestRemoveStaysSound: whatever is taken back, and however often, what a pool
// knows stays what a pool can know.
func TestRemoveStaysSound(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		for step := range 12 {
			b := randomBatch(rand.New(rand.NewPCG(uint64(step), 74)), 1+step, small, dense)
			l := lessonsOf(p, &b, 0, b.N, step%3)
			learn(p, b)
			for range 5 {
				before := p.AppendChange(nil)
				p.Remove(l)
				if bytes.Equal(p.AppendChange(nil), before) {
					t.Fatal("what was taken back is no change")
				}
			}
			if err := q.SetState(p.AppendState(nil)); err != nil {
				t.Fatal(err)
			}
			for k, h := range p.heads {
				counts, mean, precision := numbers(h)
				for _, x := range slices.Concat(counts, mean, precision) {
					if math.IsNaN(x) || math.Abs(x) > 1e6 {
						t.Fatalf("%s has %v", p.spec.Heads[k].Name, x)
					}
				}
				switch h := h.(type) {
				case *wide:
					for _, x := range precision {
						if x < 1/h.Variance*(1-1e-12) {
							t.Fatalf("precision %v, the prior has %v", x, 1/h.Variance)
						}
					}
				case *joint:
					for i, x := range precision {
						if x < h.least[i]*(1-1e-12) {
							t.Fatalf("precision %v, at the start it was %v", x, h.least[i])
						}
					}
				}
			}
		}
	}
}

// TestNotesChangeNothing: what is noted for later has no part in what is learned,
// and is what may stand in a file.
func TestNotesChangeNothing(t *testing.T) {
	for _, dense := range []bool{false, true} {
		p, q := newPool(t, everything(dense)), newPool(t, everything(dense))
		for step := range 5 {
			b := randomBatch(rand.New(rand.NewPCG(uint64(step), 76)), 12, small, dense)
			learn(q, b)
			b.Notes = make([]float64, b.N*p.NotesPerRow())
			learn(p, b)
			for i, x := range b.Notes {
				if !(x >= 0 && x <= 1) {
					t.Fatalf("note %d is %v", i, x)
				}
			}
		}
		if !bytes.Equal(p.AppendState(nil), q.AppendState(nil)) {
			t.Error("with notes it learned something else")
		}
	}
}

func TestRemoveNothing(t *testing.T) {
	p := newPool(t, everything(false))
	live(p, false, 0, 4)
	before := p.AppendState(nil)
	b := randomBatch(rand.New(rand.NewPCG(1, 75)), 2, small, false)
	p.Remove(lessonsOf(p, &b, 0, 0, 0))
	if !bytes.Equal(p.AppendState(nil), before) {
		t.Error("nothing was taken back, and the state changed")
	}
	for name, alter := range map[string]func(*Lessons){
		"labels":  func(l *Lessons) { l.Labels = l.Labels[:1] },
		"label":   func(l *Lessons) { l.Labels = []int32{0, 5} },
		"notes":   func(l *Lessons) { l.Notes = l.Notes[:1] },
		"batches": func(l *Lessons) { l.Batches = nil },
		"elapsed": func(l *Lessons) { l.Elapsed = []float64{0, math.NaN()} },
		"met":     func(l *Lessons) { l.Met = nil },
		"rows":    func(l *Lessons) { l.Second = nil },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: want a panic", name)
				}
			}()
			l := lessonsOf(p, &b, 0, 2, 0)
			alter(&l)
			p.Remove(l)
		}()
	}
}
