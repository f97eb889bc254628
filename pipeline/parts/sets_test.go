package parts_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
	"github.com/gvbll/gvbll/posterior/conformal"
)

// TestCoverage: with one threshold and with one for each class, with early and late labels, sets
// hold the class as often as the target says, and the outcome describes them correctly.
func TestCoverage(t *testing.T) {
	for _, per := range []parts.Per{parts.PerNone, parts.PerClass, parts.PerFloor} {
		for _, late := range []int{0, 8} {
			t.Run(fmt.Sprintf("%v/%d", per, late), func(t *testing.T) {
				s := pipelinetest.NewCalibratedStream(t, 4)
				e := pipelinetest.NewEngine(t, s.M, pipeline.Config{Samples: 1, Local: pipeline.Local{Unwatched: true}, Coverage: pipeline.Coverage{Target: 0.8, Per: per}})
				want := 0.8
				if per == parts.PerFloor {
					want = 0.89 // the share of nodes whose likeliest class is right, as it is in every set
				}
				if rate := covered(t, e, s, late); math.Abs(rate-want) > 0.03 {
					t.Errorf("coverage %v, want %v ± .03", rate, want)
				}
			})
		}
	}
}

// covered steps through a stream with labels that come a number of steps late, compares the
// coverage in outcomes with the sets that were served, and returns the coverage in the
// second half.
func covered(t *testing.T, e *pipelinetest.Engine, s *pipelinetest.CalibratedStream, late int) float64 {
	t.Helper()
	const steps = 160
	sets := map[event.ID]*event.Set{}
	var queue []*event.Window
	var sum conformal.Coverage
	number := int64(0)
	step := func(w *event.Window) *event.Outcome {
		w.Number = number
		number++
		return e.Step(w)
	}
	half := int64(0)
	for i := range steps {
		nodes, labels := s.Next(15)
		out := step(nodes)
		if i == steps/2 {
			half = out.Window
		}
		for _, p := range out.Predictions {
			if p.Set == nil || p.Set.Coverage != 0.8 || p.Set.Abstain != "" {
				t.Fatalf("set %+v, want coverage 0.8 and no reason to abstain", p.Set)
			}
			sets[p.Node] = p.Set
		}
		if queue = append(queue, labels); len(queue) <= late {
			continue
		}
		out = step(queue[0])
		queue = queue[1:]
		if len(out.Coverage.Labels) != len(out.Labelled) || out.Coverage.Target != 0.8 {
			t.Fatalf("coverage %+v, want target 0.8 and %d labels", out.Coverage, len(out.Labelled))
		}
		for k, l := range out.Labelled {
			c, set := out.Coverage.Labels[k], sets[l.Node]
			if c.Held != slices.Contains(set.Classes, s.M.Classes[l.Class]) || c.Size != len(set.Classes) {
				t.Fatalf("got %+v for the set %v and the class %s", c, set.Classes, s.M.Classes[l.Class])
			}
			if l.Served >= half && half > 0 {
				sum.Rows++
				if c.Held {
					sum.Covered++
				}
			}
		}
	}
	return sum.Rate()
}

// TestAbstain: a prediction that exceeds a limit has its reason, and no other reason
// occurs.
func TestAbstain(t *testing.T) {
	for reason, c := range map[string]pipeline.Coverage{
		"low-confidence": {Target: 0.9, MinConfidence: 1},
		"large-set":      {Target: 0.9, MaxSize: 1},
		"empty-set":      {Target: 0.5, MaxSize: 3},
	} {
		t.Run(reason, func(t *testing.T) {
			s := pipelinetest.NewCalibratedStream(t, 6)
			for i := range s.M.Prior.Mean {
				s.M.Prior.Mean[i] *= 3 // with high confidences, sets may be empty
			}
			e := pipelinetest.NewEngine(t, s.M, pipeline.Config{Coverage: c})
			seen := map[string]int{}
			for range 30 {
				nodes, labels := s.Next(20)
				for _, p := range e.Step(nodes).Predictions {
					seen[p.Set.Abstain]++
				}
				e.Step(labels)
			}
			delete(seen, "")
			if reason == "large-set" { // which the same limit gives
				delete(seen, "empty-set")
			}
			if seen[reason] == 0 || len(seen) != 1 {
				t.Errorf("reasons %v, want %s only", seen, reason)
			}
		})
	}
}

// TestWithoutSets: without a target, predictions have no sets and outcomes no coverage.
// With one, the settings have the whole configuration of sets.
func TestWithoutSets(t *testing.T) {
	s := pipelinetest.NewCalibratedStream(t, 7)
	e, withSets := pipelinetest.NewEngine(t, s.M, pipeline.Config{}), pipelinetest.NewEngine(t, s.M, pipeline.Config{Coverage: pipeline.Coverage{Target: 0.9}})
	nodes, labels := s.Next(5)
	a, b := e.Step(nodes), withSets.Step(nodes)
	if a.Predictions[0].Set != nil || b.Predictions[0].Set == nil || a.Chain == b.Chain {
		t.Errorf("sets %v without a target and %v with one, want only the second, and other chains", a.Predictions[0].Set, b.Predictions[0].Set)
	}
	if out := e.Step(labels); out.Coverage != nil {
		t.Errorf("coverage %+v without a target, want nil", out.Coverage)
	}
	if x, y := e.Settings(), withSets.Settings(); y != strings.Replace(x, `"coverage":0,`, `"coverage":0.9,`, 1) || !strings.Contains(y, `"coverage":0.9,"sets-groups":"none","abstain-confidence":0,"abstain-set-size":0,`) {
		t.Errorf("settings without sets %s\nand with sets %s", x, y)
	}
}

// TestCoverageSettings: the error for an invalid configuration of sets names the field.
func TestCoverageSettings(t *testing.T) {
	for want, c := range map[string]pipeline.Coverage{
		"coverage 1.5":    {Target: 1.5},
		"coverage 0.4":    {Target: 0.4},
		"give a coverage": {MaxSize: 3},
		"sets per":        {Target: 0.9, Per: 9},
		"window":          {Target: 0.999},
		"confidence=NaN":  {Target: 0.9, MinConfidence: math.NaN()},
		"set-size=-1":     {Target: 0.9, MaxSize: -1},
	} {
		if _, err := (pipeline.Config{Coverage: c}).WithDefaults(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one with %q", c, err, want)
		}
	}
}
