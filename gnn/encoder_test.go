package gnn

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/gnn/safetensors"
)

// golden reads one of the shared golden files, which are beside this module where it is
// developed. It skips the test if they are not there.
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

// values returns the elements of a golden tensor.
func values[T safetensors.Element](t *testing.T, f *safetensors.File, name string) []T {
	t.Helper()
	v, err := safetensors.Values[T](f.Tensors[name])
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

// furthest returns the largest difference of two vectors, relative to the largest entry of
// want or to 1 if that is larger. It is infinite for different lengths and NaN.
func furthest(got, want []float32) float64 {
	if len(got) != len(want) {
		return math.Inf(1)
	}
	size, worst := 1.0, 0.0
	for i := range want {
		size = max(size, math.Abs(float64(want[i])))
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i]))) // max of NaN is NaN
	}
	if math.IsNaN(worst) {
		return math.Inf(1)
	}
	return worst / size
}

const tolerance = 1e-5

// TestGolden compares with PyTorch Geometric: the full-graph encoder on both graphs and on
// the subgraphs of the first nodes, and the incremental encoder where the graph is simple
// and undirected.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name       string
		kind       Kind
		activation Activation
		out        string
	}{
		{"sage", KindSAGE, ReLU, "sage"},
		{"sage3", KindSAGE, ReLU, "sage3"},
		{"sage_noroot", KindSAGE, ReLU, "sage_noroot"},
		{"sage_conv12", KindSAGE, ReLU, "sage"},
		{"gcn", KindGCN, ReLU, "gcn"},
		{"gat1", KindGAT, ReLU, "gat1"},
		{"gat1_before25", KindGAT, "", "gat1"},
		{"gat4", KindGAT, ELU, "gat4"},
		{"gin", KindGIN, ReLU, "gin"},
		{"gin_zoo", KindGIN, ReLU, "gin_zoo"},
		{"gin_bn", KindGIN, ReLU, "gin_bn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := golden(t, c.name)
			enc, err := Load(c.kind, c.activation, f.Tensors)
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, enc, c.out)
			again, err := Load(c.kind, c.activation, enc.Tensors())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(enc, again, everything); d != "" {
				t.Errorf("round trip (-want +got)\n%s", d)
			}
			// Hand-written modules have other names of layers.
			other := map[string]safetensors.Tensor{}
			for name, tensor := range f.Tensors {
				for l := range 3 {
					name = strings.Replace(name, fmt.Sprintf("convs.%d.", l), fmt.Sprintf("conv%d.", l+1), 1)
				}
				other[name] = tensor
			}
			again, err = Load(c.kind, c.activation, other)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(enc, again, everything); d != "" {
				t.Errorf("as conv1, conv2 (-want +got)\n%s", d)
			}
		})
	}
}

// everything makes cmp look into encoders.
var everything = cmp.Exporter(func(reflect.Type) bool { return true })

// compareGolden compares the embeddings of enc, and of its first layers, with the golden
// tensors.
func compareGolden(t *testing.T, enc Encoder, name string) {
	out, graph := golden(t, name+".out"), golden(t, "graph")
	flat := values[float32](t, graph, "x")
	x := make([]Vector, len(flat)/enc.In())
	for i := range x {
		x[i].Dense = flat[i*enc.In() : (i+1)*enc.In()]
	}
	check := func(kind, tensor string, n int, encode, embed Encoder) {
		index := values[int64](t, graph, kind+".edge_index")
		var src, dst []int32
		g := NewGraph(embed)
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
		got := encode.Encode(x[:n], src, dst)
		again := make([]float32, n*embed.Out())
		g.Embed(upTo(n), again)
		if strings.Contains(tensor, ".h") { // a state before the last layer, taken without its activation
			enc.Activation().apply(got)
			enc.Activation().apply(again)
		}
		if d := furthest(got, want); d > tolerance {
			t.Errorf("%s: Encode has a relative error of %g", tensor, d)
		}
		if d := furthest(again, want); kind == "plain" && d > tolerance {
			t.Errorf("%s: Embed has a relative error of %g", tensor, d)
		}
	}
	for _, kind := range []string{"plain", "awkward"} {
		check(kind, kind+".out", 200, enc, enc)
		for l := 1; l < enc.Depth(); l++ {
			short := firstLayers(enc, l)
			tensor := fmt.Sprintf("%s.h%d", kind, l)
			check(kind, tensor, 200, short, short)
		}
	}
	for _, n := range []int{50, 100, 150} {
		check("plain", fmt.Sprintf("plain.first%d.out", n), n, enc, enc)
	}
}

// firstLayers returns the encoder of the first layers of enc.
func firstLayers(enc Encoder, depth int) Encoder {
	tensors := enc.Tensors()
	maps.DeleteFunc(tensors, func(name string, _ safetensors.Tensor) bool {
		for l := range depth {
			if strings.HasPrefix(name, fmt.Sprintf("convs.%d.", l)) {
				return false
			}
		}
		return true
	})
	short, err := Load(enc.Kind(), enc.Activation(), tensors)
	if err != nil {
		panic(err)
	}
	return short
}

// upTo lists the nodes below n.
func upTo(n int) []int32 {
	nodes := make([]int32, n)
	for v := range nodes {
		nodes[v] = int32(v)
	}
	return nodes
}

// kinds are all architectures.
var kinds = []Kind{KindSAGE, KindGCN, KindGAT, KindGIN}

// randomEncoder returns an encoder with random weights. width is the dimension of the
// features and then the output of each layer. GAT has two heads, side by side where the
// width is even and averaged otherwise. GIN has one to three linear maps a layer.
func randomEncoder(rng *rand.Rand, kind Kind, activation Activation, width ...int) Encoder {
	normal := func(n int, scale float64) []float32 {
		w := make([]float32, n)
		for i := range w {
			w[i] = float32(rng.NormFloat64() * scale)
		}
		return w
	}
	weights := func(out, in int) []float32 { return normal(out*in, 1/math.Sqrt(float64(in))) }
	bias := func(out int) []float32 { return normal(out, 0.3) }
	var (
		sage []SAGELayer
		gcn  []GCNLayer
		gat  []GATLayer
		gin  []GINLayer
	)
	for l := range len(width) - 1 {
		in, out := width[l], width[l+1]
		switch kind {
		case KindSAGE:
			sage = append(sage, SAGELayer{weights(out, in), bias(out), weights(out, in)})
		case KindGCN:
			gcn = append(gcn, GCNLayer{weights(out, in), bias(out)})
		case KindGAT:
			all := out
			if out%2 == 1 {
				all = 2 * out
			}
			gat = append(gat, GATLayer{2, weights(all, in), normal(all, 1), normal(all, 1), bias(out)})
		case KindGIN:
			layer := GINLayer{Eps: float32(rng.NormFloat64()) / 2}
			for range rng.IntN(3) {
				layer.MLP = append(layer.MLP, Linear{weights(out+1, in), bias(out + 1)})
				in = out + 1
			}
			layer.MLP = append(layer.MLP, Linear{weights(out, in), bias(out)})
			gin = append(gin, layer)
		}
	}
	var enc Encoder
	var err error
	switch kind {
	case KindSAGE:
		enc, err = NewSAGE(width[0], activation, sage...)
	case KindGCN:
		enc, err = NewGCN(width[0], activation, gcn...)
	case KindGAT:
		enc, err = NewGAT(width[0], activation, gat...)
	case KindGIN:
		enc, err = NewGIN(width[0], activation, gin...)
	}
	if err != nil {
		panic(err)
	}
	return enc
}

// randomSAGE returns a GraphSAGE encoder with random weights, see randomEncoder.
func randomSAGE(rng *rand.Rand, width ...int) Encoder {
	return randomEncoder(rng, KindSAGE, ReLU, width...)
}

// TestTensorsRoundTrip: an encoder loaded from its own tensors is equal to it.
func TestTensorsRoundTrip(t *testing.T) {
	for _, kind := range kinds {
		for _, activation := range []Activation{ReLU, ELU} {
			enc := randomEncoder(rand.New(rand.NewPCG(1, 1)), kind, activation, 5, 4, 3, 2)
			again, err := Load(kind, activation, enc.Tensors())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(enc, again, everything); d != "" {
				t.Errorf("%s (-want +got)\n%s", kind, d)
			}
			if in, out, depth := again.In(), again.Out(), again.Depth(); in != 5 || out != 2 || depth != 3 {
				t.Errorf("%s: %d features, %d outputs and %d layers, want 5, 2 and 3", kind, in, out, depth)
			}
			if again.Kind() != kind || again.Activation() != activation {
				t.Errorf("loaded %s with %s, want %s with %s", again.Kind(), again.Activation(), kind, activation)
			}
		}
	}
}

// ones returns a tensor of ones.
func ones(shape ...int) safetensors.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return safetensors.Of(slices.Repeat([]float32{1}, n), shape...)
}

// TestLoadRefuses: the error for tensors that are missing, unknown or of a wrong shape
// names them. Each case changes the tensors of an encoder of widths 4, 3 and 2.
func TestLoadRefuses(t *testing.T) {
	type state = map[string]safetensors.Tensor
	renamed := func(from, to string) func(state) {
		return func(m state) {
			for name, x := range maps.Clone(m) {
				if rest, ok := strings.CutPrefix(name, from); ok {
					delete(m, name)
					m[to+rest] = x
				}
			}
		}
	}
	for _, c := range []struct {
		name   string
		kind   Kind
		change func(state)
		want   string
	}{
		{"other model", KindSAGE, func(m state) { m["norms.0.weight"] = ones(1) }, "no layer of this encoder, the first is \"norms.0.weight\""},
		{"layer missing", KindSAGE, func(m state) {
			m["convs.2.lin_l.bias"] = m["convs.1.lin_l.bias"]
			for _, part := range []string{"lin_l.weight", "lin_l.bias", "lin_r.weight"} {
				delete(m, "convs.1."+part)
			}
		}, "no layer of this encoder, the first is \"convs.2.lin_l.bias\""},
		{"bias missing", KindSAGE, func(m state) { delete(m, "convs.1.lin_l.bias") }, "no tensor convs.1.lin_l.bias"},
		{"nothing", KindSAGE, func(m state) { clear(m) }, "no tensor convs.0.lin_l.weight, the file has none"},
		{"a prefix", KindSAGE, renamed("convs.", "model.encoder.convs."), `"model.encoder.convs.0.lin_l.bias" would have to be ` +
			`"convs.0.lin_l.bias", and so on: save {k.removeprefix("model.encoder."): v for k, v in model.state_dict().items() ` +
			`if k.startswith("model.encoder.")}`},
		{"a prefix, and a head", KindSAGE, func(m state) {
			renamed("convs.0.", "module.conv1.")(m)
			renamed("convs.1.", "module.conv2.")(m)
			m["a.0.weight"] = ones(1)
		}, `and 3 more; "module.conv1.lin_l.bias" would have to be "convs.0.lin_l.bias", and so on: save {k.removeprefix("module.")`},
		{"another name", KindSAGE, renamed("convs.", "layers."), `the file has ["layers.0.lin_l.bias" "layers.0.lin_l.weight" ` +
			`"layers.0.lin_r.weight" "layers.1.lin_l.bias"] and 2 more; "layers.0.lin_l.bias" would have to be "convs.0.lin_l.bias", and so on`},
		{"no layers", KindSAGE, func(m state) { clear(m); m["weight"] = ones(1) }, `no tensor convs.0.lin_l.weight: the file has ["weight"]`},
		{"type", KindSAGE, func(m state) { m["convs.0.lin_l.bias"] = safetensors.Of(make([]float64, 3), 3) }, "elements are F64"},
		{"dimensions", KindSAGE, func(m state) { m["convs.0.lin_l.weight"] = ones(12) }, "want 2 dimensions"},
		{"bias shape", KindSAGE, func(m state) { m["convs.0.lin_l.bias"] = ones(2) }, "lin_l.weight has shape [3 4], want [2 4]"},
		{"self shape", KindSAGE, func(m state) { m["convs.0.lin_r.weight"] = ones(4, 3) }, "lin_r.weight has shape [4 3], want [3 4]"},
		{"layers do not meet", KindSAGE, func(m state) {
			m["convs.1.lin_l.weight"] = ones(2, 4)
			delete(m, "convs.1.lin_r.weight")
		}, "layer 1: 8 neighbour weights, want 2×3"},
		{"not a number", KindSAGE, func(m state) {
			m["convs.0.lin_l.bias"] = safetensors.Of([]float32{0, float32(math.NaN()), 0}, 3)
		}, "finite"},
		{"overflow", KindSAGE, func(m state) { m["convs.0.lin_l.bias"] = safetensors.Of([]float32{0, 1e20 * maxWeight, 0}, 3) }, "want a finite number within ±1e+12"},
		{"empty", KindSAGE, func(m state) { m["convs.0.lin_l.bias"] = ones(0) }, "each at least 1"},

		{"another kind", KindGCN, func(m state) { m["convs.0.att_src"] = ones(1, 1, 3) }, "no layer of this encoder, the first is \"convs.0.att_src\""},
		{"weight missing", KindGCN, func(m state) { delete(m, "convs.0.lin.weight") }, "no tensor convs.0.lin.weight"},
		{"weight shape", KindGCN, func(m state) { m["convs.1.lin.weight"] = ones(3, 2) }, "lin.weight has shape [3 2], want [2 2]"},

		{"residual", KindGAT, func(m state) { m["convs.0.res.weight"] = ones(3, 4) }, "no layer of this encoder, the first is \"convs.0.res.weight\""},
		{"two sets of nodes", KindGAT, func(m state) {
			m["convs.0.lin_src.weight"] = m["convs.0.lin.weight"]
			m["convs.0.lin_dst.weight"] = ones(6, 4)
			delete(m, "convs.0.lin.weight")
		}, "lin_src.weight and lin_dst.weight differ"},
		{"source alone", KindGAT, func(m state) {
			m["convs.0.lin_src.weight"] = m["convs.0.lin.weight"]
			delete(m, "convs.0.lin.weight")
		}, "no tensor convs.0.lin_dst.weight"},
		{"heads differ", KindGAT, func(m state) { m["convs.0.att_dst"] = ones(1, 3, 2) }, "att_dst has shape [1 3 2], want [1 2 3]"},
		{"bias fits no heads", KindGAT, func(m state) { m["convs.0.bias"] = ones(5) }, "5 bias weights, want 6 (heads side by side) or 3 (averaged)"},
		{"attention shape", KindGAT, func(m state) { m["convs.0.att_src"] = ones(2, 1, 3) }, "att_src has shape [2 1 3], want [1 1 3]"},

		{"eps missing", KindGIN, func(m state) { delete(m, "convs.0.eps") }, "no tensor convs.0.eps"},
		{"eps too many", KindGIN, func(m state) { m["convs.0.eps"] = ones(2) }, "eps has shape [2], want [1]"},
		{"no map", KindGIN, func(m state) {
			maps.DeleteFunc(m, func(name string, _ safetensors.Tensor) bool { return strings.HasPrefix(name, "convs.1.nn") })
		}, "no tensor convs.1.nn.0.weight"},
		{"no ReLU", KindGIN, func(m state) { m["convs.0.nn.1.weight"], m["convs.0.nn.1.bias"] = ones(3, 3), ones(3) }, "convs.0.nn.1.weight: no ReLU between"},
		{"norm after ReLU", KindGIN, func(m state) { m["convs.1.nn.9.running_mean"] = ones(2) }, "right after a Linear"},
		{"norm shape", KindGIN, func(m state) {
			maps.DeleteFunc(m, func(name string, _ safetensors.Tensor) bool { return strings.HasPrefix(name, "convs.0.nn") })
			m["convs.0.nn.0.weight"], m["convs.0.nn.0.bias"] = ones(3, 4), ones(3)
			m["convs.0.nn.1.weight"], m["convs.0.nn.1.running_mean"] = ones(2), ones(3)
		}, "nn.1.weight has shape [2], want [3]"},
		{"norm of the zoo", KindGIN, func(m state) {
			maps.DeleteFunc(m, func(name string, _ safetensors.Tensor) bool { return strings.HasPrefix(name, "convs.0.nn") })
			m["convs.0.nn.lins.0.weight"], m["convs.0.nn.lins.0.bias"] = ones(3, 4), ones(3)
			m["convs.0.nn.norms.0.module.weight"] = ones(3)
		}, "no layer of this encoder, the first is \"convs.0.nn.norms.0.module.weight\""},
		{"module too far", KindGIN, func(m state) { m["convs.0.nn.100.weight"] = ones(1, 1) }, "no layer of this encoder, the first is \"convs.0.nn.100.weight\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors := randomEncoder(rand.New(rand.NewPCG(1, 2)), c.kind, ReLU, 4, 3, 2).Tensors()
			c.change(tensors)
			_, err := Load(c.kind, ReLU, tensors)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), fmt.Sprintf("encoder %q: ", c.kind)) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	if _, err := Load("mlp", ReLU, nil); err == nil || !strings.Contains(err.Error(), `encoder "mlp": it is one of`) {
		t.Errorf("an unknown kind: got %v", err)
	}
	for _, kind := range kinds {
		tensors := randomEncoder(rand.New(rand.NewPCG(1, 2)), kind, ReLU, 4, 3, 2).Tensors()
		if _, err := Load(kind, "tanh", tensors); err == nil || !strings.Contains(err.Error(), `activation "tanh"`) {
			t.Errorf("%s, an unknown activation: got %v", kind, err)
		}
	}
}

// TestNewRefuses: layers whose weights do not fit each other, or are not finite, are
// errors.
func TestNewRefuses(t *testing.T) {
	one, inf := []float32{1}, []float32{float32(math.Inf(1))}
	for name, build := range map[string]func() error{
		"sage, no layers":   func() error { _, err := NewSAGE(3, ReLU); return err },
		"sage, no features": func() error { _, err := NewSAGE(0, ReLU, SAGELayer{Bias: one}); return err },
		"sage, no outputs":  func() error { _, err := NewSAGE(1, ReLU, SAGELayer{}); return err },
		"sage, means": func() error {
			_, err := NewSAGEKinds(1, ReLU, KindsLayer{Neigh: slices.Repeat([][]float32{one}, 100*MaxMeans), Self: one, Bias: one})
			return err
		},
		"sage, kinds": func() error {
			kinds := make(EdgeKinds, 100*MaxMeans)
			for i := range kinds {
				kinds[i].Name = fmt.Sprint(i)
			}
			return kinds.Check(len(kinds))
		},
		"sage, activation":      func() error { _, err := NewSAGE(1, "tanh", SAGELayer{Neigh: one, Bias: one}); return err },
		"gcn, no layers":        func() error { _, err := NewGCN(3, ReLU); return err },
		"gcn, no outputs":       func() error { _, err := NewGCN(1, ReLU, GCNLayer{}); return err },
		"gcn, shape":            func() error { _, err := NewGCN(1, ReLU, GCNLayer{Weight: []float32{1, 2}, Bias: one}); return err },
		"gcn, infinite":         func() error { _, err := NewGCN(1, ReLU, GCNLayer{Weight: one, Bias: inf}); return err },
		"gcn, activation":       func() error { _, err := NewGCN(1, "tanh", GCNLayer{Weight: one, Bias: one}); return err },
		"gat, no layers":        func() error { _, err := NewGAT(1, ReLU); return err },
		"gat, no heads":         func() error { _, err := NewGAT(1, ReLU, GATLayer{0, one, one, one, one}); return err },
		"gat, heads of nothing": func() error { _, err := NewGAT(1, ReLU, GATLayer{1, nil, nil, nil, nil}); return err },
		"gat, half a channel":   func() error { _, err := NewGAT(1, ReLU, GATLayer{2, one, one, one, one}); return err },
		"gat, target":           func() error { _, err := NewGAT(1, ReLU, GATLayer{1, one, one, nil, one}); return err },
		"gat, infinite bias":    func() error { _, err := NewGAT(1, ReLU, GATLayer{1, one, one, one, inf}); return err },
		"gin, no layers":        func() error { _, err := NewGIN(1, ReLU); return err },
		"gin, no maps":          func() error { _, err := NewGIN(1, ReLU, GINLayer{}); return err },
		"gin, no outputs":       func() error { _, err := NewGIN(1, ReLU, GINLayer{MLP: []Linear{{}}}); return err },
		"gin, eps":              func() error { _, err := NewGIN(1, ReLU, GINLayer{inf[0], []Linear{{one, one}}}); return err },
		"gin, shape":            func() error { _, err := NewGIN(1, ReLU, GINLayer{0, []Linear{{one, one}, {nil, one}}}); return err },
	} {
		if build() == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
