package model_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// withPool returns a small model with a pool.
func withPool(t testing.TB, sparse bool) *model.Model {
	t.Helper()
	m, err := model.Train(t.Context(), blobs(sparse), model.Config{Hidden: []int{2}, Embedding: 2, TempHidden: 2, Epochs: 1, Pool: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestPoolInFile: a trained pool is the same after its model is saved and opened. The error
// for a model without a pool says what to do.
func TestPoolInFile(t *testing.T) {
	for _, sparse := range []bool{true, false} {
		m := withPool(t, sparse)
		spec := model.DefaultPool(blobs(sparse))
		fresh, err := pool.New(spec, m.Shape(), &m.Prior)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(fresh.AppendState(nil), m.PoolState) {
			t.Error("the state of the pool is that before training")
		}
		path := filepath.Join(t.TempDir(), "m.safetensors")
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		again, err := model.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if again.ID != m.ID || !slices.Equal(again.PoolState, m.PoolState) || len(again.Pool.Heads) != len(spec.Heads) {
			t.Errorf("sparse %t: opened model %s with %d heads, want %s with %d and the same state", sparse, again.ID, len(again.Pool.Heads), m.ID, len(spec.Heads))
		}
		if _, err := again.NewPool(); err != nil {
			t.Error(err)
		}
		plain := *m
		plain.Pool, plain.PoolState = nil, nil
		if _, err := plain.NewPool(); err == nil || !strings.Contains(err.Error(), "--head paper") {
			t.Errorf("NewPool without a pool: got %v, want an error with --head paper", err)
		}
	}
}

// TestPoolDamaged: a model whose pool does not fit it cannot be opened.
func TestPoolDamaged(t *testing.T) {
	m := withPool(t, true)
	path := filepath.Join(t.TempDir(), "m.safetensors")
	for name, spoil := range map[string]func(f *safetensors.File){
		"no state": func(f *safetensors.File) { delete(f.Tensors, "pool.state") },
		"short": func(f *safetensors.File) {
			b := f.Tensors["pool.state"].Data
			f.Tensors["pool.state"] = safetensors.Of(b[:len(b)-8], len(b)-8)
		},
		"no number": func(f *safetensors.File) {
			b := slices.Clone(f.Tensors["pool.state"].Data)
			for i := range b[64:] {
				b[64+i] = 0xff
			}
			f.Tensors["pool.state"] = safetensors.Of(b, len(b))
		},
		"no heads": func(f *safetensors.File) {
			f.Metadata["gvbll"] = strings.Replace(f.Metadata["gvbll"], `"heads":[`, `"heads":[],"no":[`, 1)
		},
	} {
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		f, err := safetensors.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spoil(f)
		if err := safetensors.WriteFile(path, f); err != nil {
			t.Fatal(err)
		}
		if _, err := model.Open(path); err == nil {
			t.Errorf("%s: Open succeeded, want an error", name)
		} else {
			t.Log(err)
		}
	}
}

// TestPoolProblemsInOneLine: the error for a pool with problems in every head and a huge
// name is one short line.
func TestPoolProblemsInOneLine(t *testing.T) {
	m := withPool(t, true)
	for i := range m.Pool.Heads {
		m.Pool.Heads[i].Name = ""
	}
	m.Pool.Heads[0].Name = strings.Repeat("\x00", 1<<16)
	err := m.Save(filepath.Join(t.TempDir(), "m.safetensors")) // opens what it writes
	if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 1000 || !strings.Contains(err.Error(), "head") {
		t.Errorf("error %.2000v, want one line about a head of at most 1000 bytes", err)
	}
}
