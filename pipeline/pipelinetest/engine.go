package pipelinetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/snapshots"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// Engine is an engine that is stepped alone, and has snapshots as a pair without a shadow.
type Engine struct {
	*pipeline.Engine
	pair *pipeline.Pair
}

// NewEngine returns an engine, and fails the test on an error.
func NewEngine(t testing.TB, m *model.Model, cfg pipeline.Config) *Engine {
	t.Helper()
	p, err := pipeline.NewPair(cfg, m)
	if err != nil {
		t.Fatal(err)
	}
	return &Engine{p.Serving(), p}
}

// Snapshot is [pipeline.Pair.Snapshot].
func (e *Engine) Snapshot(meta map[string]string) *snapshots.Snapshot { return e.pair.Snapshot(meta) }

// Settings returns the settings as a ledger holds them.
func (e *Engine) Settings() string { return string(e.Config().Settings()) }

// Restore restores an engine from the bytes of a snapshot, as [pipeline.RestorePair] does.
func Restore(m *model.Model, cfg pipeline.Config, b []byte) (*Engine, map[string]string, error) {
	p, meta, err := pipeline.RestorePair(cfg, bytes.NewReader(b), int64(len(b)), m)
	if err != nil {
		return nil, nil, err
	}
	return &Engine{p.Serving(), p}, meta, nil
}

// SnapshotOf returns the bytes of a snapshot.
func SnapshotOf(t testing.TB, e *Engine, meta map[string]string) []byte {
	t.Helper()
	s := e.Snapshot(meta)
	defer s.Close()
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Followed takes a snapshot of e, and returns the engine that is restored from it and has
// stepped the same windows.
func Followed(t *testing.T, rng *rand.Rand, l *RandomStream, e *Engine, m *model.Model, cfg pipeline.Config) *Engine {
	t.Helper()
	meta := map[string]string{"worker": "ünique", "window": fmt.Sprint(e.Next())}
	s := e.Snapshot(meta)
	chain := e.Chain()
	var file []byte
	var windows []*event.Window
	var outcomes []*event.Outcome
	piece := make([]byte, s.Len())
	for {
		n, err := s.Read(piece[:1+rng.IntN(len(piece)/6)])
		file = append(file, piece[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, l.Window())
		outcomes = append(outcomes, e.Step(windows[len(windows)-1]))
	}
	if int64(len(file)) != s.Len() {
		t.Fatalf("the snapshot has %d bytes, Len is %d", len(file), s.Len())
	}
	s.Close()
	if n, err := s.Read(piece); n != 0 || err == nil || err == io.EOF {
		t.Errorf("Read after Close = %d, %v, want 0 and an error", n, err)
	}

	cfg.Local.Workers = 1 + rng.IntN(2) // not part of the state
	other, got, err := Restore(m, cfg, file)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(meta, got) {
		t.Errorf("meta %q, want %q", got, meta)
	}
	if other.Chain() != chain || other.Next() != e.Next()-int64(len(windows)) {
		t.Errorf("restored after window %d with chain %x, want window %d and %x", other.Next()-1, other.Chain(),
			e.Next()-int64(len(windows))-1, chain)
	}
	again := other.Snapshot(meta)
	if b, err := io.ReadAll(again); err != nil || !bytes.Equal(b, file) {
		t.Errorf("the restored engine is saved as other bytes (%v)", err)
	}
	again.Close()
	for i, w := range windows {
		if got := other.Step(w); !reflect.DeepEqual(got, outcomes[i]) {
			t.Fatalf("window %d: %+v, want %+v", w.Number, got, outcomes[i])
		}
	}
	if !reflect.DeepEqual(other.Summaries(), e.Summaries()) {
		t.Errorf("summaries %+v, want %+v", other.Summaries(), e.Summaries())
	}
	return other
}

// PoolSeeds is the first seed for which the model of Lived has a pool, for sparse features
// with even seeds and dense ones with odd seeds.
const PoolSeeds = 100

// Lived returns an engine that has stepped through a random stream, with what it was made
// from. Two of three learn labels some windows late.
func Lived(t testing.TB, seed uint64, windows int) (*Engine, *model.Model, pipeline.Config, *RandomStream) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	m := ModelOf(t, rng, gnn.KindSAGE, 2)
	if seed >= PoolSeeds {
		AddPool(t, m, seed%2 == 0)
	}
	cfg := pipeline.Config{
		Samples: 2, BFloat16: seed%2 == 1, LearnLag: 2 * int(seed%3),
		Coverage: pipeline.Coverage{Target: 0.9, Per: parts.PerClass},
	}
	if seed%2 == 1 {
		cfg.Keep = structure.Keep{Nodes: 700, Edges: 400}
	}
	l := NewRandomStream(rng, m)
	e := NewEngine(t, m, cfg)
	for range windows {
		e.Step(l.Window())
	}
	return e, m, cfg, l
}
