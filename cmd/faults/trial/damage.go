package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// damages are what happens to a worker's files, to ledgers that are audited, and to topics of
// outputs.
var damages = []scenario{
	{name: "bits of the files of predictions flip", play: bitsFlip},
	{name: "a worker's folder is removed", play: folderRemoved},
	{name: "an audited ledger is cut short", play: cutShort},
	{name: "the audited ledger of a shard is cut short", shards: 2, play: cutShort},
	{name: "partitions are added to the outputs", play: outputsDivided},
	{name: "partitions are added to the outputs of shards", shards: 2, play: outputsDivided},
}

// inFiles is more predictions than fit into the least memory that a worker has for them.
const inFiles = 15_000

// spill has a worker serve more predictions than it has memory for.
func (v *served) spill(ctx context.Context) {
	v.setup.Flags = append(v.setup.Flags, "--pending", "memory=1MiB")
	v.http = "127.0.0.1:0" // of two workers
	v.serve(ctx, inFiles)
}

// label sends labels of nodes, and waits until a worker has learned them.
func (v *served) label(ctx context.Context, from, to int, by *process) {
	for i := from; i < to; i++ {
		v.out.label(&event.Label{Node: event.ID{Num: int64(i)}, Class: v.setup.Items[i%len(v.setup.Items)].Class})
	}
	v.out.send(ctx)
	v.progress.await(ctx, by, fmt.Sprintf("learning of %d labels", to), drainTimeout, func(sum totals) bool { return sum.labels >= to })
}

func bitsFlip(ctx context.Context, v *served) {
	v.spill(ctx)
	standby := v.start("b", "", "--linger", "20ms")
	files := need(filepath.Glob(filepath.Join(v.dir, "a", "blocks-*", "[0-9]*")))
	if len(files) == 0 {
		fail("the worker has no files of predictions")
	}
	for _, name := range files {
		b := need(os.ReadFile(name))
		for i := 0; i < len(b); i += 500 {
			b[i] ^= 4
		}
		must(os.WriteFile(name, b, 0o600))
	}
	v.label(ctx, 0, inFiles, standby)
	v.worker.endsWith(ctx, filepath.Join(v.dir, "a", "blocks-"), "it is not what was written: check the disk; start the worker again")
	must(standby.stop())
	v.published(ctx, inFiles)
	must(v.audit(ctx))
}

func folderRemoved(ctx context.Context, v *served) {
	v.spill(ctx)
	must(os.RemoveAll(filepath.Join(v.dir, "a")))
	v.label(ctx, 0, inFiles/2, v.worker)
	v.halt()
	v.serve(ctx, 0)
	v.label(ctx, inFiles/2, inFiles, v.worker)
	if !v.worker.logged("read a checkpoint") {
		fail("the next start read no checkpoint")
	}
	v.finished(ctx)
}

func cutShort(ctx context.Context, v *served) {
	v.manyWindows(ctx)
	v.halt()
	v.endTransactions(ctx)
	var whole, left []kafka.Record
	must(v.setup.Client.ReadAll(ctx, v.names.Ledger, func(r *kafka.Record) {
		whole = append(whole, kafka.Record{Topic: r.Topic, Partition: r.Partition, Value: bytes.Clone(r.Value), Time: r.Time})
	}))
	part := v.records()[0].Partition
	for _, r := range whole {
		var of struct{ Window int64 }
		must(json.Unmarshal(r.Value, &of))
		if r.Partition != part || of.Window < 5 {
			left = append(left, r)
		}
	}
	v.replace(ctx, v.names.Ledger, left)
	want := "ends before window 5"
	if err := v.audit(ctx); err == nil || !strings.Contains(err.Error(), want) {
		fail("audited with error %w, want one that says %q", err, want)
	}
	v.replace(ctx, v.names.Ledger, whole)
	v.published(ctx, v.sent)
	must(v.audit(ctx))
}

func outputsDivided(ctx context.Context, v *served) {
	v.serve(ctx, 100)
	for _, topic := range []string{v.names.Predictions, v.names.DeadLetters} {
		v.addPartitions(ctx, topic, partitions+2)
	}
	more := func() {
		v.out.poison(v.names.Nodes, v.sent)
		v.more(ctx, 100)
	}
	more() // by the worker that ran before
	v.halt()
	v.begin(ctx)
	more()
	v.finished(ctx, "undecodable", "undecodable")
}

// addPartitions raises a topic's number of partitions.
func (v *served) addPartitions(ctx context.Context, topic string, to int32) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: to}}
	must(kerr.ErrorForCode(need(req.RequestWith(ctx, v.admin)).Topics[0].ErrorCode))
}
