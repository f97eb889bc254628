package trial

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// siege is the result of [Hostile].
type siege struct {
	Size    float64   `json:"size"`
	Attacks []*Attack `json:"attacks"`
}

// Attack is what one attack sent, and what it cost.
type Attack struct {
	Name     string  `json:"name"`
	Records  int     `json:"records"`   // hostile ones
	Seconds  float64 `json:"seconds"`   // until the worker was through with them
	Nodes    int     `json:"nodes"`     // of the stream beside them
	MedianMS int64   `json:"median_ms"` // from sending a node of the stream to writing its prediction
	MaxMS    int64   `json:"max_ms"`
	PeakMB   int     `json:"peak_mb"` // largest resident size of the worker
	BoundMB  int     `json:"bound_mb"`
	Wrong    string  `json:"wrong,omitempty"`
}

// Err returns an error if an attack cost more than it may, or changed what is published.
func (s *siege) Err() error {
	for _, a := range s.Attacks {
		if a.Wrong != "" {
			return errBroken
		}
	}
	return nil
}

// attack is a flood of hostile records.
type attack struct {
	name    string
	records int
	put     func(out *sender, i int) // puts record i
	nodes   []event.ID               // that the worker predicts, because nothing is wrong with them
	dead    map[event.Reason]int     // dead letters
	boundMB int                      // for the worker's resident size
}

const (
	// peakMB bounds the worker's resident size under records that it need not keep: what
	// the queues hold as fetched and decoded, a window's dead letters, and as much garbage.
	peakMB = 1200
	// nodeBytes bounds what an attack adds to it for each node that it adds to the graph.
	nodeBytes = 4 << 10
	// slowest is the longest that a node of the stream may wait for its prediction, and
	// nodeTime what it may wait in addition for each node of the attack, which is served
	// in turn. They leave room for machines that do something else as well.
	slowest  = 30 * time.Second
	nodeTime = 200 * time.Microsecond
	// waitingLabels is how many labels of unknown nodes a worker keeps.
	waitingLabels = 65_536
)

// attacks returns the attacks. At size 1 they have a million neighbours, nodes and commands,
// and ten million classes.
func (s *Setup) attacks(size float64) []attack {
	million := max(int(size*1e6), 1000)
	like := func(id event.ID, i int) *event.Node {
		n := s.Items[i%len(s.Items)].Node
		n.ID, n.Neighbours = id, nil
		return &n
	}
	hub := event.ID{Str: "hub"}
	colliding := func(i int) event.ID { return event.ID{Num: int64(i+1) << 40} }
	var come, collide []event.ID
	come = append(come, hub)
	for i := range million {
		come = append(come, event.ID{Num: math.MinInt64 + int64(i)})
	}
	for i := range million / 4 {
		collide = append(collide, colliding(i))
	}
	orphans := million + waitingLabels
	distinct := []attack{
		{
			name: "questions about unknown nodes", records: million,
			put: func(out *sender, i int) {
				out.node(&event.Node{ID: event.ID{Num: int64(math.MinInt64 + i)}, Featureless: true, Predict: true})
			},
			dead: map[event.Reason]int{event.UnknownNode: million}, boundMB: peakMB,
		},
		{
			name: "edges between unknown nodes", records: million,
			put: func(out *sender, i int) {
				id := event.ID{Num: int64(math.MinInt64 + i)}
				out.node(&event.Node{ID: id, Edges: []event.Edge{{Source: id, Target: hub}}})
			},
			boundMB: peakMB,
		},
		{
			name: "names of unknown fields", records: million,
			put: func(out *sender, i int) {
				out.put(out.g.names.Labels, nil, fmt.Appendf(nil, `{"node":"hub","class":"none","field %d":1}`, i), -1)
			},
			dead: map[event.Reason]int{event.UnknownClass: million}, boundMB: peakMB,
		},
	}
	return slices.Concat(distinct, []attack{
		{
			name: "questions, edges and names at once", records: 3 * million,
			put:  func(out *sender, i int) { distinct[i%3].put(out, i/3) },
			dead: map[event.Reason]int{event.UnknownNode: million, event.UnknownClass: million}, boundMB: peakMB,
		},
		{name: "no attack", boundMB: peakMB},
		{
			name: "a million neighbours in one event, and in parts", records: 20 + 4*16,
			put: func(out *sender, i int) {
				n := like(hub, i)
				if i < 20 {
					n.ID, n.Neighbours = event.ID{Str: "too much"}, make([]event.ID, 1_000_000)
				} else {
					for j := range 1 << 16 {
						n.Neighbours = append(n.Neighbours, event.ID{Num: -int64(i%16<<16+j) - 1})
					}
				}
				out.node(n)
			},
			nodes: []event.ID{hub}, dead: map[event.Reason]int{event.TooManyNeighbours: 20}, boundMB: peakMB,
		},
		{
			name: "commands", records: million,
			put: func(out *sender, i int) {
				value := fmt.Appendf(nil, `{"command":"promote","model":"model %d"}`, i)
				switch i % 4 {
				case 1:
					value = fmt.Appendf(nil, `{"command":"dance %d"}`, i)
				case 2:
					value = fmt.Appendf(nil, `{"command":%d`, i)
				}
				out.put(out.g.names.Commands, nil, value, 0)
			},
			dead: map[event.Reason]int{
				event.ImpossibleCommand: (million+3)/4 + million/4,
				event.UnknownCommand:    (million + 2) / 4, event.Undecodable: (million + 1) / 4,
			},
			boundMB: peakMB,
		},
		{
			name: "unknown classes", records: 10 * million,
			put: func(out *sender, i int) {
				out.label(&event.Label{Node: event.ID{Num: int64(i)}, Class: fmt.Sprintf("class %d", i)})
			},
			dead: map[event.Reason]int{event.UnknownClass: 10 * million}, boundMB: peakMB,
		},
		{
			name: "ids that collide, of nodes and of labels without a node", records: orphans + len(collide),
			put: func(out *sender, i int) {
				if i < len(collide) {
					out.node(like(collide[i], i))
					return
				}
				out.label(&event.Label{Node: event.ID{Num: math.MinInt64 + int64(i)<<32}, Class: s.Items[0].Class})
			},
			nodes: collide, dead: map[event.Reason]int{event.OrphanLabel: orphans - waitingLabels},
			boundMB: peakMB + len(collide)*nodeBytes>>20,
		},
		{
			name: "a hub with neighbours that come, and new features", records: 1 + million + million/1000,
			put: func(out *sender, i int) {
				switch {
				case i == 0 || i%1001 == 1000:
					out.node(like(hub, i))
				default:
					n := like(come[i-i/1001], i)
					n.Neighbours = []event.ID{hub}
					out.node(n)
				}
			},
			nodes: come, boundMB: peakMB + million*nodeBytes>>20,
		},
	})
}

// Hostile serves a stream, and beside it what somebody sends who wants the worker to end, to
// grow or to stop: each attack to a graph and a worker of its own. Every node of the stream
// must be predicted exactly once and in time, every hostile record must end as a
// dead letter with its reason or be bounded, and the worker's peak of memory is compared with
// a bound. Attacks whose names
// do not contain the text only are left out.
func Hostile(ctx context.Context, s *Setup, size float64, only string) (found *siege, err error) {
	defer catch(&err)
	found = &siege{Size: size}
	for i, a := range s.attacks(size) {
		if !strings.Contains(a.name, only) {
			continue
		}
		v := s.newServed(ctx, fmt.Sprintf("hostile-%d", i))
		made := &Attack{Name: a.name, Records: a.records, BoundMB: a.boundMB}
		if err := caught(func() { v.withstand(ctx, &a, made) }); err != nil {
			made.Wrong = err.Error()
		}
		v.graph.end()
		found.Attacks = append(found.Attacks, made)
		s.Report(fmt.Sprintf("%+v", *made))
		must(ctx.Err())
		v.deleteTopics(ctx, v.names.Nodes, v.names.Labels, v.names.Commands, v.names.Predictions, v.names.DeadLetters, v.names.Ledger)
		v.end()
	}
	return found, nil
}

// withstand sends an attack beside the stream, and checks what comes of it.
func (v *served) withstand(ctx context.Context, a *attack, c *Attack) {
	v.begin(ctx)
	v.more(ctx, 100) // the worker has started
	calm := v.sent
	// Brokers take such batches.
	attacker := &sender{g: v.graph, producer: need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{MaxBatchBytes: 1_040_000}))}
	flooded := make(chan error, 1)
	began := time.Now()
	go func() {
		flooded <- caught(func() { attacker.flood(ctx, a) })
	}()

	dead := 0
	for _, n := range a.dead {
		dead += n
	}
	through, bursts := false, 0
	ticking(ctx, 50*time.Millisecond, func() bool {
		v.send(ctx, 10)
		select {
		case err := <-flooded:
			must(err)
			flooded = nil
		default:
		}
		if closed(v.worker.ended) {
			fail("the worker ended: %s", v.worker.lastLine())
		}
		sum, _ := v.progress.now()
		through = through || flooded == nil && sum.refused >= dead && sum.predictions >= len(a.nodes)+v.sent/2
		bursts++
		return through && bursts >= 20
	})
	// What was sent last is behind all of the attack.
	v.send(ctx, 100)
	v.progress.await(ctx, v.worker, fmt.Sprintf("prediction of each of %d nodes", v.sent+len(a.nodes)),
		10*drainTimeout, func(sum totals) bool { return sum.predictions >= v.sent+len(a.nodes) })
	c.Seconds = time.Since(began).Seconds()
	c.PeakMB = need(v.worker.peakMB())
	v.halt()
	c.Nodes = v.sent
	var waits []time.Duration
	v.eachWait(ctx, func(node event.ID, _ time.Time, waited time.Duration) {
		if node.Str == "" && node.Num >= int64(calm) && node.Num < int64(v.sent) {
			waits = append(waits, waited)
		}
	})
	slices.Sort(waits)
	median, longest := waits[len(waits)/2], waits[len(waits)-1]
	c.MedianMS, c.MaxMS = median.Milliseconds(), longest.Milliseconds()
	switch {
	case c.PeakMB > c.BoundMB:
		fail("the worker took %d MB, want at most %d", c.PeakMB, c.BoundMB)
	case longest > slowest+time.Duration(len(a.nodes))*nodeTime:
		fail("a node of the stream waited for %v", longest)
	}
	v.unharmed(ctx, slices.Concat(numbered(v.sent), a.nodes), a.dead)
}

// flood sends all of an attack, as fast as the brokers take it.
func (s *sender) flood(ctx context.Context, a *attack) {
	bytes := 0
	for i := range a.records {
		a.put(s, i)
		bytes += len(s.records[len(s.records)-1].Value)
		if bytes > 1<<20 || i == a.records-1 {
			if err := s.producer.Send(ctx, s.records); err != nil {
				fail("sending the attack: %w", err)
			}
			s.records, bytes = s.records[:0], 0
		}
	}
}
