package trial

import (
	"context"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka"
)

// beliefs are what clocks, offsets and settings say that is not so.
var beliefs = []scenario{
	{name: "a producer's clock is ahead", play: clockAhead},
	{name: "an operator resets the group's offsets", play: offsetsReset},
	{name: "all is restored from a mirror with other offsets", play: mirrored},
	{name: "compaction is turned on for the ledger", nodes: 1, play: compacted},
}

// clockAhead has a hundred records of one producer come 55 minutes ahead, where ten minutes are kept: nothing expires.
func clockAhead(ctx context.Context, v *served) {
	v.setup.Flags = append(slices.Clone(v.setup.Flags), "--keep", "nodes=10m,edges=10m")
	v.serve(ctx, 2000)
	v.sendAt(ctx, 100, time.Now().Add(55*time.Minute))
	v.predicted(ctx)
	v.more(ctx, 200)
	if _, page := get(ctx, v.http, "/metrics"); !strings.Contains(page, "gvbll_departures_total{result=\"expired\"} 0\n") {
		fail("nodes expired, or nothing says whether they did")
	}
	v.finished(ctx)
}

// sendAt sends n more nodes, in records of a time.
func (v *served) sendAt(ctx context.Context, n int, at time.Time) {
	sent := len(v.out.records)
	for range n {
		node := v.setup.Items[v.sent%len(v.setup.Items)].Node
		node.ID.Num, node.Neighbours, node.Time = int64(v.sent), nil, 0
		v.out.node(&node)
		v.sent++
	}
	for i := range v.out.records[sent:] {
		v.out.records[sent+i].Time = at
	}
	v.out.send(ctx)
}

// offsetsReset has the offsets be at the ends of the inputs: the ledger is believed.
func offsetsReset(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	v.halt()
	v.endTransactions(ctx)
	v.send(ctx, 50)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = v.names.Ledger, -1
	id := need(hex.DecodeString(need(v.setup.Client.TopicIDs(ctx, v.names.Nodes))[v.names.Nodes]))
	for at, b := range need(v.setup.Client.Offsets(ctx, v.names.Nodes)) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = at.Partition, b.End
		req.Topics = append(req.Topics, kmsg.OffsetCommitRequestTopic{
			Topic: at.Topic, TopicID: [16]byte(id), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p},
		})
	}
	for _, t := range need(req.RequestWith(ctx, v.admin)).Topics {
		must(kerr.ErrorForCode(t.Partitions[0].ErrorCode))
	}
	v.begin(ctx)
	v.finished(ctx)
}

// mirrored has all topics be copies without the markers and aborted records of the transactions in which the inputs were sent.
func mirrored(ctx context.Context, v *served) {
	v.out.producer = need(v.setup.Client.NewProducer(ctx, kafka.ProducerConfig{TransactionalID: v.prefix}))
	v.begin(ctx)
	for range 10 {
		for range 20 {
			v.put()
		}
		must(v.out.producer.Commit(ctx, v.out.records, "", nil))
		v.out.records = v.out.records[:0]
		v.predicted(ctx)
	}
	v.halt()
	v.endTransactions(ctx)
	v.out = v.newSender(ctx)
	n := v.names
	for _, topic := range []string{n.Nodes, n.Labels, n.Commands, n.Predictions, n.ToLabel, n.DeadLetters, n.Ledger} {
		v.replace(ctx, topic, v.records(ctx, topic))
	}
	v.refuses(ctx, "gvbll rebase --restored")
	must(v.gvbll(ctx, "rebase", "--restored", "--model", v.setup.Model, "--state-dir", filepath.Join(v.dir, "a")))
	v.begin(ctx)
	v.more(ctx, 50)
	v.finished(ctx)
}

// compacted has brokers take no record of the ledger without a key, and drop all but the newest of each.
func compacted(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, v.names.Ledger
	for name, value := range map[string]string{"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	must(kerr.ErrorForCode(need(req.RequestWith(ctx, v.admin)).Resources[0].ErrorCode))
	for range 5 {
		v.more(ctx, 50)
		must(kafka.Sleep(ctx, 2*time.Second))
	}
	v.halt()
	v.begin(ctx)
	v.more(ctx, 50)
	v.finished(ctx)
}
