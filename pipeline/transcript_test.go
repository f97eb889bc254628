package pipeline_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/posterior"
)

// TestTranscripts runs the transcripts in testdata: windows in, outcomes out.
//
// A line of a window is "node ID x=1,0 nbr=2,3", with "context" for a context node, "depart
// ID", with "by-key" if the id is from a record's key, "edges 1-2 !3-4", where ! removes
// the edge, "featureless ID NEIGHBOUR ...", or "label ID CLASS", the class by name, as
// #index, or null.
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var e *pipeline.Engine
		var number, offset int64
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "engine":
				cfg := pipeline.Config{Update: posterior.DefaultConfig()}
				d.MaybeScanArgs(t, "pending", &cfg.MaxPending)
				d.MaybeScanArgs(t, "waiting-labels", &cfg.MaxWaitingLabels)
				d.MaybeScanArgs(t, "waiting-edges", &cfg.MaxWaitingEdges)
				d.MaybeScanArgs(t, "learn-lag", &cfg.LearnLag)
				if d.HasArg("first") {
					cfg.Labels = serve.FirstStands
				}
				var err error
				if e, err = pipeline.New(smallModel(t), cfg); err != nil {
					return err.Error()
				}
				number, offset = 0, 0
				return ""
			case "window":
				w := parseWindow(t, d.Input, &offset)
				w.Number = number
				number++
				return show(e.Step(w))
			case "posterior":
				now, _ := e.Posterior()
				return fmt.Sprintf("mean %.4f precision %.4f\n", now.Mean, now.Precision)
			case "summary":
				var b strings.Builder
				for _, s := range e.Summaries() {
					fmt.Fprintf(&b, "%s: %d labels, batches %.4f, stream %.4f\n", s.Head, s.Total().Labels, s.WindowMeans(), s.LabelMeans())
				}
				return b.String()
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}

// smallModel returns a model that encodes a node as its features plus the mean of its
// neighbours': z = x + mean of x over neighbours, for features ≥ 0. Class red has weight on
// the first feature, blue on the second.
func smallModel(t *testing.T) *model.Model {
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

// parseWindow parses the lines of a window. Records have increasing offsets from offset on.
func parseWindow(t *testing.T, text string, offset *int64) *event.Window {
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

// show formats an outcome, without zero values.
func show(out *event.Outcome) string {
	var b strings.Builder
	for _, p := range out.Predictions {
		fmt.Fprintf(&b, "predict %v %s %.4f total %.3f = aleatoric %.3f + epistemic %.3f, updates %d\n",
			p.Node, p.Class, p.Probabilities, p.Total, p.Aleatoric, p.Epistemic, p.PosteriorVersion)
	}
	for _, r := range out.Refused {
		fmt.Fprintf(&b, "refuse %s@%d %s: %s\n", r.Origin.Topic, r.Origin.Offset, r.Reason, r.Detail)
	}
	for i, l := range out.Labelled {
		fmt.Fprintf(&b, "learn %v class %d served in window %d", l.Node, l.Class, l.Served)
		for _, h := range out.Heads {
			fmt.Fprintf(&b, ", %s %.4f", h.Name, h.Scores[i].LogLoss)
		}
		b.WriteByte('\n')
	}
	for _, level := range []bool{false, true} {
		var kept []string
		for _, f := range figure.All() {
			if n := out.Figures.Int(f); n != 0 && f.Level == level {
				kept = append(kept, fmt.Sprintf("%s:%d", f.Key(), n))
			}
		}
		if len(kept) > 0 {
			fmt.Fprintf(&b, "%s %s\n", map[bool]string{false: "counts", true: "levels"}[level], strings.Join(kept, " "))
		}
	}
	return b.String()
}
