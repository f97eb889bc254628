package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/figure"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
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
				d.MaybeScanArgs(t, "pending", &cfg.Bounds.Pending)
				d.MaybeScanArgs(t, "waiting-labels", &cfg.Bounds.Labels)
				d.MaybeScanArgs(t, "waiting-edges", &cfg.Bounds.Edges)
				d.MaybeScanArgs(t, "learn-lag", &cfg.LearnLag)
				if d.HasArg("first") {
					cfg.Labels = serve.FirstStands
				}
				var err error
				if e, err = pipeline.New(pipelinetest.SmallModel(t), cfg); err != nil {
					return err.Error()
				}
				number, offset = 0, 0
				return ""
			case "window":
				w := pipelinetest.ParseWindow(t, d.Input, &offset)
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
