package shards

import (
	"fmt"
	"io"
	"slices"

	"github.com/gvbll/gvbll/gnn/snapshot"
	"github.com/gvbll/gvbll/pipeline"
	"github.com/gvbll/gvbll/pipeline/heads"
	"github.com/gvbll/gvbll/pipeline/serve"
	"github.com/gvbll/gvbll/pipeline/snapshots"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/kernel"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/pipeline/model"
	"github.com/gvbll/gvbll/pipeline/structure"
	"github.com/gvbll/gvbll/posterior"
	"github.com/gvbll/gvbll/posterior/pool"
)

// none is no node and no class.
const none = -1

// Shard is one of the P slices of a graph that is stepped by several processes, or by
// several threads of one. It has the graph's whole structure, its slice of the encoder's
// columns (see [model.Model.Slice]), and the predictions that it served: those of the
// arrivals whose ids hash to it. It does not learn; a [Trainer] does. An [All] is all of
// them in one process, for an audit.
//
// A window is stepped in all shards alike, in this order:
//
//   - Enter applies the window's node events and computes parts of the arrivals'
//     embeddings, which Part returns: one list for each shard, of its arrivals;
//   - Hear sets the soft labels of an earlier window, and joins the window's labels;
//   - Serve adds up the parts of all shards for this shard's arrivals, and predicts these.
//     Rows then has the labels of nodes that this shard predicted, as the trainer needs them.
//
// Windows may enter ahead: Enter and Hear of later windows may be called before Serve of earlier
// ones, see [serve.Entered]. The results are the same.
//
// Nothing that shards must have in common depends on what was served, or on the heads. What
// a shard makes of windows, parts and heads is deterministic, as for an [pipeline.Engine], and
// memory is treated alike.
//
// Counts of events are the same in all shards; shard 0 alone reports them.
type Shard struct {
	model *model.Model
	cfg   pipeline.Config
	share division

	nodes      *structure.Nodes
	pending    *serve.Pending
	predictor  *serve.Predictor
	labels     *serve.Labels
	heads      shardHeads
	softLabels *softLabelExchange // or nil
	sets       []*shardSets       // one with Config.Coverage, or none
	observers  []serve.Observer   // the same
	posterior  event.Hash         // of the heads that serve, see [Heads]

	next     int64       // number of the next window to enter
	chain    serve.Chain // of what was served and reported, and with which heads
	entering bool        // a window has entered that Hear was not called for
	windows  windows
	z        []float32           // embeddings of the arrivals that were served last
	numbers  []int32             // scratch: of own arrivals
	snapshot *snapshots.Snapshot // the open one, or nil
}

// windows are those that have entered, and memory for others.
type windows struct {
	ahead  []*enteredShard // entered and not served, the oldest first
	served *enteredShard   // the window that was served last
	spare  []*enteredShard
}

// enteredShard is a window that a shard has entered.
type enteredShard struct {
	serve.Entered
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

// shardHeads are heads that a trainer learns for. What they read of the graph is gathered when a
// window has entered, and used when it is served: the graph may be ahead by then.
type shardHeads interface {
	heads.Serving
	// gather writes what heads read around nodes. serveGathered predicts these, as Serve does.
	gather(nodes []int32, to *surroundings)
	serveGathered(around *surroundings, rows posterior.Rows, outputs []float32, split []posterior.Uncertainty)
	// gatherPart writes what the batch of a window's labels needs of the graph, for the labels
	// that this shard joined; all are the nodes of the labels that any shard joined, in their
	// order. completePart adds what was served.
	gatherPart(joined []serve.Joined, all []int32, to *pool.Part)
	completePart(b *heads.Batch, to *pool.Part)
	// AppendHeads appends what serve needs of the heads' state, or what the last batch
	// changed of it. SetHeads sets what the trainer's AppendHeads appended.
	AppendHeads(b []byte, change bool) []byte
	SetHeads(b []byte) error
}

// NewShard returns shard p of P of a graph, at window 0. It fails if cfg is invalid, if the
// model's encoder cannot be cut, or if cfg asks for something that shards do not have.
func NewShard(m *model.Model, cfg pipeline.Config, p, P int) (*Shard, error) {
	cfg, err := shardedConfig(cfg, P)
	if err != nil {
		return nil, err
	}
	if m, err = m.Slice(p, P); err != nil {
		return nil, err
	}
	graph := gnn.NewGraph(m.Encoder, cfg.GraphOptions()...)
	s := &Shard{model: m, cfg: cfg, share: division{p, P}, windows: windows{served: newEnteredShard(P)}}
	var by *heads.Pool
	if cfg.ServesPool(m) {
		if by, err = heads.NewPool(m, cfg.Heads(), graph); err != nil {
			return nil, err
		}
		s.heads = pooledShard{by}
	} else {
		s.heads = paperShard{heads.NewPaper(m, cfg.Heads())}
	}
	s.pending = serve.NewPending(m.Prior.Dim, s.heads.Width(), cfg.Waiting())
	s.pending.Reserve(cfg.Reserve / P)
	s.nodes = structure.New(cfg.Structure(m), graph, s.pending)
	s.predictor = serve.NewPredictor(m, s.nodes, s.pending, s.heads)
	s.labels = serve.NewLabels(s.predictor, cfg.MaxWaitingLabels, cfg.Labels)
	if by != nil {
		s.nodes.Follow(by)
		s.softLabels = newSoftLabels(s.nodes, by, P, int64(cfg.LearnLag))
	}
	if cfg.Coverage.Target > 0 {
		sets, err := newShardSets(cfg, m, s.pending)
		if err != nil {
			return nil, err
		}
		s.sets, s.observers = []*shardSets{sets}, []serve.Observer{sets}
	}
	s.posterior, _ = heads.HashOf(s.heads.Heads(), nil)
	return s, nil
}

// shardedConfig returns c with defaults, for P shards. The first label of a node stands: what
// shards learn of a label was served by one of them, and is sent once.
func shardedConfig(c pipeline.Config, P int) (pipeline.Config, error) {
	c.Shards, c.Run, c.Labels = P, nil, serve.FirstStands // shards are stepped beside each other
	c, err := c.WithDefaults()
	switch {
	case err != nil:
		return c, err
	case c.LabelRates != "":
		return c, fmt.Errorf("%d shards serve without rates of labels: leave --label-rates out, or serve with 1 shard", P)
	case c.Rescore.On():
		return c, fmt.Errorf("nodes cannot be predicted again by %d shards: leave --rescore out, or serve with 1 shard", P)
	case c.Act != "":
		return c, fmt.Errorf("shards do not say on which predictions to act: leave --act out, or serve with 1 shard")
	case c.Ask != (serve.Asking{}):
		return c, fmt.Errorf("labels cannot be asked for by %d shards: leave --ask out, or serve with 1 shard", P)
	case c.PartialUpdates:
		return c, fmt.Errorf("events cannot change some of a node's features on %d shards: leave --partial-updates out, or serve with 1 shard", P)
	case c.Keep != structure.Keep{}:
		return c, fmt.Errorf("nodes and edges stay for ever in %d shards: leave --keep out, or serve with 1 shard", P)
	}
	return c, nil
}

// Enter begins window w, whose number must be Next, see [pipeline.Engine.Enter]. The caller must not
// change w until its Serve has returned.
func (s *Shard) Enter(w *event.Window) {
	switch {
	case s.entering:
		panic("shards: Enter called, but Hear is next")
	case w.Number != s.next:
		panic(fmt.Sprintf("shards: window %d, but %d is next", w.Number, s.next))
	}
	s.entering = true
	x := s.room()
	x.Begin(w, s.model.ID)
	s.labels.Prefetch(w.Labels)
	s.nodes.Enter(w.Nodes, x.Out)
	for _, a := range s.nodes.Asked() {
		x.Out.Refuse(a.Node.Origin, event.ImpossibleCommand, "predict: a graph with shards does not predict a node again")
	}
	z, d := s.nodes.Embeddings(), s.model.Prior.Dim
	for i, v := range s.nodes.ToPredict() {
		owner := uint8(s.share.owner(s.nodes.ID(v)))
		x.owner = append(x.owner, owner)
		x.parts[owner] = append(x.parts[owner], z[i*d:(i+1)*d]...)
	}
	s.softLabels.arrived(w.Number, x.owner)
	s.windows.ahead = append(s.windows.ahead, x)
}

func newEnteredShard(P int) *enteredShard { return &enteredShard{parts: make([][]float32, P)} }

// room returns an empty window, which has the memory of an older one.
func (s *Shard) room() *enteredShard {
	last := len(s.windows.spare) - 1
	if last < 0 {
		return newEnteredShard(s.share.of)
	}
	x := s.windows.spare[last]
	s.windows.spare = s.windows.spare[:last]
	for q := range x.parts {
		x.parts[q] = x.parts[q][:0]
	}
	x.owner, x.Removed = x.owner[:0], x.Removed[:0]
	return x
}

// Part returns this shard's part of the embeddings of shard q's arrivals, in canonical
// order, n × d_e, in the window that was entered last. It is valid until that is served; shard q
// may overwrite it.
func (s *Shard) Part(q int) []float32 { return s.windows.ahead[len(s.windows.ahead)-1].parts[q] }

// AppendServed appends the soft labels of this shard's arrivals of the window that was served last,
// for Hear of all shards.
func (s *Shard) AppendServed(b []byte) []byte {
	return s.softLabels.appendOwn(b, s.Serving()-1, len(s.windows.served.Own))
}

// Hear ends the entering of the window that was entered last. served has what AppendServed of all
// shards appended after the window that is [pipeline.Config.LearnLag] + 1 before this one, if there is one;
// it is not read unless shards exchange soft labels.
func (s *Shard) Hear(served [][]byte) error {
	if !s.entering {
		panic("shards: Hear called, but Enter is next")
	}
	x := s.windows.ahead[len(s.windows.ahead)-1]
	if err := s.softLabels.set(s.next, served); err != nil {
		return err
	}
	s.predictor.Await(&x.Entered, func(i int) bool { return int(x.owner[i]) == s.share.slice })
	s.numbers = s.numbers[:0]
	for _, a := range x.Own {
		s.numbers = append(s.numbers, a.Number)
	}
	s.heads.gather(s.numbers, &x.around)
	s.labels.Join(&x.Entered)
	s.heads.gatherPart(x.Joined, x.Labelled, &x.rows.part)
	x.Removed = s.pending.TakeRemoved(x.Removed)
	s.nodes.DropWindow()
	x.Out.Levels = s.labels.Levels()
	s.next++
	s.entering = false
	return nil
}

// Serving returns the number of the next window to serve: of the oldest that has entered, or Next.
func (s *Shard) Serving() int64 {
	if len(s.windows.ahead) == 0 {
		return s.next
	}
	return s.windows.ahead[0].Out.Window
}

// Serve serves the oldest window that has entered, and ends it. Given the parts of all shards for
// this shard's arrivals, in the order of shards, it predicts them with the heads that it was given
// last. heads are those after the batch of the window that is [pipeline.Config.LearnLag] + 1 before this
// one, nil if it had none. Serve overwrites parts.
//
// The outcome has this shard's predictions and refusals. It has no scores. Others may not be sent
// anything of a window that ended with an error.
func (s *Shard) Serve(parts [][]float32, heads *Heads) (*event.Outcome, error) {
	if n := len(s.windows.ahead); n == 0 || n == 1 && s.entering {
		panic("shards: Serve called, but Enter or Hear is next")
	}
	x := s.windows.ahead[0]
	n := len(x.Own) * s.model.Prior.Dim
	if len(parts) != len(x.parts) {
		panic(fmt.Sprintf("shards: parts of %d shards, there are %d", len(parts), len(x.parts)))
	}
	for p, part := range parts {
		if len(part) != n {
			return nil, fmt.Errorf("window %d: the part of shard %d has %d numbers, want %d: it is of another graph", x.Out.Window, p, len(part), n)
		}
	}
	if heads != nil {
		if err := s.setHeads(heads); err != nil {
			return nil, err
		}
	}
	s.z = kernel.Room(s.z, n)
	gnn.SumSlices(s.z, parts)
	s.predictor.Embedded(s.z)
	out, w, rows := x.Out, x.Window, s.predictor.Rows
	s.predictor.Serve(&x.Entered, func(outputs []float32, split []posterior.Uncertainty) {
		s.heads.serveGathered(&x.around, rows, outputs, split)
	})
	for _, o := range s.observers {
		o.Served(&x.Entered)
	}
	out.Labelled = x.rows.labelled[:0]
	s.labels.Collect(&x.Entered, s.observers)
	s.heads.completePart(&s.labels.Batch, &x.rows.part)
	x.rows.Joined, x.rows.labelled, x.rows.arrived = len(x.Labelled), out.Labelled, x.All
	for _, o := range s.sets {
		x.rows.sets, x.rows.imputed = o.Joined, o.imputed
	}
	out.Labelled, out.Posterior = nil, s.posterior
	share := s.share
	out.Refused = slices.DeleteFunc(out.Refused, func(r event.Refusal) bool { return !share.reports(r.Origin) })
	if share.slice > 0 {
		out.Counts, out.UnknownClasses = event.Counts{}, nil
	}
	s.chain.Extend(out)
	for i := range w.Commands {
		if c := &w.Commands[i]; c.Name != event.Forget && share.reports(c.Origin) {
			out.Decline(c)
		}
	}
	s.pending.Release(x.Removed)
	x.Forget()
	s.windows.ahead = slices.Delete(s.windows.ahead, 0, 1)
	s.windows.served, s.windows.spare = x, append(s.windows.spare, s.windows.served)
	return out, s.Err()
}

// Rows returns the labels that the last window joined to predictions of this shard. They are
// valid until the next Serve.
func (s *Shard) Rows() *Rows { return &s.windows.served.rows }

// setHeads sets the heads that serve.
func (s *Shard) setHeads(h *Heads) error {
	if len(h.State) > 0 {
		if err := s.heads.SetHeads(h.State); err != nil {
			return fmt.Errorf("heads of window %d: %w", h.Window, err)
		}
	}
	for _, x := range s.sets {
		if err := x.Predictor.SetThresholds(h.Thresholds); err != nil {
			return fmt.Errorf("heads of window %d: %w", h.Window, err)
		}
	}
	s.posterior = h.Hash
	return nil
}

// Recycle gives an outcome of this shard back, see [pipeline.Engine.Recycle].
func (s *Shard) Recycle(out *event.Outcome) { s.predictor.Recycle(out) }

// Config returns the settings, with defaults filled in.
func (s *Shard) Config() pipeline.Config { return s.cfg }

// Next returns the number of the next window to enter.
func (s *Shard) Next() int64 { return s.next }

// Err is [pipeline.Engine.Err].
func (s *Shard) Err() error { return s.pending.Err() }

// Snapshot begins a snapshot of the shard's state, as [pipeline.Pair.Snapshot] does, for
// [RestoreShard]. It has the tensors of a [pipeline.Snapshot], with its own rows of pending
// predictions alone, and instead of heads and what comes after them
//
//	pending.head           U8    p: the head that served
//	heads.serve            U8    see [Heads]
//	heard.arrivals         I64   × 4: window, shard, number and order of arrival of nodes whose neighbours have
//	                             not heard what was served for them; if there are any
//	sets.given             F64   thresholds from the trainer, if Config.Coverage is set
//	sets.count             I64   1: predictions of all shards
//	sets.served            I64   as above, of its own pending predictions
//
// A trainer's begins with the heads.
func (s *Shard) Snapshot(meta map[string]string) *snapshots.Snapshot {
	return snapshots.Take(meta, snapshots.Under("", savedShard{s}))
}

// RestoreShard returns the shard of a [snapshots.Snapshot] of size bytes, as [pipeline.RestorePair] does.
func RestoreShard(m *model.Model, cfg pipeline.Config, p, P int, r io.ReaderAt, size int64) (*Shard, map[string]string, error) {
	s, err := NewShard(m, cfg, p, P)
	if err != nil {
		return nil, nil, err
	}
	meta, err := snapshots.RestoreAlone(savedShard{s}, m.ID, r, size)
	return s, meta, err
}

// State declares the shard's state without its strings.
func (s savedShard) State(schema *snapshot.Schema) {
	s.predictor.State(schema, s.next, func(id event.ID) bool { return s.share.owner(id) == s.share.slice })
	s.labels.State(schema)
	s.pending.DeclareHeads(schema, "pending.head", uint8(len(s.heads.Heads())-1))
	snapshot.Bytes(schema, "heads.serve", (*headsToServe)(s.Shard))
	s.softLabels.state(schema, s.next)
	for _, o := range s.observers {
		o.State(schema)
	}
}

// headsToServe is the heads of a shard, as bytes.
type headsToServe Shard

// AppendState is for [snapshot.Bytes].
func (h *headsToServe) AppendState(b []byte) []byte { return h.heads.AppendHeads(b, false) }

// SetState is for [snapshot.Bytes].
func (h *headsToServe) SetState(b []byte) error { return h.heads.SetHeads(b) }

// Rest panics if a window has entered and is not served: what its Serve needs is not in a snapshot.
func (s savedShard) Rest() {
	if s.entering || len(s.windows.ahead) > 0 {
		panic("shards: a snapshot before all windows that have entered are served")
	}
}

// Strings returns the shard's strings.
func (s savedShard) Strings() []snapshots.String {
	of := fmt.Sprintf("%d of %d", s.share.slice, s.share.of)
	return append(snapshots.Strings(s.cfg.Settings(), s.model.ID, &s.next, &s.chain.Hash, &s.posterior), snapshots.Fixed("shard", of, "give the snapshot of this shard"))
}

func (s savedShard) Open() **snapshots.Snapshot { return &s.snapshot }

func (s savedShard) AppendBlocks(list []int64) []int64 { return s.pending.AppendBlocks(list) }

// savedShard is a shard as snapshots save it.
type savedShard struct{ *Shard }
