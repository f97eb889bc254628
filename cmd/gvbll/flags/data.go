package flags

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gvbll/gvbll/cmd/gvbll/parquet"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/dataset"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/topics/sender"
)

// Data choose a graph, and how it is cut into training nodes and a stream.
type Data struct {
	Data       string  `help:"@data" type:"path" placeholder:"PATH"`
	Drift      string  `help:"@data_drift" enum:"none,moderate,strong,abrupt" default:"strong" placeholder:"strong"`
	Seed       uint64  `help:"Seed of the split, the synthetic graph and the training." default:"1"`
	TrainShare float64 `help:"@data_train_share" default:"0"`
	TrainUntil string  `help:"@data_train_until" placeholder:"TIME"`
	LabelDelay Delay   `help:"@data_label_delay" placeholder:"DURATION"`
	Nodes      int     `kong:"-"` // of the synthetic graph, 0 for 6,000
	Steps      int     `help:"Number of steps to cut the stream into; 0 keeps that of the data set (docs/datasets.md)." default:"0"`
}

var dataHelp = Texts{
	"data": "Data set: a folder or an .npz file (docs/datasets.md). A synthetic graph of 6,000 nodes and 10 classes " +
		"when left out.",
	"data_drift": "Drift of the synthetic graph: none, moderate, strong or abrupt. 'go run ./cmd/lab generate' makes other " +
		"graphs.",
	"data_train_share": "Share of the labelled nodes to train on: the earliest, or without times drawn from every " +
		"class; 0 keeps the split (docs/datasets.md).",
	"data_train_until": "Train on the nodes before this time whose labels have come by then, such as 2025-11-20.",
	"data_label_delay": "Time between a node and its label, such as 30d, in place of label_time; or a number of " +
		"steps (of node events with 'send --labels delayed').",
}

// Check refuses values out of range, and flags without an effect.
func (f Data) Check(g Given) error {
	switch {
	case !(f.TrainShare >= 0 && f.TrainShare <= 1):
		return Usagef("--train-share %v: give a share up to 1, such as 0.05, or 0 to keep the split of the data set", f.TrainShare)
	case f.TrainShare > 0 && f.TrainUntil != "":
		return Usagef("--train-share %v and --train-until %s both choose the training nodes: "+
			"leave out one of them", f.TrainShare, f.TrainUntil)
	case f.Steps < 0:
		return Usagef("--steps %d: give a positive number, or 0 to keep that of the data set", f.Steps)
	}
	return g.Check(NoEffect(f.Data != "", "no effect on --data: leave out one of them", "drift"))
}

// Until reads --train-until of a data set; nil where it is not given.
func Until(d *dataset.Dataset, text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	at, err := d.ParseTime(text)
	if err != nil {
		return nil, Usagef("--train-until %s: %w", text, err)
	}
	return &at, nil
}

// Delay is how much later than its node a label comes: a number of steps, or a time. The zero value was not given.
type Delay struct {
	text  string
	Steps int
	ms    int64
}

func (d Delay) String() string { return d.text }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Delay) UnmarshalText(text []byte) (err error) {
	*d = Delay{text: string(text)}
	if d.ms = spelling.Span(d.text); d.ms > 0 {
		return nil
	}
	if d.Steps, err = strconv.Atoi(d.text); err != nil || d.Steps < 0 {
		return fmt.Errorf("%.40q: give a time in d, h, m, s or ms, such as 30d, or a number of steps", d.text)
	}
	return nil
}

// Given reports whether there is one.
func (d Delay) Given() bool { return d.text != "" }

// Timed reports whether it is a time.
func (d Delay) Timed() bool { return d.ms > 0 }

// Apply has the labels of a data set come by it: at their times, or by steps whatever times they have.
func (d Delay) Apply(set *dataset.Dataset) error {
	switch {
	case d.ms > 0:
		if err := set.DelayLabels(float64(d.ms)); err != nil {
			return Usagef("--label-delay %s: %w", d.text, err)
		}
	case d.Given() && set.Keys.Tell():
		return Usagef("--label-delay %s: keys tell which labels have come (\"labels\"), so these need times: give one such as 30d", d.text)
	case d.Given():
		set.LabelTime = nil
	}
	return nil
}

// DataSet is a graph and how it is cut into training nodes and steps.
type DataSet struct {
	*dataset.Dataset
	Split dataset.Stream
	Seed  uint64
}

// Open reads or makes the graph, and cuts it.
func (f Data) Open() (*DataSet, error) {
	d, err := f.graph()
	if err != nil {
		return nil, err
	}
	until, err := Until(d, f.TrainUntil)
	if err == nil {
		err = f.LabelDelay.Apply(d)
	}
	if err != nil {
		return nil, err
	}
	split, err := d.Cut(dataset.Cut{Seed: f.Seed, Share: f.TrainShare, Until: until, Steps: f.Steps})
	if err == nil {
		d, err = d.Encoded(split.Train)
	}
	return &DataSet{Dataset: d, Split: split, Seed: f.Seed}, err
}

// graph reads the data set, or makes the synthetic one.
func (f Data) graph() (*dataset.Dataset, error) {
	if f.Data != "" {
		return OpenData(f.Data)
	}
	c, err := Synthetic(f.Drift, f.Seed)
	if err != nil {
		return nil, err
	}
	if f.Steps > 0 {
		c.Steps = f.Steps
	}
	c.Nodes = cmp.Or(f.Nodes, c.Nodes)
	d, _, err := dataset.Drift(c)
	return d, SettingError(err)
}

// OpenData reads a data set in any layout.
func OpenData(path string) (*dataset.Dataset, error) { return dataset.Open(path, parquet.Format) }

// SaveData saves a data set into a folder, as csv or parquet.
func SaveData(d *dataset.Dataset, dir, format string) error {
	if format == "parquet" {
		return d.Save(dir, parquet.Format)
	}
	return d.Save(dir)
}

// String describes the graph in one line.
func (s *DataSet) String() string {
	what, edges, kind := "nodes", len(s.Edges), "dense"
	if s.Graphs != nil {
		what, edges = "graphs", len(s.Graphs.Src)/2
	}
	if s.Sparse {
		kind = "sparse"
	}
	n := 0
	for _, step := range s.Split.Steps {
		n += len(step)
	}
	unlabelled := ""
	if n := len(s.Labels) - s.Labelled(); n > 0 {
		unlabelled = fmt.Sprintf(", %d %s without a label", n, what)
	}
	few := ""
	if len(s.Split.Train) < 2*len(s.Classes) {
		few = " (too few to learn from: train until later, or on a larger share)"
	}
	return fmt.Sprintf("%s: %d %s, %d edges, %d %s features, %d classes%s; %d train%s, %d stream in %d steps",
		s.Name, len(s.Features), what, edges, s.Dim, kind, len(s.Classes), unlabelled, len(s.Split.Train), few, n, len(s.Split.Steps))
}

// Stream returns the data set in order of arrival: training and warm-up nodes as
// context, with their labels, then the steps. A node names those of its neighbours
// that came before it or are in the same step. Event time advances by one
// millisecond a node; that of a table with names, or where labels have times, is the table's, if it has times.
func (s *DataSet) Stream() *sender.Stream {
	batches := append([][]int32{append(append([]int32(nil), s.Split.Train...), s.Split.Warmup...)}, s.Split.Steps...)
	if s.Raw != nil { // the engine makes of keys what they make
		raw := *s
		raw.Dataset = s.Raw
		slices.SortFunc(batches[0], func(a, b int32) int { return cmp.Or(cmp.Compare(raw.Time[a], raw.Time[b]), cmp.Compare(a, b)) })
		s = &raw
	}
	neighbours := s.Arrivals(batches)
	var between map[[2]int32][]int
	if s.Kinds != nil {
		between = s.EdgesBetween()
	}
	var time int64
	item := func(v int32, context bool) sender.Item {
		x := s.Features[v]
		time++
		n := event.Node{ID: s.ID(v), Dense: x.Dense, Index: x.Index, Value: x.Value, Context: context, Time: time}
		if s.Table != nil {
			n.Dense, n.Index, n.Value, n.Named = nil, nil, nil, s.named(v)
		}
		if at, ok := s.Milliseconds(v); ok && (s.Table != nil || s.LabelTime != nil) {
			n.Time = at
		}
		if s.Graphs != nil {
			n.Dense, n.Index, n.Value, n.Graph = nil, nil, nil, s.graph(v)
		}
		for _, u := range neighbours[v] {
			s.name(&n, u, between[[2]int32{min(u, v), max(u, v)}])
		}
		return sender.Item{Node: n, Class: s.ClassOf(v)}
	}
	out := &sender.Stream{}
	waits := make([]int, len(s.Labels)) // after which step, from 1 on, the label comes
	for after, nodes := range s.Due(s.Split, 0) {
		for _, v := range nodes {
			waits[v] = after
		}
	}
	for i, batch := range batches {
		var items []sender.Item
		for _, v := range batch {
			x := item(v, i == 0)
			if x.Wait = max(waits[v]-i, 0); s.LabelTime != nil && s.LabelTime[v] == dataset.Never {
				x.Class = ""
			} else if _, ok := s.Milliseconds(v); ok && x.Class != "" && s.LabelTime != nil {
				x.LabelTime = int64(s.LabelTime[v])
			}
			items = append(items, x)
		}
		if i == 0 {
			if s.Graphs == nil { // no graph is the context of another
				out.Context = items
			}
		} else {
			out.Steps = append(out.Steps, items)
		}
	}
	return out
}

// named returns the attributes of a node as a producer would send them.
func (s *DataSet) named(v int32) []event.Attribute {
	list := make([]event.Attribute, len(s.Table))
	for i := range s.Table {
		text := s.Table[i].Texts[v]
		a := event.Attribute{Name: s.Table[i].Name, Kind: event.Text, Text: text}
		number, isNumber := spelling.Number(text)
		switch {
		case spelling.IsGap(text):
			a.Kind, a.Text = event.Gap, ""
		case s.Table[i].Kind == attributes.Number && isNumber:
			a.Kind, a.Number, a.Text = event.Number, number, ""
		}
		list[i] = a
	}
	return list
}

// name has an event name the neighbour u: once, or for each of the edges, which have kinds.
func (s *DataSet) name(n *event.Node, u int32, edges []int) {
	if s.Kinds == nil {
		n.Neighbours = append(n.Neighbours, s.ID(u))
		return
	}
	for _, e := range edges {
		m := s.Marks[e]
		n.Neighbours = append(n.Neighbours, s.ID(u))
		n.Marks = append(n.Marks, event.Mark{
			Kind: s.Kinds[m.Kind].Name, Weight: m.Weight,
			In: s.Kinds[m.Kind].Directed && s.Edges[e][0] == u,
		})
	}
}

// graph returns a graph as a producer would send it.
func (s *DataSet) graph(i int32) *event.Graph {
	x, ends := s.Graphs.At(i)
	g := &event.Graph{Nodes: make([][]float32, len(x)), Ends: ends}
	for v := range x {
		g.Nodes[v] = x[v].Dense
	}
	return g
}

// ID returns a node's id as events have it.
func (s *DataSet) ID(v int32) event.ID {
	text, number := s.IDs.At(v)
	return event.ID{Str: text, Num: number}
}

// Training returns the part of the data set that Phase 1 may see.
func (s *DataSet) Training() model.Data {
	d := model.Data{Name: s.Name, Split: s.Split.How, Dim: s.Dim, Classes: s.Classes, Ordered: s.Split.Ordered, Schema: s.Schema}
	for _, v := range s.Split.Train {
		d.IDs = append(d.IDs, s.ID(v))
		d.X = append(d.X, s.Features[v])
		d.Labels = append(d.Labels, s.Labels[v])
	}
	if s.Graphs != nil {
		d.X, d.Graphs = nil, s.Graphs.Part(s.Split.Train)
		return d
	}
	if d.Kinds = s.Kinds; d.Kinds != nil {
		d.Src, d.Dst, d.Mean, d.Weight = s.MarkedSubgraph(s.Split.Train)
	} else {
		d.Src, d.Dst = s.Subgraph(s.Split.Train)
	}
	return d
}

// Synthetic returns the synthetic graph of demo, train and send.
func Synthetic(drift string, seed uint64) (dataset.DriftConfig, error) {
	c, err := dataset.DriftPreset(drift)
	c.Nodes, c.Classes, c.Steps, c.Seed = 6000, 10, 50, seed
	return c, SettingError(err)
}
