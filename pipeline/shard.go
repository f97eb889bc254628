package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior/pool"
)

// Shard is one of the P slices of a graph that is stepped by several processes, or by
// several threads of one. It has the graph's whole structure, its slice of the encoder's
// columns (see [model.Model.Slice]), and the predictions that it served: those of the
// arrivals whose ids hash to it. It does not learn; a [Lead] does. A [Sharded] is all of
// them in one process.
//
// A window is stepped in all shards alike, in this order:
//
//   - Enter applies the window's node events and computes parts of the arrivals'
//     embeddings, which Part returns: one list for each shard, of its arrivals;
//   - Serve adds up the parts of all shards for this shard's arrivals, predicts these, and
//     joins labels. Rows then has the labels of nodes that this shard predicted, as the
//     lead needs them.
//
// Nothing that shards must have in common depends on what was served, or on the heads. What
// a shard makes of windows, parts and heads is deterministic, as for an [Engine], and
// memory is treated alike.
//
// Counts of events are the same in all shards; shard 0 alone reports them.
type Shard struct {
	base
	heads     sliced
	heard     heard
	sets      []*shardSets // one with Config.Coverage, or none
	observers []observer   // the same
	posterior event.Hash   // of the heads that serve, see [Heads]

	parts    [][]float32 // of the window's embeddings, by the shard that predicts the node
	owner    []uint8     // by arrival to predict: that shard
	own      []int32     // the numbers of this shard's arrivals
	z        []float32   // their embeddings
	rows     Rows
	recycled []event.Labelled // the memory of rows.labelled
}

// sliced is a serving whose heads may be learned elsewhere.
type sliced interface {
	serving
	// preparePart is prepare for a part of the batch that all slices make together, whose
	// nodes are all, in their order. It sets to.Positions too.
	preparePart(b *batch, all []int32, to *pool.Part)
	// appendHeads appends what serve needs of the heads' state, or what the last batch
	// changed of it. setHeads sets what appendHeads of the learning heads appended.
	appendHeads(b []byte, change bool) []byte
	setHeads(b []byte) error
}

// NewShard returns shard p of P of a graph, at window 0. It fails if cfg is invalid, if the
// model's encoder cannot be cut, or if cfg asks for something that shards do not have.
func NewShard(m *model.Model, cfg Config, p, P int) (*Shard, error) {
	cfg, err := cfg.sharded(P)
	if err != nil {
		return nil, err
	}
	if m, err = m.Slice(p, P); err != nil {
		return nil, err
	}
	graph := gnn.NewGraph(m.Encoder, cfg.graphOptions()...)
	s := &Shard{parts: make([][]float32, P)}
	if cfg.servesPool(m) {
		by, err := newPooled(m, cfg, graph)
		if err != nil {
			return nil, err
		}
		s.heads = pooledShard{by}
		s.base = newBase(m, cfg, share{p, P}, graph, s.heads)
		s.nodes.followers = append(s.nodes.followers, by)
		s.heard = newHearing(s.nodes, by, P, int64(cfg.LearnLag))
	} else {
		s.heads, s.heard = newPaper(m, cfg), notHearing{}
		s.base = newBase(m, cfg, share{p, P}, graph, s.heads)
	}
	if cfg.Coverage.Target > 0 {
		sets, err := newShardSets(cfg, s.nodes, s.pending)
		if err != nil {
			return nil, err
		}
		s.sets, s.observers = []*shardSets{sets}, []observer{sets}
	}
	s.posterior, s.buffer = hashOf(s.heads.heads(), s.buffer)
	return s, nil
}

// sharded returns c with defaults, for P shards.
func (c Config) sharded(P int) (Config, error) {
	c.Shards = P
	c, err := c.WithDefaults()
	switch {
	case err != nil:
		return c, err
	case c.Rescore.on():
		return c, fmt.Errorf("nodes cannot be predicted again by %d shards: leave --rescore out, or serve with 1 shard", P)
	case c.Coverage.MaxOutside > 0:
		return c, fmt.Errorf("%d shards do not see all embeddings, with which outliers are compared: leave outside out of --abstain, or serve with 1 shard", P)
	}
	return c, nil
}

// Enter begins window w, whose number must be Next, see [Engine.Enter]. The caller must not
// change w until Serve has returned.
func (s *Shard) Enter(w *event.Window) {
	if s.window != nil {
		panic("pipeline: Enter called, but Serve is next")
	}
	s.enter(w)
	a, d := &s.nodes.arrivals, s.model.Prior.Dim
	for q := range s.parts {
		s.parts[q] = s.parts[q][:0]
	}
	s.own, s.owner = s.own[:0], s.owner[:0]
	i := 0
	for _, x := range a.accepted {
		if !x.toPredict {
			continue
		}
		s.owner = append(s.owner, x.owner)
		s.parts[x.owner] = append(s.parts[x.owner], a.z[i*d:(i+1)*d]...)
		if int(x.owner) == s.nodes.share.slice {
			s.own = append(s.own, x.number)
		}
		i++
	}
	s.heard.arrived(w.Number, s.owner)
}

// Part returns this shard's part of the embeddings of shard q's arrivals, in canonical
// order, n × d_e. It is valid until the next Enter; shard q may overwrite it.
func (s *Shard) Part(q int) []float32 { return s.parts[q] }

// Hears reports whether shards tell each other what they served: whether Serve wants served,
// and AppendServed has something.
func (s *Shard) Hears() bool { return s.heard.hears() }

// AppendServed appends what this shard's arrivals of the last window count for at their
// neighbours, as Serve of all shards wants it.
func (s *Shard) AppendServed(b []byte) []byte { return s.heard.appendOwn(b, s.next-1) }

// Serve ends the window. Given the parts of all shards for this shard's arrivals, in the
// order of shards, it predicts them with the heads that it was given last.
//
// What served and heads are of is the window that is [Config.LearnLag] + 1 before this one, if
// there is one. served has what AppendServed of all shards appended after it; it is not read
// if shards do not hear. heads are those after its batch, nil if it had none. Serve overwrites
// parts.
//
// The outcome has this shard's predictions and refusals. It has no scores.
func (s *Shard) Serve(parts [][]float32, served [][]byte, heads *Heads) (*event.Outcome, error) {
	if s.window == nil {
		panic("pipeline: Serve called, but Enter is next")
	}
	n := len(s.own) * s.model.Prior.Dim
	if len(parts) != len(s.parts) {
		panic(fmt.Sprintf("pipeline: parts of %d shards, there are %d", len(parts), len(s.parts)))
	}
	for p, part := range parts {
		if len(part) != n {
			return nil, fmt.Errorf("window %d: the part of shard %d has %d numbers, want %d: it is of another graph", s.next, p, len(part), n)
		}
	}
	if heads != nil {
		if err := s.setHeads(heads); err != nil {
			return nil, err
		}
	}
	if err := s.heard.set(s.next, served); err != nil {
		return nil, err
	}
	s.z = kernel.Room(s.z, n)
	gnn.SumSlices(s.z, parts)
	s.nodes.embedded(s.own, s.z)
	out, w := s.out, s.window
	s.predictor.serve(out)
	for _, o := range s.observers {
		o.served(out)
	}
	out.Labelled = s.recycled[:0]
	s.labels.join(w.Labels, s.observers, out)
	s.rows.Joined, s.rows.labelled, s.rows.arrived = len(s.labels.all), out.Labelled, len(s.owner)
	for _, x := range s.sets {
		s.rows.sets, s.rows.imputed = x.joined, x.imputed
	}
	s.heads.preparePart(&s.labels.batch, s.labels.all, &s.rows.part)
	s.recycled, out.Labelled = out.Labelled, nil
	share := s.nodes.share
	out.Posterior = s.posterior
	s.end()
	out.Refused = slices.DeleteFunc(out.Refused, func(r event.Refusal) bool { return !share.reports(r.Origin) })
	if share.slice > 0 {
		out.Counts, out.UnknownClasses = event.Counts{}, nil
	}
	s.extendChain(out)
	for i := range w.Commands {
		if c := &w.Commands[i]; c.Name != event.Forget && share.reports(c.Origin) {
			decline(c, out)
		}
	}
	return out, nil
}

// Rows returns the labels that the last window joined to predictions of this shard. They are
// valid until the next Serve.
func (s *Shard) Rows() *Rows { return &s.rows }

// setHeads sets the heads that serve.
func (s *Shard) setHeads(h *Heads) error {
	if len(h.State) > 0 {
		if err := s.heads.setHeads(h.State); err != nil {
			return fmt.Errorf("heads of window %d: %w", h.Window, err)
		}
	}
	for _, x := range s.sets {
		if err := x.predictor.SetThresholds(h.Thresholds); err != nil {
			return fmt.Errorf("heads of window %d: %w", h.Window, err)
		}
	}
	s.posterior = h.Hash
	return nil
}

// Recycle gives an outcome of this shard back, see [Engine.Recycle].
func (s *Shard) Recycle(out *event.Outcome) { s.predictor.recycle(out) }
