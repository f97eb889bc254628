package gnn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// golden reads one of the shared golden files, which stand beside this module
// where it is developed; without them the test is skipped.
func golden(t *testing.T, name string) *safetensors.File {
	t.Helper()
	path := filepath.Join("..", "..", "shared", "goldens", name+".safetensors")
	if _, err := os.Stat(path); err != nil {
		t.Skipf("the shared golden files are not beside this module: %v", err)
	}
	f, err := safetensors.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// values returns a golden tensor's elements.
func values[T safetensors.Element](t *testing.T, f *safetensors.File, name string) []T {
	t.Helper()
	v, err := safetensors.Values[T](f.Tensors[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// furthest is the largest difference of two vectors, relative to the largest
// entry of want or to 1 if that is larger; infinite for other lengths or NaN.
func furthest(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	size, worst := 1.0, 0.0
	for i := range want {
		size = max(size, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i]))) // max keeps NaN
	}
	if math.IsNaN(worst) {
		return math.Inf(1)
	}
	return worst / size
}

const tolerance = 1e-5

// TestGoldenSAGE compares with PyTorch Geometric: the full-graph encoder on
// both graphs and on the subgraphs of the first nodes, and the incremental one
// where the graph is simple and undirected.
func TestGoldenSAGE(t *testing.T) {
	for _, name := range []string{"sage", "sage3", "sage_noroot", "sage_conv12"} {
		t.Run(name, func(t *testing.T) {
			enc, err := LoadSAGE(golden(t, name).Tensors)
			if err != nil {
				t.Fatal(err)
			}
			out := golden(t, strings.TrimSuffix(name, "_conv12")+".out")
			graph := golden(t, "graph")
			flat := values[float32](t, graph, "x")
			x := make([]Vector, len(flat)/enc.In())
			for i := range x {
				x[i].Dense = flat[i*enc.In() : (i+1)*enc.In()]
			}

			check := func(kind, tensor string, n int) {
				index := values[int64](t, graph, kind+".edge_index")
				var src, dst []int32
				g := NewGraph(enc)
				g.Add(x[:n])
				edges := len(index) / 2
				for e := range edges {
					u, v := int32(index[e]), int32(index[edges+e])
					if int(u) < n && int(v) < n {
						src, dst = append(src, u), append(dst, v)
						g.Link(u, v)
					}
				}
				want := values[float32](t, out, tensor)
				if d := furthest(enc.Encode(x[:n], src, dst), want); d > tolerance {
					t.Errorf("%s: Encode off by %g", tensor, d)
				}
				if kind == "awkward" {
					return
				}
				got := make([]float32, n*enc.Out())
				g.Embed(upTo(n), got)
				if d := furthest(got, want); d > tolerance {
					t.Errorf("%s: Embed off by %g", tensor, d)
				}
			}
			check("plain", "plain.out", 200)
			check("awkward", "awkward.out", 200)
			for _, n := range []int{50, 100, 150} {
				check("plain", fmt.Sprintf("plain.first%d.out", n), n)
			}
		})
	}
}

// upTo lists the nodes below n.
func upTo(n int) []int32 {
	nodes := make([]int32, n)
	for v := range nodes {
		nodes[v] = int32(v)
	}
	return nodes
}

// randomSAGE returns an encoder with random weights; width is the features'
// dimension, then each layer's output.
func randomSAGE(rng *rand.Rand, width ...int) *SAGE {
	normal := func(n int, scale float64) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * scale)
		}
		return w
	}
	var layers []SAGELayer
	for l := range len(width) - 1 {
		in, out := width[l], width[l+1]
		scale := 1 / math.Sqrt(float64(in))
		layers = append(layers, SAGELayer{normal(in*out, scale), normal(out, 0.3), normal(in*out, scale)})
	}
	enc, err := NewSAGE(width[0], layers...)
	if err != nil {
		panic(err)
	}
	return enc
}

// randomVector returns features of which about the given share is not zero.
func randomVector(rng *rand.Rand, dim int, share float64) Vector {
	dense := make([]float32, dim)
	for j := range dense {
		if rng.Float64() < share {
			dense[j] = float32(rng.NormFloat64())
		}
	}
	return Vector{Dense: dense}
}

// sparse returns the sparse form of v.
func sparse(v Vector) Vector {
	var s Vector
	for j, x := range v.Dense {
		if x != 0 {
			s.Index, s.Value = append(s.Index, uint32(j)), append(s.Value, x)
		}
	}
	return s
}

// TestEncodeByHand follows the formula on a graph small enough to do so: node
// 0 hears 1 twice and itself, node 1 hears nobody.
func TestEncodeByHand(t *testing.T) {
	enc, err := NewSAGE(1,
		SAGELayer{Neigh: []float32{1, -1}, Bias: []float32{0.5, 0}, Self: []float32{2, 1}},
		SAGELayer{Neigh: []float32{1, 10}, Bias: []float32{-1}})
	if err != nil {
		t.Fatal(err)
	}
	x := []Vector{{Dense: []float32{3}}, {Index: []uint32{0}, Value: []float32{-6}}}
	got := enc.Encode(x, []int32{1, 1, 0}, []int32{0, 0, 0})
	// Means: (-6-6+3)/3 = -3 and none. States: 0: (-3+6.5, 3+3)+ = (3.5, 6);
	// 1: (-11.5, -6)+ = (0, 0). Their mean at 0: (7/6, 2) from (0, 0) twice
	// and (3.5, 6) once; so z_0 = 7/6 + 20 - 1 and z_1 = -1.
	if d := furthest(got, []float32{7./6 + 19, -1}); d > 1e-6 {
		t.Errorf("got %v", got)
	}
}

func TestTensorsRoundTrip(t *testing.T) {
	enc := randomSAGE(rand.New(rand.NewPCG(1, 1)), 5, 4, 3, 2)
	again, err := LoadSAGE(enc.Tensors())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(enc, again, cmp.AllowUnexported(SAGE{})); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if in, out, depth := again.In(), again.Out(), again.Depth(); in != 5 || out != 2 || depth != 3 {
		t.Errorf("dimensions %d to %d in %d layers", in, out, depth)
	}
}

func TestLoadSAGERefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(map[string]safetensors.Tensor)
	}{
		{"other model", "no GraphSAGE layer: norms.0.weight", func(m map[string]safetensors.Tensor) {
			m["norms.0.weight"] = safetensors.Of([]float32{1}, 1)
		}},
		{"layer missing", "no GraphSAGE layer: convs.2.lin_l.bias", func(m map[string]safetensors.Tensor) {
			m["convs.2.lin_l.bias"] = m["convs.1.lin_l.bias"]
			for _, part := range []string{"lin_l.weight", "lin_l.bias", "lin_r.weight"} {
				delete(m, "convs.1."+part)
			}
		}},
		{"bias missing", "no tensor convs.1.lin_l.bias", func(m map[string]safetensors.Tensor) {
			delete(m, "convs.1.lin_l.bias")
		}},
		{"nothing", "no tensor convs.0.lin_l.weight", func(m map[string]safetensors.Tensor) { clear(m) }},
		{"type", "elements are F64", func(m map[string]safetensors.Tensor) {
			m["convs.0.lin_l.bias"] = safetensors.Of(make([]float64, 3), 3)
		}},
		{"dimensions", "want 2 dimensions", func(m map[string]safetensors.Tensor) {
			m["convs.0.lin_l.weight"] = safetensors.Of(make([]float32, 12), 12)
		}},
		{"bias shape", "lin_l.bias 2", func(m map[string]safetensors.Tensor) {
			m["convs.0.lin_l.bias"] = safetensors.Of(make([]float32, 2), 2)
		}},
		{"self shape", "lin_r.weight has shape [4 3]", func(m map[string]safetensors.Tensor) {
			m["convs.0.lin_r.weight"] = safetensors.Of(make([]float32, 12), 4, 3)
		}},
		{"layers do not meet", "3 to 2", func(m map[string]safetensors.Tensor) {
			m["convs.1.lin_l.weight"] = safetensors.Of(make([]float32, 8), 2, 4)
			delete(m, "convs.1.lin_r.weight")
		}},
		{"not a number", "finite", func(m map[string]safetensors.Tensor) {
			m["convs.0.lin_l.bias"] = safetensors.Of([]float32{0, float32(math.NaN()), 0}, 3)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors := randomSAGE(rand.New(rand.NewPCG(1, 2)), 4, 3, 2).Tensors()
			c.change(tensors)
			if _, err := LoadSAGE(tensors); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := NewSAGE(3); err == nil {
		t.Error("no layers: want an error")
	}
	if _, err := NewSAGE(0, SAGELayer{Bias: []float32{1}}); err == nil {
		t.Error("no features: want an error")
	}
	if _, err := NewSAGE(1, SAGELayer{}); err == nil {
		t.Error("no outputs: want an error")
	}
}

func TestVectorValidate(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, c := range []struct {
		v    Vector
		want string // "" for a valid vector
	}{
		{Vector{}, ""},
		{Vector{Dense: []float32{1, 0, 2}}, ""},
		{Vector{Index: []uint32{0, 2}, Value: []float32{1, 0}}, ""},
		{Vector{Dense: []float32{}}, "0 dense entries"},
		{Vector{Dense: []float32{1, 2, inf}}, "-Inf"},
		{Vector{Dense: []float32{1, 2, 3}, Index: []uint32{0}, Value: []float32{1}}, "both"},
		{Vector{Index: []uint32{0, 1}, Value: []float32{1}}, "1 values"},
		{Vector{Index: []uint32{0, 3}, Value: []float32{1, 1}}, "index 3"},
		{Vector{Index: []uint32{1, 1}, Value: []float32{1, 1}}, "increasing"},
		{Vector{Index: []uint32{1}, Value: []float32{inf}}, "-Inf"},
	} {
		err := c.v.Validate(3)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.v, err, c.want)
		}
	}
}
