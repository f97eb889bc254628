package parts_test

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/parts"
	"github.com/gvbll/gvbll/pipeline/pipelinetest"
)

// asking returns what a text says.
func asking(t *testing.T, text string) parts.Asking {
	t.Helper()
	a, err := parts.ParseAsking(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAsking is a stream of nodes at a changing pace, of which the labels that are asked for come a
// while later, and some others by themselves. In a day as many are asked for as the budget
// says, but for the days on which the pace changes; the inverse probabilities add up to the number of nodes; the uncertain
// ones are asked for more often; and each label says with which probability it was asked for.
func TestAsking(t *testing.T) {
	const budget, day, days = 200, 86_400_000, 25
	rng := rand.New(rand.NewPCG(4, 9))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 4, Ask: asking(t, "200/d")})
	var id, now int64
	var asked, nodes [days]float64
	var weights, information, chosen float64
	published := make(map[event.ID]float32)
	var due []event.Label
	for now < days*day {
		w := &event.Window{Number: e.Next(), Labels: due}
		due = nil
		for range 1 + rng.IntN(60) {
			now += rng.Int64N(day / []int64{1000, 4000}[now/day/5%2])
			id++
			n := event.Node{ID: event.ID{Num: id}, Time: now + 1, Origin: &event.Origin{}}
			for range m.Encoder.In() {
				n.Dense = append(n.Dense, float32(3*rng.NormFloat64()))
			}
			w.Nodes = append(w.Nodes, n)
		}
		rng.Shuffle(len(w.Nodes), func(i, j int) { w.Nodes[i], w.Nodes[j] = w.Nodes[j], w.Nodes[i] }) // of several partitions
		out := e.Step(w)
		for i := range out.Labelled {
			if l := &out.Labelled[i]; l.Asked != published[l.Node] {
				t.Fatalf("the label of node %v was asked for with probability %v, and is taken for one of %v", l.Node, published[l.Node], l.Asked)
			}
		}
		for i := range out.Predictions {
			p := &out.Predictions[i]
			in := min(p.Time/day, days-1)
			nodes[in]++
			information += float64(p.Epistemic)
			if p.Asked > 0 {
				asked[in]++
				weights += 1 / float64(p.Asked)
				chosen += float64(p.Epistemic)
				published[p.Node] = p.Asked
			}
			if p.Asked > 0 || rng.IntN(20) == 0 {
				due = append(due, event.Label{Node: p.Node, Index: rng.Int32N(2), Origin: &event.Origin{}})
			}
		}
	}
	var all, total float64
	for i := range asked {
		all += nodes[i]
		if total += asked[i]; i%5 > 0 && math.Abs(asked[i]-budget) > 4*math.Sqrt(budget) {
			t.Errorf("day %d: %v of %v nodes are asked for, want about %d", i, asked[i], nodes[i], budget)
		}
	}
	if want := float64(budget * days); math.Abs(total-want) > .1*want {
		t.Errorf("%v nodes are asked for, want %v", total, want)
	}
	if math.Abs(weights-all) > .1*all {
		t.Errorf("the labels that are asked for stand for %v nodes, want %v", weights, all)
	}
	if mean := information / all; !(chosen/total > 1.1*mean) {
		t.Errorf("the mean information of nodes that are asked for is %v, of all %v", chosen/total, mean)
	}
}

// TestAskingIsRestored: an engine that asks for labels has the same bits after it was restored from a
// snapshot that was read while it went on; and one that asks for none has those that it always had.
func TestAskingIsRestored(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 8))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 2)
	cfg := pipeline.Config{Samples: 2, Ask: asking(t, "30/h,random=0.2")}
	e, plain := pipelinetest.NewEngine(t, m, cfg), pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2})
	l := pipelinetest.NewRandomStream(rng, m)
	asked, labelled := 0, 0
	for range 120 {
		w := l.Window()
		for i := range w.Nodes {
			w.Nodes[i].Time = w.Number*600_000 + rng.Int64N(900_000)
		}
		s := e.Snapshot(nil)
		file := make([]byte, s.Len())
		if _, err := io.ReadFull(s, file[:len(file)/2]); err != nil {
			t.Fatal(err)
		}
		out, bare := e.Step(w), plain.Step(w)
		if _, err := io.ReadFull(s, file[len(file)/2:]); err != nil {
			t.Fatal(err)
		}
		s.Close()
		again, _, err := pipelinetest.Restore(m, cfg, file)
		if err != nil {
			t.Fatal(err)
		}
		other := again.Step(w)
		if other.Chain != out.Chain || fmt.Sprint(other.Labelled) != fmt.Sprint(out.Labelled) {
			t.Fatalf("window %d: the engine that was restored differs", w.Number)
		}
		if out.Posterior != bare.Posterior {
			t.Fatalf("window %d: asking for labels changes what is learned of them", w.Number)
		}
		for i := range out.Predictions {
			if out.Predictions[i].Asked > 0 {
				asked++
			}
		}
		for i := range out.Labelled {
			if out.Labelled[i].Asked > 0 {
				labelled++
			}
		}
		if w.Number%7 == 3 {
			e = again
		}
	}
	if asked == 0 || labelled == 0 {
		t.Errorf("%d nodes were asked for, and %d of them got a label: the test needs both", asked, labelled)
	}
}

// TestOneFarTime: one event from far ahead moves the budget's clock by a period, not by more.
func TestOneFarTime(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	m := pipelinetest.ModelOf(t, rng, gnn.KindSAGE, 1)
	e := pipelinetest.NewEngine(t, m, pipeline.Config{Samples: 2, Ask: asking(t, "60/m,random=1")})
	late := 0
	for i := range int64(6000) { // a node each 100 ms
		n := event.Node{ID: event.ID{Num: i}, Time: 1 + i*100, Dense: make([]float32, m.Encoder.In()), Origin: &event.Origin{}}
		if i == 3000 {
			n.Time = 1 << 60
		}
		out := e.Step(&event.Window{Number: i, Nodes: []event.Node{n}})
		if i >= 4800 && out.Predictions[0].Asked > 0 {
			late++
		}
	}
	if late < 80 || late > 160 {
		t.Errorf("%d nodes are asked for in the last two minutes, want about 120", late)
	}
}

// TestAskingIsParsed: texts of budgets, and what is none.
func TestAskingIsParsed(t *testing.T) {
	for text, want := range map[string]string{"100/d": "100/d,random=0.1", "2.5/h,random=1": "2.5/h,random=1", "": ""} {
		if got := asking(t, text).String(); got != want {
			t.Errorf("%q is read as %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"100", "100/w", "0/d", "0.5/d", "-1/d", "NaN/d", "Inf/d", "100/d,random=0", "100/d,random=2", "100/d,random", "100/d,share=0.1", "100/d,random=NaN", "x/d"} {
		if a, err := parts.ParseAsking(text); err == nil {
			t.Errorf("%q is read as %+v, want an error", text, a)
		}
	}
}
