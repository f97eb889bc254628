package shards

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/cmd/gvbll/look"
	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/model"
)

// Question is of what size a graph is asked for: for one worker, and for several by shards.
type Question struct {
	Config pipeline.Config // with defaults
	Load   pipeline.Load
	Edges  int   // that nodes name when they arrive
	Rows   int64 // bytes of what is served, in memory at most
	Memory int64 // of a machine
	Shards int   // only so many, 0 for every power of two that the model can be cut into
}

// Sizing is what a graph takes.
type Sizing struct {
	Model   string `json:"model"`
	Encoder string `json:"encoder"`
	Nodes   int    `json:"nodes"`
	Edges   int    `json:"edges"`
	Pending int    `json:"pending"`

	Shards []Size `json:"shards"`
	Memory int64  `json:"memory"`          // of a machine
	Fits   int    `json:"fits"`            // fewest shards of those above that fit into it, 0 for none
	Uncut  string `json:"uncut,omitempty"` // why there are not more shards
}

// Size is what each worker takes of a graph of so many shards.
type Size struct {
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

// Sizes answers the question for a model.
func Sizes(m *model.Model, q Question) (s Sizing, err error) {
	s = Sizing{
		Model: m.ID, Encoder: string(m.Meta.Encoder),
		Nodes: q.Load.Nodes, Edges: q.Edges, Pending: min(q.Load.Pending, q.Load.Nodes), Memory: q.Memory,
	}
	if q.Shards < 0 {
		return s, flags.Usagef("--shards %d: give 1 to %d", q.Shards, gnn.MaxSlices)
	}
	for shards := max(q.Shards, 1); ; shards *= 2 {
		slice, err := m.Slice(0, shards)
		switch {
		case err == nil:
		case q.Shards > 0:
			return s, flags.Usagef("--shards %d: %w", q.Shards, err)
		default:
			s.Uncut = err.Error()
			return s, nil
		}
		size, err := q.size(slice, shards)
		if err != nil {
			return s, err
		}
		s.Shards = append(s.Shards, size)
		if s.Fits == 0 && size.Memory <= q.Memory {
			s.Fits = shards
		}
		if q.Shards > 0 || 2*shards > gnn.MaxSlices {
			return s, nil
		}
	}
}

// size computes what each worker takes of a graph of so many shards, given one of the
// model's slices.
func (q Question) size(slice *model.Model, shards int) (s Size, err error) {
	engine, err := pipeline.New(slice, q.Config)
	if err != nil {
		return s, err
	}
	state := engine.Memory(q.Load)
	// A prediction is kept by one shard, and beyond --pending memory in files.
	state.Served = min(state.Served/int64(shards), q.Rows)
	live := state.Total()
	s = Size{
		Shards: shards, State: state, BytesANode: float64(live) / float64(q.Load.Nodes),
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
func (s *Size) exchange(m *model.Model, e *pipeline.Engine) {
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

// Print prints the sizes for people.
func (s Sizing) Print(out io.Writer) error {
	one := s.Shards[0]
	fmt.Fprintf(out, "model %s (%s), %s nodes, %s edges, %s predictions that wait\n\n", s.Model, s.Encoder, look.Grouped(s.Nodes), look.Grouped(s.Edges), look.Grouped(s.Pending))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "SHARDS\tMEMORY EACH\tBYTES A NODE\tVECTORS\tEDGES, IDS\tAROUND\tWAITING\tSENT AN ARRIVAL\tA LABEL\tRECORDS A WINDOW\t")
	each := func(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/float64(s.Nodes)) }
	for _, x := range s.Shards {
		sent, label, records := "-", "-", "-"
		if x.Shards > 1 {
			sent, label, records = look.Grouped(x.ArrivalBytes), look.Grouped(x.LabelBytes), look.Grouped(x.Records)
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

// gigabytes formats a number of bytes in GiB, or MiB if it is less.
func gigabytes(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
