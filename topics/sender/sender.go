// Package sender streams a data set into the topics of a graph, as an
// application would: nodes in the order of their arrival, labels when they are
// due.
package sender

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// Stream is a data set in the order of its arrival.
type Stream struct {
	Context []Item   // sent first, and then their labels; they get no prediction
	Steps   [][]Item // the batches ΔV_t
}

// Item is a node and its class.
type Item struct {
	Node  event.Node
	Class string // "" for a node without a label
	// Wait is after how many further steps the label comes, or of the context after how many steps; LabelTime, unless 0, is its event time.
	Wait      int
	LabelTime int64
}

// Due returns the items whose labels come with the context and after each step, each late steps later than it says
// unless it is of the context: so it may go on after the last step.
func (s *Stream) Due(late int) [][]Item {
	due := make([][]Item, len(s.Steps)+1)
	late = min(late, len(s.Steps)) // later there is no step
	for at, items := range append([][]Item{s.Context}, s.Steps...) {
		for _, item := range items {
			when := at + item.Wait
			if at > 0 {
				when += late
			}
			for len(due) <= when {
				due = append(due, nil)
			}
			due[when] = append(due[when], item)
		}
	}
	for _, items := range due {
		slices.SortStableFunc(items, func(a, b Item) int { return cmp.Compare(a.LabelTime, b.LabelTime) })
	}
	return due
}

// Timed reports whether labels come at times of their own.
func (s *Stream) Timed() bool {
	waits := func(items []Item) bool {
		return slices.ContainsFunc(items, func(i Item) bool { return i.Wait > 0 })
	}
	return waits(s.Context) || slices.ContainsFunc(s.Steps, waits)
}

// Labelled returns the number of items that have a label.
func Labelled(items []Item) (n int) {
	for i := range items {
		if items[i].Class != "" {
			n++
		}
	}
	return n
}

// Events returns the number of node events.
func (s *Stream) Events() int {
	n := len(s.Context)
	for _, step := range s.Steps {
		n += len(step)
	}
	return n
}

// Timing says when labels are sent.
type Timing string

const (
	// Never sends nodes only.
	Never Timing = "never"
	// Delayed sends a label Delay node events after its node; in a stream that is timed, labels after the steps as Due has them.
	Delayed Timing = "delayed"
	// Predicted sends a step's labels once that step and Delay further steps have
	// their predictions.
	Predicted Timing = "predicted"
)

// Config configures Run.
type Config struct {
	Names  topics.Names
	Labels Timing
	Delay  int     // node events (Delayed) or steps (Predicted)
	Rate   float64 // node events per second, 0 for no limit
	// ContextAtOnce sends the context as fast as it goes: Rate is of the steps then.
	ContextAtOnce bool
	// Resume skips events that the topics have already, so that a sender that was
	// killed can be continued.
	Resume bool
	// Now gives every event the time at which it is sent. Without it nodes have those of the
	// items, and a label that of the node that was sent last.
	Now bool
	// Loop sends the steps again and again until ctx ends, as again says. The context is sent at
	// once.
	Loop bool
	// By decides the cells of nodes, nil in a graph that is not divided.
	By *CellBy
	// Progress, if not nil, is called with the numbers of events sent so far.
	Progress func(nodes, labels int)
}

// maxBurst is the number of node events that are sent in one request.
const maxBurst = 500

// Run sends the stream and returns when every event is acknowledged. While no broker answers it
// waits, and may then send some events twice.
func Run(ctx context.Context, c *kafka.Client, s *Stream, cfg Config) error {
	partitions, err := c.Partitions(ctx, cfg.Names.All()...)
	if err != nil {
		return err
	}
	for _, t := range []string{cfg.Names.Nodes, cfg.Names.Labels} {
		if partitions[t] == 0 {
			return fmt.Errorf("topic %s does not exist: run 'gvbll topics --create' first", t)
		}
	}
	producer, err := c.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	r := &run{
		cfg: cfg, producer: producer, partitions: partitions, pace: newPace(cfg.Rate),
		sentNodes: make(map[string]bool), sentLabels: make(map[string]bool), hasPrediction: make(map[string]bool),
	}
	if cfg.Loop || cfg.ContextAtOnce {
		r.pace = newPace(0)
	}
	if cfg.Resume {
		if err := addKeys(ctx, c, cfg.Names.Nodes, r.sentNodes); err != nil {
			return err
		}
		if err := addKeys(ctx, c, cfg.Names.Labels, r.sentLabels); err != nil {
			return err
		}
	}
	if err := r.nodes(ctx, s.Context); err != nil {
		return err
	}
	if cfg.Labels != Never {
		if err := r.labels(ctx, s.Due(0)[0]); err != nil {
			return err
		}
	}
	var predictions *kafka.Reader
	if cfg.Labels == Predicted {
		bounds, err := c.Offsets(ctx, cfg.Names.Predictions)
		if err != nil {
			return err
		}
		predictions = c.NewReader(kafka.Firsts(bounds), kafka.ReaderConfig{})
	}
	r.pace = newPace(cfg.Rate)
	if cfg.Loop {
		return r.loop(ctx, predictions, s)
	}
	return r.steps(ctx, predictions, s)
}

// steps sends nodes and labels, with predictions as Predicted says, and else as Delayed.
func (r *run) steps(ctx context.Context, predictions *kafka.Reader, s *Stream) error {
	if predictions != nil || r.cfg.Labels == Delayed && s.Timed() {
		return r.predicted(ctx, predictions, s)
	}
	return r.delayed(ctx, s.Steps)
}

// run is the state of one Run.
type run struct {
	cfg                   Config
	producer              *kafka.Producer
	partitions            map[string]int // by topic
	pace                  pace           // of the node events
	nodesSent, labelsSent int            // including those already in the topics
	time                  int64          // event time of the node that was sent last, 0 if it has none

	// Record keys of events already in the topics, and of nodes whose prediction
	// was read before await asked for it.
	sentNodes, sentLabels, hasPrediction map[string]bool
}

// addKeys adds the keys of all committed records of a topic to keys.
func addKeys(ctx context.Context, c *kafka.Client, topic string, keys map[string]bool) error {
	return c.ReadAll(ctx, topic, func(r *kafka.Record) { keys[string(r.Key)] = true })
}

// delayed sends all nodes, and each label Delay nodes after its own.
func (r *run) delayed(ctx context.Context, steps [][]Item) error {
	var due []Item
	for _, step := range steps {
		for len(step) > 0 {
			burst := step[:min(len(step), maxBurst)]
			step = step[len(burst):]
			if err := r.nodes(ctx, burst); err != nil {
				return err
			}
			if r.cfg.Labels == Never {
				continue
			}
			due = append(due, burst...)
			if n := len(due) - r.cfg.Delay; n > 0 {
				if err := r.labels(ctx, due[:n]); err != nil {
					return err
				}
				due = due[n:]
			}
		}
	}
	return r.labels(ctx, due)
}

// predicted sends the nodes of each step, waits for their predictions if it can read them, and sends the labels that
// are due then. Those that are not due after the last step follow at the end.
func (r *run) predicted(ctx context.Context, predictions *kafka.Reader, s *Stream) error {
	for t, due := range s.Due(r.cfg.Delay)[1:] {
		if t < len(s.Steps) {
			if err := r.nodes(ctx, s.Steps[t]); err != nil {
				return err
			}
			if predictions != nil {
				if err := r.await(ctx, predictions, s.Steps[t]); err != nil {
					return err
				}
			}
		}
		if err := r.labels(ctx, due); err != nil {
			return err
		}
	}
	return nil
}

// await reads predictions until every node of the step has one.
func (r *run) await(ctx context.Context, predictions *kafka.Reader, step []Item) error {
	for i := range step {
		key := string(wire.AppendKey(nil, step[i].Node.ID))
		for !r.hasPrediction[key] {
			records, err := predictions.Poll(ctx)
			if err != nil {
				return err
			}
			for _, p := range records {
				r.hasPrediction[string(p.Key)] = true
			}
		}
		delete(r.hasPrediction, key)
	}
	return nil
}

// nodes sends node events in bursts, at the configured rate.
func (r *run) nodes(ctx context.Context, items []Item) error {
	for len(items) > 0 {
		n := r.pace.burst(len(items))
		if err := r.pace.wait(ctx); err != nil {
			return err
		}
		records := make([]kafka.Record, 0, n)
		for i := range items[:n] {
			n := items[i].Node
			key := wire.AppendKey(nil, n.ID)
			r.time = n.Time
			if r.sentNodes[string(key)] {
				continue
			}
			n.Time = r.at(n.Time)
			record, err := r.record(r.cfg.Names.Nodes, &n, key, wire.AppendNode(nil, &n))
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		if err := r.send(ctx, records); err != nil {
			return err
		}
		r.pace.sent += len(records)
		r.nodesSent += n
		items = items[n:]
		r.progress()
	}
	return nil
}

// labels sends the labels that items have, except for those already in the topic.
func (r *run) labels(ctx context.Context, items []Item) error {
	records := make([]kafka.Record, 0, len(items))
	for i := range items {
		key := wire.AppendKey(nil, items[i].Node.ID)
		if items[i].Class == "" || r.sentLabels[string(key)] {
			continue
		}
		l := event.Label{Node: items[i].Node.ID, Class: items[i].Class, Time: r.at(cmp.Or(items[i].LabelTime, r.time))}
		record, err := r.record(r.cfg.Names.Labels, &items[i].Node, key, wire.AppendLabel(nil, &l))
		if err != nil {
			return err
		}
		records = append(records, record)
	}
	if err := r.send(ctx, records); err != nil {
		return err
	}
	r.labelsSent += Labelled(items)
	r.progress()
	return nil
}

// at returns the event time of an event of which the items have another.
func (r *run) at(given int64) int64 {
	if r.cfg.Now {
		return time.Now().UnixMilli()
	}
	return given
}

// record returns the record of an event of a node.
func (r *run) record(topic string, of *event.Node, key, value []byte) (kafka.Record, error) {
	partition, err := r.cfg.By.ofNode(of, key, r.partitions[topic])
	return kafka.Record{Topic: topic, Partition: partition, Key: key, Value: value, Time: time.Now()}, err
}

func (r *run) send(ctx context.Context, records []kafka.Record) error {
	if len(records) == 0 {
		return nil
	}
	return r.producer.SendAgain(ctx, records)
}

func (r *run) progress() {
	if r.cfg.Progress != nil {
		r.cfg.Progress(r.nodesSent, r.labelsSent)
	}
}
