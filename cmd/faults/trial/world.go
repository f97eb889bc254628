package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/gvbll/gvbll/pipeline/event"
)

// scenario is something that happens to a graph's topics, files, or brokers.
type scenario struct {
	name    string
	nodes   int // of Apache Kafka that it needs at least, 0 for any cluster
	brokers int // that it needs at least, also of kfake
	// play serves the graph, which has not begun, has it happen, and compares what workers and
	// commands say, and what they publish, with what they should. It may leave a worker running.
	play func(context.Context, *served)
}

// scenarios are all of them.
var scenarios = []scenario{
	{name: "quotas throttle the fleet", nodes: 1, play: throttled},
	{name: "the end of a transaction arrives in the next one", brokers: 2, play: lateEnd},
	{name: "an audited ledger is cut short", play: cutShort},
	{name: "partitions are added to the outputs", play: outputsDivided},
	{name: "ledger and input lose their ends while no worker runs", play: endsLost},
	{name: "the ledger loses its end under its owner", play: ledgerCutUnderOwner},
	{name: "nodes are forgotten while models are tried", play: forgetWithTrials},
	{name: "a producer's clock is ahead", play: clockAhead},
	{name: "an operator resets the group's offsets", play: offsetsReset},
	{name: "all is restored from a mirror with other offsets", play: mirrored},
	{name: "all cells are restored from a mirror", play: cellsMirrored},
	{name: "compaction is turned on for the ledger", nodes: 1, play: compacted},
	{name: "a flood of names of unknown fields", play: namesFlood},
	{name: "an older volume comes back, and producers send again", play: olderVolume},
	{name: "a second cluster has the same prefix and folder of bases", play: secondCluster},
	{name: "transactions may last a few seconds only", play: shortTransactions},
	{name: "a password is changed, rights are taken away and given back", play: rightsTaken},
	{name: "calls are answered once, whoever dies", play: called},
}

// played is the result of [World].
type played struct {
	Scenarios int `json:"scenarios"` // played
	Skipped   int `json:"skipped"`   // because they need another cluster
	verdict       // those that end otherwise than they should are unexplained
}

// World serves a graph for each scenario in which the world is not as a worker would believe
// it: every node must be predicted once, or a worker must end with one line that names the thing
// and the remedy. Scenarios whose names do not contain the text only are left out.
func World(ctx context.Context, s *Setup, only string) (found *played, err error) {
	defer catch(&err)
	there := 0
	if k, ok := s.Cluster.(*nodes); ok {
		there = len(k.each)
	}
	found = &played{}
	for i, c := range scenarios {
		switch {
		case !strings.Contains(c.name, only):
			continue
		case c.nodes > there || c.brokers > len(s.Brokers):
			found.Skipped++
			continue
		}
		setup := *s
		v := setup.newServed(ctx, fmt.Sprintf("world-%d", i))
		v.http = freeAddress()
		err := caught(func() { c.play(ctx, v) })
		v.end()
		found.Scenarios++
		if err != nil {
			found.unexplained("%s: %s (logs are in %s)", c.name, err, v.dir)
		}
		s.Report(fmt.Sprintf("%s: %v", c.name, err))
		must(ctx.Err())
	}
	return found, nil
}

// newServed makes the topics of a graph whose prefix begins with the name.
func (s *Setup) newServed(ctx context.Context, name string) *served {
	return s.newGraph(ctx, name).served(ctx)
}

// served returns the graph with a sender.
func (g *graph) served(ctx context.Context) *served {
	return &served{graph: g, admin: kadm.NewClient(g.setup.client()), out: g.newSender(ctx)}
}

// served is a graph with a sender and one worker, which runs at times.
type served struct {
	*graph
	admin    *kadm.Client // administers the cluster
	out      *sender
	sent     int // nodes
	worker   *process
	progress *progress
}

// send sends n more nodes.
func (v *served) send(ctx context.Context, n int) {
	for range n {
		v.put()
	}
	v.out.send(ctx)
}

// put adds a node to those that are sent next.
func (v *served) put() {
	node := v.setup.Items[v.sent%len(v.setup.Items)].Node
	node.ID, node.Neighbours = event.ID{Num: int64(v.sent)}, nil
	v.out.node(&node)
	v.sent++
}

// begin starts a worker.
func (v *served) begin(ctx context.Context) {
	v.progress = v.follow(ctx)
	v.worker = v.start("a", "", "--linger", "20ms")
}

// serve sends n more nodes, starts a worker, and waits until all that was sent is predicted.
func (v *served) serve(ctx context.Context, n int) {
	v.send(ctx, n)
	v.begin(ctx)
	v.predicted(ctx)
}

// more sends n more nodes, and waits until the worker has predicted them.
func (v *served) more(ctx context.Context, n int) {
	v.send(ctx, n)
	v.predicted(ctx)
}

// predicted waits until all that was sent is predicted.
func (v *served) predicted(ctx context.Context) {
	v.progress.await(ctx, v.worker, fmt.Sprintf("prediction of each of %d nodes", v.sent), drainTimeout,
		func(sum totals) bool { return sum.predictions >= v.sent })
}

// halt ends the worker as an operator does.
func (v *served) halt() {
	err := errors.Join(v.worker.stop(), v.progress.close())
	v.worker, v.progress = nil, nil
	must(err)
}

// end ends what still runs.
func (v *served) end() {
	v.graph.end()
	v.admin.Close()
	if v.progress != nil {
		_ = v.progress.close()
	}
}

// refuses starts a worker, which must end by itself with a last line that has the given
// texts, and leave as many predictions as there were.
func (v *served) refuses(ctx context.Context, texts ...string) {
	v.start("a", "", "--linger", "20ms").endsWith(ctx, texts...)
}

// endsWith waits for a worker that must end by itself, with a last line that has the texts.
func (p *process) endsWith(ctx context.Context, texts ...string) {
	p.await(ctx)
	line, _, _ := strings.Cut(p.lastLine(), "\n")
	for _, text := range texts {
		if !strings.Contains(line, text) {
			fail("the worker ended with %q, which does not say %q", line, text)
		}
	}
}

// published checks that of the nodes sent first, so many were predicted exactly once, that
// nothing else was, and that the dead letters have the reasons.
func (v *served) published(ctx context.Context, nodes int, reasons ...string) {
	got := v.read(ctx, numbered(nodes))
	switch {
	case got.lost+got.twice > 0:
		fail("%d nodes lost, %d predicted twice: %v", got.lost, got.twice, got.faults)
	case len(got.predictions) != nodes:
		fail("%d predictions, want %d", len(got.predictions), nodes)
	case len(got.dead) != len(reasons):
		fail("dead letters %v, want %v", got.dead, reasons)
	}
	for i, reason := range reasons {
		if !strings.HasSuffix(got.dead[i], " "+reason) {
			fail("dead letters %v, want %v", got.dead, reasons)
		}
	}
}

// deleteTopics deletes topics, and waits until they are gone.
func (v *served) deleteTopics(ctx context.Context, names ...string) {
	must(need(v.admin.DeleteTopics(ctx, names...)).Error())
	for there := len(names); there > 0; {
		there = 0
		for _, n := range need(v.setup.Client.Partitions(ctx, names...)) {
			there += n
		}
	}
}
