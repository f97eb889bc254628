package snapshots_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// TestRestoredEngineIsEqual: a snapshot is begun after a random window and read in random
// pieces while the engine goes on. The engine restored from it and stepped through the same
// windows has the same bits as the original. A worker that starts from a checkpoint relies
// on this.
func TestRestoredEngineIsEqual(t *testing.T) {
	small := pipeline.Config{Bounds: pipeline.Bounds{Pending: 15, Labels: 6, Edges: 12}, Samples: 2}
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		for depth := 1; depth <= 3; depth++ {
			for seed := range uint64(12) {
				t.Run(fmt.Sprintf("%s/depth=%d/seed=%d", kind, depth, seed), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(seed, uint64(depth)))
					cfg := pipeline.Config{Samples: 2}
					if seed%2 == 0 {
						cfg = small
					}
					cfg.BFloat16 = seed%3 == 0
					cfg.Local.Unwatched = seed%5 == 0
					cfg.Act = []string{"", "class=b,capacity=3/s", "class=b,cost=2:1"}[(seed/2)%3]
					cfg.By = []string{"id:,values=2", "", "id:,class=c"}[(seed/3)%3]
					cfg.Fallback = []float64{0.5, -1, 2}[seed%3]
					if seed%4 > 0 {
						cfg.Coverage = pipeline.Coverage{Target: 0.8, Per: parts.Per(seed % 2), MaxSize: 2}
					}
					if seed%6 == 1 {
						cfg.Local.PendingMemory, cfg.Local.Blocks = 1000, pipelinetest.NewMemoryBlocks()
					}
					m := pipelinetest.ModelOf(t, rng, kind, depth)
					if seed%4 >= 2 {
						pipelinetest.AddPool(t, m, seed%3 == 0)
						if seed%3 > 0 {
							cfg.LabelRates, cfg.LearnLag = pipeline.CountedRates, int(seed%3)-1
						}
					}
					l := pipelinetest.NewRandomStream(rng, m)
					e := pipelinetest.NewEngine(t, m, cfg)
					for range rng.IntN(60) {
						e.Step(l.Window())
					}
					for range 3 { // snapshots of restored engines too
						e = pipelinetest.Followed(t, rng, l, e, m, cfg)
					}
				})
			}
		}
	}
}

// TestSnapshotGivenUp: a snapshot that is closed half-way does not change the engine, and
// another can begin. Close may be called twice.
func TestSnapshotGivenUp(t *testing.T) {
	with, _, _, l := pipelinetest.Lived(t, 1, 30)
	without, _, _, same := pipelinetest.Lived(t, 1, 30)
	for range 20 {
		s := with.Snapshot(nil)
		if _, err := io.CopyN(io.Discard, s, s.Len()/2); err != nil {
			t.Fatal(err)
		}
		got := with.Step(l.Window())
		s.Close()
		s.Close()
		if want := without.Step(same.Window()); !reflect.DeepEqual(got, want) {
			t.Fatal(cmp.Diff(want, got))
		}
	}
	if !bytes.Equal(pipelinetest.SnapshotOf(t, with, nil), pipelinetest.SnapshotOf(t, without, nil)) {
		t.Error("an engine whose snapshots were given up is saved as other bytes")
	}
}

// TestSnapshotPanics: two snapshots at once, and invalid metadata, panic.
func TestSnapshotPanics(t *testing.T) {
	for name, misuse := range map[string]func(*pipelinetest.Engine){
		"two at once": func(e *pipelinetest.Engine) { e.Snapshot(nil); e.Snapshot(nil) },
		"own key":     func(e *pipelinetest.Engine) { e.Snapshot(map[string]string{"gvbll.window": "7"}) },
		"not UTF-8":   func(e *pipelinetest.Engine) { e.Snapshot(map[string]string{"a": "\xff"}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("want a panic")
				}
			}()
			misuse(pipelinetest.NewEngine(t, pipelinetest.SmallModel(t), pipeline.Config{}))
		})
	}
}

// TestRestoreElsewhere: a sound snapshot of another model, other settings or another
// program is not ErrDamaged. The error is one line that says what to do.
func TestRestoreElsewhere(t *testing.T) {
	e, m, cfg, _ := pipelinetest.Lived(t, 2, 10)
	b := pipelinetest.SnapshotOf(t, e, nil)
	other := *m
	other.ID = "another"
	settings := cfg
	settings.Bounds.Pending = 7
	own := string(e.Config().Settings())
	var many strings.Builder // settings that this program does not know
	for i := range 200 {
		fmt.Fprintf(&many, `,"unknown-%03d":1`, i)
	}
	for name, c := range map[string]struct {
		m    *model.Model
		cfg  pipeline.Config
		b    []byte
		want string
	}{
		"model":    {&other, cfg, b, "model another: not in the snapshot, which is of model random"},
		"settings": {m, settings, b, "it was taken with other settings: pending is 262144 there and 7 here; give the settings it was taken with, or start without the snapshot"},
		"version":  {m, cfg, rewritten(t, b, "gvbll.engine", `{"engine":0}`), fmt.Sprintf("engine is 0 there and %d here, ", pipeline.Version)},
		"program":  {m, cfg, rewritten(t, b, "gvbll.engine", `{"engine":0}`), "; restore it with the program that wrote it, or start"},
		"line":     {m, cfg, rewritten(t, b, "gvbll.engine", "engine=1"), "its settings are not a JSON object"},
		"unknown":  {m, cfg, rewritten(t, b, "gvbll.engine", own[:len(own)-1]+`,"theta\n":"\n`+strings.Repeat("x", 1000)+`"}`), `other settings: theta\n is \n` + strings.Repeat("x", 59) + " there and not set here; give"},
		"many":     {m, cfg, rewritten(t, b, "gvbll.engine", own[:len(own)-1]+many.String()+"}"), " here, and 150 more; give the settings"},
		"order":    {m, cfg, rewritten(t, b, "gvbll.engine", strings.Replace(own, ",", ", ", 1)), "it holds its settings in another form"},
		"no JSON":  {m, cfg, rewritten(t, b, "gvbll.engine", "{"), "its settings are not a JSON object"},
		"format":   {m, cfg, rewritten(t, b, "gvbll.format", "2"), "it is of format 2, this is 1: restore it with the gvbll that wrote it"},
	} {
		_, _, err := pipelinetest.Restore(c.m, c.cfg, c.b)
		if err == nil || errors.Is(err, pipeline.ErrDamaged) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q that does not wrap ErrDamaged", name, err, c.want)
		}
	}
}

// rewritten returns a snapshot with another value of a key of the metadata.
func rewritten(t testing.TB, b []byte, key, value string) []byte {
	t.Helper()
	return altered(t, b, func(f *safetensors.File) { f.Metadata[key] = value })
}

// altered returns a snapshot whose content is changed by alter, with correct checksums.
func altered(t testing.TB, b []byte, alter func(*safetensors.File)) []byte {
	t.Helper()
	f, err := safetensors.Decode(bytes.Clone(b))
	if err != nil {
		t.Fatal(err)
	}
	delete(f.Tensors, "checksums")
	alter(f)
	var parts []safetensors.Part
	for name, tensor := range f.Tensors {
		parts = append(parts, safetensors.Part{Name: name, DType: tensor.DType, Shape: tensor.Shape, Next: func(b []byte) []byte { return append(b, tensor.Data...) }})
	}
	slices.SortFunc(parts, func(a, b safetensors.Part) int { return strings.Compare(a.Name, b.Name) })
	s, err := safetensors.NewStream(f.Metadata, parts)
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWithoutDepartures: without departures, a snapshot has no tensors for them.
func TestWithoutDepartures(t *testing.T) {
	m := pipelinetest.SmallModel(t)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{})
	var offset int64
	e.Step(pipelinetest.ParseWindow(t, "node 1 x=1,0\nnode 2 x=0,1 nbr=1\nlabel 1 red", &offset))
	b := pipelinetest.SnapshotOf(t, e, nil)
	for _, name := range []string{"departed", "remove"} {
		if bytes.Contains(b, []byte(name)) {
			t.Errorf("the snapshot has %q, want no trace of departures", name)
		}
	}
}
