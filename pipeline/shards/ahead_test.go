package shards_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/pipeline/serve"
	sharding "github.com/gvbll/gvbll/pipeline/shards"
	"github.com/gvbll/gvbll/pipeline/shards/shardstest"
	"github.com/gvbll/gvbll/pipeline/snapshots"
)

// TestEnteringAhead: shards that enter windows before they have served earlier ones, however many
// and each as it likes, serve, refuse, count and send the bytes that they do when they take one
// window after the other. Nodes leave, come again and take numbers of others, edges come and go,
// and labels come before the prediction that they are joined to is served. Shards are saved and
// restored where they have served all that has entered, and a snapshot that is read later is that
// of the moment when it was taken.
func TestEnteringAhead(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m, rng := shardstest.ShardedModel(t, []gnn.Kind{gnn.KindSAGE, gnn.KindGCN}[seed%2], seed)
			shardstest.ServeWith(t, m, shardstest.HeadsOfShards[seed%uint64(len(shardstest.HeadsOfShards))])
			cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, Fallback: .5, LearnLag: []int{0, 1, 4, 7}[seed/3%4]}
			if seed%4 > 0 {
				cfg.Coverage = shardstest.SetsOfShards[seed/4%4]
			}
			blocks := seed%5 == 1
			switch {
			case blocks:
				cfg.PendingMemory, cfg.Blocks = 500, pipelinetest.NewMemoryBlocks()
			case seed%5 < 3:
				cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
			}
			l := pipelinetest.NewRandomStream(rng, m)
			var windows []*event.Window
			for range 90 {
				l.Nodes = min(l.Nodes, 40) // so that numbers are used again
				windows = append(windows, l.Window())
			}
			inOrder := newApart(t, m, cfg, 3)
			inOrder.run(windows, nil)
			ahead := newApart(t, m, cfg, 3)
			ahead.run(windows, rng)
			for _, w := range windows {
				for p := range inOrder.shards {
					if d := gocmp.Diff(inOrder.out[p][w.Number], ahead.out[p][w.Number]); d != "" {
						t.Fatalf("window %d, shard %d (-in order +ahead)\n%s", w.Number, p, d)
					}
				}
				for what, sent := range map[string][2][][][]byte{"parts": {inOrder.parts, ahead.parts}, "rows": {inOrder.rows, ahead.rows}, "served": {inOrder.served, ahead.served}} {
					for p := range inOrder.shards {
						if !bytes.Equal(sent[0][w.Number][p], sent[1][w.Number][p]) {
							t.Fatalf("window %d: shard %d sent other %s", w.Number, p, what)
						}
					}
				}
			}
			for p := range inOrder.shards {
				want, got := readAll(t, inOrder.shards[p].Snapshot(nil)), readAll(t, ahead.shards[p].Snapshot(nil))
				if !blocks && !bytes.Equal(got, want) { // what is in which block may differ
					t.Errorf("shard %d is saved as other bytes", p)
				}
			}
			if ahead.most < 2 || ahead.labels < 20 || ahead.early < 10 {
				t.Errorf("%d windows were ahead at most, %d labels were joined, %d of them before their node was served", ahead.most, ahead.labels, ahead.early)
			}
		})
	}
}

// apart are shards and a trainer that know what the others have sent, and no more.
type apart struct {
	*testing.T
	m      *model.Model
	cfg    pipeline.Config
	shards []*sharding.Shard
	lead   *sharding.Trainer

	// By window, then by shard:
	parts  [][][]byte // those for all shards, one after the other
	split  [][][][]float32
	served [][][]byte
	rows   [][][]byte
	heads  [][]byte // by window
	out    []map[int64]*event.Outcome

	open   []*snapshots.Snapshot // by shard, nil for none
	saved  [][]byte              // what is to be read of them
	most   int64                 // windows that were ahead
	behind [][]int64             // by shard, by window: how many windows were served when it entered
	labels int
	early  int // labels that came before their node was served
}

func newApart(t *testing.T, m *model.Model, cfg pipeline.Config, P int) *apart {
	a := &apart{T: t, m: m, cfg: cfg, open: make([]*snapshots.Snapshot, P), saved: make([][]byte, P), behind: make([][]int64, P)}
	var err error
	if a.lead, err = sharding.NewTrainer(m, cfg, P); err != nil {
		t.Fatal(err)
	}
	for p := range P {
		s, err := sharding.NewShard(m, cfg, p, P)
		if err != nil {
			t.Fatal(err)
		}
		a.shards, a.out = append(a.shards, s), append(a.out, map[int64]*event.Outcome{})
	}
	return a
}

// run steps the windows: in order, or at random.
func (a *apart) run(windows []*event.Window, rng *rand.Rand) {
	a.Helper()
	P := len(a.shards)
	for range windows {
		a.parts, a.served, a.rows = append(a.parts, make([][]byte, P)), append(a.served, make([][]byte, P)), append(a.rows, make([][]byte, P))
		a.split = append(a.split, make([][][]float32, P))
	}
	for a.lead.Next() < int64(len(windows)) {
		for p, s := range a.shards {
			ahead := int64(1)
			if rng != nil {
				ahead = 1 + rng.Int64N(9)
				if rng.IntN(3) == 0 {
					continue
				}
			}
			switch entered := int64(len(a.behind[p])); {
			case entered > s.Next() && (rng == nil || rng.IntN(2) == 0) && a.hear(p, s.Next()):
			case entered == s.Next() && entered < int64(len(windows)) && entered-s.Serving() < ahead:
				a.enter(p, windows[entered])
			default:
				a.serve(p)
			}
			if s = a.shards[p]; rng != nil && s.Serving() == int64(len(a.behind[p])) && rng.IntN(8) == 0 {
				a.restore(p, rng.IntN(2) == 0)
			}
		}
		a.learn()
	}
	for p := range a.shards {
		a.compare(p)
	}
}

// due returns the window whose labels and whose served bytes are heard of in another one.
func (a *apart) due(window int64) int64 { return window - 1 - int64(a.cfg.LearnLag) }

// there reports whether all shards have sent something of a window.
func there(sent [][]byte) bool {
	for _, b := range sent {
		if b == nil {
			return false
		}
	}
	return true
}

func (a *apart) enter(p int, w *event.Window) {
	s := a.shards[p]
	a.behind[p] = append(a.behind[p], s.Serving())
	s.Enter(w)
	for q := range a.shards {
		part := append([]float32(nil), s.Part(q)...)
		a.split[w.Number][p] = append(a.split[w.Number][p], part)
		a.parts[w.Number][p] = sharding.AppendPart(a.parts[w.Number][p], part)
	}
	a.most = max(a.most, w.Number+1-s.Serving())
}

// hear ends the entering of a window, if what was served in the one that is due is there.
func (a *apart) hear(p int, window int64) bool {
	var served [][]byte
	if due := a.due(window); due >= 0 {
		if served = a.served[due]; !there(served) {
			return false
		}
	}
	if err := a.shards[p].Hear(served); err != nil {
		a.Fatal(err)
	}
	return true
}

// serve serves the next window, if all that it needs is there.
func (a *apart) serve(p int) {
	s := a.shards[p]
	window := s.Serving()
	if window == s.Next() { // it has not entered, or not all of it
		return
	}
	var parts [][]float32
	for q := range a.shards {
		if a.split[window][q] == nil {
			return
		}
		parts = append(parts, append([]float32(nil), a.split[window][q][p]...))
	}
	var heads *sharding.Heads
	if due := a.due(window); due >= 0 {
		if due >= int64(len(a.heads)) {
			return
		}
		if b := a.heads[due]; b != nil {
			var err error
			if heads, err = sharding.DecodeHeads(b, due); err != nil {
				a.Fatal(err)
			}
		}
	}
	out, err := s.Serve(parts, heads)
	if err != nil {
		a.Fatal(err)
	}
	a.out[p][window] = out
	a.rows[window][p], a.served[window][p] = s.AppendRows([]byte{}), s.AppendServed([]byte{})
}

// learn learns the labels of the next window, if all rows are there.
func (a *apart) learn() {
	window := a.lead.Next()
	if !there(a.rows[window]) {
		return
	}
	var rows []*sharding.Rows
	for _, b := range a.rows[window] {
		r, err := a.lead.DecodeRows(b)
		if err != nil {
			a.Fatal(err)
		}
		rows = append(rows, r)
	}
	out, heads, err := a.lead.Learn(rows)
	if err != nil {
		a.Fatal(err)
	}
	for _, l := range out.Labelled {
		a.labels++
		if l.Served >= a.behind[0][window] {
			a.early++
		}
	}
	var b []byte
	if heads != nil {
		b = sharding.AppendHeads(nil, heads)
	}
	a.heads = append(a.heads, b)
}

// restore goes on with a shard that is restored from a snapshot, or takes one to be read later.
func (a *apart) restore(p int, later bool) {
	a.compare(p)
	if a.cfg.Blocks != nil {
		return
	}
	b := readAll(a, a.shards[p].Snapshot(nil))
	if later {
		a.open[p], a.saved[p] = a.shards[p].Snapshot(nil), b
		return
	}
	s, _, err := sharding.RestoreShard(a.m, a.cfg, p, len(a.shards), bytes.NewReader(b), int64(len(b)))
	if err != nil {
		a.Fatal(err)
	}
	a.shards[p] = s
}

// compare reads a snapshot that is open.
func (a *apart) compare(p int) {
	s := a.open[p]
	if s == nil {
		return
	}
	b, err := io.ReadAll(s)
	if err != nil || !bytes.Equal(b, a.saved[p]) {
		a.Errorf("shard %d: a snapshot is read as other bytes after some windows (%v)", p, err)
	}
	s.Close()
	a.open[p] = nil
}
