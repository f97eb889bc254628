package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvbll/gvbll/charts/metrics"
	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

const (
	// remembered is for how long a call that comes again gets the same answer.
	remembered = 10 * time.Minute
	// mostCalls and mostBytes bound the calls that wait and their events, mostAnswers the answers that are kept in memory; others
	// are found in the topic.
	mostCalls   = 1024
	mostBytes   = 32 << 20
	mostAnswers = 1 << 14
	// settle is how long, beside a commit interval, the prediction of a node that is in the graph may take to be committed.
	settle = 2 * time.Second
	// recount is how often the partitions of the predictions are counted.
	recount = 30 * time.Second
)

// desk is a [page.Desk]: it sends events to the nodes topic as their producer would, and reads the predictions as any
// consumer would. So it needs nothing of the worker beside it, which may be a standby, and an answer is what the topic has.
type desk struct {
	client    *kafka.Client
	names     topics.Names
	log       *slog.Logger
	decoder   func() *wire.Decoder
	classes   func() []string // of the model that serves
	interval  atomic.Int64    // between commits, nanoseconds
	committed atomic.Int64    // windows, of the worker beside it; that of a standby has only such
	sends     chan sending
	searching chan struct{} // holds one element while the topic is searched
	calls     *metrics.Calls

	mu      sync.Mutex
	waiting map[string][]*call // by record key
	count   int                // of calls in waiting
	bytes   int                // of their events
	answers map[event.ID]answer
	order   []event.ID // of answers, as they came
	outputs int        // partitions of the predictions
}

// call waits for the prediction of a node.
type call struct {
	id    event.ID
	bytes int                // of its event
	done  chan page.Decision // holds one
}

type answer struct {
	page.Decision
	at time.Time
}

// sending is a record to be sent.
type sending struct {
	record kafka.Record
	sent   chan error // holds one
}

func newDesk(ctx context.Context, c *kafka.Client, set Setup, classes func() []string) (*desk, error) {
	if err := c.MayWrite(ctx, set.Names.Nodes); err != nil {
		return nil, fmt.Errorf("--decide: %w", err)
	}
	var m *wire.Map
	if set.Config.Reading.Map != "" {
		var err error
		if m, err = wire.ParseMap(set.Config.Reading.Map); err != nil {
			return nil, err
		}
	}
	d := &desk{
		client: c, names: set.Names, log: set.Process.Log, classes: classes,
		decoder: func() *wire.Decoder { return &wire.Decoder{Map: m, First: set.Config.Reading.First} },
		sends:   make(chan sending, mostCalls), searching: make(chan struct{}, 1),
		waiting: make(map[string][]*call), answers: make(map[event.ID]answer),
		calls: metrics.NewCalls(set.Web.Registry),
	}
	d.committed.Store(math.MaxInt64)
	return d, nil
}

// Decode implements [page.Desk]: an event that adds nodes which get no prediction, or several, is refused.
func (d *desk) Decode(body []byte) (n *event.Node, reason event.Reason, detail string) {
	n, reason, detail = decodeBy(d.decoder(), body)
	if reason == "" && (n.Context || n.Also != nil) {
		return n, event.BadFeatures, "send one node that is to be predicted"
	}
	return n, reason, detail
}

// Decide implements [page.Desk].
func (d *desk) Decide(ctx context.Context, id event.ID, body []byte, known bool, windows int64) (page.Decision, error) {
	began := time.Now()
	found, result, err := d.decide(ctx, id, body, known, windows)
	d.calls.Ended(result, time.Since(began), err == nil)
	return found, err
}

func (d *desk) decide(ctx context.Context, id event.ID, body []byte, known bool, windows int64) (_ page.Decision, result string, err error) {
	key := wire.AppendKey(nil, id)
	c := &call{id: id, bytes: len(body), done: make(chan page.Decision, 1)}
	first, err := d.begin(string(key), c)
	if err != nil {
		return page.Decision{}, "busy", err
	}
	defer d.end(string(key), c)
	var sent, searched chan error
	search := func() {
		found := make(chan error, 1)
		searched = found
		go func() { found <- d.find(ctx, key) }()
	}
	switch {
	case known:
		search()
	case first:
		sent = make(chan error, 1)
		d.sends <- sending{sent: sent, record: kafka.Record{
			Topic: d.names.Nodes, Key: key, Value: body, Headers: []kafka.Header{{Key: wire.ContentType, Value: []byte(wire.JSON)}},
		}} // which has room for all calls
	}
	var settled <-chan time.Time
	committed := d.committed.Load() >= windows // all that may have brought the node
	for {
		select {
		case found := <-c.done:
			if known || !first {
				return found, "again", nil
			}
			return found, "answered", nil
		case err := <-sent:
			if sent = nil; err != nil {
				return page.Decision{}, "late", d.late(key, err)
			}
		case err := <-searched:
			if searched = nil; err != nil {
				return page.Decision{}, "late", d.late(key, err)
			}
			settled = time.After(time.Duration(d.interval.Load()) + settle)
		case <-settled:
			if committed {
				return page.Decision{}, "old", page.ErrOld
			}
			if settled = time.After(settle); d.committed.Load() >= windows {
				committed, settled = true, nil
				search()
			}
		case <-ctx.Done():
			return page.Decision{}, "late", d.late(key, nil)
		}
	}
}

// begin lets a call wait, and reports whether it is the only one for its node. If the answer is remembered, the call has it.
func (d *desk) begin(key string, c *call) (first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a, is := d.answers[c.id]; is && time.Since(a.at) < remembered {
		c.done <- a.Decision
		return false, nil
	}
	if d.count == mostCalls || d.bytes+c.bytes > mostBytes {
		return false, page.ErrBusy
	}
	first = !slices.ContainsFunc(d.waiting[key], func(o *call) bool { return o.id == c.id })
	d.waiting[key] = append(d.waiting[key], c)
	d.count, d.bytes = d.count+1, d.bytes+c.bytes
	return first, nil
}

// end forgets a call, if it waited.
func (d *desk) end(key string, c *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.waiting[key], c)
	if i < 0 {
		return
	}
	d.count, d.bytes = d.count-1, d.bytes-c.bytes
	if d.waiting[key] = slices.Delete(d.waiting[key], i, i+1); len(d.waiting[key]) == 0 {
		delete(d.waiting, key)
	}
}

// late returns an error that says where the prediction will be.
func (d *desk) late(key []byte, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := fmt.Sprintf("the event's prediction will be in topic %s, partition %d, under the key %.64q: call again, or read it there",
		d.names.Predictions, d.names.Cell+kafka.PartitionFor(key, d.outputs), key)
	if err != nil {
		text += " (" + err.Error() + ")"
	}
	return errors.New(text)
}

// find reads the predictions of the last ten minutes that may have the key, and answers calls with them.
func (d *desk) find(ctx context.Context, key []byte) error {
	select {
	case d.searching <- struct{}{}:
		defer func() { <-d.searching }()
	case <-ctx.Done():
		return nil
	}
	from, err := d.client.OffsetsAt(ctx, d.names.Predictions, time.Now().Add(-remembered))
	if err != nil {
		return err
	}
	ends, err := d.client.Offsets(ctx, d.names.Predictions)
	if err != nil {
		return err
	}
	at := kafka.TopicPartition{Topic: d.names.Predictions, Partition: d.names.Cell + kafka.PartitionFor(key, len(ends))}
	return d.client.ReadTo(ctx, map[kafka.TopicPartition]int64{at: from[at]}, ends, func(r *kafka.Record) bool {
		return !bytes.Equal(r.Key, key) || !d.answer(r)
	})
}

// answer gives a prediction to the calls that wait for it, and reports whether there are any.
func (d *desk) answer(r *kafka.Record) (found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.waiting[string(r.Key)]
	if len(calls) == 0 {
		return false
	}
	var p event.Prediction
	if err := wire.DecodePrediction(r.Value, &p); err != nil || p.Revision > 0 {
		return false
	}
	a := answer{at: time.Now(), Decision: page.Decision{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}}
	if a.Prediction = bytes.Clone(r.Value); wire.EncodingOf(r.Value) != wire.JSON {
		p.Classes = d.classes()
		a.Prediction = wire.JSON.AppendPrediction(nil, &p)
	}
	for _, c := range calls {
		if c.id != p.Node || len(c.done) > 0 {
			continue
		}
		c.done <- a.Decision
		found = true
	}
	if found {
		d.remember(p.Node, a)
	}
	return found
}

// remember keeps an answer, and forgets those that are too old or too many.
func (d *desk) remember(id event.ID, a answer) {
	if _, is := d.answers[id]; !is {
		d.order = append(d.order, id)
	}
	d.answers[id] = a
	for len(d.order) > mostAnswers || a.at.Sub(d.answers[d.order[0]].at) > remembered {
		delete(d.answers, d.order[0])
		d.order = d.order[1:]
	}
}

// run sends events and reads predictions until the context ends. What fails is tried again: the worker goes on meanwhile.
func (d *desk) run(ctx context.Context, commits time.Duration) {
	d.interval.Store(int64(commits))
	var both sync.WaitGroup
	for what, f := range map[string]func(context.Context) error{
		"events of calls cannot be sent": d.send, "the predictions of calls cannot be read": d.read,
	} {
		both.Go(func() {
			for {
				err := f(ctx)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					d.log.Warn(what, "err", err)
				}
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	both.Wait()
}

// send sends what calls bring, all that has come meanwhile at once.
func (d *desk) send(ctx context.Context) error {
	p, err := d.client.NewProducer(ctx, kafka.ProducerConfig{})
	if err != nil {
		return err
	}
	inputs, counted := 0, time.Time{}
	for {
		var list []sending
		select {
		case s := <-d.sends:
			list = append(list, s)
		case <-ctx.Done():
			return nil
		}
		for len(d.sends) > 0 {
			list = append(list, <-d.sends)
		}
		if time.Since(counted) > recount {
			var all map[string]int
			if all, err = d.client.Partitions(ctx, d.names.Nodes); err == nil {
				inputs, counted = all[d.names.Nodes], time.Now()
			}
		}
		for i := range list {
			list[i].record.Partition = d.names.Cell + kafka.PartitionFor(list[i].record.Key, inputs)
		}
		if err == nil {
			err = deliver(ctx, p, list)
		} else {
			tell(list, err)
		}
		if err != nil {
			return err
		}
	}
}

// deliver sends records. One that the topic refuses takes no other with it.
func deliver(ctx context.Context, p *kafka.Producer, list []sending) error {
	records := make([]kafka.Record, len(list))
	for i, s := range list {
		records[i] = s.record
	}
	err := p.SendAgain(ctx, records)
	if err == nil || ctx.Err() != nil || len(list) == 1 {
		tell(list, err)
		return err
	}
	for i := range list {
		if err = p.Restart(ctx); err != nil {
			tell(list[i:], err)
			return err
		}
		_ = deliver(ctx, p, list[i:i+1]) // its call is told
	}
	return p.Restart(ctx)
}

// tell tells calls what became of their events.
func tell(list []sending, err error) {
	for _, s := range list {
		s.sent <- err
	}
}

// read answers calls with the predictions that are committed from now on. It returns when partitions were added.
func (d *desk) read(ctx context.Context) error {
	ends, err := d.client.Offsets(ctx, d.names.Predictions)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.outputs = len(ends)
	d.mu.Unlock()
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range ends {
		start[at] = b.End
	}
	reader, counted := d.client.NewReader(start, kafka.ReaderConfig{}), time.Now()
	for {
		records, err := reader.Poll(ctx)
		if err != nil {
			return err
		}
		for i := range records {
			d.answer(&records[i])
		}
		if time.Since(counted) < recount {
			continue
		}
		counted = time.Now()
		if now, err := d.client.Partitions(ctx, d.names.Predictions); err == nil && now[d.names.Predictions] != len(ends) {
			return nil
		}
	}
}
