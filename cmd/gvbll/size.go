package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
)

type sizeCmd struct {
	Model string `help:"Model file, from 'gvbll train'." required:"" type:"path" placeholder:"FILE"`

	Nodes   float64       `help:"Nodes of the graph, such as 100e6." required:"" placeholder:"NUMBER"`
	Degree  float64       `help:"Neighbours that a node names when it arrives. Nodes have twice as many edges on average." default:"7"`
	Nonzero float64       `help:"Features of a node that are not 0, where the model's heads keep sparse features; all when left out." placeholder:"NUMBER"`
	Pending flags.Pending `help:"Predictions that wait for their label, and the memory for what was served of them, as 'gvbll work --rows bfloat16' does." default:"max=262144,memory=1GiB" placeholder:"max=262144,memory=1GiB"`
	Head    string        `help:"What predicts, as in 'gvbll work'." enum:",pool,paper" default:"" placeholder:"NAME"`

	BFloat16 bool       `help:"Keep the graph's vectors as bfloat16, as in 'gvbll work'." name:"bfloat16"`
	Memory   flags.Size `help:"Memory of a worker: the fewest shards that fit into it are named." default:"64GiB" placeholder:"64GiB"`
	Shards   int        `help:"Compute this number of shards only." placeholder:"NUMBER"`
	JSON     bool       `help:"Print JSON." name:"json"`
}

// Help is shown by gvbll size --help.
func (sizeCmd) Help() string {
	return "Computes it for one worker, and for a graph that several workers share by shards, with what they exchange over Kafka (docs/sharding.md has the formulas). It needs the model file alone. A standby needs as much as the worker that it stands in for."
}

// sizing is what a graph takes.
type sizing struct {
	Model   string `json:"model"`
	Encoder string `json:"encoder"`
	Nodes   int    `json:"nodes"`
	Edges   int    `json:"edges"`
	Pending int    `json:"pending"`

	Shards []shardSizing `json:"shards"`
	Memory int64         `json:"memory"`          // of a machine
	Fits   int           `json:"fits"`            // fewest shards of those above that fit into it, 0 for none
	Uncut  string        `json:"uncut,omitempty"` // why there are not more shards
}

// shardSizing is what each worker takes of a graph of so many shards.
type shardSizing struct {
	Shards     int             `json:"shards"`
	Memory     int64           `json:"memory"` // of the process: live, and garbage before it is collected
	State      pipeline.Memory `json:"state"`  // what is live
	BytesANode float64         `json:"bytes_a_node"`
	// Of all shards together: bytes that they send for an arrival, and for its label, and
	// the records that they send in a window.
	ArrivalBytes int `json:"exchanged_bytes_an_arrival"`
	LabelBytes   int `json:"exchanged_bytes_a_label"`
	Records      int `json:"exchanged_records_a_window"`
}

// Run prints the sizes.
func (c sizeCmd) Run(p flags.Process) error {
	switch {
	case !(c.Nodes >= 1 && c.Nodes <= math.MaxInt32):
		return flags.Usagef("--nodes %g: give 1 to %d, as an engine numbers nodes by 31 bits", c.Nodes, math.MaxInt32)
	case !(c.Degree >= 0 && c.Degree <= 1e6):
		return flags.Usagef("--degree %g: give a number of neighbours such as 7", c.Degree)
	case !(c.Nonzero >= 0 && c.Nonzero <= 1e9):
		return flags.Usagef("--nonzero %g: give a number of features", c.Nonzero)
	case c.Memory < 1:
		return flags.Usagef("--memory %v: give a size such as 64GiB", c.Memory)
	case c.Shards < 0:
		return flags.Usagef("--shards %d: give 1 to %d", c.Shards, gnn.MaxSlices)
	}
	m, err := model.Open(c.Model)
	if err != nil {
		return err
	}
	sizes, err := c.sizes(m)
	if err != nil {
		return err
	}
	if c.JSON {
		return flags.PrintJSON(p.Out, sizes)
	}
	return sizes.print(p.Out)
}

// sizes computes the sizes for a model: those of --shards, or of every power of two that the
// model can be cut into.
func (c sizeCmd) sizes(m *model.Model) (s sizing, err error) {
	s = sizing{
		Model: m.ID, Encoder: string(m.Meta.Encoder),
		Nodes: int(c.Nodes), Edges: int(c.Nodes * c.Degree), Pending: min(c.Pending.Max, int(c.Nodes)), Memory: int64(c.Memory),
	}
	for shards := max(c.Shards, 1); ; shards *= 2 {
		slice, err := m.Slice(0, shards)
		switch {
		case err == nil:
		case c.Shards > 0:
			return s, flags.Usagef("--shards %d: %w", c.Shards, err)
		default:
			s.Uncut = err.Error()
			return s, nil
		}
		size, err := c.size(slice, shards)
		if err != nil {
			return s, err
		}
		s.Shards = append(s.Shards, size)
		if s.Fits == 0 && size.Memory <= int64(c.Memory) {
			s.Fits = shards
		}
		if c.Shards > 0 || 2*shards > gnn.MaxSlices {
			return s, nil
		}
	}
}

// size computes what each worker takes of a graph of so many shards, given one of the
// model's slices.
func (c sizeCmd) size(slice *model.Model, shards int) (s shardSizing, err error) {
	cfg, err := flags.ValidSettings(pipeline.Config{Head: c.Head, BFloat16: c.BFloat16, MaxPending: c.Pending.Max, Unwatched: true})
	if err != nil {
		return s, err
	}
	engine, err := pipeline.New(slice, cfg)
	if err != nil {
		return s, err
	}
	load := pipeline.Load{Nodes: int(c.Nodes), Degree: 2 * c.Degree, Nonzero: c.Nonzero, Pending: c.Pending.Max}
	if load.Nonzero == 0 {
		load.Nonzero = float64(slice.Encoder.In())
	}
	state := engine.Memory(load)
	// A prediction is kept by one shard, and beyond --pending memory in files.
	state.Served = min(state.Served/int64(shards), int64(c.Pending.Memory))
	live := state.Total()
	s = shardSizing{
		Shards: shards, State: state, BytesANode: float64(live) / c.Nodes,
		Memory: live + live/100*int64(flags.GarbagePercent(uint64(live))),
	}
	if shards > 1 {
		s.exchange(slice, engine)
	}
	return s, nil
}

// exchange computes what the shards send: P−1 partial embeddings for each arrival, each with
// its place in the window; what was served for it, if the heads count that around its
// neighbours; and, for a label, the row that was served.
func (s *shardSizing) exchange(m *model.Model, e *pipeline.Engine) {
	const place, number = 6, 4
	others, embedding := s.Shards-1, m.Prior.Dim
	s.ArrivalBytes = others * (number*embedding + place)
	s.Records = s.Shards*others + s.Shards + 1 // parts; rows to the lead; its heads
	if p := e.Pool(); p != nil && p.Config().Served > 0 {
		s.ArrivalBytes += len(m.Classes) + place
		s.Records += s.Shards
	}
	s.LabelBytes = number*e.RowLen() + place
}

// print prints the sizes for people.
func (s sizing) print(out io.Writer) error {
	one := s.Shards[0]
	fmt.Fprintf(out, "model %s (%s), %s nodes, %s edges, %s predictions that wait\n\n", s.Model, s.Encoder, grouped(s.Nodes), grouped(s.Edges), grouped(s.Pending))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SHARDS\tMEMORY EACH\tBYTES A NODE\tVECTORS\tEDGES, IDS\tAROUND\tWAITING\tSENT AN ARRIVAL\tA LABEL\tRECORDS A WINDOW\t")
	each := func(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/float64(s.Nodes)) }
	for _, x := range s.Shards {
		sent, label, records := "-", "-", "-"
		if x.Shards > 1 {
			sent, label, records = grouped(x.ArrivalBytes), grouped(x.LabelBytes), grouped(x.Records)
		}
		fmt.Fprintf(w, "%d\t%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", x.Shards, gigabytes(x.Memory), x.BytesANode,
			each(x.State.Vectors), each(x.State.Structure), each(x.State.Around), each(x.State.Waiting+x.State.Served), sent, label, records)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	last := s.Shards[len(s.Shards)-1]
	verdict := fmt.Sprintf("%d shards are the fewest that fit into %v: start that many workers and one for the lead, and as many again as standbys", s.Fits, flags.Size(s.Memory))
	switch {
	case one.Shards > 1 && s.Fits > 0:
		verdict = fmt.Sprintf("a worker of one shard fits into %v: start %d workers and one for the lead, and as many again as standbys", flags.Size(s.Memory), one.Shards)
	case s.Fits == 1:
		verdict = fmt.Sprintf("one worker fits into %v: no shards are needed, and a standby takes as much", flags.Size(s.Memory))
	case s.Fits == 0 && len(s.Shards) == 1:
		verdict = fmt.Sprintf("%s do not fit into %v", gigabytes(one.Memory), flags.Size(s.Memory))
	case s.Fits == 0:
		verdict = fmt.Sprintf("no number of shards up to %d fits into %v: edges, ids and counts, %s, are on every worker", last.Shards, flags.Size(s.Memory), gigabytes(last.State.Total()-last.State.Vectors-last.State.Served))
	}
	if s.Uncut != "" {
		verdict += "\n" + s.Uncut
	}
	_, err := fmt.Fprintf(out, "\n%s\n", verdict)
	return err
}

// grouped formats a number with a comma before every three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// gigabytes formats a number of bytes in GiB, or MiB if it is less.
func gigabytes(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
