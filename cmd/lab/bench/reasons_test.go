package bench

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/holdout"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

// reasonsOn is the data set of BenchmarkReasons and BenchmarkDeletion.
var reasonsOn = flags.Data{Drift: "none"}

func init() {
	flag.StringVar(&reasonsOn.Data, "data", "", "data set of the benchmarks of reasons; a synthetic one when left out")
	flag.Float64Var(&reasonsOn.TrainShare, "train-share", 0, "share of it to train on")
	flag.Uint64Var(&reasonsOn.Seed, "seed", 1, "seed of its split and of the training")
}

// perWindow is how many of its nodes arrive in a window.
const perWindow = 50

// trained returns a model of the data set, and its stream.
func trained(t testing.TB) (*model.Model, *sender.Stream) {
	set, err := reasonsOn.Open()
	must(t, err)
	m, err := holdout.Train(t.Context(), set.Training(), model.Config{
		Encoder: gnn.KindSAGE, Hidden: []int{64}, Epochs: 100, Samples: 10, LearningRate: .01, WeightDecay: .0005, Dropout: .5,
		Seed: reasonsOn.Seed, Pool: true,
	}, nil, nil)

	must(t, err)
	return m, set.Stream()
}

// nodesOf returns items as events.
func nodesOf(items []sender.Item) (nodes []event.Node) {
	for _, item := range items {
		item.Node.Origin = &event.Origin{}
		nodes = append(nodes, item.Node)
	}
	return nodes
}

// labelsOf returns the labels of items.
func labelsOf(items []sender.Item) (labels []event.Label) {
	for _, item := range items {
		if item.Class != "" {
			labels = append(labels, event.Label{Origin: &event.Origin{}, Node: item.Node.ID, Class: item.Class})
		}
	}
	return labels
}

// serving is an engine whose graph has the context of a stream.
func serving(t testing.TB, m *model.Model, s *sender.Stream, cfg pipeline.Config) *pipeline.Engine {
	e, err := pipeline.New(m, cfg)
	must(t, err)
	e.Step(&event.Window{Nodes: nodesOf(s.Context), Labels: labelsOf(s.Context)})
	return e
}

// rarest is the class with the fewest training nodes.
func rarest(m *model.Model) int {
	return slices.Index(m.Training.Labels, slices.Min(m.Training.Labels))
}

// BenchmarkReasons compares the CPU time of engines that give three reasons for every prediction, and for the twentieth of
// them that is acted on, with that of one that gives none. They step in turn over the first windows of a stream, of which each label comes
// at once. It is for -benchtime 1x.
func BenchmarkReasons(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m, s := trained(b)
	class := rarest(m)
	chunks := slices.Collect(slices.Chunk(slices.Concat(s.Steps...), perWindow))
	chunks = chunks[:min(len(chunks), 200)]
	for b.Loop() {
		var odds []float64 // of the class
		plain := serving(b, m, s, pipeline.Config{})
		for _, items := range chunks {
			for _, p := range plain.Step(&event.Window{Number: plain.Next(), Nodes: nodesOf(items), Labels: labelsOf(items)}).Predictions {
				odds = append(odds, float64(p.Probabilities[class])/(1-float64(p.Probabilities[class])))
			}
		}
		slices.Sort(odds)
		act := fmt.Sprintf("class=%s,cost=%.9f:1", m.Classes[class], 1/odds[len(odds)*19/20])
		configs := []pipeline.Config{{Act: act}, {Act: act, Reasons: "3,acted"}, {Act: act, Reasons: "3"}}
		engines, took, reasoned := make([]*pipeline.Engine, len(configs)), make([]*samples, len(configs)), make([]int, len(configs))
		for i, cfg := range configs {
			engines[i], took[i] = serving(b, m, s, cfg), begin(perWindow)
		}
		for _, items := range chunks {
			for i, e := range engines {
				w := &event.Window{Number: e.Next(), Nodes: nodesOf(items), Labels: labelsOf(items)}
				var out *event.Outcome
				took[i].runCPU(func() { out = e.Step(w) })
				for _, p := range out.Predictions {
					if p.Reasons != nil {
						reasoned[i]++
					}
				}
			}
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(took[0].mean()/1000, "µs/arrival")
		b.ReportMetric(100*float64(reasoned[1])/float64(reasoned[2]), "%acted")
		b.ReportMetric(took[1].mean()/took[0].mean(), "acted/off")
		b.ReportMetric(took[2].mean()/took[0].mean(), "all/off")
	}
}

// BenchmarkDeletion compares what the first three reasons of a prediction are worth with three at random of all that its event
// has: how far the log odds move that the page has for the event without these attributes, keys and neighbours. What is
// known of labels around is in no event, and that reason is passed over.
func BenchmarkDeletion(b *testing.B) {
	m, s := trained(b)
	rng := rand.New(rand.NewPCG(reasonsOn.Seed, 51))
	for b.Loop() {
		e, behind := serving(b, m, s, pipeline.Config{Reasons: "64"}), serving(b, m, s, pipeline.Config{})
		var first, random float64
		n, of := 0, 0
		for _, items := range slices.Collect(slices.Chunk(slices.Concat(s.Steps...), perWindow)) {
			i := rng.IntN(len(items))
			w := &event.Window{Number: e.Next(), Nodes: nodesOf(items), Labels: labelsOf(items)}
			r := e.Step(w).Predictions[i].Reasons
			causes := slices.DeleteFunc(r.List, func(c event.Cause) bool { return c.What == event.OfLabels })
			if all := partsOf(m, items[i].Node); len(causes) >= 3 && len(all) > 3 {
				class, node := slices.Index(m.Classes, r.Class), items[i].Node
				full := logOdds(supposed(behind, node).Probabilities, class)
				without := func(list []event.Cause) float64 {
					return math.Abs(full - logOdds(supposed(behind, leftOut(node, list)).Probabilities, class))
				}
				first += without(causes[:3])
				rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
				random += without(all[:3])
				of += len(all)
				n++
			}
			behind.Step(w)
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(n), "predictions")
		b.ReportMetric(float64(of)/float64(n), "parts")
		b.ReportMetric(first/float64(n), "first-three")
		b.ReportMetric(random/float64(n), "random-three")
		b.ReportMetric(first/random, "first/random")
	}
}

// partsOf returns all attributes that an event has a value of, and its neighbours.
func partsOf(m *model.Model, node event.Node) (all []event.Cause) {
	for _, a := range node.Named {
		if a.Kind != event.Gap && (m.Schema.Keys.Has(a.Name) || slices.ContainsFunc(m.Schema.Attributes,
			func(known attributes.Attribute) bool { return known.Name == a.Name })) {
			all = append(all, event.Cause{What: event.OfAttribute, Name: a.Name})
		}
	}
	for j := range node.Dense {
		c := event.Cause{What: event.OfAttribute, Name: fmt.Sprintf("#%d", j)}
		if usual := m.Normalizer.Mean; usual != nil {
			c.Usual = fmt.Sprint(usual[j])
		}
		all = append(all, c)
	}
	for _, j := range node.Index {
		all = append(all, event.Cause{What: event.OfAttribute, Name: fmt.Sprintf("#%d", j)})
	}
	for _, id := range node.Neighbours {
		all = append(all, event.Cause{What: event.OfNeighbour, Node: id})
	}
	return all
}

func supposed(e *pipeline.Engine, node event.Node) *pipeline.Supposed {
	node.Origin = &event.Origin{}
	s, _, reason, detail := e.Suppose(&node)
	if s == nil {
		panic(string(reason) + " " + detail)
	}
	return s
}

func logOdds(p []float32, class int) float64 {
	others := 0.0
	for k, q := range p {
		if k != class {
			others += float64(q)
		}
	}
	return math.Log(max(float64(p[class]), 1e-12)) - math.Log(max(others, 1e-12))
}

// leftOut returns an event without what some reasons are about.
func leftOut(node event.Node, causes []event.Cause) event.Node {
	node.Named, node.Dense = slices.Clone(node.Named), slices.Clone(node.Dense)
	node.Index, node.Value = slices.Clone(node.Index), slices.Clone(node.Value)
	for _, c := range causes {
		switch c.What {
		case event.OfNeighbour:
			for k, id := range slices.Backward(node.Neighbours) {
				if id == c.Node {
					node.Neighbours = slices.Delete(slices.Clone(node.Neighbours), k, k+1)
					if k < len(node.Marks) {
						node.Marks = slices.Delete(slices.Clone(node.Marks), k, k+1)
					}
				}
			}
		default:
			names := append([]string{c.Name}, c.Along...)
			node.Named = slices.DeleteFunc(node.Named, func(a event.Attribute) bool { return slices.Contains(names, a.Name) })
			var column int
			if strings.HasPrefix(c.Name, "#") {
				_, err := fmt.Sscanf(c.Name, "#%d", &column)
				if err != nil {
					panic(err)
				}
				if node.Dense != nil {
					var usual float32
					if c.Usual != "" {
						_, _ = fmt.Sscan(c.Usual, &usual)
					}
					node.Dense[column] = usual
				} else if k := slices.Index(node.Index, uint32(column)); k >= 0 {
					node.Index, node.Value = slices.Delete(node.Index, k, k+1), slices.Delete(node.Value, k, k+1)
				}
			}
		}
	}
	return node
}
