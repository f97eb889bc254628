package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
)

// scenario is something that happens to a graph's topics, files, or brokers.
type scenario struct {
	name    string
	nodes   int // of Apache Kafka that it needs at least, 0 for any cluster
	brokers int // that it needs at least, also of kfake
	shards  int // of the graph, 0 for a graph without
	// play serves the graph, which has not begun, has it happen, and compares what workers and
	// commands say, and what they publish, with what they should. It may leave a worker running.
	play func(context.Context, *served) error
}

// scenarios returns those of all kinds.
func scenarios() []scenario {
	return slices.Concat(
		mistakes, limits, lateEnds, damages, lostEnds, forgetting,
	)
}

// failed is an error that ends a trial, or a scenario.
type failed struct{ error }

// must ends what catches its error, on the same goroutine, unless err is nil.
func must(err error) {
	if err != nil {
		panic(failed{err})
	}
}

// caught sets err to what must has ended the caller with. It is deferred.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case failed:
		*err = r.error
	default:
		panic(r)
	}
}

// played plays the scenario.
func (c *scenario) played(ctx context.Context, v *served) (err error) {
	defer caught(&err)
	return c.play(ctx, v)
}

// Played is the result of [World].
type Played struct {
	Scenarios int `json:"scenarios"` // played
	Skipped   int `json:"skipped"`   // because they need another cluster
	verdict       // those that end otherwise than they should are unexplained
}

// String returns one line of counts.
func (p *Played) String() string {
	return fmt.Sprintf("world: %d scenarios played, %d need another cluster, %d with another result than they should have", p.Scenarios, p.Skipped, p.Unexplained)
}

// World serves a graph for each scenario in which the world is not as a worker would believe
// it: every node must be predicted once, or a worker must end with one line that names the thing
// and the remedy. Scenarios whose names do not contain the text only are left out.
func World(ctx context.Context, s *Setup, cluster Cluster, only string, report func(string)) (_ *Played, err error) {
	defer caught(&err)
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...))
	must(err)
	defer admin.Close()
	nodes := 0
	if k, ok := cluster.(*Kafka); ok {
		nodes = len(k.nodes)
	}
	found := &Played{}
	for i, c := range scenarios() {
		switch {
		case !strings.Contains(c.name, only):
			continue
		case c.nodes > nodes || c.brokers > len(s.Brokers):
			found.Skipped++
			continue
		}
		setup := *s
		setup.Shards = c.shards
		v, err := setup.newServed(ctx, admin, fmt.Sprintf("world-%d", i))
		must(err)
		v.cluster = cluster
		v.http, err = freeAddress()
		must(err)
		err = c.played(ctx, v)
		v.end()
		found.Scenarios++
		if err != nil {
			found.unexplained("%s: %s (logs are in %s)", c.name, err, v.dir)
		}
		report(fmt.Sprintf("%s: %v", c.name, err))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return found, nil
}

// newServed makes the topics of a graph whose prefix begins with the name. admin is a client
// that administers the cluster.
func (s *Setup) newServed(ctx context.Context, admin *kgo.Client, name string) (*served, error) {
	g, err := s.newGraph(ctx, name)
	if err != nil {
		return nil, err
	}
	out, err := g.newSender(ctx)
	return &served{graph: g, admin: admin, out: out}, err
}

// served is a graph with a sender and one worker, which runs at times.
type served struct {
	*graph
	admin    *kgo.Client
	cluster  Cluster // of a scenario
	out      *sender
	sent     int // nodes
	worker   *process
	progress *progress
}

// send sends n more nodes.
func (v *served) send(ctx context.Context, n int) error {
	for range n {
		node := v.setup.Items[v.sent%len(v.setup.Items)].Node
		node.ID, node.Neighbours = event.ID{Num: int64(v.sent)}, nil
		v.out.node(&node)
		v.sent++
	}
	return v.out.send(ctx)
}

// begin starts a worker.
func (v *served) begin(ctx context.Context) (err error) {
	if v.progress, err = v.follow(ctx); err != nil {
		return err
	}
	v.worker, err = v.start("a", "", "--linger", "20ms")
	return err
}

// serve starts a worker, and waits until all that was sent is predicted.
func (v *served) serve(ctx context.Context) error {
	if err := v.begin(ctx); err != nil {
		return err
	}
	return v.predicted(ctx)
}

// predicted waits until all that was sent is predicted.
func (v *served) predicted(ctx context.Context) error {
	return v.progress.await(ctx, v.worker, fmt.Sprintf("prediction of each of %d nodes", v.sent), drainTimeout, func() bool {
		sum, _ := v.progress.now()
		return sum.predictions >= v.sent
	})
}

// halt ends the worker as an operator does.
func (v *served) halt() error {
	err := errors.Join(v.worker.stop(), v.progress.close())
	v.worker, v.progress = nil, nil
	return err
}

// end ends what still runs.
func (v *served) end() {
	if v.worker != nil {
		v.worker.kill()
		_ = v.progress.close()
	}
}

// refuses starts a worker, which must end by itself with a last line that has the given
// texts, and leave as many predictions as there were.
func (v *served) refuses(ctx context.Context, texts ...string) error {
	w, err := v.start("a", "", "--linger", "20ms")
	if err != nil {
		return err
	}
	defer w.kill()
	return w.endsWith(ctx, texts...)
}

// endsWith waits for a worker that must end by itself, with a last line that has the texts.
func (p *process) endsWith(ctx context.Context, texts ...string) error {
	select {
	case <-p.ended:
	case <-time.After(drainTimeout):
		return errors.New("the worker did not end")
	case <-ctx.Done():
		return ctx.Err()
	}
	line, _, _ := strings.Cut(p.lastLine(), "\n")
	for _, text := range texts {
		if !strings.Contains(line, text) {
			return fmt.Errorf("the worker ended with %q, which does not say %q", line, text)
		}
	}
	return nil
}

// published checks that of the nodes sent first, so many were predicted exactly once, that
// nothing else was, and that the dead letters have the reasons.
func (v *served) published(ctx context.Context, nodes int, reasons ...string) error {
	got, err := v.read(ctx, numbered(nodes))
	switch {
	case err != nil:
		return err
	case got.lost+got.twice > 0:
		return fmt.Errorf("%d nodes lost, %d predicted twice: %v", got.lost, got.twice, got.faults)
	case len(got.predictions) != nodes:
		return fmt.Errorf("%d predictions, want %d", len(got.predictions), nodes)
	case len(got.dead) != len(reasons):
		return fmt.Errorf("dead letters %v, want %v", got.dead, reasons)
	}
	for i, reason := range reasons {
		if !strings.HasSuffix(got.dead[i], " "+reason) {
			return fmt.Errorf("dead letters %v, want %v", got.dead, reasons)
		}
	}
	return nil
}

// firstRun sends nodes, serves them, and ends the worker.
func (v *served) firstRun(ctx context.Context) error {
	if err := v.send(ctx, 200); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	return v.halt()
}

// set sets a setting of a topic.
func (v *served) set(ctx context.Context, topic, setting, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: setting, Value: &value}},
	}}
	res, err := req.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	return err
}

// deleteTopics deletes topics, and waits until they are gone.
func (v *served) deleteTopics(ctx context.Context, names ...string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	req.TopicNames = names
	for _, name := range names {
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		req.Topics = append(req.Topics, topic)
	}
	res, err := req.RequestWith(ctx, v.admin)
	if err != nil {
		return err
	}
	for _, topic := range res.Topics {
		err = errors.Join(err, kerr.ErrorForCode(topic.ErrorCode))
	}
	for there := len(names); err == nil && there > 0; {
		var counts map[string]int
		counts, err = v.setup.Client.Partitions(ctx, names...)
		there = 0
		for _, n := range counts {
			there += n
		}
	}
	return err
}
