package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/attributes"
	"github.com/gvbll/gvbll/gnn/spelling"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/structure"
)

// History is the graph and the labels that windows have brought, to train a model on. It
// applies windows as an [Engine] does (arrivals, updates, departures, edges and labels that
// wait, labels of nodes that have left), and predicts nothing. Unlike an engine it has no classes of its own: it keeps
// labels of every name.
type History struct {
	nodes   *structure.Nodes
	pending *serve.Pending // predictions that are empty
	waiting serve.Unmatched
	list    []Recorded       // by node number; the zero value where there is none
	classes []string         // in the order in which they were given or seen
	place   map[string]int32 // of a class in classes, by its name
	spelled map[string]int32 // of the first class that has it as its one spelling
	cfg     Config
	given   int // how many of classes were given; labels by index mean these
	kinds   gnn.EdgeKinds
	next    int64
	out     event.Outcome // scratch: what an engine would refuse and count
	graphs  bool          // see Err
}

// Recorded is a node of a history.
type Recorded struct {
	ID       event.ID
	Features gnn.Vector        // the latest, as received, or as the schema made them
	Named    []event.Attribute // the latest, where there is no schema to make features of them
	Window   int64             // in which it arrived
	Time     int64             // event time of its arrival, 0 when not given
	Context  bool
	Class    int32 // of its label, an index in the history's classes; none is negative
	Labelled int64 // window of its label, the first one if that was corrected
}

// maxHistoryClasses bounds the names of classes, beyond those given: a label of a further
// one is dropped.
const maxHistoryClasses = 1 << 16

// HistoryConfig says what the events of a history have.
type HistoryConfig struct {
	Features int
	Kinds    gnn.EdgeKinds      // of edges to tell apart; nil for none
	Schema   *attributes.Schema // of features by name, or nil to keep their names
	Classes  []string           // of the model that serves, in its order; there may be none
	Settings Config             // Bounds, Labels, Reading and Keep count: what waits for its label is kept
}

// NewHistory returns an empty history.
func NewHistory(c HistoryConfig) (*History, error) {
	cfg, err := Config{Bounds: c.Settings.Bounds}.WithDefaults()
	if err != nil {
		return nil, err
	}
	// An encoder is needed to keep a graph; the smallest there is costs least.
	zero := make([]float32, c.Features)
	var encoder gnn.Encoder
	if c.Kinds == nil {
		encoder, err = gnn.NewSAGE(c.Features, gnn.ReLU, gnn.SAGELayer{Neigh: zero, Bias: make([]float32, 1)})
	} else {
		neighbours := slices.Repeat([][]float32{zero}, c.Kinds.Means())
		encoder, err = gnn.NewSAGEKinds(c.Features, gnn.ReLU, gnn.KindsLayer{Neigh: neighbours, Bias: make([]float32, 1), Self: zero})
	}
	if err != nil {
		return nil, err
	}
	h := &History{
		waiting: serve.NewUnmatched(cfg.Bounds.Labels, c.Settings.Labels), cfg: c.Settings,
		place: make(map[string]int32), spelled: make(map[string]int32), given: len(c.Classes), kinds: c.Kinds,
	}
	for _, name := range c.Classes {
		h.class(name)
	}
	h.pending = serve.NewPending(1, 1, cfg.waiting())
	h.nodes = structure.New(structure.Config{
		Encoder: encoder, Normalizer: &gnn.Normalizer{Kind: gnn.NormalizeNone},
		Schema: c.Schema, KeepsNames: c.Schema == nil, WaitingEdges: cfg.Bounds.Edges,
		Keep: c.Settings.Keep, Names: c.Classes, Reading: c.Settings.Reading, Kinds: c.Kinds,
	}, gnn.NewGraph(encoder), h.pending)
	h.nodes.Follow(structure.Follower{Entered: h.entered, Vacated: h.vacated})
	return h, nil
}

// Step applies the next window. The window is only read.
func (h *History) Step(w *event.Window) {
	if w.Number != h.next {
		panic(fmt.Sprintf("pipeline: window %d, but %d is next", w.Number, h.next))
	}
	h.next++
	h.out = event.Outcome{}
	h.nodes.Enter(w.Nodes, &h.out)
	h.graphs = h.graphs || slices.ContainsFunc(w.Nodes, func(n event.Node) bool { return n.Graph != nil })
	for _, a := range h.nodes.Accepted() {
		r := &h.list[a.Number]
		if !h.cfg.Reading.Partial || r.Window < 0 || a.Node.Named == nil {
			r.Named = nil
		}
		r.Named = merged(r.Named, a.Node.Named)
		if r.Window < 0 {
			r.ID, r.Window, r.Time, r.Context = a.Node.ID.Clone(), w.Number, a.Node.Time, a.Node.Context
		}
		if a.ToPredict {
			if _, old, expired := h.pending.Put(a.Number, serve.Served{}); expired {
				h.nodes.Expired(old)
			}
		}
	}
	for _, a := range h.nodes.Accepted() { // once all wait, as in an engine
		if l, waited := h.waiting.Claim(a.Node.ID); waited {
			h.label(a.Number, l.Class)
		}
	}
	for i := range w.Labels {
		l := &w.Labels[i]
		if l.Skip {
			continue
		}
		class := h.classOf(l)
		if class == none && !l.Withdrawn {
			continue
		}
		if v, known := h.nodes.Number(l.Node); known {
			h.label(v, class)
		} else if l.Withdrawn {
			h.waiting.Wait(none, l, &h.out)
		} else if left, waits := h.nodes.TakeLeft(l.Node); waits {
			h.nodes.SetLabel(left.Number, class)
			h.pending.Drop(left.Number)
			h.nodes.Vacate(left.Number)
		} else {
			h.waiting.Wait(class, l, &h.out)
		}
	}
	h.nodes.DropWindow()
	h.pending.Release()
}

// Err returns an error if graphs came that are classified as a whole: a history keeps none.
func (h *History) Err() error {
	if h.graphs {
		return errors.New("the stream is of graphs with nodes of their own, which are not kept: train on a data set of " +
			"graphs, 'gvbll train --data' (docs/data.md)")
	}
	return nil
}

// merged returns attributes with those in more in place of their own, which share no memory
// with a window.
func merged(named, more []event.Attribute) []event.Attribute {
	for _, a := range more {
		a.Name, a.Text, a.Numbers = strings.Clone(a.Name), strings.Clone(a.Text), slices.Clone(a.Numbers)
		if i := slices.IndexFunc(named, func(old event.Attribute) bool { return old.Name == a.Name }); i >= 0 {
			named[i] = a
		} else {
			named = append(named, a)
		}
	}
	return named
}

// label sets the label of node v, or withdraws it. The first or the last one stands, as in an
// engine.
func (h *History) label(v, class int32) {
	r := &h.list[v]
	if r.Class != none {
		if h.cfg.Labels == serve.LastStands {
			r.Class = class
			h.nodes.SetLabel(v, class)
		}
	} else if class != none {
		r.Class, r.Labelled = class, h.next-1
		h.nodes.SetLabel(v, class)
		h.pending.Drop(v)
	}
}

// classOf returns the index of a label's class, none if it has no name here or is withdrawn.
func (h *History) classOf(l *event.Label) int32 {
	if l.Withdrawn {
		return none
	}
	if l.Class == "" {
		in := l.In
		if h.cfg.Reading.First {
			in = l.FirstIn
		}
		if class, ok := in(h.classes[:h.given]); ok {
			return class
		}
		return none
	}
	if class, known := h.place[l.Class]; known {
		return class
	}
	name := spelling.Name(l.Class)
	if class, known := h.spelled[name]; known && !h.cfg.Reading.First {
		return class
	}
	return h.class(name)
}

// class returns the index of a class, which it adds if the name is new.
func (h *History) class(name string) int32 {
	c, known := h.place[name]
	switch {
	case known:
		return c
	case len(h.classes) >= h.given+maxHistoryClasses:
		return none
	}
	c = int32(len(h.classes))
	name = strings.Clone(name)
	h.classes, h.place[name] = append(h.classes, name), c
	one := spelling.Name(name)
	if _, known := h.spelled[one]; !known {
		h.spelled[one] = c
	}
	return c
}

// Classes returns the names of all classes: those given, then new ones in the order in
// which they came. It belongs to the history.
func (h *History) Classes() []string { return h.classes }

// Nodes returns the nodes of the graph that keep accepts, in the order of their arrival, with the edges between
// them by places in the result: the later node is the target, but of an edge of a directed kind. Of two nodes there
// is an edge for each of the kinds, if there are kinds. Nothing changes them after the next Step.
func (h *History) Nodes(keep func(*Recorded) bool) (nodes []Recorded, edges []gnn.WeighedEdge) {
	var numbers []int32
	for v := range h.list {
		if r := &h.list[v]; r.Window >= 0 && !h.nodes.HasLeft(int32(v)) && keep(r) {
			numbers = append(numbers, int32(v))
		}
	}
	slices.SortFunc(numbers, func(u, v int32) int {
		if h.nodes.Before(u, v) {
			return -1
		}
		return 1
	})
	place := make(map[int32]int32, len(numbers))
	for i, v := range numbers {
		place[v] = int32(i)
		nodes = append(nodes, h.list[v])
	}
	for i, v := range numbers {
		target := int32(i)
		h.nodes.Graph.EachWeighed(v, func(u int32, mean uint8, weight float32) {
			source, in := place[u]
			kind, atTarget := h.kinds.At(int(mean))
			atSource, _, _ := h.kinds.Of(kind.Name)
			e := gnn.WeighedEdge{Source: source, Target: target, AtSource: uint8(atSource), AtTarget: mean, Weight: weight}
			if in && (atTarget || !kind.Directed && source < target) {
				edges = append(edges, e)
			}
		})
	}
	return nodes, edges
}

// entered keeps the features of node v.
func (h *History) entered(v int32, x gnn.Vector) {
	for int(v) >= len(h.list) {
		h.list = append(h.list, Recorded{Window: none, Class: none})
	}
	h.list[v].Features = gnn.Vector{Dense: slices.Clone(x.Dense), Index: slices.Clone(x.Index), Value: slices.Clone(x.Value)}
}

// vacated forgets node v, which has left.
func (h *History) vacated(v int32) { h.list[v] = Recorded{Window: none, Class: none} }
