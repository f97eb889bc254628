package main

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

// dataFlags choose a graph, and how it is cut into training nodes and a stream.
type dataFlags struct {
	Data       string  `help:"Data set: a folder or an .npz file (docs/datasets.md). A synthetic graph of 6,000 nodes and 10 classes when left out." type:"path" placeholder:"PATH"`
	Drift      string  `help:"Drift of the synthetic graph: none, moderate, strong or abrupt. 'gvbll generate' makes other graphs." enum:"none,moderate,strong,abrupt" default:"strong" placeholder:"strong"`
	Seed       uint64  `help:"Seed of the split, the synthetic graph and the training." default:"1"`
	TrainShare float64 `help:"Share of the nodes to train on, drawn from every class; 0 keeps the split of the data set (docs/datasets.md)." default:"0"`
	Steps      int     `help:"Number of steps to cut the stream into; 0 keeps that of the data set (docs/datasets.md)." default:"0"`
}

func (f dataFlags) check(g given) error {
	switch {
	case f.TrainShare < 0 || f.TrainShare >= 1:
		return usagef("--train-share %v: give a share between 0 and 1, such as 0.05, or 0 to keep the split of the data set", f.TrainShare)
	case f.Steps < 0:
		return usagef("--steps %d: give a positive number, or 0 to keep that of the data set", f.Steps)
	}
	return g.check(noEffect{f.Data != "", "no effect on --data: leave out one of them", []string{"drift"}})
}

// dataSet is a graph and how it is cut into training nodes and steps.
type dataSet struct {
	*dataset.Dataset
	split dataset.Stream
	how   string // a description of the split, which model files hold
	seed  uint64
}

// open reads or makes the graph, and cuts it.
func (f dataFlags) open() (*dataSet, error) {
	d, err := f.graph()
	if err != nil {
		return nil, err
	}
	share, steps, known := dataset.Plan(d.Name)
	if !known {
		share, steps = 0.10, 50
	}
	if f.TrainShare > 0 {
		share = f.TrainShare
	}
	if f.Steps > 0 {
		steps = f.Steps
	}
	set := &dataSet{Dataset: d, seed: f.Seed}
	switch {
	case f.TrainShare == 0 && d.Given != nil:
		set.split, err = d.SplitGiven(f.Steps)
		set.how = d.Given.How
		if n := len(set.split.Steps); n != d.Given.Steps || set.how == "" {
			set.how += fmt.Sprintf(" cut into %d steps", n)
		}
	case f.TrainShare == 0 && d.Year != nil:
		set.split, err = d.SplitByYear(steps)
		set.how = fmt.Sprintf("by year, %d steps", steps)
	default:
		set.split, err = d.Split(f.Seed, share, steps)
		set.how = fmt.Sprintf("stratified %g, %d steps, seed %d", share, steps, f.Seed)
	}
	return set, err
}

// graph reads the data set, or makes the synthetic one.
func (f dataFlags) graph() (*dataset.Dataset, error) {
	if f.Data != "" {
		return dataset.Open(f.Data)
	}
	c, err := synthetic(f.Drift, f.Seed)
	if err != nil {
		return nil, err
	}
	if f.Steps > 0 {
		c.Steps = f.Steps
	}
	d, _, err := dataset.Drift(c)
	return d, settingError(err)
}

// String describes the graph in one line.
func (s *dataSet) String() string {
	kind := "dense"
	if s.Sparse {
		kind = "sparse"
	}
	n := 0
	for _, step := range s.split.Steps {
		n += len(step)
	}
	return fmt.Sprintf("%s: %d nodes, %d edges, %d %s features, %d classes; %d train, %d stream in %d steps",
		s.Name, len(s.Features), len(s.Edges), s.Dim, kind, len(s.Classes), len(s.split.Train), n, len(s.split.Steps))
}

// stream returns the data set in order of arrival: training and warm-up nodes as
// context, with their labels, then the steps. A node names those of its neighbours
// that came before it or are in the same step. Event time advances by one
// millisecond a node.
func (s *dataSet) stream() *sender.Stream {
	batches := append([][]int32{append(append([]int32(nil), s.split.Train...), s.split.Warmup...)}, s.split.Steps...)
	neighbours := s.Arrivals(batches)
	var time int64
	node := func(v int32, context bool) event.Node {
		x := s.Features[v]
		n := event.Node{ID: event.ID{Num: int64(v)}, Dense: x.Dense, Index: x.Index, Value: x.Value, Context: context, Time: time + 1}
		time++
		for _, u := range neighbours[v] {
			n.Neighbours = append(n.Neighbours, event.ID{Num: int64(u)})
		}
		return n
	}
	out := &sender.Stream{}
	for i, batch := range batches {
		var step []sender.Item
		for _, v := range batch {
			if i == 0 {
				n := node(v, true)
				out.Context = append(out.Context, n)
				out.Known = append(out.Known, sender.Item{Node: n, Class: s.Classes[s.Labels[v]]})
				continue
			}
			step = append(step, sender.Item{Node: node(v, false), Class: s.Classes[s.Labels[v]]})
		}
		if i > 0 {
			out.Steps = append(out.Steps, step)
		}
	}
	return out
}

// training returns the part of the data set that Phase 1 may see.
func (s *dataSet) training() model.Data {
	d := model.Data{Name: s.Name, Split: s.how, Dim: s.Dim, Classes: s.Classes}
	for _, v := range s.split.Train {
		d.Nodes = append(d.Nodes, int64(v))
		d.X = append(d.X, s.Features[v])
		d.Labels = append(d.Labels, s.Labels[v])
	}
	d.Src, d.Dst = s.Subgraph(s.split.Train)
	return d
}
