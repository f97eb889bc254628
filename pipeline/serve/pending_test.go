package serve_test

import (
	"math"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// stepped returns what an engine makes of windows, which are given as lines of text.
func stepped(t *testing.T, cfg pipeline.Config, windows ...string) (list []*event.Outcome) {
	t.Helper()
	e := pipelinetest.NewEngine(t, pipelinetest.SmallModel(t), cfg)
	var offset int64
	for i, text := range windows {
		w := pipelinetest.ParseWindow(t, text, &offset)
		w.Number = int64(i)
		list = append(list, e.Step(w))
	}
	return list
}

// joined is what a label is to be joined as.
type joined struct {
	class, predicted string
	served           int64 // window
	probability      float32
}

// check checks the labels of a window, and that each was scored by the probability that was served for its class.
func check(t *testing.T, out *event.Outcome, want map[string]joined) {
	t.Helper()
	names := []string{"red", "blue"}
	if len(out.Labelled) != len(want) {
		t.Errorf("%d labels were joined, want %d", len(out.Labelled), len(want))
	}
	for i, l := range out.Labelled {
		w := want[l.Node.Str]
		if names[l.Class] != w.class || l.Predicted != w.predicted || l.Served != w.served {
			t.Errorf("label of %s: class %s, predicted %s in window %d, want %+v", l.Node.Str, names[l.Class], l.Predicted, l.Served, w)
		}
		s := out.Heads[l.By].Scores[i]
		if loss := -math.Log(float64(w.probability)); math.Abs(s.LogLoss-loss) > 1e-6 || s.Correct != (w.class == w.predicted) {
			t.Errorf("label of %s: log loss %v, correct %v, want %v and %v", l.Node.Str, s.LogLoss, s.Correct, loss, w.class == w.predicted)
		}
	}
}

// probabilityOf returns the probability of a class that was served for a node.
func probabilityOf(out *event.Outcome, node string, class int) float32 {
	for i := range out.Predictions {
		if out.Predictions[i].Node.Str == node {
			return out.Predictions[i].Probabilities[class]
		}
	}
	return 0
}

// TestJoinedLabels: a label, by name or by index, is joined to what was served for its node, in the same
// window or an earlier one; one that comes before its node waits for it; and one of an unknown class is refused.
func TestJoinedLabels(t *testing.T) {
	out := stepped(t, pipeline.Config{},
		"label early blue\nnode r x=5,0\nnode b x=0,5\nnode wrong x=0,5\nlabel b blue",
		"node early x=0,5\nlabel r #0\nlabel wrong red\nlabel early blue\nlabel r green",
	)
	check(t, out[0], map[string]joined{"b": {"blue", "blue", 0, probabilityOf(out[0], "b", 1)}})
	check(t, out[1], map[string]joined{
		"early": {"blue", "blue", 1, probabilityOf(out[1], "early", 1)},
		"r":     {"red", "red", 0, probabilityOf(out[0], "r", 0)},
		"wrong": {"red", "blue", 0, probabilityOf(out[0], "wrong", 0)},
	})
	if r := out[1].Refused; len(r) != 1 || r[0].Reason != event.UnknownClass || out[1].Figures.Int(event.LabelsRepeated) != 1 {
		t.Errorf("refused %v, and %d labels repeated, want the unknown class and 1", r, out[1].Figures.Int(event.LabelsRepeated))
	}
}

// TestOldestPredictionExpires: beyond the bound the prediction that has waited longest expires, and its label
// is late. Those of others, and of nodes that have left, are joined.
func TestOldestPredictionExpires(t *testing.T) {
	out := stepped(t, pipeline.Config{Bounds: pipeline.Bounds{Pending: 2}}, "node a x=5,0\nnode b x=0,5", "node c x=5,0", "depart b", "label a red\nlabel b blue\nlabel c red")
	if n := out[1].Figures.Int(event.PredictionsExpired); n != 1 {
		t.Errorf("%d predictions expired, want 1", n)
	}
	check(t, out[3], map[string]joined{
		"b": {"blue", "blue", 0, probabilityOf(out[0], "b", 1)},
		"c": {"red", "red", 1, probabilityOf(out[1], "c", 0)},
	})
	if r := out[3].Refused; len(r) != 1 || r[0].Reason != event.LateLabel || out[3].Figures.Int(event.Pending) != 0 {
		t.Errorf("refused %v, and %d predictions wait, want a late label and none", r, out[3].Figures.Int(event.Pending))
	}
}
