package model_test

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
)

// small returns the file of a valid model, as small as the kind of encoder allows.
func small(t testing.TB, kind gnn.Kind) *safetensors.File {
	t.Helper()
	d := blobs(false)
	d.IDs = d.IDs[:2]
	m, err := model.Train(t.Context(), d, model.Config{Encoder: kind, Hidden: []int{2}, Embedding: 2, TempHidden: 2, Heads: 1, Epochs: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.safetensors")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// encoded returns the bytes of a file.
func encoded(t testing.TB, f *safetensors.File) []byte {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// perByte bounds the bytes of memory for each byte of a file. The worst are classes of
// three bytes: each has a string header, in a slice that grows by copying.
const perByte = 128

// opens fails unless opening a file allocates in proportion to its size and gives a short
// error of one line, or else a model that serves and is the same after it is saved and
// opened again.
func opens(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := model.Open(path)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(perByte*len(b)+64<<10) {
		t.Fatalf("%d bytes allocated for a file of %d, want at most %d (%v)", got, len(b), perByte*len(b)+64<<10, err)
	}
	if err != nil {
		if strings.Contains(err.Error(), "\n") || len(err.Error()) > 2000 {
			t.Fatalf("error %.3000q, want one line of at most 2000 bytes", err)
		}
		return
	}
	seen := make(map[string]bool)
	for _, c := range m.Classes {
		if c == "" || len(c) > 1024 || seen[c] {
			t.Fatalf("classes %q, want distinct names of 1 to 1024 bytes", m.Classes)
		}
		seen[c] = true
	}
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := model.Open(path)
	if err != nil {
		t.Fatalf("opening the model that was opened and saved: %v", err)
	}
	if m.ID != again.ID || !slices.Equal(m.Classes, again.Classes) {
		t.Fatalf("model after saving and opening %+v, want %+v", again, m)
	}
	serves(t, m)
}

// serves fails unless a model gives valid predictions for any features.
func serves(t *testing.T, m *model.Model) {
	t.Helper()
	if m.Encoder.In() > 1<<10 {
		return // a wide encoder takes long, and shows nothing more
	}
	e, err := pipeline.New(m, pipeline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for number := range int64(3) {
		w := &event.Window{Number: number}
		for i, size := range []float32{0, 1, -1e6} {
			x := make([]float32, m.Encoder.In())
			for j := range x {
				x[j] = size
			}
			id := event.ID{Num: 3*number + int64(i)}
			w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: id, Dense: x, Neighbours: []event.ID{{Num: id.Num - 1}, {Num: id.Num + 1}}})
			w.Labels = append(w.Labels, event.Label{Origin: &event.Origin{}, Node: id, Index: int32(i) % 2})
		}
		for _, p := range e.Step(w).Predictions {
			sum := 0.0
			for _, q := range p.Probabilities {
				sum += float64(q)
			}
			if !(math.Abs(sum-1) < 1e-3) || !(p.Epistemic >= 0) || !(p.Total <= math.MaxFloat32) {
				t.Fatalf("window %d: prediction %+v, want probabilities that sum to 1 and finite uncertainties", number, p)
			}
		}
	}
}

// FuzzOpen opens any bytes as a model file.
func FuzzOpen(f *testing.F) {
	for _, kind := range []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN} {
		f.Add(encoded(f, small(f, kind)))
	}
	for _, sparse := range []bool{true, false} {
		path := filepath.Join(f.TempDir(), "pool.safetensors")
		if err := withPool(f, sparse).Save(path); err != nil {
			f.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	path := filepath.Join(f.TempDir(), "m.safetensors")
	f.Fuzz(func(t *testing.T, b []byte) { opens(t, path, b) })
}

// FuzzParts opens valid models with other metadata or another tensor: few of the changes
// that FuzzOpen makes get past the header.
func FuzzParts(f *testing.F) {
	kinds := []gnn.Kind{gnn.KindSAGE, gnn.KindGCN, gnn.KindGAT, gnn.KindGIN}
	sound := make([][]byte, len(kinds))
	for i, kind := range kinds {
		file := small(f, kind)
		sound[i] = encoded(f, file)
		for name, t := range file.Tensors {
			f.Add(uint8(i), "", name, string(t.DType), uint8(1), uint8(1), t.Data)
		}
		f.Add(uint8(i), file.Metadata["gvbll"], "", "", uint8(0), uint8(0), []byte(nil))
	}
	types := map[string]int{"U8": 1, "I32": 4, "F32": 4, "I64": 8, "F64": 8}
	path := filepath.Join(f.TempDir(), "m.safetensors")
	f.Fuzz(func(t *testing.T, kind uint8, meta, name, dtype string, rows, columns uint8, data []byte) {
		file, err := safetensors.Decode(sound[int(kind)%len(sound)])
		if err != nil {
			t.Fatal(err)
		}
		if meta != "" {
			file.Metadata["gvbll"] = meta
		}
		if size := types[dtype]; size > 0 {
			shape := []int{int(rows), int(columns)}
			if columns == 0 {
				shape = shape[:1]
			}
			if old, ok := file.Tensors[name]; ok && rows == 1 && columns == 1 {
				shape = old.Shape // the right shape, with other numbers
			}
			n := size
			for _, d := range shape {
				n *= d
			}
			data = append(data, make([]byte, max(n-len(data), 0))...)[:n]
			file.Tensors[name] = safetensors.Tensor{DType: safetensors.DType(dtype), Shape: shape, Data: data}
		}
		b, err := file.Encode()
		if err != nil {
			return // the name is not valid in a file
		}
		opens(t, path, b)
	})
}
