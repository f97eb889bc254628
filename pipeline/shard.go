package pipeline

import (
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/posterior"
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
//   - Hear sets what all shards served some windows before, and joins the window's labels;
//   - Serve adds up the parts of all shards for this shard's arrivals, and predicts these.
//     Rows then has the labels of nodes that this shard predicted, as the lead needs them.
//
// Windows may enter ahead: Enter and Hear of later windows may be called before Serve of earlier
// ones, see [entered]. The results are the same.
//
// Nothing that shards must have in common depends on what was served, or on the heads. What
// a shard makes of windows, parts and heads is deterministic, as for an [Engine], and
// memory is treated alike.
//
// Counts of events are the same in all shards; shard 0 alone reports them.
type Shard struct {
	base
	share     share
	heads     sliced
	heard     heard
	sets      []*shardSets // one with Config.Coverage, or none
	observers []observer   // the same
	posterior event.Hash   // of the heads that serve, see [Heads]

	ahead   []*enteredShard // entered and not served, the oldest first
	served  *enteredShard   // the window that was served last
	spare   []*enteredShard // memory of others
	z       []float32       // embeddings of the arrivals that were served last
	numbers []int32         // scratch: of own arrivals
}

// enteredShard is a window that a shard has entered.
type enteredShard struct {
	entered
	heard  bool        // Hear was called
	parts  [][]float32 // of the embeddings, by the shard that predicts the node
	owner  []uint8     // by arrival to predict: that shard
	around surroundings
	rows   Rows
}

// surroundings are what heads read around the own arrivals of a window, in chunks.
type surroundings struct {
	chunks []*pool.Rows
	n      int // how many of them are used
}

// next returns one more chunk.
func (s *surroundings) next() *pool.Rows {
	if s.n == len(s.chunks) {
		s.chunks = append(s.chunks, &pool.Rows{})
	}
	s.n++
	return s.chunks[s.n-1]
}

// sliced is a serving whose heads may be learned elsewhere. What depends on the graph is gathered
// when a window has entered, and used when it is served.
type sliced interface {
	serving
	// gather writes what heads read around nodes, and serveGathered predicts these as serve
	// does.
	gather(nodes []int32, to *surroundings)
	serveGathered(around *surroundings, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty)
	// gatherPart is what prepare reads of the graph, for a part of the batch that all slices
	// make together, whose nodes are all, in their order. completePart adds what was served.
	gatherPart(joined []joined, all []int32, to *pool.Part)
	completePart(b *batch, to *pool.Part)
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
	s := &Shard{share: share{p, P}, served: newEnteredShard(P)}
	if cfg.servesPool(m) {
		by, err := newPooled(m, cfg, graph)
		if err != nil {
			return nil, err
		}
		s.heads = pooledShard{by}
		s.base = newBase(m, cfg, s.share, P, graph, s.heads)
		s.nodes.Follow(by)
		s.heard = newHearing(s.nodes, by, P, int64(cfg.LearnLag))
	} else {
		s.heads, s.heard = newPaper(m, cfg), notHearing{}
		s.base = newBase(m, cfg, s.share, P, graph, s.heads)
	}
	if cfg.Coverage.Target > 0 {
		sets, err := newShardSets(cfg, m, s.pending)
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
	c.Shards, c.Run = P, nil // shards are stepped beside each other
	c, err := c.WithDefaults()
	switch {
	case err != nil:
		return c, err
	case c.Rescore.on():
		return c, fmt.Errorf("nodes cannot be predicted again by %d shards: leave --rescore out, or serve with 1 shard", P)
	}
	return c, nil
}

// Enter begins window w, whose number must be Next, see [Engine.Enter]. The caller must not
// change w until its Serve has returned.
func (s *Shard) Enter(w *event.Window) {
	if s.now != nil {
		panic("pipeline: Enter called, but Hear is next")
	}
	x := s.room()
	s.enter(w, &x.entered)
	z, d := s.nodes.Embeddings(), s.model.Prior.Dim
	for i, v := range s.nodes.ToPredict() {
		owner := uint8(s.share.owner(s.nodes.ID(v)))
		x.owner = append(x.owner, owner)
		x.parts[owner] = append(x.parts[owner], z[i*d:(i+1)*d]...)
	}
	s.heard.arrived(w.Number, x.owner)
	s.ahead = append(s.ahead, x)
}

func newEnteredShard(P int) *enteredShard { return &enteredShard{parts: make([][]float32, P)} }

// room returns an empty window, which has the memory of an older one.
func (s *Shard) room() *enteredShard {
	last := len(s.spare) - 1
	if last < 0 {
		return newEnteredShard(s.share.of)
	}
	x := s.spare[last]
	s.spare = s.spare[:last]
	for q := range x.parts {
		x.parts[q] = x.parts[q][:0]
	}
	x.heard, x.owner, x.removed = false, x.owner[:0], x.removed[:0]
	return x
}

// Part returns this shard's part of the embeddings of shard q's arrivals, in canonical
// order, n × d_e, in the window that was entered last. It is valid until that is served; shard q
// may overwrite it.
func (s *Shard) Part(q int) []float32 { return s.ahead[len(s.ahead)-1].parts[q] }

// Hears reports whether shards tell each other what they served: whether Hear wants served,
// and AppendServed has something.
func (s *Shard) Hears() bool { return s.heard.hears() }

// AppendServed appends what this shard's arrivals of the window that was served last count for at
// their neighbours, as Hear of all shards wants it.
func (s *Shard) AppendServed(b []byte) []byte {
	return s.heard.appendOwn(b, s.Serving()-1, len(s.served.own))
}

// Hear ends the entering of the window that was entered last. served has what AppendServed of all
// shards appended after the window that is [Config.LearnLag] + 1 before this one, if there is one;
// it is not read if shards do not hear.
func (s *Shard) Hear(served [][]byte) error {
	if s.now == nil {
		panic("pipeline: Hear called, but Enter is next")
	}
	x := s.ahead[len(s.ahead)-1]
	if err := s.heard.set(s.next, served); err != nil {
		return err
	}
	s.predictor.await(&x.entered)
	s.numbers = s.numbers[:0]
	for _, a := range x.own {
		s.numbers = append(s.numbers, a.number)
	}
	s.heads.gather(s.numbers, &x.around)
	s.labels.join(&x.entered)
	s.heads.gatherPart(x.joined, x.labelled, &x.rows.part)
	x.removed = s.pending.takeRemoved(x.removed)
	s.end()
	x.heard = true
	return nil
}

// Serving returns the number of the next window to serve: of the oldest that has entered, or Next.
func (s *Shard) Serving() int64 {
	if len(s.ahead) == 0 {
		return s.next
	}
	return s.ahead[0].out.Window
}

// Serve serves the oldest window that has entered, and ends it. Given the parts of all shards for
// this shard's arrivals, in the order of shards, it predicts them with the heads that it was given
// last. heads are those after the batch of the window that is [Config.LearnLag] + 1 before this
// one, nil if it had none. Serve overwrites parts.
//
// The outcome has this shard's predictions and refusals. It has no scores.
func (s *Shard) Serve(parts [][]float32, heads *Heads) (*event.Outcome, error) {
	if len(s.ahead) == 0 || !s.ahead[0].heard {
		panic("pipeline: Serve called, but Enter or Hear is next")
	}
	x := s.ahead[0]
	n := len(x.own) * s.model.Prior.Dim
	if len(parts) != len(x.parts) {
		panic(fmt.Sprintf("pipeline: parts of %d shards, there are %d", len(parts), len(x.parts)))
	}
	for p, part := range parts {
		if len(part) != n {
			return nil, fmt.Errorf("window %d: the part of shard %d has %d numbers, want %d: it is of another graph", x.out.Window, p, len(part), n)
		}
	}
	if heads != nil {
		if err := s.setHeads(heads); err != nil {
			return nil, err
		}
	}
	s.z = kernel.Room(s.z, n)
	gnn.SumSlices(s.z, parts)
	s.predictor.embedded(s.z)
	out, w, rows := x.out, x.window, s.predictor.rows
	s.predictor.serve(&x.entered, func(outputs []float32, split []posterior.Uncertainty) {
		s.heads.serveGathered(&x.around, rows, outputs, split)
	})
	for _, o := range s.observers {
		o.served(&x.entered)
	}
	out.Labelled = x.rows.labelled[:0]
	s.labels.collect(&x.entered, s.observers)
	s.heads.completePart(&s.labels.batch, &x.rows.part)
	x.rows.Joined, x.rows.labelled, x.rows.arrived = len(x.labelled), out.Labelled, x.all
	for _, o := range s.sets {
		x.rows.sets, x.rows.imputed = o.joined, o.imputed
	}
	out.Labelled, out.Posterior = nil, s.posterior
	share := s.share
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
	s.pending.release(x.removed)
	x.forget()
	s.ahead = slices.Delete(s.ahead, 0, 1)
	s.served, s.spare = x, append(s.spare, s.served)
	return out, nil
}

// Rows returns the labels that the last window joined to predictions of this shard. They are
// valid until the next Serve.
func (s *Shard) Rows() *Rows { return &s.served.rows }

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
