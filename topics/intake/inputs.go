// Package intake turns the input topics of a graph into windows. It fetches and
// decodes ahead of the worker's loop, holds records until a window consumes them, asks
// a [Policy] where the next window ends, and claims the window's records. It returns
// the claimed records as offset ranges, which the ledger keeps; [Inputs.Replay] claims
// the records of such ranges again, however they are divided into blocks by then.
//
// The records of a window have a canonical order: by partition, then by offset.
// So a window depends on its ranges alone.
package intake

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/registry"
	"github.com/gvbll/gvbll/topics/wire"
)

const maxCommands = 1024

// Config names the topics to read, and the bounds on their events.
type Config struct {
	Names topics.Names
	// Limits bound the size of an event; zero fields have defaults.
	Limits wire.Limits
	// Map is the text of the map that turns records of nodes and labels into events, "" for
	// none: see [wire.ParseMap].
	Map string
	// Registry has the schemas that the ledger does not have, nil for none. An owner asks it.
	Registry registry.Source
	Logger   *slog.Logger
	// First says that events are read as by 1.0.0.
	First bool
	// Ahead is how far ahead of the clock an event's time may lie and still be
	// used by policies. Zero means one hour.
	Ahead time.Duration
	// Untimely, if not nil, is called with counts of events whose time a policy could
	// not use: late ones came after their window was closed, early ones lie more than
	// Ahead after the clock.
	Untimely func(topic string, late, early int)
	// Unknown, if not nil, is called for the unknown fields of each block of records,
	// replayed ones too.
	Unknown func(UnknownField)
	// AcceptGap lets the inputs begin, and replay windows, where records are gone that these
	// need. [Inputs.Gap] returns which.
	AcceptGap bool
}

// Inputs are the input topics of one graph. The zero value has no partitions and no
// records. All methods belong to one goroutine, the worker's loop.
//
// The loop receives blocks from the Ready channel of each topic and passes them to
// the same topic's Add. It then asks Cut where a window ends, claims its records by
// Claim, reads them by Gather, and releases their memory by Release. A replay claims
// by Replay instead.
type Inputs struct {
	Nodes    input[event.Node]
	Labels   input[event.Label]
	Commands input[event.Command]
	// Schemas are those by which records are read that a registry's serializers have framed.
	Schemas *registry.Schemas

	unasked   error // the context ended before a schema came that claimed records need
	untimely  func(topic string, late, early int)
	closed    int64      // windows of event time before it are cut, 0 for none
	commanded bool       // the last cut was one of commands, before the policy's turn
	progress  []Progress // memory of times
	lines     []line     // memory of cutInOrder
}

// Open starts to fetch every partition of the three topics: behind a position, or from the
// beginning if that is zero. A position is an error if the logs are not those that it was
// taken of; where only a record tells them apart, reading ends with that error. Fetching ends with
// the context.
func Open(ctx context.Context, c *kafka.Client, cfg Config, p Position) (*Inputs, error) {
	in := &Inputs{untimely: cfg.Untimely, Schemas: registry.New(ctx, cfg.Registry, cfg.Logger, p.Schemas)}
	if err := checkTopics(p.Consumed, cfg.Names.Nodes, cfg.Names.Labels, cfg.Names.Commands); err != nil {
		return nil, err
	}
	nodes, labels := nodeSource(cfg), labelSource(cfg)
	nodes.schemas, labels.schemas = in.Schemas, in.Schemas
	if cfg.Map != "" {
		m, err := wire.ParseMap(cfg.Map)
		if err != nil {
			return nil, fmt.Errorf("the map in the settings: %w", err)
		}
		nodes.mapped, labels.mapped = m, m
	}
	if err := in.Nodes.open(ctx, c, nodes, p); err != nil {
		return nil, err
	}
	if err := in.Labels.open(ctx, c, labels, p); err != nil {
		return nil, err
	}
	return in, in.Commands.open(ctx, c, commandSource(cfg), p)
}

// OpenCommands starts to fetch the commands topic alone, from its beginning.
func OpenCommands(ctx context.Context, c *kafka.Client, cfg Config) (*input[event.Command], error) {
	in := &input[event.Command]{}
	return in, in.open(ctx, c, commandSource(cfg), Position{})
}

func nodeSource(cfg Config) source[event.Node] {
	return sourceOf(cfg, cfg.Names.Nodes, (*wire.Decoder).Node, func(n *event.Node) int64 { return n.Time })
}

func labelSource(cfg Config) source[event.Label] {
	return sourceOf(cfg, cfg.Names.Labels, (*wire.Decoder).Label, func(l *event.Label) int64 { return l.Time })
}

func commandSource(cfg Config) source[event.Command] {
	return sourceOf(cfg, cfg.Names.Commands, (*wire.Decoder).Command, func(*event.Command) int64 { return 0 })
}

func sourceOf[E any](cfg Config, topic string, decode func(*wire.Decoder, *event.Origin, *E) (event.Reason, string),
	at func(*E) int64,
) source[E] {
	return source[E]{
		topic: topic, cell: cfg.Names.Cell, decode: decode, time: at, limits: cfg.Limits, first: cfg.First,
		ahead:   cmp.Or(cfg.Ahead, time.Hour),
		unknown: cfg.Unknown, acceptGap: cfg.AcceptGap,
	}
}

// Cut returns the policy's answer for the window with the given number. If commands
// are held, the answer is a window of them alone, so that the other cuts do not depend
// on commands. After one, it is the policy's turn if it wants a window: commands come
// soon, and no flood of them keeps the stream from being served.
func (in *Inputs) Cut(p Policy, window int64) Cut {
	command := Cut{commands: min(in.Commands.store.held, maxCommands), Cause: "command"}
	if command.commands > 0 && !in.commanded {
		in.commanded = true
		return command
	}
	c := p.Cut(Buffered{Window: window, Nodes: in.Nodes.store.held, Labels: in.Labels.store.held, Waited: in.waited(), Times: in.times})
	if in.closed == 0 || c.Closed > in.closed {
		in.closed = c.Closed
	}
	if command.commands > 0 && c.Cause == "" {
		return command
	}
	in.commanded = false
	if c.InOrder && c.Cause != "" {
		return in.cutInOrder(c)
	}
	return c
}

// AddReady adds the blocks of nodes and labels that are ready, one of each topic, and
// reports whether there was one.
func (in *Inputs) AddReady(now time.Time) (some bool, err error) {
	nodes, err := in.Nodes.addReady(now)
	if err != nil {
		return false, err
	}
	labels, err := in.Labels.addReady(now)
	return nodes || labels, err
}

// Resume is called between a replay and the first Cut. It fetches from all partitions
// again, and closes the event-time windows that the replayed events have closed, so that
// records fetched meanwhile are late for the same windows. If all partitions count as idle,
// because the replay took so long, their events say what is closed.
func (in *Inputs) Resume(p Policy, window int64) {
	in.Schemas.Ask()
	in.Nodes.resume()
	in.Labels.resume()
	in.Commands.resume()
	closed := func(idle bool) int64 {
		return p.Cut(Buffered{Window: window, Times: func() times {
			t := times{Oldest: noTime}
			in.Nodes.addProgress(&t)
			in.Labels.addProgress(&t)
			for i := range t.Partitions {
				if !idle {
					t.Partitions[i].Quiet = 0
				}
			}
			return t
		}}).Closed
	}
	if in.closed = closed(true); in.closed == 0 {
		in.closed = closed(false)
	}
}

func (in *Inputs) waited() time.Duration {
	var oldest time.Time
	if b := in.Nodes.store.oldest(); b != nil {
		oldest = b.chunks[0].at
	}
	if b := in.Labels.store.oldest(); b != nil && (oldest.IsZero() || b.chunks[0].at.Before(oldest)) {
		oldest = b.chunks[0].at
	}
	if oldest.IsZero() {
		return 0
	}
	return time.Since(oldest)
}

// times returns the event times of the held records, valid until the next call.
func (in *Inputs) times() times {
	t := times{Oldest: noTime, Partitions: in.progress[:0]}
	now := time.Now()
	in.Nodes.addTimes(&t, now, in.closed)
	in.Labels.addTimes(&t, now, in.closed)
	in.progress = t.Partitions
	in.reportUntimely(in.Nodes.store.topic, &in.Nodes.late, &in.Nodes.early)
	in.reportUntimely(in.Labels.store.topic, &in.Labels.late, &in.Labels.early)
	return t
}

func (in *Inputs) reportUntimely(topic string, late, early *int) {
	if *late+*early > 0 && in.untimely != nil {
		in.untimely(topic, *late, *early)
	}
	*late, *early = 0, 0
}

// Claim claims the records of a window that Cut returned, and appends their
// offset ranges to ranges.
func (in *Inputs) Claim(c Cut, ranges []ledger.Range) []ledger.Range {
	defer in.Adopt()
	before := len(ranges)
	switch {
	case c.ByTime:
		ranges = in.Labels.store.claimBefore(c.Before, in.Nodes.store.claimBefore(c.Before, ranges))
	case c.InOrder:
		ranges = in.Labels.claimFronts(in.Nodes.claimFronts(ranges))
	default:
		ranges = in.Labels.store.claimOldest(c.Labels, in.Nodes.store.claimOldest(c.Nodes, ranges))
		ranges = in.Commands.store.claimOldest(c.commands, ranges)
	}
	in.Nodes.store.seal(ranges[before:])
	in.Labels.store.seal(ranges[before:])
	in.Commands.store.seal(ranges[before:])
	return ranges
}

// Replay waits until all records of the ranges are fetched, and claims them. After
// an error, some of them may be claimed.
func (in *Inputs) Replay(ctx context.Context, ranges []ledger.Range) error {
	var nodes, labels, commands []ledger.Range
	for _, g := range ranges {
		switch g.Topic {
		case in.Nodes.store.topic:
			nodes = append(nodes, g)
		case in.Labels.store.topic:
			labels = append(labels, g)
		case in.Commands.store.topic:
			commands = append(commands, g)
		}
	}
	if err := checkTopics(ranges, in.Nodes.store.topic, in.Labels.store.topic, in.Commands.store.topic); err != nil {
		return err
	}
	if err := in.Nodes.Replay(ctx, nodes); err != nil {
		return err
	}
	if err := in.Labels.Replay(ctx, labels); err != nil {
		return err
	}
	return in.Commands.Replay(ctx, commands)
}

// checkTopics returns an error if ranges of a ledger or a checkpoint are of other topics
// than the inputs, which are given.
func checkTopics(ranges []ledger.Range, inputs ...string) error {
	for _, g := range ranges {
		if !slices.Contains(inputs, g.Topic) {
			return fmt.Errorf("the ledger reads topic %.300s, and the inputs are %s: give that topic with "+
				"--nodes-topic, --labels-topic or --inputs-prefix", g.Topic, strings.Join(inputs, ", "))
		}
	}
	return nil
}

// Gather puts the claimed events into w, in canonical order, and the records that
// cannot be decoded into its refusals. They are valid until Release.
func (in *Inputs) Gather(w *event.Window) {
	w.Nodes, w.Refused = in.Nodes.Gather(w.Nodes[:0], w.Refused[:0])
	w.Labels = w.Labels[:0]
	if slices.ContainsFunc(w.Nodes, func(n event.Node) bool { return n.Also != nil }) {
		spread(w)
	}
	w.Labels, w.Refused = in.Labels.Gather(w.Labels, w.Refused)
	w.Commands, w.Refused = in.Commands.Gather(w.Commands[:0], w.Refused)
}

// spread puts the further events of records behind their first nodes.
func spread(w *event.Window) {
	nodes := w.Nodes
	w.Nodes = make([]event.Node, 0, 2*len(nodes))
	for _, n := range nodes {
		also := n.Also
		n.Also = nil
		if w.Nodes = append(w.Nodes, n); also != nil {
			w.Nodes, w.Labels = append(w.Nodes, also.Nodes...), append(w.Labels, also.Labels...)
		}
	}
}

// Release releases the memory of the claimed records.
func (in *Inputs) Release() {
	in.Nodes.Release()
	in.Labels.Release()
	in.Commands.Release()
}

// Offsets sets the lowest offset that no window had consumed when they were claimed, for every
// partition of the claimed records, or for all.
func (in *Inputs) Offsets(offsets map[kafka.TopicPartition]int64, all bool) {
	in.Nodes.offsets(offsets, all)
	in.Labels.offsets(offsets, all)
	in.Commands.offsets(offsets, all)
}

// Lag calls report for each topic, with the number of its committed records that no
// window has consumed, and of those that readers do not get yet because of a transaction
// that a producer has not ended.
func (in *Inputs) Lag(report func(topic string, records, withheld int64)) {
	report(in.Nodes.store.topic, in.Nodes.lag(), in.Nodes.withheld())
	report(in.Labels.store.topic, in.Labels.lag(), in.Labels.withheld())
	report(in.Commands.store.topic, in.Commands.lag(), in.Commands.withheld())
}
