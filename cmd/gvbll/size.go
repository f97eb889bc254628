package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
	"github.com/gvbll/gvbll/topics/wire"
)

type sizeCmd struct {
	Model string `arg:"" help:"Model file, from 'gvbll train'." type:"path" placeholder:"FILE"`

	Nodes    quantity      `help:"Nodes of the graph, such as 50M." required:"" placeholder:"50M"`
	Edges    quantity      `help:"Edges of the graph, such as 350M." required:"" placeholder:"350M"`
	Nonzero  float64       `help:"Features of a node that are not 0, of sparse ones; 50 when left out." default:"50"`
	Pending  flags.Pending `help:"Predictions that wait for their label, as 'gvbll work' has it." default:"max=262144,memory=1GiB" placeholder:"max=262144,memory=1GiB"`
	BFloat16 bool          `help:"As 'gvbll work --rows bfloat16'." name:"bfloat16"`
	JSON     bool          `help:"Print JSON: bytes by part." name:"json"`
}

// Help is shown by gvbll size --help.
func (sizeCmd) Help() string {
	return "Of one worker, from the model file alone (docs/performance.md has the formulas). A standby needs as " +
		"much as the owner."
}

// quantity is a large number: 50M, 350e6, 1.5G.
type quantity float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (q *quantity) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "kKMG")
	by, known := map[string]float64{"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[string(text)[len(digits):]]
	n, err := strconv.ParseFloat(digits, 64)
	if *q = quantity(n * by); err != nil || !known || !(n >= 0) || math.IsInf(n, 0) {
		return fmt.Errorf("%.40q: give a number such as 50M, with k, M or G", text)
	}
	return nil
}

// sizing is what sizes are computed from.
type sizing struct {
	sizeCmd
	m       *model.Model
	classes float64
	outputs float64 // numbers that heads gave to a prediction
}

// mostNodes is how many an engine numbers.
const mostNodes = math.MaxInt32

func (c sizeCmd) sizing(m *model.Model) (*sizing, error) {
	s := &sizing{sizeCmd: c, m: m, classes: float64(len(m.Classes)), outputs: 2 * float64(len(m.Classes))}
	if m.Pool != nil {
		p, err := m.NewPool()
		if err != nil {
			return nil, err
		}
		s.outputs += float64(p.LogProbsPerRow())
	}
	return s, nil
}

// waiting is the number of predictions that wait.
func (s *sizing) waiting() float64 { return min(float64(s.Pending.Max), float64(s.Nodes)) }

// sparse reports whether features are: heads scale others by pool.Standard.
func (s *sizing) sparse() bool { return s.m.Pool != nil && s.m.Pool.Scale() != pool.Standard }

// rows is the memory that what was served of waiting predictions would take.
func (s *sizing) rows() float64 { return 4 * (float64(s.m.Prior.Dim) + s.outputs) * s.waiting() }

// sizeParts are the parts of a worker's memory. Their texts are the table of docs/performance.md.
var sizeParts = []struct {
	name, what, formula string
	bytes               func(s *sizing) float64
}{
	{"rows", "the row of a node", "GraphSAGE 12 h, GCN 4 h, h the hidden width; with `--rows bfloat16` a third less, " +
		"GCN a half", func(s *sizing) float64 {
		return float64(s.Nodes) * float64(gnn.RowBytes(s.m.NodeEncoder(), s.BFloat16))
	}},
	{"edges", "edges", "4 for each of an edge's two ends, a quarter of the lists' room is empty: 10.7 an edge", func(s *sizing) float64 {
		return float64(s.Edges) * 2 * 4 / .75
	}},
	{"nodes", "a node besides", "32 of the graph, 8 of labels, 15 of its id (integers; a string takes 80 and its " +
		"length more)", func(s *sizing) float64 {
		return float64(s.Nodes) * (32 + 8 + 15)
	}},
	{"around", "what a pool's heads read around a node", "4 + 5 C, C the number of classes; where they read features, " +
		"4 for each more, or 20 and of sparse ones 10.7 for each that is not 0", func(s *sizing) float64 {
		if s.m.Pool == nil {
			return 0
		}
		each := 4 + 5*s.classes
		switch reads := s.m.Pool.Needs()&(pool.NeedX|pool.NeedS) != 0; {
		case reads && s.sparse():
			each += 20 + s.Nonzero*8/.75
		case reads:
			each += 4 * float64(s.m.NodeEncoder().In())
		}
		return float64(s.Nodes) * each
	}},
	{"waiting", "a prediction that waits for its label", "48, and 4 for each node", func(s *sizing) float64 {
		return 48*s.waiting() + 4*float64(s.Nodes)
	}},
	{"served", "its embedding and what every head gave", "4 (d_e + C·heads), with a pool 2 C more; in files beyond " +
		"`--pending memory=`", func(s *sizing) float64 {
		return min(s.rows(), float64(s.Pending.Memory))
	}},
	{"garbage", "garbage before it is collected", "256 MiB or 5 % of what is live, whichever is more", nil},
}

// part is a part of what a graph takes.
type part struct {
	Name  string  `json:"name"`
	Bytes float64 `json:"bytes"`
}

// memory returns the parts of the memory, without those that are nothing, and their sum.
func (s *sizing) memory() (parts []part, total float64) {
	for _, p := range sizeParts {
		bytes := max(256<<20, total/20)
		if p.bytes != nil {
			bytes = p.bytes(s)
		}
		if total += bytes; bytes > 0 {
			parts = append(parts, part{p.name, bytes})
		}
	}
	return parts, total
}

// checkpoints is how many 'gvbll work' keeps unless told otherwise.
const checkpoints = 3

// Run prints the sizes.
func (c sizeCmd) Run(p flags.Process) error {
	if c.Nodes < 1 || c.Nodes > mostNodes {
		return flags.Usagef("--nodes %.0f: give 1 to %d, as an engine numbers nodes by 31 bits", float64(c.Nodes), mostNodes)
	}
	m, err := model.Open(c.Model)
	if err != nil {
		return err
	}
	s, err := c.sizing(m)
	if err != nil {
		return err
	}
	var all struct {
		Memory  []part  `json:"memory"`
		Total   float64 `json:"memory_bytes"`
		Disk    []part  `json:"disk"`
		Network []part  `json:"network_per_node"`
	}
	all.Memory, all.Total = s.memory()
	live := all.Total - all.Memory[len(all.Memory)-1].Bytes
	all.Disk = []part{{"checkpoints", checkpoints * live}, {"served", max(s.rows()-float64(s.Pending.Memory), 0)}}
	in, out := s.events()
	all.Network = []part{{"node", in}, {"prediction", out}}
	if c.JSON {
		return flags.PrintJSON(p.Out, all)
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	for _, group := range []struct {
		title string
		parts []part
	}{
		{"memory", append(all.Memory, part{"together", all.Total})},
		{"disk, with --state-dir", all.Disk},
		{"network, of each node that comes", all.Network},
	} {
		fmt.Fprintln(w, group.title)
		for _, x := range group.parts {
			fmt.Fprintf(w, "  %s\t%s\n", x.Name, inUnits(x.Bytes))
		}
	}
	return w.Flush()
}

// events returns the bytes of a node event and of its prediction in msgpack, as Kafka keeps them before it compresses and replicates.
func (s *sizing) events() (in, out float64) {
	n := &event.Node{ID: event.ID{Num: 1 << 40}, Time: 1 << 40}
	for range int(min(float64(s.Edges/s.Nodes), 1e6)) {
		n.Neighbours = append(n.Neighbours, n.ID)
	}
	if n.Dense = make([]float32, s.m.NodeEncoder().In()); s.sparse() {
		n.Dense, n.Index, n.Value = nil, make([]uint32, int(s.Nonzero)), make([]float32, int(s.Nonzero))
		for i := range n.Index {
			n.Index[i] = uint32(i)
		}
	}
	p := &event.Prediction{Node: n.ID, Time: n.Time, Probabilities: make([]float32, len(s.m.Classes)), Class: s.m.Classes[0], Model: s.m.ID}
	return float64(len(wire.AppendNode(nil, n))), float64(len(wire.MsgPack.AppendPrediction(nil, p)))
}

// inUnits returns bytes for people.
func inUnits(bytes float64) string {
	for _, u := range []struct {
		name string
		of   float64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes >= u.of {
			return fmt.Sprintf("%.1f %s", bytes/u.of, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", bytes)
}
