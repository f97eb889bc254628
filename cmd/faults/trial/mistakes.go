package trial

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
)

// mistakes are those that operators and producers make with a graph's topics.
var mistakes = []scenario{
	{name: "the ledger is deleted", play: ledgerDeleted},
	{name: "an input is created anew, with more records", play: inputRecreated},
	{name: "a partition is added and cut while no worker runs", play: partitionCut},
	{name: "a log of which only markers are left is deleted to its end", play: deletedToEnd},
	{name: "a batch cannot be read", play: unreadableBatch},
	{name: "a producer leaves its transaction open", play: transactionOpen},
}

func ledgerDeleted(ctx context.Context, v *served) error {
	must(v.firstRun(ctx))
	must(v.deleteTopics(ctx, v.names.Ledger))
	must(v.refuses(ctx, v.names.Ledger, v.names.Predictions, "--begin-again"))
	missing, err := topics.Missing(ctx, v.setup.Client, v.names)
	if err != nil || len(missing) != 1 {
		return fmt.Errorf("the topics %v are missing (error %w), want the ledger: a worker must not create it", missing, err)
	}
	return nil
}

func inputRecreated(ctx context.Context, v *served) error {
	must(v.firstRun(ctx))
	must(v.deleteTopics(ctx, v.names.Nodes))
	if _, err := topics.Create(ctx, v.setup.Client, v.names, topics.Layout{Partitions: partitions, Replication: -1, Shards: v.setup.Shards}); err != nil {
		return err
	}
	must(v.send(ctx, 400))
	must(v.refuses(ctx, v.names.Nodes, "created anew", "restore"))
	return v.published(ctx, 200)
}

func partitionCut(ctx context.Context, v *served) error {
	must(v.firstRun(ctx))
	must(v.addPartitions(ctx, v.names.Nodes, partitions+1))
	for i := range 5 {
		node := v.setup.Items[i].Node
		v.out.put(v.names.Nodes, wire.AppendKey(nil, node.ID), wire.AppendNode(nil, &node), partitions)
	}
	must(v.out.send(ctx))
	must(v.deleteRecords(ctx, partitions, 3))
	return v.refuses(ctx, fmt.Sprintf("%s partition %d", v.names.Nodes, partitions), "retention.ms=-1")
}

func deletedToEnd(ctx context.Context, v *served) error {
	// Transactions leave markers behind the nodes.
	tx, err := v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-inputs"})
	must(err)
	plain := v.out
	v.out = &sender{g: v.graph, producer: tx, transactions: true}
	must(v.firstRun(ctx))
	bounds, err := v.setup.Client.Offsets(ctx, v.names.Nodes)
	must(err)
	for at, b := range bounds {
		must(v.deleteRecords(ctx, at.Partition, b.End))
	}
	v.out = plain
	must(v.send(ctx, 100))
	must(v.serve(ctx))
	must(v.halt())
	return v.published(ctx, 300)
}

func unreadableBatch(ctx context.Context, v *served) error {
	must(v.send(ctx, 200))
	must(v.serve(ctx))
	must(v.sendWithJunk(ctx))
	must(v.send(ctx, 200))
	must(v.predicted(ctx))
	if !v.worker.logged("cannot be read and is refused") {
		return errors.New("the log does not name the batch")
	}
	must(v.halt())
	must(v.published(ctx, 400, "unreadable-batch"))
	return v.audit(ctx)
}

func transactionOpen(ctx context.Context, v *served) error {
	must(v.send(ctx, 100))
	must(v.serve(ctx))
	tx, err := v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-open"})
	must(err)
	b := tx.NewBatch()
	for part := range int32(partitions) {
		must(b.Add(&kafka.Record{Topic: v.names.Nodes, Partition: part, Value: []byte("never committed")}))
	}
	must(tx.Produce(ctx, b))
	must(v.send(ctx, 100))
	withheld := func() float64 {
		s, err := scrape(ctx, v.http)
		if err != nil {
			return -1
		}
		return s.withheld
	}
	must(v.progress.await(ctx, v.worker, "records that are withheld", drainTimeout, func() bool { return withheld() == 103 }))
	if sum, _ := v.progress.now(); sum.predictions != 100 {
		return fmt.Errorf("%d nodes are predicted behind the open transaction, want 100", sum.predictions)
	}
	must(tx.Restart(ctx)) // aborts it
	must(v.predicted(ctx))
	must(v.progress.await(ctx, v.worker, "end of what is withheld", drainTimeout, func() bool { return withheld() == 0 }))
	must(v.halt())
	return v.published(ctx, 200)
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
	if err := v.set(ctx, v.names.Nodes, "compression.type", "producer"); err != nil {
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
	_, err := transport.RoundTrip(ctx, kafkago.TCP(v.setup.Brokers...), &rawproduce.Request{Acks: -1, Timeout: 5000, Topics: []rawproduce.RequestTopic{{
		Topic: v.names.Nodes, Partitions: []rawproduce.RequestPartition{{RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(all)}}},
	}}})
	return err
}
