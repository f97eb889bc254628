package trial

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// Missteps is the result of [Mistakes].
type Missteps struct {
	Mistakes int `json:"mistakes"` // made
	verdict      // those after which a worker did not do what it should are unexplained
}

// String returns one line of counts.
func (m *Missteps) String() string {
	return fmt.Sprintf("mistakes: %d made, %d with another result than they should have", m.Mistakes, m.Unexplained)
}

// Mistakes serves a graph for each of the mistakes that operators and producers make with its
// topics, makes the mistake, and compares what the worker says, and what it publishes, with
// what it should: every node once, or one line that names the thing and the remedy.
func Mistakes(ctx context.Context, s *Setup, report func(string)) (*Missteps, error) {
	admin, err := kgo.NewClient(kgo.SeedBrokers(s.Brokers...))
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	found := &Missteps{}
	for i, mistake := range []struct {
		name string
		make func(context.Context, *served) error
	}{
		{"the ledger is deleted", ledgerDeleted},
		{"an input is created anew, with more records", inputRecreated},
		{"a partition is added and cut while no worker runs", partitionCut},
		{"a log of which only markers are left is deleted to its end", deletedToEnd},
		{"a batch cannot be read", unreadableBatch},
		{"a producer leaves its transaction open", transactionOpen},
	} {
		v, err := s.newServed(ctx, admin, fmt.Sprintf("mistake-%d", i))
		if err != nil {
			return nil, err
		}
		if v.http, err = freeAddress(); err != nil {
			return nil, err
		}
		err = mistake.make(ctx, v)
		v.end()
		found.Mistakes++
		if err != nil {
			found.unexplained("%s: %s", mistake.name, err)
		}
		report(fmt.Sprintf("%s: %v", mistake.name, err))
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
	select {
	case <-w.ended:
	case <-time.After(drainTimeout):
		return errors.New("the worker did not end")
	case <-ctx.Done():
		return ctx.Err()
	}
	line, _, _ := strings.Cut(w.lastLine(), "\n")
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

func ledgerDeleted(ctx context.Context, v *served) error {
	if err := v.firstRun(ctx); err != nil {
		return err
	}
	if err := v.deleteTopics(ctx, v.names.Ledger); err != nil {
		return err
	}
	if err := v.refuses(ctx, v.names.Ledger, v.names.Predictions, "--begin-again"); err != nil {
		return err
	}
	missing, err := topics.Missing(ctx, v.setup.Client, v.names)
	if err != nil || len(missing) != 1 {
		return fmt.Errorf("the topics %v are missing (error %w), want the ledger: a worker must not create it", missing, err)
	}
	return nil
}

func inputRecreated(ctx context.Context, v *served) error {
	if err := v.firstRun(ctx); err != nil {
		return err
	}
	if err := v.deleteTopics(ctx, v.names.Nodes); err != nil {
		return err
	}
	if _, err := topics.Create(ctx, v.setup.Client, v.names, topics.Layout{Partitions: partitions, Replication: -1, Shards: v.setup.Shards}); err != nil {
		return err
	}
	if err := v.send(ctx, 400); err != nil {
		return err
	}
	if err := v.refuses(ctx, v.names.Nodes, "created anew", "restore"); err != nil {
		return err
	}
	return v.published(ctx, 200)
}

func partitionCut(ctx context.Context, v *served) error {
	if err := v.firstRun(ctx); err != nil {
		return err
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: v.names.Nodes, Count: partitions + 1}}
	res, err := req.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	if err != nil {
		return err
	}
	for i := range 5 {
		node := v.setup.Items[i].Node
		v.out.put(v.names.Nodes, wire.AppendKey(nil, node.ID), wire.AppendNode(nil, &node), partitions)
	}
	if err := v.out.send(ctx); err != nil {
		return err
	}
	if err := v.deleteRecords(ctx, partitions, 3); err != nil {
		return err
	}
	return v.refuses(ctx, fmt.Sprintf("%s partition %d", v.names.Nodes, partitions), "retention.ms=-1")
}

func deletedToEnd(ctx context.Context, v *served) error {
	// Transactions leave markers behind the nodes.
	tx, err := v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-inputs"})
	if err != nil {
		return err
	}
	plain := v.out
	v.out = &sender{g: v.graph, producer: tx, transactions: true}
	if err := v.firstRun(ctx); err != nil {
		return err
	}
	bounds, err := v.setup.Client.Offsets(ctx, v.names.Nodes)
	if err != nil {
		return err
	}
	for at, b := range bounds {
		if err := v.deleteRecords(ctx, at.Partition, b.End); err != nil {
			return err
		}
	}
	v.out = plain
	if err := v.send(ctx, 100); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	if err := v.halt(); err != nil {
		return err
	}
	return v.published(ctx, 300)
}

func unreadableBatch(ctx context.Context, v *served) error {
	if err := v.send(ctx, 200); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	if err := v.sendWithJunk(ctx); err != nil {
		return err
	}
	if err := v.send(ctx, 200); err != nil {
		return err
	}
	if err := v.predicted(ctx); err != nil {
		return err
	}
	if !v.worker.logged("cannot be read and is refused") {
		return errors.New("the log does not name the batch")
	}
	if err := v.halt(); err != nil {
		return err
	}
	if err := v.published(ctx, 400, "unreadable-batch"); err != nil {
		return err
	}
	return v.audit(ctx)
}

func transactionOpen(ctx context.Context, v *served) error {
	if err := v.send(ctx, 100); err != nil {
		return err
	}
	if err := v.serve(ctx); err != nil {
		return err
	}
	tx, err := v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-open"})
	if err != nil {
		return err
	}
	b := tx.NewBatch()
	for part := range int32(partitions) {
		if err := b.Add(&kafka.Record{Topic: v.names.Nodes, Partition: part, Value: []byte("never committed")}); err != nil {
			return err
		}
	}
	if err := tx.Produce(ctx, b); err != nil {
		return err
	}
	if err := v.send(ctx, 100); err != nil {
		return err
	}
	withheld := func() float64 {
		s, err := scrape(ctx, v.http)
		if err != nil {
			return -1
		}
		return s.withheld
	}
	err = v.progress.await(ctx, v.worker, "records that are withheld", drainTimeout, func() bool { return withheld() == 103 })
	if err != nil {
		return err
	}
	if sum, _ := v.progress.now(); sum.predictions != 100 {
		return fmt.Errorf("%d nodes are predicted behind the open transaction, want 100", sum.predictions)
	}
	if err := tx.Restart(ctx); err != nil { // aborts it
		return err
	}
	if err := v.predicted(ctx); err != nil {
		return err
	}
	err = v.progress.await(ctx, v.worker, "end of what is withheld", drainTimeout, func() bool { return withheld() == 0 })
	if err != nil {
		return err
	}
	if err := v.halt(); err != nil {
		return err
	}
	return v.published(ctx, 200)
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

// deleteRecords deletes the records of a partition of the nodes before the offset.
func (v *served) deleteRecords(ctx context.Context, partition int32, before int64) error {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic: v.names.Nodes, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: before}},
	}}
	res, err := req.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode)
	}
	return err
}

// sendWithJunk sends a batch of node events that is compressed with gzip and has junk behind
// its end, into a topic whose batches the broker keeps as they come.
func (v *served) sendWithJunk(ctx context.Context) error {
	kept := kmsg.NewPtrIncrementalAlterConfigsRequest()
	value := "producer"
	kept.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: v.names.Nodes,
		Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "compression.type", Value: &value}},
	}}
	res, err := kept.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Resources[0].ErrorCode)
	}
	if err != nil {
		return err
	}
	var records []protocol.Record
	for i := range 10 {
		node := v.setup.Items[i].Node
		node.ID = event.ID{Str: "junk"}
		records = append(records, protocol.Record{Time: time.Now(), Value: protocol.NewBytes(wire.AppendNode(nil, &node))})
	}
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(compress.Gzip), Records: protocol.NewRecordReader(records...)}
	var b bytes.Buffer
	if _, err := set.WriteTo(&b); err != nil {
		return err
	}
	b.WriteString("junk")
	// The set begins with its size. Then comes the batch: its base offset, its length, at 17
	// the CRC of what begins at 21.
	all, be := b.Bytes(), binary.BigEndian
	be.PutUint32(all, uint32(len(all)-4))
	be.PutUint32(all[4+8:], uint32(len(all)-4-8-4))
	be.PutUint32(all[4+17:], crc32.Checksum(all[4+21:], crc32.MakeTable(crc32.Castagnoli)))
	transport := &kafkago.Transport{}
	defer transport.CloseIdleConnections()
	_, err = transport.RoundTrip(ctx, kafkago.TCP(v.setup.Brokers...), &rawproduce.Request{Acks: -1, Timeout: 5000, Topics: []rawproduce.RequestTopic{{
		Topic: v.names.Nodes, Partitions: []rawproduce.RequestPartition{{RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(all)}}},
	}}})
	return err
}
