package snapshots_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// sealed returns the file with correct checksums, if it is long enough to have any.
func sealed(b []byte) []byte {
	const span = 1 << 20
	b = bytes.Clone(b)
	spans := (len(b) + span + 3) / (span + 4)
	if at := len(b) - 4*spans; at >= 0 {
		for i := range spans {
			sum := crc32.Checksum(b[i*span:min((i+1)*span, at)], crc32.MakeTable(crc32.Castagnoli))
			binary.LittleEndian.PutUint32(b[at+4*i:], sum)
		}
	}
	return b
}

// TestDamage: flipped bits, missing bytes and extra bytes are reported as damage in one
// line, so that a worker starts without the snapshot.
func TestDamage(t *testing.T) {
	for _, seed := range []uint64{0, 1, pipelinetest.PoolSeeds, pipelinetest.PoolSeeds + 1} {
		e, m, cfg, _ := pipelinetest.Lived(t, seed, 40)
		whole := pipelinetest.SnapshotOf(t, e, map[string]string{"key": "value"})
		if !bytes.Equal(sealed(whole), whole) {
			t.Fatal("sealed computes other checksums than the snapshot has")
		}
		check := func(what string, b []byte) {
			t.Helper()
			if _, _, err := pipelinetest.Restore(m, cfg, b); !errors.Is(err, pipeline.ErrDamaged) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v, want one line that wraps ErrDamaged", what, err)
			}
		}
		rng := rand.New(rand.NewPCG(seed, 5))
		header := 8 + int(binary.LittleEndian.Uint64(whole))
		for range 500 {
			i := rng.IntN(len(whole))
			if rng.IntN(2) == 0 {
				i = rng.IntN(header)
			}
			b := bytes.Clone(whole)
			b[i] ^= 1 << rng.IntN(8)
			check(fmt.Sprintf("byte %d of %d", i, len(whole)), b)
		}
		for range 100 {
			n := rng.IntN(len(whole))
			check(fmt.Sprintf("%d bytes of %d", n, len(whole)), whole[:n])
			// Bytes may also be missing though the size is that of the whole file.
			if _, _, err := pipeline.RestorePair(cfg, bytes.NewReader(whole[:n]), int64(len(whole)), m); !errors.Is(err, pipeline.ErrDamaged) {
				t.Errorf("%d bytes for a size of %d: got %v, want ErrDamaged", n, len(whole), err)
			}
		}
		for _, more := range []string{"\x00", "1234", strings.Repeat("x", 4096)} {
			check("appended", append(bytes.Clone(whole), more...))
			check("sealed after more was appended", sealed(append(bytes.Clone(whole), more...)))
		}
		check("twice", append(bytes.Clone(whole), whole...))
		empty := altered(t, whole, func(f *safetensors.File) { clear(f.Tensors); clear(f.Metadata) })
		if _, _, err := pipelinetest.Restore(m, cfg, empty); !errors.Is(err, pipeline.ErrNotThere) {
			t.Errorf("another safetensors file: got %v, want ErrNotThere", err)
		}
	}
}

// broken is a file whose reads fail.
type broken struct{ err error }

func (r broken) ReadAt([]byte, int64) (int, error) { return 0, r.err }

// TestUnreadable: an error of the disk is passed on and is not ErrDamaged, since the file
// may be sound.
func TestUnreadable(t *testing.T) {
	e, m, cfg, _ := pipelinetest.Lived(t, 0, 3)
	failure := errors.New("input/output error")
	_, _, err := pipeline.RestorePair(cfg, broken{failure}, int64(len(pipelinetest.SnapshotOf(t, e, nil))), m)
	if !errors.Is(err, failure) || errors.Is(err, pipeline.ErrDamaged) {
		t.Errorf("got %v, want %v, not ErrDamaged", err, failure)
	}
}

// set returns a function that changes the elements of a tensor.
func set[T safetensors.Element](name string, change func([]T)) func(*safetensors.File) {
	return func(f *safetensors.File) {
		tensor := f.Tensors[name]
		values, err := safetensors.Values[T](tensor)
		if err != nil {
			panic(err)
		}
		change(values)
		f.Tensors[name] = safetensors.Of(values, tensor.Shape...)
	}
}

// to returns a function that sets element i to x.
func to[T safetensors.Element](i int, x T) func([]T) { return func(v []T) { v[i] = x } }

// cut returns a function that removes the last row of a tensor.
func cut(name string) func(*safetensors.File) {
	return func(f *safetensors.File) {
		tensor := f.Tensors[name]
		row := len(tensor.Data) / tensor.Shape[0]
		tensor.Shape = slices.Clone(tensor.Shape)
		tensor.Shape[0]--
		tensor.Data = tensor.Data[:len(tensor.Data)-row]
		f.Tensors[name] = tensor
	}
}

// TestImpossibleStates: states that no engine can have are errors even if the checksums are
// correct, since an engine with such a state could panic later.
func TestImpossibleStates(t *testing.T) {
	nan32, nan64 := float32(math.NaN()), math.NaN()
	e, m, cfg, _ := pipelinetest.Lived(t, 4, 40) // rows of float32
	whole := pipelinetest.SnapshotOf(t, e, nil)
	file, err := safetensors.Decode(whole)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*safetensors.File){
		"degree negative":          set("graph.degrees", to(3, int32(-1))),
		"degree huge":              set("graph.degrees", to(3, int32(math.MaxInt32))),
		"degree more, degree less": set("graph.degrees", func(d []int32) { d[0], d[1] = d[0]+1, d[1]-1 }),
		"neighbour out of range":   set("graph.neighbours", to(0, int32(math.MaxInt32))),
		"neighbour negative":       set("graph.neighbours", to(0, int32(-1))),
		"neighbour one-sided": set("graph.neighbours", func(u []int32) {
			for other := range int32(len(u)) { // a node that is not among its neighbours
				if other > 0 && !slices.Contains(u[:file0Degree(file)], other) {
					u[0] = other
					return
				}
			}
		}),
		"neighbour twice":        set("graph.neighbours", func(u []int32) { d := file0Degree(file); u[d-1] = u[0] }),
		"neighbour itself":       set("graph.neighbours", to(0, int32(0))),
		"stale":                  set("graph.stale", to(0, uint8(2))),
		"class":                  set("nodes.label", to(0, int32(3))),
		"class negative":         set("nodes.label", to(0, int32(-2))),
		"context":                set("nodes.context", to(0, uint8(16))),
		"past":                   set("nodes.context", to(0, uint8(8))),
		"id twice":               set("nodes.integers", func(v []int64) { v[1] = v[0] }),
		"id longer":              set("nodes.lengths", to(0, int32(math.MaxInt32))),
		"id negative":            set("nodes.lengths", to(0, int32(-1))),
		"id lengths":             set("nodes.lengths", func(v []int32) { clear(v) }),
		"pending node":           set("pending.node", to(0, int32(math.MaxInt32))),
		"pending node negative":  set("pending.node", to(0, int32(-1))),
		"pending twice":          set("pending.node", func(v []int32) { v[1] = v[0] }),
		"pending labelled":       func(f *safetensors.File) { set("nodes.label", func(v []int32) { v[pending0(f)] = 1 })(f) },
		"pending context":        func(f *safetensors.File) { set("nodes.context", func(v []uint8) { v[pending0(f)] = 1 })(f) },
		"pending window":         set("pending.window", to(0, int64(40))),
		"pending window before":  set("pending.window", to(0, int64(-1))),
		"temperature 0":          set("pending.temperature", to(0, 0.)),
		"temperature tiny":       set("pending.temperature", to(0, 1e-307)),
		"temperature not":        set("pending.temperature", to(0, nan64)),
		"embedding":              set("pending.embedding", to(0, nan32)),
		"probability":            set("pending.probabilities", to(0, float32(1.5))),
		"probability not":        set("pending.probabilities", to(0, nan32)),
		"waiting node":           set("waiting.nodes", to(0, int32(math.MaxInt32))),
		"waiting count 0":        set("waiting.edges", to(0, int32(0))),
		"waiting count negative": set("waiting.edges", to(0, int32(-1))),
		"waiting count":          set("waiting.edges", to(0, int32(math.MaxInt32))),
		"waiting held":           set("waiting.held", to(0, int32(math.MaxInt32))),
		"waiting held negative":  set("waiting.held", to(0, int32(-1))),
		"waiting held more":      set("waiting.held", func(v []int32) { v[len(v)-1]++ }),
		"waiting for a node": func(f *safetensors.File) {
			known, _ := safetensors.Values[int64](f.Tensors["nodes.integers"])
			set("waiting.integers", to(0, known[0]))(f)
		},
		"waiting twice": set("waiting.integers", func(v []int64) { v[1] = v[0] }),
		"early for a node": func(f *safetensors.File) {
			known, _ := safetensors.Values[int64](f.Tensors["nodes.integers"])
			set("early.integers", to(0, known[0]))(f)
		},
		"early twice":        set("early.integers", func(v []int64) { v[1] = v[0] }),
		"early record":       set("early.records", func(b []byte) { b[0] = 0xff }),
		"early class":        set("early.records", func(b []byte) { b[1] = 2 * 63 }),
		"early varint":       set("early.records", func(b []byte) { copy(b, bytes.Repeat([]byte{0xff}, 11)) }),
		"head":               set("heads.online", to(30, uint8(0xaa))),
		"head not a number":  set("heads.online", func(b []byte) { binary.LittleEndian.PutUint64(b[24:], math.Float64bits(nan64)) }),
		"set's prediction":   set("sets.served", func(v []int64) { v[len(v)-2] = -1 }), // of the last node
		"set's classes":      set("sets.served", func(v []int64) { v[len(v)-1] = 1 << 3 }),
		"sets held":          set("sets.counts", to(2, int64(math.MaxInt64))),
		"score not a number": set("summaries.sums", to(0, nan64)),
		"score negative":     set("summaries.sums", to(0, -1.)),
		"labels negative":    set("summaries.counts", to(0, int64(-1))),
		"windows":            set("summaries.counts", to(1, int64(math.MaxInt64))),
		"bin negative":       set("summaries.counts", to(2, int64(-1))),
		"bin overflow":       set("summaries.counts", func(v []int64) { v[0], v[2], v[4] = math.MaxInt64, math.MaxInt64, math.MaxInt64 }),
		"bin":                set("summaries.counts", to(41, int64(math.MaxInt64))),
		"a tensor more":      func(f *safetensors.File) { f.Tensors["nodes.more"] = safetensors.Of([]uint8{1}, 1) },
		"another shape":      func(f *safetensors.File) { f.Tensors["nodes.label"] = safetensors.Of([]int32{1}, 1, 1) },
		"another type": func(f *safetensors.File) {
			t := f.Tensors["nodes.label"]
			t.DType = safetensors.F32
			f.Tensors["nodes.label"] = t
		},
		"clipped":       set("learn.clipped", to(0, int64(-1))),
		"step":          set("learn.step", to(0, nan64)),
		"learn window":  set("learn.window", to(0, int64(0))),
		"learn next":    set("learn.window", to(0, e.Next())),
		"learn label":   set("learn.batches", to(4, uint8(200))),
		"learn nothing": func(f *safetensors.File) { f.Tensors["learn.batches"] = safetensors.Of(make([]uint8, 12), 12) },
		"learn more": func(f *safetensors.File) {
			f.Tensors["learn.batches"] = safetensors.Of(append(f.Tensors["learn.batches"].Data, 0), len(f.Tensors["learn.batches"].Data)+1)
		},
		"window":     func(f *safetensors.File) { f.Metadata["gvbll.window"] = "-1" },
		"window not": func(f *safetensors.File) { f.Metadata["gvbll.window"] = "x" },
		"chain":      func(f *safetensors.File) { f.Metadata["gvbll.chain"] = "00" },
		"posterior":  func(f *safetensors.File) { f.Metadata["gvbll.posterior"] = strings.Repeat("0", 64) },
	}
	for name, tensor := range file.Tensors {
		if name == "checksums" {
			continue
		}
		cases["without "+name] = func(f *safetensors.File) { delete(f.Tensors, name) }
		if tensor.Shape[0] > 0 {
			cases["short "+name] = cut(name)
		} else if name != "heads.static" {
			t.Errorf("tensor %s is empty: a test case cannot shorten it", name)
		}
	}
	for name, alter := range cases {
		t.Run(name, func(t *testing.T) {
			if _, _, err := pipelinetest.Restore(m, cfg, altered(t, whole, alter)); !errors.Is(err, pipeline.ErrDamaged) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line that wraps ErrDamaged", err)
			} else {
				t.Log(err)
			}
		})
	}
	if _, _, err := pipelinetest.Restore(m, cfg, altered(t, whole, func(*safetensors.File) {})); err != nil {
		t.Errorf("without any change: %v", err)
	}
}

// TestCheckpointBeforeActs: a checkpoint of 1.0.0 does not have what was said of pending nodes. It is read, and nothing is counted of these.
func TestCheckpointBeforeActs(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	cfg := pipeline.Config{Samples: 4, Act: "class=" + m.Classes[1] + ",cost=2:1"}
	e, stream := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewRandomStream(rng, m)
	var nodes []event.ID
	for range 20 {
		for _, p := range e.Step(stream.Window()).Predictions {
			nodes = append(nodes, p.Node.Clone())
		}
	}
	b := altered(t, pipelinetest.SnapshotOf(t, e, nil), func(f *safetensors.File) { delete(f.Tensors, "act.kept") })
	earlier, _, err := pipelinetest.Restore(m, cfg, b)
	if err != nil {
		t.Fatal(err)
	}
	joined := 0
	for _, id := range nodes {
		w := &event.Window{Number: earlier.Next(), Labels: []event.Label{{Node: id, Class: m.Classes[1], Origin: &event.Origin{}}}}
		f := earlier.Step(w).Figures
		joined += f.Int(event.LabelsJoined)
		if f.Of(parts.Acted.Caught)+f.Of(parts.Acted.Missed) > 0 {
			t.Fatal("a node is counted as acted on or not, of which the checkpoint does not say")
		}
	}
	if joined == 0 {
		t.Error("no label was joined")
	}
}

// TestImpossiblePools: states that no engine with a pool can have are errors even if the
// checksums are correct.
func TestImpossiblePools(t *testing.T) {
	nan := float32(math.NaN())
	for _, seed := range []uint64{pipelinetest.PoolSeeds, pipelinetest.PoolSeeds + 1} {
		e, m, cfg, _ := pipelinetest.Lived(t, seed, 40)
		whole := pipelinetest.SnapshotOf(t, e, nil)
		file, err := safetensors.Decode(whole)
		if err != nil {
			t.Fatal(err)
		}
		cases := map[string]func(*safetensors.File){
			"log probability": set("pending.said", to(0, nan)),
			"pool":            set("heads.pool", to(0, uint8(0xff))),
			"pool long": func(f *safetensors.File) {
				f.Tensors["heads.pool"] = safetensors.Of(append(f.Tensors["heads.pool"].Data, 0), len(f.Tensors["heads.pool"].Data)+1)
			},
			"member": func(f *safetensors.File) { f.Tensors["heads.wide"] = safetensors.Of([]uint8{1}, 1) },
		}
		if seed%2 == 0 {
			cases["index"] = set("features.index", to(0, int32(5)))
			cases["index negative"] = set("features.index", to(0, int32(-1)))
			cases["index twice"] = set("features.index", func(v []int32) { v[1] = v[0] })
			cases["value"] = set("features.value", to(0, nan))
			cases["value 0"] = set("features.value", to(0, float32(0)))
			cases["length"] = set("features.lengths", to(0, int32(math.MaxInt32)))
			cases["length negative"] = set("features.lengths", to(0, int32(-1)))
			cases["length less"] = set("features.lengths", func(v []int32) { v[len(v)-1]-- })
		} else {
			cases["row"] = set("features.rows", to(0, nan))
		}
		cases["served"] = set("features.served", to(0, uint8(200)))
		for name, tensor := range file.Tensors {
			if strings.HasPrefix(name, "features.") || name == "pending.said" || name == "heads.pool" {
				cases["without "+name] = func(f *safetensors.File) { delete(f.Tensors, name) }
				if tensor.Shape[0] > 0 {
					cases["short "+name] = cut(name)
				}
			}
		}
		for name, alter := range cases {
			if _, _, err := pipelinetest.Restore(m, cfg, altered(t, whole, alter)); !errors.Is(err, pipeline.ErrDamaged) || strings.Contains(err.Error(), "\n") {
				t.Errorf("seed %d, %s: got %v, want one line that wraps ErrDamaged", seed, name, err)
			}
		}
	}
}

// file0Degree is the degree of node 0.
func file0Degree(f *safetensors.File) int32 {
	degrees, err := safetensors.Values[int32](f.Tensors["graph.degrees"])
	if err != nil {
		panic(err)
	}
	return degrees[0]
}

// pending0 returns the first pending node.
func pending0(f *safetensors.File) int32 {
	nodes, err := safetensors.Values[int32](f.Tensors["pending.node"])
	if err != nil {
		panic(err)
	}
	return nodes[0]
}

// FuzzRestore: for any bytes, with their own or with correct checksums, Restore does not
// panic and allocates in proportion to them. A restored engine can be stepped and saved
// again.
func FuzzRestore(f *testing.F) {
	seeds := map[string][]byte{}
	for _, seed := range []uint64{0, 1, pipelinetest.PoolSeeds, pipelinetest.PoolSeeds + 1} {
		for _, windows := range []int{0, 2, 12} {
			e, _, _, _ := pipelinetest.Lived(f, seed, windows)
			b := pipelinetest.SnapshotOf(f, e, map[string]string{"k": "v"})
			seeds[fmt.Sprint(seed, windows)] = b
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seeds)) {
		f.Add(seeds[name], uint64(0), uint64(0))
		f.Add(seeds[name], uint64(1000), uint64(0xff))
	}
	_, m, cfg, _ := pipelinetest.Lived(f, 0, 0)
	_, halfModel, halfCfg, _ := pipelinetest.Lived(f, 1, 0)
	_, sparseModel, sparseCfg, _ := pipelinetest.Lived(f, pipelinetest.PoolSeeds, 0)
	_, denseModel, denseCfg, _ := pipelinetest.Lived(f, pipelinetest.PoolSeeds+1, 0)
	f.Fuzz(func(t *testing.T, b []byte, at, word uint64) {
		// Change a random word, in addition to the fuzzer's changes.
		changed := bytes.Clone(b)
		if len(changed) >= 8 {
			i := int(at % uint64(len(changed)-7))
			binary.LittleEndian.PutUint64(changed[i:], binary.LittleEndian.Uint64(changed[i:])^word)
		}
		for _, b := range [][]byte{b, sealed(b), sealed(changed)} {
			for _, restored := range []func() (*pipelinetest.Engine, error){
				func() (*pipelinetest.Engine, error) { e, _, err := pipelinetest.Restore(m, cfg, b); return e, err },
				func() (*pipelinetest.Engine, error) {
					e, _, err := pipelinetest.Restore(halfModel, halfCfg, b)
					return e, err
				},
				func() (*pipelinetest.Engine, error) {
					e, _, err := pipelinetest.Restore(sparseModel, sparseCfg, b)
					return e, err
				},
				func() (*pipelinetest.Engine, error) {
					e, _, err := pipelinetest.Restore(denseModel, denseCfg, b)
					return e, err
				},
			} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				e, err := restored()
				runtime.ReadMemStats(&after)
				if allocated, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+64*len(b)); allocated > most {
					t.Errorf("%d bytes allocated for a file of %d, want at most %d (%v)", allocated, len(b), most, err)
				}
				if err != nil {
					continue
				}
				l := pipelinetest.NewRandomStream(rand.New(rand.NewPCG(1, 1)), m)
				l.Number = e.Next()
				for range min(3, math.MaxInt64-e.Next()) {
					e.Step(l.Window())
				}
				pipelinetest.SnapshotOf(t, e, nil)
			}
		}
	})
}

// TestDamagedPair: damage to a snapshot of two engines is reported.
func TestDamagedPair(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	a, b := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2), pipelinetest.ModelOf(t, rng, gnn.KindGCN, 1)
	b.ID = "second"
	pair, err := pipeline.NewPair(pipeline.Config{Samples: 2}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	l := pipelinetest.NewRandomStream(rng, a)
	for range 20 {
		pair.Step(l.Window())
	}
	s := pair.Snapshot(nil)
	file, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 200 {
		bad := bytes.Clone(file)
		if rng.IntN(3) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		} else {
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		}
		if _, _, err := pipeline.RestorePair(pipeline.Config{Samples: 2}, bytes.NewReader(bad), int64(len(bad)), a, b); !errors.Is(err, pipeline.ErrDamaged) {
			t.Fatalf("got error %v, want ErrDamaged", err)
		}
	}
}
