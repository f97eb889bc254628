package shards_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
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
	"github.com/gvbll/gvbll/pipeline/structure"
)

// TestShardsEqualEngine: on random streams the shards of a graph serve, join, count and refuse
// what one engine does. Embeddings are within 1e-5, and probabilities follow.
func TestShardsEqualEngine(t *testing.T) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN} {
		for _, shards := range []int{1, 2, 3, 4, 8} {
			for seed := range uint64(4) {
				t.Run(fmt.Sprint(kind, shards, "seed", seed), func(t *testing.T) {
					m, rng := shardstest.ShardedModel(t, kind, seed)
					cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, Fallback: -1}
					if seed%2 == 0 {
						cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
					}
					e, s := pipelinetest.NewEngine(t, m, cfg), shardstest.NewTogether(t, m, cfg, shards, 1)
					l := pipelinetest.NewRandomStream(rng, m)
					labels := 0
					for range 80 {
						w := l.Window()
						want, got := e.Step(w), s.Step(w)
						if err := s.Err(); err != nil {
							t.Fatal(err)
						}
						if d := furthest(s.Embeddings(), e.Embeddings()); d > 1e-5 {
							t.Fatalf("window %d: embeddings are %g apart", w.Number, d)
						}
						labels += len(want.Labelled)
						shardstest.LikeShards(want)
						shardstest.LikeShards(got)
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

// TestShardsSameForThreads: the outcomes of shards do not depend on the number of threads that
// step them, nor on whether their memory is recycled.
func TestShardsSameForThreads(t *testing.T) {
	for k, heads := range shardstest.HeadsOfShards {
		shards := 2 << k
		m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, 9)
		shardstest.ServeWith(t, m, heads)
		cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, Fallback: .5, MaxPending: 30}
		l := pipelinetest.NewRandomStream(rng, m)
		one := shardstest.NewTogether(t, m, cfg, shards, 1)
		others := []*shardstest.Together{shardstest.NewTogether(t, m, cfg, shards, 2), shardstest.NewTogether(t, m, cfg, shards, 4)}
		var last [2]*event.Outcome
		for range 60 {
			w := l.Window()
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

// TestShardsApart: shards and a trainer that send each other bytes, as processes do, serve what
// those of one process serve, and have the same global chain; with heads that learn at once
// and late, and when they are restored from snapshots in between.
func TestShardsApart(t *testing.T) {
	for _, heads := range shardstest.HeadsOfShards {
		for _, lag := range []int{0, 3} {
			t.Run(fmt.Sprint(heads, " lag ", lag), func(t *testing.T) { testShardsApart(t, heads, lag) })
		}
	}
}

func testShardsApart(t *testing.T, with string, lag int) {
	const P = 4
	m, rng := shardstest.ShardedModel(t, gnn.KindGCN, 3)
	shardstest.ServeWith(t, m, with)
	cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, Fallback: .5, MaxPending: 30, LearnLag: lag}
	together := shardstest.NewTogether(t, m, cfg, P, 1)
	lead, err := sharding.NewTrainer(m, cfg, P)
	if err != nil {
		t.Fatal(err)
	}
	shards := make([]*sharding.Shard, P)
	for p := range P {
		if shards[p], err = sharding.NewShard(m, cfg, p, P); err != nil {
			t.Fatal(err)
		}
	}
	var chain event.Hash
	heads := map[int64][]byte{}   // by window, as they were sent
	heard := map[int64][][]byte{} // likewise what was served
	l := pipelinetest.NewRandomStream(rng, m)
	served, switched := 0, false
	for range 100 {
		if rng.IntN(10) == 0 {
			for p, s := range shards {
				b := readAll(t, s.Snapshot(map[string]string{"p": fmt.Sprint(p)}))
				var meta map[string]string
				if shards[p], meta, err = sharding.RestoreShard(m, cfg, p, P, bytes.NewReader(b), int64(len(b))); err != nil || meta["p"] != fmt.Sprint(p) {
					t.Fatal(meta, err)
				}
				if again := readAll(t, shards[p].Snapshot(meta)); !bytes.Equal(again, b) {
					t.Errorf("the restored shard %d is saved as other bytes", p)
				}
			}
			b := readAll(t, lead.Snapshot(nil))
			if lead, _, err = sharding.RestoreTrainer(m, cfg, P, bytes.NewReader(b), int64(len(b))); err != nil {
				t.Fatal(err)
			}
		}
		w := l.Window()
		want := together.Step(w)
		var sent [P][P][]byte // by sender, then receiver
		for p, s := range shards {
			s.Enter(w)
			for q := range P {
				sent[p][q] = sharding.AppendPart(nil, s.Part(q))
			}
		}
		chains, rows := make([]event.Hash, P), make([]*sharding.Rows, P)
		predicted := map[event.ID]event.Prediction{}
		said := make([][]byte, P)
		var refused int
		for q, s := range shards {
			parts := make([][]float32, P)
			for p := range P {
				if parts[p], err = sharding.DecodePart(sent[p][q], nil); err != nil {
					t.Fatal(err)
				}
			}
			var given *sharding.Heads
			due := w.Number - 1 - int64(cfg.LearnLag)
			if heads[due] != nil {
				if given, err = sharding.DecodeHeads(heads[due], due); err != nil {
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
			heads[w.Number] = sharding.AppendHeads(nil, learned)
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
func readAll(t testing.TB, s *snapshots.Snapshot) []byte {
	t.Helper()
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRestoredShardsAreEqual: snapshots of shards and their trainer are read while the graph goes on.
// The graph restored from them goes on with the same bits.
func TestRestoredShardsAreEqual(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			m, rng := shardstest.ShardedModel(t, []gnn.Kind{gnn.KindSAGE, gnn.KindGCN}[seed%2], seed)
			shardstest.ServeWith(t, m, shardstest.HeadsOfShards[seed%uint64(len(shardstest.HeadsOfShards))])
			P, n := []int{2, 4, 8}[seed%3], 2
			cfg := pipeline.Config{Labels: serve.FirstStands, Samples: 2, Fallback: .5, LearnLag: int(seed % 4), BFloat16: seed%3 == 0, Unwatched: seed%5 == 0}
			if seed%3 > 0 {
				cfg.Coverage = shardstest.SetsOfShards[seed%4]
			}
			if seed%2 == 0 {
				cfg.MaxPending, cfg.MaxWaitingLabels, cfg.MaxWaitingEdges = 15, 6, 12
			} else {
				cfg.PendingMemory, cfg.Blocks, n = int64(500*P), pipelinetest.NewMemoryBlocks(), 1
			}
			l := pipelinetest.NewRandomStream(rng, m)
			s := shardstest.NewTogether(t, m, cfg, P, n).All
			for range 3 {
				for range rng.IntN(40) {
					s.Step(l.Window())
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
					windows = append(windows, l.Window())
					outcomes = append(outcomes, s.Step(windows[len(windows)-1]))
				}
				for _, open := range open.Files {
					open.Close()
				}
				other, err := open.Restore(m, cfg, shardstest.Threads(1), files)
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
				if other.Chain() != s.Chain() || !reflect.DeepEqual(other.Trainer.Summaries(), s.Trainer.Summaries()) {
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
	m, _ := shardstest.ShardedModel(t, gnn.KindSAGE, 1)
	cfg := pipeline.Config{Labels: serve.FirstStands}
	s, err := sharding.NewShard(m, cfg, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	b := readAll(t, s.Snapshot(nil))
	size := int64(len(b))
	for name, restore := range map[string]func() error{
		"shard 2": func() error {
			_, _, err := sharding.RestoreShard(m, cfg, 2, 4, bytes.NewReader(b), size)
			return err
		},
		"1 of 2": func() error {
			_, _, err := sharding.RestoreShard(m, cfg, 1, 2, bytes.NewReader(b), size)
			return err
		},
		"lead": func() error { _, _, err := sharding.RestoreTrainer(m, cfg, 4, bytes.NewReader(b), size); return err },
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
	whole, rng := shardstest.ShardedModel(t, gnn.KindSAGE, 1)
	for name, c := range map[string]struct {
		m    *model.Model
		cfg  pipeline.Config
		P    int
		want string
	}{
		"gin":     {pipelinetest.ModelOfWidth(t, rng, gnn.KindGIN, 5, 24, 4), pipeline.Config{}, 2, "train a graphsage or gcn"},
		"depth":   {pipelinetest.ModelOfWidth(t, rng, gnn.KindSAGE, 5, 24, 24, 4), pipeline.Config{}, 2, "train one of 2 layers"},
		"width":   {whole, pipeline.Config{}, 5, "give a number that divides it"},
		"rescore": {whole, pipeline.Config{Rescore: serve.Rescoring{After: 1}}, 2, "leave --rescore out"},
		"keep":    {whole, pipeline.Config{Keep: structure.Keep{Nodes: 1}}, 2, "leave --keep out"},
	} {
		_, err := sharding.NewAll(c.m, c.cfg, c.P, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", name, err, c.want)
		}
	}
	if _, err := pipeline.New(whole, pipeline.Config{Shards: 2}); err == nil {
		t.Error("an engine takes 2 shards")
	}
}

// FuzzDecodeRows: whatever the bytes, rows are decoded or refused, in memory in proportion to
// them, and the trainer learns them or refuses them.
func FuzzDecodeRows(f *testing.F) {
	var models []*model.Model
	cfg := func(which uint8) pipeline.Config {
		c := pipeline.Config{Labels: serve.FirstStands, Samples: 1}
		if which >= 3 {
			c.Coverage = shardstest.SetsOfShards[which%4]
		}
		return c
	}
	for which := range uint8(6) {
		m, rng := shardstest.ShardedModel(f, gnn.KindSAGE, 2)
		shardstest.ServeWith(f, m, shardstest.HeadsOfShards[which%3])
		models = append(models, m)
		s, err := sharding.NewShard(m, cfg(which), 0, 1)
		if err != nil {
			f.Fatal(err)
		}
		l := pipelinetest.NewRandomStream(rng, m)
		served := make([][]byte, 1)
		for range 40 {
			s.Enter(l.Window())
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
		lead, err := sharding.NewTrainer(models[which], cfg(which), 1)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := lead.DecodeRows(b)
		if err != nil {
			return
		}
		if out, _, err := lead.Learn([]*sharding.Rows{rows}); err == nil && len(out.Labelled) != rows.Joined {
			t.Errorf("%d labels were learned of %d", len(out.Labelled), rows.Joined)
		}
	})
}

// TestShardBlocksFail: a shard that cannot read what it has served says so before the rows of the
// window can be sent.
func TestShardBlocksFail(t *testing.T) {
	m, rng := shardstest.ShardedModel(t, gnn.KindSAGE, 2)
	store := pipelinetest.NewMemoryBlocks()
	s, err := sharding.NewShard(m, pipeline.Config{Samples: 1, Blocks: store, PendingMemory: 1}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := pipelinetest.NewRandomStream(rng, m)
	served := make([][]byte, 1)
	for err == nil && s.Next() < 100 {
		if s.Enter(l.Window()); s.Next() == 40 {
			store.Fail = errors.New("input/output error")
		}
		if err := s.Hear(served); err != nil {
			t.Fatal(err)
		}
		_, err = s.Serve([][]float32{s.Part(0)}, nil)
		served[0] = s.AppendServed(nil)
	}
	if !errors.Is(err, store.Fail) || store.Fail == nil {
		t.Errorf("window %d is served with error %v, want the store's", s.Serving()-1, err)
	}
}

// FuzzDecodeHeads: whatever the bytes, a shard takes heads or refuses them, and serves.
func FuzzDecodeHeads(f *testing.F) {
	m, _ := shardstest.ShardedModel(f, gnn.KindSAGE, 2)
	lead, err := sharding.NewTrainer(m, pipeline.Config{}, 1)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sharding.AppendHeads(nil, lead.Heads()))
	f.Add([]byte("\x15\xa1\xe5\x9b'H\x17\x01\xa9\x87,b\x1d2݁\x15r\x84\"-\x14\xdbH\xf7\xfe5\xd9\xda#ev\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\xb8\xe9,\x1d;`\u0fe8\r\x03Z\xd9h\x90\xbf$\x1d^\xd2\xfb\x91\xef?\xa0\xb7\xddQn\xc6\xc0?\xf0N\xe9=萮\xbf\x9a\x7f\x90\xb2\xea(Ŀ\xfb>\x98.\xaf\x85\xe5\xbf\xe4@\x8b^\x9d\xf7\xb8\xbf\xb9\xbd\xe3\x03\xd0u\xe8\x7f\xea!\xec\xab.\xe3ԿY\xe7U\xc2C\xd6ۿ\x9ed\n\xb7\x00\x9c\xda?\xf3x\xec\xc5,\xff\x14@u\xe8\x7f\xeah\xae!@\x15]w\xf0;\xe9\"@p\xa4\x8f~\xf7M\x1e@+ʆ\xbb\xb14\xfa?\x00\xf7h\xf841%@\b\x9a\x7f\xfe\x10\xad\x1e@\x03uB\xf6\xf2\xa2%@\xc0\\+\xc4\xf8\xe3\x177\x1e\x91%\x86j\x8f\x13@\x0f\x05\xeaK \xdb\x1c@t\vZ\x03\xd3\xc6\x12@")) // means of 1e290, which overflow
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := sharding.NewShard(m, pipeline.Config{Samples: 1}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		heads, err := sharding.DecodeHeads(b, 0)
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
