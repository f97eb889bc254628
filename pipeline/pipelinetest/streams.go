package pipelinetest

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
)

// CalibratedStream is a stream of nodes without edges. Labels are drawn from the
// probabilities of the trained model, unless Twist changes them.
type CalibratedStream struct {
	M      *model.Model
	rng    *rand.Rand
	oracle *Engine // never learns
	number int64
	nodes  int64
	Shift  float32           // added to every feature
	Twist  func(int32) int32 // of a label; nil for none
}

// NewCalibratedStream returns a stream of a random model.
func NewCalibratedStream(t testing.TB, seed uint64) *CalibratedStream {
	rng := rand.New(rand.NewPCG(seed, 11))
	m := ModelOf(t, rng, gnn.KindSAGE, 1)
	for i := range m.Prior.Mean {
		m.Prior.Mean[i] *= 4 // more confident
	}
	return &CalibratedStream{M: m, rng: rng, oracle: NewEngine(t, m, pipeline.Config{Fallback: -1, Local: pipeline.Local{Unwatched: true}})}
}

// Next returns a window with n nodes and the window after it, with their labels.
func (s *CalibratedStream) Next(n int) (nodes, labels *event.Window) {
	w := &event.Window{Number: s.number}
	for range n {
		x := make([]float32, s.M.Encoder.In())
		for i := range x {
			x[i] = float32(s.rng.NormFloat64()) + s.Shift
		}
		w.Nodes = append(w.Nodes, event.Node{Origin: &event.Origin{}, ID: event.ID{Num: s.nodes}, Dense: x})
		s.nodes++
	}
	served := s.oracle.Step(&event.Window{Number: s.number / 2, Nodes: w.Nodes})
	l := &event.Window{Number: s.number + 1}
	s.number += 2
	for i := range served.Predictions {
		u, y := s.rng.Float32(), int32(0)
		for p := served.Predictions[i].Probabilities; int(y) < len(p)-1 && u >= p[y]; y++ {
			u -= p[y]
		}
		if s.Twist != nil {
			y = s.Twist(y)
		}
		l.Labels = append(l.Labels, event.Label{Origin: &event.Origin{}, Node: w.Nodes[i].ID, Index: y})
	}
	return w, l
}

// SmallModel returns a model that encodes a node as its features plus the mean of its
// neighbours': z = x + mean of x over neighbours, for features ≥ 0. Class red has weight on
// the first feature, blue on the second.
func SmallModel(t testing.TB) *model.Model {
	t.Helper()
	identity := []float32{1, 0, 0, 1}
	enc, err := gnn.NewSAGE(2, gnn.ReLU,
		gnn.SAGELayer{Neigh: make([]float32, 4), Bias: make([]float32, 2), Self: identity},
		gnn.SAGELayer{Neigh: identity, Bias: make([]float32, 2), Self: identity},
	)
	if err != nil {
		t.Fatal(err)
	}
	return &model.Model{
		ID:         "small",
		Meta:       model.Meta{Format: model.Format, Encoder: "graphsage", Classes: []string{"red", "blue"}, Normalization: "none"},
		Encoder:    enc,
		Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Prior:      posterior.Gaussian{Dim: 2, Classes: 2, Mean: []float64{1, 0, 0, 1}, Precision: []float64{4, 4, 4, 4}},
	}
}

// ParseWindow parses the lines of a window. Records have increasing offsets from offset on.
func ParseWindow(t testing.TB, text string, offset *int64) *event.Window {
	t.Helper()
	w := &event.Window{}
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		o := &event.Origin{Topic: f[0] + "s", Offset: *offset, Value: []byte(line)}
		*offset++
		switch f[0] {
		case "node":
			n := event.Node{Origin: o, ID: parseID(f[1])}
			for _, a := range f[2:] {
				k, v, _ := strings.Cut(a, "=")
				for _, item := range strings.Split(v, ",") {
					switch k {
					case "x":
						x, err := strconv.ParseFloat(item, 32)
						if err != nil {
							t.Fatal(err)
						}
						n.Dense = append(n.Dense, float32(x))
					case "at":
						i, err := strconv.Atoi(item)
						if err != nil {
							t.Fatal(err)
						}
						n.Index, n.Value = append(n.Index, uint32(i)), append(n.Value, 1)
					case "nbr":
						n.Neighbours = append(n.Neighbours, parseID(item))
					case "context":
						n.Context = true
					default:
						t.Fatalf("unknown argument %q", a)
					}
				}
			}
			w.Nodes = append(w.Nodes, n)
		case "depart":
			w.Nodes = append(w.Nodes, event.Node{Origin: o, ID: parseID(f[1]), Departed: true, ByKey: len(f) > 2})
		case "edges":
			n := event.Node{Origin: o}
			for _, item := range f[1:] {
				text, remove := strings.CutPrefix(item, "!")
				a, b, _ := strings.Cut(text, "-")
				n.Edges = append(n.Edges, event.Edge{Source: parseID(a), Target: parseID(b), Remove: remove})
			}
			w.Nodes = append(w.Nodes, n)
		case "featureless":
			n := event.Node{Origin: o, ID: parseID(f[1]), Featureless: true}
			for _, item := range f[2:] {
				n.Neighbours = append(n.Neighbours, parseID(item))
			}
			w.Nodes = append(w.Nodes, n)
		case "label":
			l := event.Label{Origin: o, Node: parseID(f[1]), Class: f[2]}
			if l.Withdrawn = f[2] == "null"; l.Withdrawn {
				l.Class = ""
			}
			if index, ok := strings.CutPrefix(f[2], "#"); ok {
				i, err := strconv.Atoi(index)
				if err != nil {
					t.Fatal(err)
				}
				l.Class, l.Index = "", int32(i)
			}
			w.Labels = append(w.Labels, l)
		default:
			t.Fatalf("unknown line %q", line)
		}
	}
	return w
}

// parseID parses digits as an integer id, anything else as a string, without quotes.
func parseID(s string) event.ID {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return event.ID{Num: n}
	}
	return event.ID{Str: strings.Trim(s, `"`)}
}

// Crowd is a stream of arrivals that each name 10 random earlier nodes, so that rows are
// read in random order.
type Crowd struct {
	RNG *rand.Rand
	Dim int
	N   int64 // arrivals so far
	x   [][]float32
}

// Window returns a window with n arrivals.
func (c *Crowd) Window(number int64, n int) *event.Window {
	for len(c.x) < 64 {
		x := make([]float32, c.Dim)
		for i := range x {
			x[i] = float32(c.RNG.NormFloat64())
		}
		c.x = append(c.x, x)
	}
	w := &event.Window{Number: number}
	for range n {
		node := event.Node{Origin: &event.Origin{}, ID: event.ID{Num: c.N}, Dense: c.x[c.N%64]}
		for range min(10, c.N) {
			node.Neighbours = append(node.Neighbours, event.ID{Num: c.RNG.Int64N(c.N)})
		}
		w.Nodes = append(w.Nodes, node)
		c.N++
	}
	return w
}
