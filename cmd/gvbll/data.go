package main

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

// dataFlags choose a graph: a data set's folder, or the drifting generator.
type dataFlags struct {
	Data       string   `help:"A data set: a folder in OGB's raw csv layout, a folder with nodes.csv and edges.csv, or an .npz (docs/datasets.md); a synthetic drifting graph when left out." type:"path" placeholder:"PATH"`
	TrainShare float64  `help:"Share of the nodes that train, stratified; 0 follows the data set's name (Cora .05, WebKB .20, else .10)." default:"0"`
	Steps      int      `help:"Steps that the stream is cut into; 0 follows the data set's name (Cora 30, WebKB 20, arxiv 100, else 50)." default:"0"`
	Seed       uint64   `help:"Seed of the split, the synthetic graph and the training." default:"1"`
	Drift      string   `help:"Drift of the synthetic graph: none, moderate, strong or abrupt." enum:"none,moderate,strong,abrupt" default:"strong" placeholder:"strong"`
	Nodes      int      `help:"Nodes of the synthetic graph." default:"6000"`
	Generator  genFlags `embed:"" group:"Synthetic graph"`
	Rate       float64  `help:"Node events a second; 0 for as fast as they are taken." default:"0"`
}

// genFlags are the properties of the synthetic graph that its preset sets. The
// law is in package dataset.
type genFlags struct {
	Classes   int      `help:"Classes." default:"10"`
	Dim       int      `help:"Features." default:"128"`
	Subtopics int      `help:"Subtopics of a class." default:"5"`
	Latent    int      `help:"Dimension of the space that classes and subtopics lie in." default:"24"`
	Years     int      `help:"Years that the graph grows for." default:"30"`
	Growth    float64  `help:"Growth a year." default:"1.2"`
	Cross     *float64 `help:"Share of nodes that look and cite like another class: the less, the more homophilous." placeholder:"SHARE"`
	Rot       *float64 `help:"Drift of the features: angle of the class centres a year." placeholder:"RADIANS"`
	Share     *float64 `help:"Drift of the class shares: their logarithm a year." placeholder:"RATE"`
	Hom       *float64 `help:"Drift of the homophily: share of crossing nodes a year." placeholder:"RATE"`
	Late      *int     `help:"Classes that are born only in the stream." placeholder:"N"`
	Jump      *float64 `help:"Sudden change in the middle of the stream: angle of the class centres." placeholder:"RADIANS"`
	ShareJump *float64 `help:"Sudden change of the logarithm of the class shares." placeholder:"SIZE"`
	HomJump   *float64 `help:"Sudden change of the share of crossing nodes." placeholder:"SHARE"`

	Spread       *float64 `help:"Spread of the logarithms of the class shares." placeholder:"SIZE"`
	SubSpread    *float64 `help:"Spread of the logarithms of the subtopics' shares." placeholder:"SIZE"`
	Cites        *float64 `help:"Median of the citations of a node." placeholder:"N"`
	CitesSpread  *float64 `help:"Spread of the logarithm of the citations: how heavy the tail of the degrees is." placeholder:"SIZE"`
	MaxCites     *int     `help:"The most that a node cites." placeholder:"N"`
	Recency      *float64 `help:"How much newer nodes are preferred; 1 for not at all." placeholder:"POWER"`
	Home         *float64 `help:"Share of the citations that stay in the node's own class." placeholder:"SHARE"`
	Noise        *float64 `help:"Noise of a node's place among the topics." placeholder:"SIZE"`
	FeatureNoise *float64 `help:"Noise of every feature." placeholder:"SIZE"`
}

// apply changes a preset as the flags say.
func (f genFlags) apply(c *dataset.DriftConfig) {
	c.Classes, c.Dim, c.Sub, c.Latent, c.Years, c.Growth = f.Classes, f.Dim, f.Subtopics, f.Latent, f.Years, f.Growth
	for _, o := range []struct {
		given *float64
		field *float64
	}{
		{f.Cross, &c.Cross},
		{f.Rot, &c.Rot},
		{f.Share, &c.Share},
		{f.Hom, &c.Hom},
		{f.Jump, &c.Jump},
		{f.ShareJump, &c.ShareJump},
		{f.HomJump, &c.HomJump},
		{f.Spread, &c.Spread},
		{f.SubSpread, &c.SubSpread},
		{f.Cites, &c.Cites},
		{f.CitesSpread, &c.CitesSpread},
		{f.Recency, &c.Recency},
		{f.Home, &c.Home},
		{f.Noise, &c.Noise},
		{f.FeatureNoise, &c.FeatureNoise},
	} {
		if o.given != nil {
			*o.field = *o.given
		}
	}
	for _, o := range []struct{ given, field *int }{{f.Late, &c.Late}, {f.MaxCites, &c.MaxCites}} {
		if o.given != nil {
			*o.field = *o.given
		}
	}
}

// dataSet is a graph and how it is cut into training nodes and steps.
type dataSet struct {
	*dataset.Dataset
	split dataset.Stream
	how   string
	seed  uint64
}

func (f dataFlags) open() (*dataSet, error) {
	switch {
	case f.TrainShare < 0 || f.TrainShare >= 1:
		return nil, usagef("--train-share %v: give a share between 0 and 1, such as 0.05, or 0 to follow the name", f.TrainShare)
	case f.Steps < 0:
		return nil, usagef("--steps %d: give a positive number, or 0 to follow the name", f.Steps)
	case f.Rate < 0:
		return nil, usagef("--rate %v: give events a second, or 0 for no limit", f.Rate)
	}
	if f.Data == "" {
		return f.generate()
	}
	d, err := dataset.Open(f.Data)
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
	if d.Year != nil && f.TrainShare == 0 {
		set.split, err = d.SplitByYear(steps)
		set.how = fmt.Sprintf("by year, %d steps", steps)
	} else {
		set.split, err = d.Split(f.Seed, share, steps)
		set.how = fmt.Sprintf("stratified %g, %d steps, seed %d", share, steps, f.Seed)
	}
	return set, err
}

func (f dataFlags) generate() (*dataSet, error) {
	cfg, err := dataset.DriftPreset(f.Drift)
	if err != nil {
		return nil, usageError{err}
	}
	f.Generator.apply(&cfg)
	cfg.Nodes, cfg.Seed = f.Nodes, f.Seed
	cfg.Steps = 50
	if f.Steps > 0 {
		cfg.Steps = f.Steps
	}
	d, split, err := dataset.Drift(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return &dataSet{Dataset: d, split: split, how: fmt.Sprintf("in order of arrival, %+v", cfg), seed: f.Seed}, nil
}

func (s *dataSet) name() string { return s.Name }

// String says in one line what the graph is.
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

// stream is the data set in the order of its arrival: training and warm-up
// nodes as context, with their labels, then the steps. A node names those of its neighbours that
// are there before it or come in the same step. Event time is the order of
// arrival, one millisecond a node.
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

// training is the part of the data set that Phase 1 may see.
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
