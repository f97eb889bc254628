package pool

import (
	"math"
	"slices"
	"testing"
)

// TestRemoveOnCora: papers of a batch whose lessons are taken back some batches
// later leave less behind than they had taught, in what is said of the papers that
// come next.
func TestRemoveOnCora(t *testing.T) {
	g := readGraph(t, "cora")
	for _, since := range []int{0, 2, 10} {
		spec := withoutEmbedding()
		left, back := make([]float64, 1+len(spec.Heads)), make([]float64, 1+len(spec.Heads))
		var names []string
		for seed := range uint64(3) {
			train, batches := g.split(seed, .05, 30)
			with, without := cora(t, g, spec), cora(t, g, spec)
			names = with.Names()
			p := newPlayer(g)
			p.arrive(train)
			b := p.batch(train, p.rows(train), nil)
			p.reveal(train)
			b.Second = p.rows(train).Second
			with.Train(b)
			without.Train(b)
			const at, leave = 8, 15
			gone := batches[at][:leave]
			var l Lessons
			var then Rows
			for step := range at + since + 2 {
				nodes := batches[step]
				p.arrive(nodes)
				rows := p.rows(nodes)
				b := p.batch(nodes, rows, make([]float32, len(nodes)*with.SaidPerRow()))
				with.Predict(rows, b.Said)
				other := p.batch(nodes, rows, make([]float32, len(b.Said)))
				without.Predict(rows, other.Said)
				if step == at+since+1 {
					distances(left, b.Said, other.Said, g.classes)
					l.Rows = p.rows(gone)
					l.Labelled, l.Second = then.Labelled, then.Second
					for range gone {
						l.Batches, l.Elapsed = append(l.Batches, uint64(since)), append(l.Elapsed, float64(since))
					}
					with.Remove(l)
					with.Predict(rows, b.Said)
					distances(back, b.Said, other.Said, g.classes)
					break
				}
				if step == at {
					l.Labels, l.Met = b.Labels[:leave], make([]float32, leave*g.classes)
					for _, pair := range b.Pairs {
						if v, u := min(pair[0], pair[1]), max(pair[0], pair[1]); int(v) < leave {
							l.Met[int(v)*g.classes+int(b.Labels[u])]++
						}
					}
					then = rows
					then.Labelled, then.Second = rows.Labelled[:leave*g.classes], rows.Second[:leave*g.classes]
					b.Notes = make([]float64, b.N*with.NotesPerRow())
					l.Notes = b.Notes[:leave*with.NotesPerRow()]
					stay := nodes[leave:]
					said := other.Said[leave*with.SaidPerRow():]
					other = p.batch(stay, Rows{}, said)
					other.Rows = rowsFrom(rows, leave, g)
				} else if step > at {
					other.RefreshLabels = nil
					var again []int32
					for _, v := range refreshedOf(p, nodes) {
						if !slices.Contains(gone, v) {
							again = append(again, v)
						}
					}
					other.Refresh = p.rows(again)
					for _, v := range again {
						other.RefreshLabels = append(other.RefreshLabels, g.labels[v])
					}
				}
				with.Learn(b)
				without.Learn(other)
				p.reveal(nodes)
			}
		}
		for k, name := range names {
			t.Logf("%2d batches later: %-15s %.5f left in, %.5f taken back", since, name, left[k]/3, back[k]/3)
			if most := map[bool]float64{true: .7, false: 1.1}[k == 0] * left[k]; back[k] > most {
				t.Errorf("%d batches later: %s is off by %v, it was by %v", since, name, back[k], left[k])
			}
		}
	}
}

// cora returns a pool that knows nothing.
func cora(t *testing.T, g *graph, spec Spec) *Pool {
	t.Helper()
	p, err := New(spec, Shape{Classes: g.classes, Features: g.features}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rowsFrom are the rows from one on.
func rowsFrom(r Rows, from int, g *graph) Rows {
	return Rows{
		N: r.N - from, X: Features{Start: r.X.Start[from:], Index: r.X.Index, Value: r.X.Value},
		S: Features{Start: r.S.Start[from:], Index: r.S.Index, Value: r.S.Value}, Degree: r.Degree[from:],
		Labelled: r.Labelled[from*g.classes:], Second: r.Second[from*g.classes:],
	}
}

// refreshedOf is which nodes a batch refreshes.
func refreshedOf(p *player, nodes []int32) (list []int32) {
	for _, v := range nodes {
		found := 0
		for _, u := range p.neighbour[v] {
			if !slices.Contains(nodes, u) && found < 4 && p.known[u] {
				found++
				if !slices.Contains(list, u) {
					list = append(list, u)
				}
			}
		}
	}
	return list
}

// distances adds how far apart the probabilities are, by head.
func distances(to []float64, a, b []float32, classes int) {
	for i := range a {
		k := i / classes % len(to)
		to[k] += math.Abs(math.Exp(float64(a[i]))-math.Exp(float64(b[i]))) / float64(len(a)/len(to))
	}
}
