package pipeline_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// threads returns a runner of that many threads.
func threads(n int) pipeline.Runner {
	return func(tasks int, each func(i int)) {
		next := make(chan int, tasks)
		for i := range tasks {
			next <- i
		}
		close(next)
		var group sync.WaitGroup
		for range n {
			group.Go(func() {
				for i := range next {
					each(i)
				}
			})
		}
		group.Wait()
	}
}

func newSharded(t testing.TB, m *model.Model, cfg pipeline.Config, shards, n int) *pipeline.Sharded {
	t.Helper()
	s, err := pipeline.NewSharded(m, cfg, shards, threads(n))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shardedModel returns a model whose encoder can be cut into 2, 3, 4 and 8 slices.
func shardedModel(t testing.TB, kind gnn.Kind, seed uint64) (*model.Model, *rand.Rand) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 18))
	return modelOfWidth(t, rng, kind, 5, 24, 4), rng
}

// TestShardsEqualEngine: on random streams the shards of a graph serve, join, count and refuse
// what one engine does. Embeddings are within 1e-5, and probabilities follow.
func TestShardsEqualEngine(t *testing.T) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN} {
		for _, shards := range []int{1, 2, 3, 4, 8} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprint(kind, shards, "seed", seed), func(t *testing.T) {
					m, rng := shardedModel(t, kind, seed)
					cfg := pipeline.Config{Samples: 2, Fallback: -1}
					if seed%2 == 0 {
						cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
					}
					e, s := newEngine(t, m, cfg), newSharded(t, m, cfg, shards, 1)
					l := newRandomStream(rng, m)
					labels := 0
					for range 80 {
						w := l.window()
						want, got := e.Step(w), s.Step(w)
						if err := s.Err(); err != nil {
							t.Fatal(err)
						}
						if d := furthest(s.Embeddings(), e.Embeddings()); d > 1e-5 {
							t.Fatalf("window %d: embeddings are %g apart", w.Number, d)
						}
						labels += len(want.Labelled)
						likeShards(want)
						likeShards(got)
						near := gocmp.Comparer(func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-4 })
						if d := gocmp.Diff(want, got, near, gocmp.Comparer(func(x, y float64) bool { return math.Abs(x-y) < 2e-3*max(1, math.Abs(x)) })); d != "" {
							t.Fatalf("window %d (-engine +shards)\n%s", w.Number, d)
						}
					}
					if labels < 40 {
						t.Errorf("only %d labels were learned", labels)
					}
				})
			}
		}
	}
}

// likeShards removes from an outcome what shards need not have in common with an engine: its
// hashes, what drift detectors see, and the order of refusals.
func likeShards(out *event.Outcome) {
	out.Chain, out.Posterior, out.Drift = event.Hash{}, event.Hash{}, nil
	slices.SortFunc(out.Refused, func(a, b event.Refusal) int {
		return cmp.Or(cmp.Compare(a.Origin.Offset, b.Origin.Offset), cmp.Compare(a.Detail, b.Detail))
	})
	if len(out.Labelled) == 0 {
		out.Labelled = nil
	}
	if len(out.Predictions) == 0 {
		out.Predictions = nil
	}
	if len(out.Refused) == 0 {
		out.Refused = nil
	}
}

// furthest returns the largest difference of two vectors, relative to the largest entry of
// want or to 1 if that is larger; infinity if their lengths differ.
func furthest(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	size, worst := 1.0, 0.0
	for i := range want {
		size = max(size, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	return worst / size
}

// headsOfShards are the heads that shards can serve with.
var headsOfShards = []string{"paper", "dense pool", "sparse pool"}

// serveWith has a model serve with some of headsOfShards.
func serveWith(t testing.TB, m *model.Model, heads string) {
	if heads != "paper" {
		addPool(t, m, heads == "sparse pool")
	}
}

// TestShardsSameForThreads: the outcomes of shards do not depend on the number of threads that
// step them, nor on whether their memory is recycled.
func TestShardsSameForThreads(t *testing.T) {
	for k, heads := range headsOfShards {
		shards := 2 << k
		m, rng := shardedModel(t, gnn.KindSAGE, 9)
		serveWith(t, m, heads)
		cfg := pipeline.Config{Samples: 2, Fallback: .5, MaxPending: 30}
		l := newRandomStream(rng, m)
		one := newSharded(t, m, cfg, shards, 1)
		others := []*pipeline.Sharded{newSharded(t, m, cfg, shards, 2), newSharded(t, m, cfg, shards, 4)}
		var last [2]*event.Outcome
		for range 60 {
			w := l.window()
			want := one.Step(w)
			if len(want.Labelled) == 0 {
				want.Labelled = nil
			}
			for i, s := range others {
				if last[i] != nil {
					s.Recycle(last[i])
				}
				last[i] = s.Step(w)
				if got := last[i]; len(got.Labelled) == 0 {
					got.Labelled = nil
				}
				if !reflect.DeepEqual(last[i], want) {
					t.Fatalf("%d shards, window %d (-1 thread +%d threads)\n%s", shards, w.Number, 2<<i, gocmp.Diff(want, last[i]))
				}
			}
		}
	}
}

// TestShardsApart: shards and a lead that send each other bytes, as processes do, serve what
// those of one process serve, and have the same global chain; with heads that learn at once
// and late, and when they are restored from snapshots in between.
func TestShardsApart(t *testing.T) {
	for _, heads := range headsOfShards {
		for _, lag := range []int{0, 3} {
			t.Run(fmt.Sprint(heads, " lag ", lag), func(t *testing.T) { testShardsApart(t, heads, lag) })
		}
	}
}

func testShardsApart(t *testing.T, with string, lag int) {
	const P = 4
	m, rng := shardedModel(t, gnn.KindGCN, 3)
	serveWith(t, m, with)
	cfg := pipeline.Config{Samples: 2, Fallback: .5, MaxPending: 30, LearnLag: lag}
	together := newSharded(t, m, cfg, P, 1)
	lead, err := pipeline.NewLead(m, cfg, P)
	if err != nil {
		t.Fatal(err)
	}
	shards := make([]*pipeline.Shard, P)
	for p := range P {
		if shards[p], err = pipeline.NewShard(m, cfg, p, P); err != nil {
			t.Fatal(err)
		}
	}
	var chain event.Hash
	heads := map[int64][]byte{}   // by window, as they were sent
	heard := map[int64][][]byte{} // likewise what was served
	l := newRandomStream(rng, m)
	served, switched := 0, false
	for range 100 {
		if rng.IntN(10) == 0 {
			for p, s := range shards {
				b := readAll(t, s.Snapshot(map[string]string{"p": fmt.Sprint(p)}))
				var meta map[string]string
				if shards[p], meta, err = pipeline.RestoreShard(m, cfg, p, P, bytes.NewReader(b), int64(len(b))); err != nil || meta["p"] != fmt.Sprint(p) {
					t.Fatal(meta, err)
				}
				if again := readAll(t, shards[p].Snapshot(meta)); !bytes.Equal(again, b) {
					t.Errorf("the restored shard %d is saved as other bytes", p)
				}
			}
			b := readAll(t, lead.Snapshot(nil))
			if lead, _, err = pipeline.RestoreLead(m, cfg, P, bytes.NewReader(b), int64(len(b))); err != nil {
				t.Fatal(err)
			}
		}
		w := l.window()
		want := together.Step(w)
		var sent [P][P][]byte // by sender, then receiver
		for p, s := range shards {
			s.Enter(w)
			for q := range P {
				sent[p][q] = pipeline.AppendPart(nil, s.Part(q))
			}
		}
		chains, rows := make([]event.Hash, P), make([]*pipeline.Rows, P)
		predicted := map[event.ID]event.Prediction{}
		said := make([][]byte, P)
		var refused int
		for q, s := range shards {
			parts := make([][]float32, P)
			for p := range P {
				if parts[p], err = pipeline.DecodePart(sent[p][q], nil); err != nil {
					t.Fatal(err)
				}
			}
			var given *pipeline.Heads
			due := w.Number - 1 - int64(cfg.LearnLag)
			if heads[due] != nil {
				if given, err = pipeline.DecodeHeads(heads[due], due); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Hear(heard[due]); err != nil {
				t.Fatal(err)
			}
			out, err := s.Serve(parts, given)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range out.Predictions {
				predicted[p.Node] = p
			}
			refused += len(out.Refused)
			chains[q], said[q] = out.Chain, s.AppendServed(nil)
			if rows[q], err = lead.DecodeRows(s.AppendRows(nil)); err != nil {
				t.Fatal(err)
			}
		}
		heard[w.Number] = said
		out, learned, err := lead.Learn(rows)
		if err != nil {
			t.Fatal(err)
		}
		if learned != nil {
			heads[w.Number] = pipeline.AppendHeads(nil, learned)
		}
		if chain = chain.Join(chains); chain != want.Chain {
			t.Fatalf("window %d: chain %x, want %x", w.Number, chain, want.Chain)
		}
		if len(predicted) != len(want.Predictions) || refused != len(want.Refused) {
			t.Fatalf("window %d: %d predictions and %d refusals, want %d and %d", w.Number, len(predicted), refused, len(want.Predictions), len(want.Refused))
		}
		for _, p := range want.Predictions {
			if !reflect.DeepEqual(predicted[p.Node], p) {
				t.Fatalf("window %d: served %+v, want %+v", w.Number, predicted[p.Node], p)
			}
		}
		if !reflect.DeepEqual(out.Labelled, want.Labelled) || !reflect.DeepEqual(out.Heads, want.Heads) {
			t.Fatalf("window %d: learned %+v, want %+v", w.Number, out.Heads, want.Heads)
		}
		served += len(predicted)
		switched = switched || out.ServedBy > 0
	}
	if served < 100 || switched != (with == "paper") {
		t.Errorf("%d nodes were served, the static head served: %t", served, switched)
	}
}

// readAll returns the bytes of a snapshot, and closes it.
func readAll(t testing.TB, s *pipeline.Snapshot) []byte {
	t.Helper()
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRestoredShardsAreEqual: snapshots of shards and their lead are read while the graph goes on.
// The graph restored from them goes on with the same bits.
func TestRestoredShardsAreEqual(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m, rng := shardedModel(t, []gnn.Kind{gnn.KindSAGE, gnn.KindGCN}[seed%2], seed)
			serveWith(t, m, headsOfShards[seed%uint64(len(headsOfShards))])
			P, n := []int{2, 4, 8}[seed%3], 2
			cfg := pipeline.Config{Samples: 2, Fallback: .5, LearnLag: int(seed % 4), BFloat16: seed%3 == 0, Unwatched: seed%5 == 0}
			if seed%3 > 0 {
				cfg.Coverage = setsOfShards[seed%4]
			}
			if seed%2 == 0 {
				cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
			} else {
				cfg.PendingMemory, cfg.Blocks, n = int64(500*P), newMemoryBlocks(), 1
			}
			l := newRandomStream(rng, m)
			s := newSharded(t, m, cfg, P, n)
			for range 3 {
				for range rng.IntN(40) {
					s.Step(l.window())
				}
				open := s.Save()
				files := make([][]byte, 1+P)
				var windows []*event.Window
				var outcomes []*event.Outcome
				for left := true; left; {
					left = false
					for i, open := range open.Files {
						piece := make([]byte, 1+rng.IntN(int(open.Len())/6))
						n, err := open.Read(piece)
						files[i] = append(files[i], piece[:n]...)
						if err != nil && err != io.EOF {
							t.Fatal(err)
						}
						left = left || err == nil
					}
					windows = append(windows, l.window())
					outcomes = append(outcomes, s.Step(windows[len(windows)-1]))
				}
				for _, open := range open.Files {
					open.Close()
				}
				other, err := open.Restore(m, cfg, threads(1), files)
				if err != nil {
					t.Fatal(err)
				}
				for i, again := range other.Save().Files {
					if !bytes.Equal(readAll(t, again), files[i]) {
						t.Errorf("the restored task %d is saved as other bytes", i)
					}
				}
				for i, w := range windows {
					if got := other.Step(w); !reflect.DeepEqual(got, outcomes[i]) {
						t.Fatalf("window %d (-want +got)\n%s", w.Number, gocmp.Diff(outcomes[i], got))
					}
				}
				if other.Chain() != s.Chain() || !reflect.DeepEqual(other.Summaries(), s.Summaries()) {
					t.Error("the restored graph has another chain or other scores")
				}
				s = other
			}
		})
	}
}

// TestRestoreOtherShards: a snapshot of another shard, of another number of shards, or of the
// lead is refused.
func TestRestoreOtherShards(t *testing.T) {
	m, _ := shardedModel(t, gnn.KindSAGE, 1)
	cfg := pipeline.Config{}
	s, err := pipeline.NewShard(m, cfg, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	b := readAll(t, s.Snapshot(nil))
	size := int64(len(b))
	for name, restore := range map[string]func() error{
		"shard 2": func() error {
			_, _, err := pipeline.RestoreShard(m, cfg, 2, 4, bytes.NewReader(b), size)
			return err
		},
		"1 of 2": func() error {
			_, _, err := pipeline.RestoreShard(m, cfg, 1, 2, bytes.NewReader(b), size)
			return err
		},
		"lead": func() error { _, _, err := pipeline.RestoreLead(m, cfg, 4, bytes.NewReader(b), size); return err },
		"whole": func() error {
			_, _, err := pipeline.RestorePair(cfg, bytes.NewReader(b), size, m)
			return err
		},
	} {
		if err := restore(); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line", name, err)
		}
	}
}

// TestShardsRefuse: what shards do not have is refused in one line with a remedy.
func TestShardsRefuse(t *testing.T) {
	whole, rng := shardedModel(t, gnn.KindSAGE, 1)
	for name, c := range map[string]struct {
		m    *model.Model
		cfg  pipeline.Config
		P    int
		want string
	}{
		"gin":     {modelOfWidth(t, rng, gnn.KindGIN, 5, 24, 4), pipeline.Config{}, 2, "train a graphsage or gcn"},
		"depth":   {modelOfWidth(t, rng, gnn.KindSAGE, 5, 24, 24, 4), pipeline.Config{}, 2, "train one of 2 layers"},
		"width":   {whole, pipeline.Config{}, 5, "give a number that divides it"},
		"rescore": {whole, pipeline.Config{Rescore: pipeline.Rescoring{After: 1}}, 2, "leave --rescore out"},
	} {
		_, err := pipeline.NewSharded(c.m, c.cfg, c.P, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := pipeline.New(whole, pipeline.Config{Shards: 2}); err == nil {
		t.Error("an engine takes 2 shards")
	}
}

// FuzzDecodeRows: whatever the bytes, rows are decoded or refused, in memory in proportion to
// them, and the lead learns them or refuses them.
func FuzzDecodeRows(f *testing.F) {
	var models []*model.Model
	cfg := func(which uint8) pipeline.Config {
		c := pipeline.Config{Samples: 1}
		if which >= 3 {
			c.Coverage = setsOfShards[which%4]
		}
		return c
	}
	for which := range uint8(6) {
		m, rng := shardedModel(f, gnn.KindSAGE, 2)
		serveWith(f, m, headsOfShards[which%3])
		models = append(models, m)
		s, err := pipeline.NewShard(m, cfg(which), 0, 1)
		if err != nil {
			f.Fatal(err)
		}
		l := newRandomStream(rng, m)
		served := make([][]byte, 1)
		for range 40 {
			s.Enter(l.window())
			if err := s.Hear(served); err != nil {
				f.Fatal(err)
			}
			if _, err := s.Serve([][]float32{s.Part(0)}, nil); err != nil {
				f.Fatal(err)
			}
			served[0] = s.AppendServed(nil)
			f.Add(which, s.AppendRows(nil))
		}
	}
	// Outputs that are no probabilities: a class without a number, in a score.
	f.Add(uint8(0), []byte("\x03\x00\x03\a0000000000000\x00\x00000000\x00\x00000000\x00\x03\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x000000000A000\xbc000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		which %= 6
		lead, err := pipeline.NewLead(models[which], cfg(which), 1)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := lead.DecodeRows(b)
		if err != nil {
			return
		}
		if out, _, err := lead.Learn([]*pipeline.Rows{rows}); err == nil && len(out.Labelled) != rows.Joined {
			t.Errorf("%d labels were learned of %d", len(out.Labelled), rows.Joined)
		}
	})
}

// FuzzDecodeHeads: whatever the bytes, a shard takes heads or refuses them, and serves.
func FuzzDecodeHeads(f *testing.F) {
	m, _ := shardedModel(f, gnn.KindSAGE, 2)
	lead, err := pipeline.NewLead(m, pipeline.Config{}, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pipeline.AppendHeads(nil, lead.Heads()))
	f.Add([]byte("\x15\xa1\xe5\x9b'H\x17\x01\xa9\x87,b\x1d2݁\x15r\x84\"-\x14\xdbH\xf7\xfe5\xd9\xda#ev\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\xb8\xe9,\x1d;`\u0fe8\r\x03Z\xd9h\x90\xbf$\x1d^\xd2\xfb\x91\xef?\xa0\xb7\xddQn\xc6\xc0?\xf0N\xe9=萮\xbf\x9a\x7f\x90\xb2\xea(Ŀ\xfb>\x98.\xaf\x85\xe5\xbf\xe4@\x8b^\x9d\xf7\xb8\xbf\xb9\xbd\xe3\x03\xd0u\xe8\x7f\xea!\xec\xab.\xe3ԿY\xe7U\xc2C\xd6ۿ\x9ed\n\xb7\x00\x9c\xda?\xf3x\xec\xc5,\xff\x14@u\xe8\x7f\xeah\xae!@\x15]w\xf0;\xe9\"@p\xa4\x8f~\xf7M\x1e@+ʆ\xbb\xb14\xfa?\x00\xf7h\xf841%@\b\x9a\x7f\xfe\x10\xad\x1e@\x03uB\xf6\xf2\xa2%@\xc0\\+\xc4\xf8\xe3\x177\x1e\x91%\x86j\x8f\x13@\x0f\x05\xeaK \xdb\x1c@t\vZ\x03\xd3\xc6\x12@")) // means of 1e290, which overflow
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := pipeline.NewShard(m, pipeline.Config{Samples: 1}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		heads, err := pipeline.DecodeHeads(b, 0)
		if err != nil {
			return
		}
		s.Enter(&event.Window{Nodes: []event.Node{{Origin: &event.Origin{}, ID: event.ID{Num: 1}, Dense: make([]float32, 5)}}})
		if err := s.Hear(nil); err != nil {
			t.Fatal(err)
		}
		if out, err := s.Serve([][]float32{s.Part(0)}, heads); err == nil && len(out.Predictions) != 1 {
			t.Errorf("%d predictions of 1 node", len(out.Predictions))
		}
	})
}
