package model_test

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/train"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// blobs is a training graph of two classes that can be separated in a few epochs.
func blobs(sparse bool) model.Data {
	rng := rand.New(rand.NewPCG(1, 1))
	d := model.Data{Name: "blobs", Split: "all", Dim: 4, Classes: []string{"left", "right"}}
	for i := range 60 {
		y := i % 2
		x := gnn.Vector{Dense: make([]float32, 4)}
		for j := range x.Dense {
			x.Dense[j] = float32(rng.NormFloat64()/2 + float64(y*2-1))
		}
		if sparse {
			x = gnn.Vector{Index: []uint32{uint32(2*y + rng.IntN(2))}, Value: []float32{1}}
		}
		d.IDs = append(d.IDs, event.ID{Num: int64(i)})
		d.X = append(d.X, x)
		d.Labels = append(d.Labels, int32(y))
		if i >= 2 {
			d.Src, d.Dst = append(d.Src, int32(i), int32(i-2)), append(d.Dst, int32(i-2), int32(i))
		}
	}
	return d
}

// TestSaveVerifies: a model that could not be opened does not take the place of one that can.
func TestSaveVerifies(t *testing.T) {
	m, err := model.Train(t.Context(), blobs(false), model.Config{Hidden: []int{4}, Embedding: 4, Epochs: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	bad := *m
	bad.Classes = append([]string{"gut\xe4"}, m.Classes[1:]...)
	if err := bad.Save(path); err == nil || !strings.Contains(err.Error(), "is not written") {
		t.Errorf("a class in latin-1: %v", err)
	}
	if got, err := model.Open(path); err != nil || got.ID != m.ID {
		t.Errorf("the good model is gone: %v", err)
	}
}

// TestTrainSaveOpen: a model is the same after it is saved and opened, and a function of
// data, configuration and seed.
func TestTrainSaveOpen(t *testing.T) {
	for name, sparse := range map[string]bool{"dense": false, "sparse": true} {
		t.Run(name, func(t *testing.T) {
			cfg := model.Config{Hidden: []int{8}, Embedding: 4, Epochs: 60, Seed: 5}
			epochs := 0
			m, err := model.Train(t.Context(), blobs(sparse), cfg, func(train.Progress) { epochs++ })
			if err != nil {
				t.Fatal(err)
			}
			if epochs != 60 || m.Training.Accuracy < .9 {
				t.Errorf("%d epochs with accuracy %v, want 60 and at least .9", epochs, m.Training.Accuracy)
			}
			path := filepath.Join(t.TempDir(), "m.safetensors")
			if err := m.Save(path); err != nil {
				t.Fatal(err)
			}
			got, err := model.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, m) {
				t.Errorf("opened model %+v\nwant the saved %+v", got, m)
			}
			again, err := model.Train(t.Context(), blobs(sparse), cfg, nil)
			if err != nil || again.ID != m.ID {
				t.Errorf("the same seed gives model %s, then %s (%v)", m.ID, again.ID, err)
			}
			cfg.Seed++
			if other, err := model.Train(t.Context(), blobs(sparse), cfg, nil); err != nil || other.ID == m.ID {
				t.Errorf("another seed gives the same model (%v)", err)
			}
		})
	}
}

// TestRanked: a model of numbers far from normal ranks them, and keeps that in its file; one that takes over the heads of
// another ranks as that does, and an encoder trained elsewhere has no ranks unless they are asked for.
func TestRanked(t *testing.T) {
	d := blobs(false)
	for _, x := range d.X {
		x.Dense[0] = float32(math.Exp(3 * float64(x.Dense[0])))
	}
	cfg := model.Config{Hidden: []int{8}, Embedding: 4, Epochs: 5, Pool: true}
	train := func(d model.Data, cfg model.Config) *model.Model {
		m, err := model.Train(t.Context(), d, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := train(d, cfg)
	if m.Normalizer.Ranked() == nil || m.Normalizer.Of[0].Knots == nil {
		t.Fatalf("normalised by %+v, want ranks of the first feature", m.Normalizer)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if got, err := model.Open(path); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("opened model %+v (%v)\nwant the saved %+v", got, err, m)
	}
	later := d
	later.X, later.Before = blobs(false).X, m.Normalizer
	if n := train(later, cfg).Normalizer; !reflect.DeepEqual(n, m.Normalizer) {
		t.Errorf("a model that takes over heads is normalised by %+v, want %+v", n, m.Normalizer)
	}
	plain := cfg
	plain.Normalization = gnn.NormalizeStandard
	d.Before = train(d, plain).Normalizer
	if n := train(d, cfg).Normalizer; n.Kind != gnn.NormalizeStandard {
		t.Errorf("after one without ranks, features are normalised by %s", n.Kind)
	}
	d.Before, cfg.Frozen = nil, m.Encoder
	if n := train(d, cfg).Normalizer; n.Kind != gnn.NormalizeStandard {
		t.Errorf("those of an encoder trained elsewhere are normalised by %s", n.Kind)
	}
}

// TestTrainStops: training ends with an error when its context is cancelled.
func TestTrainStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := model.Train(ctx, blobs(false), model.Config{Epochs: 1 << 30}, func(p train.Progress) {
		if p.Epoch == 3 {
			cancel()
		}
	}); err == nil {
		t.Error("Train succeeded though its context was cancelled")
	}
}

// TestOpenRefuses: the error for an invalid file is one line that names the file and the
// invalid part.
func TestOpenRefuses(t *testing.T) {
	m, err := model.Train(t.Context(), blobs(false), model.Config{Hidden: []int{8}, Embedding: 4, Epochs: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		spoil      func(*safetensors.File)
	}{
		{"no metadata", "gvbll train", func(f *safetensors.File) { f.Metadata = nil }},
		{"another format", "format 9", func(f *safetensors.File) { f.Metadata["gvbll"] = `{"format":9}` }},
		{"another encoder", "encoder \"gin\"", func(f *safetensors.File) { f.Metadata["gvbll"] = `{"format":1,"encoder":"gin"}` }},
		{"one class", "1 classes", func(f *safetensors.File) {
			f.Metadata["gvbll"] = `{"format":1,"encoder":"graphsage","classes":["a"],"normalization":"none"}`
		}},
		{"a class twice", `class "a" is listed twice`, func(f *safetensors.File) {
			f.Metadata["gvbll"] = `{"format":1,"encoder":"graphsage","classes":["a","b","a"],"normalization":"standard"}`
		}},
		{"a class without a name", "class 1 has no name", func(f *safetensors.File) {
			f.Metadata["gvbll"] = `{"format":1,"encoder":"graphsage","classes":["a",""],"normalization":"standard"}`
		}},
		{"a class of a long name", "at most 1024", func(f *safetensors.File) {
			f.Metadata["gvbll"] = `{"format":1,"encoder":"graphsage","classes":["a","` + strings.Repeat("b", 1<<20) + `"],"normalization":"standard"}`
		}},
		{"a mean that overflows", "head.mean", func(f *safetensors.File) {
			f.Tensors["head.mean"] = safetensors.Of([]float64{1, 1, 1, 1, 1, 1, 1, 1e300}, 4, 2)
		}},
		{"no head", "head.mean", func(f *safetensors.File) { delete(f.Tensors, "head.mean") }},
		{"a head of other width", "head.precision", func(f *safetensors.File) { f.Tensors["head.precision"] = safetensors.Of(make([]float64, 3), 3, 1) }},
		{"a precision of zero", "recision", func(f *safetensors.File) { f.Tensors["head.precision"] = safetensors.Of(make([]float64, 8), 4, 2) }},
		{"half a temperature", "temperature.2.weight", func(f *safetensors.File) { delete(f.Tensors, "temperature.2.weight") }},
		{"no encoder", "", func(f *safetensors.File) { delete(f.Tensors, "convs.0.lin_l.weight") }},
		{"no normalisation", "normalization.std", func(f *safetensors.File) { delete(f.Tensors, "normalization.std") }},
	} {
		f, err := safetensors.Decode(whole)
		if err != nil {
			t.Fatal(err)
		}
		c.spoil(f)
		bad := filepath.Join(t.TempDir(), "bad.safetensors")
		if err := safetensors.WriteFile(bad, f); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Open(bad); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with the file's name and %q", c.name, err, c.want)
		}
	}
	for _, n := range []int{0, 5, 100, len(whole) - 1} {
		bad := filepath.Join(t.TempDir(), "torn")
		if err := os.WriteFile(bad, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Open(bad); err == nil {
			t.Errorf("a model cut to %d bytes: Open succeeded, want an error", n)
		}
	}
}
