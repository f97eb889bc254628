package trial

import (
	"bytes"
	"context"
	"encoding/binary"
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

func ledgerDeleted(ctx context.Context, v *served) {
	v.firstRun(ctx)
	v.deleteTopics(ctx, v.names.Ledger)
	v.refuses(ctx, v.names.Ledger, v.names.Predictions, "--begin-again")
	if missing := need(topics.Missing(ctx, v.setup.Client, v.names)); len(missing) != 1 {
		fail("the topics %v are missing, want the ledger: a worker must not create it", missing)
	}
}

func inputRecreated(ctx context.Context, v *served) {
	v.firstRun(ctx)
	v.deleteTopics(ctx, v.names.Nodes)
	need(topics.Create(ctx, v.setup.Client, v.names, topics.Layout{Partitions: partitions, Replication: -1, Shards: v.setup.Shards}))
	v.send(ctx, 400)
	v.refuses(ctx, v.names.Nodes, "created anew", "restore")
	v.published(ctx, 200)
}

func partitionCut(ctx context.Context, v *served) {
	v.firstRun(ctx)
	v.addPartitions(ctx, v.names.Nodes, partitions+1)
	for i := range 5 {
		node := v.setup.Items[i].Node
		v.out.put(v.names.Nodes, wire.AppendKey(nil, node.ID), wire.AppendNode(nil, &node), partitions)
	}
	v.out.send(ctx)
	v.deleteRecords(ctx, partitions, 3)
	v.refuses(ctx, fmt.Sprintf("%s partition %d", v.names.Nodes, partitions), "retention.ms=-1")
}

func deletedToEnd(ctx context.Context, v *served) {
	// Transactions leave markers behind the nodes.
	tx := need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-inputs"}))
	plain := v.out
	v.out = &sender{g: v.graph, producer: tx, transactions: true}
	v.firstRun(ctx)
	for at, b := range need(v.setup.Client.Offsets(ctx, v.names.Nodes)) {
		v.deleteRecords(ctx, at.Partition, b.End)
	}
	v.out = plain
	v.serve(ctx, 100)
	v.halt()
	v.published(ctx, 300)
}

func unreadableBatch(ctx context.Context, v *served) {
	v.serve(ctx, 200)
	v.sendWithJunk(ctx)
	v.more(ctx, 200)
	if !v.worker.logged("cannot be read and is refused") {
		fail("the log does not name the batch")
	}
	v.finished(ctx, "unreadable-batch")
}

func transactionOpen(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	tx := need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix + "-open"}))
	b := tx.NewBatch()
	for part := range int32(partitions) {
		must(b.Add(&kafka.Record{Topic: v.names.Nodes, Partition: part, Value: []byte("never committed")}))
	}
	must(tx.Produce(ctx, b))
	v.send(ctx, 100)
	v.progress.await(ctx, v.worker, "records that are withheld", drainTimeout, func(totals) bool { return scrape(ctx, v.http)["gvbll_input_withheld_records"] == 103 })
	if sum, _ := v.progress.now(); sum.predictions != 100 {
		fail("%d nodes are predicted behind the open transaction, want 100", sum.predictions)
	}
	must(tx.Restart(ctx)) // aborts it
	v.predicted(ctx)
	v.progress.await(ctx, v.worker, "end of what is withheld", drainTimeout, func(totals) bool { return scrape(ctx, v.http)["gvbll_input_withheld_records"] == 0 })
	v.halt()
	v.published(ctx, 200)
}

// deleteRecords deletes the records of a partition of the nodes before the offset.
func (v *served) deleteRecords(ctx context.Context, partition int32, before int64) {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{
		Topic: v.names.Nodes, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: before}},
	}}
	must(kerr.ErrorForCode(need(req.RequestWith(ctx, v.admin)).Topics[0].Partitions[0].ErrorCode))
}

// sendWithJunk sends a batch of node events that is compressed with gzip and has junk behind
// its end, into a topic whose batches the broker keeps as they come.
func (v *served) sendWithJunk(ctx context.Context) {
	v.set(ctx, v.names.Nodes, "compression.type", "producer")
	var records []protocol.Record
	for i := range 10 {
		node := v.setup.Items[i].Node
		node.ID = event.ID{Str: "junk"}
		records = append(records, protocol.Record{Time: time.Now(), Value: protocol.NewBytes(wire.AppendNode(nil, &node))})
	}
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(compress.Gzip), Records: protocol.NewRecordReader(records...)}
	var b bytes.Buffer
	need(set.WriteTo(&b))
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
	must(err)
}
