package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
func (v *served) spill(ctx context.Context) error {
	v.setup.Flags = append(v.setup.Flags, "--pending", "memory=1MiB")
	v.http = "127.0.0.1:0" // of two workers
	if err := v.send(ctx, inFiles); err != nil {
		return err
	}
	return v.serve(ctx)
}

// label sends labels of nodes, and waits until a worker has learned them.
func (v *served) label(ctx context.Context, from, to int, by *process) error {
	for i := from; i < to; i++ {
		v.out.label(&event.Label{Node: event.ID{Num: int64(i)}, Class: v.setup.Items[i%len(v.setup.Items)].Class})
	}
	if err := v.out.send(ctx); err != nil {
		return err
	}
	return v.progress.await(ctx, by, fmt.Sprintf("learning of %d labels", to), drainTimeout, func() bool {
		sum, _ := v.progress.now()
		return sum.labels >= to
	})
}

func bitsFlip(ctx context.Context, v *served) error {
	must(v.spill(ctx))
	standby, err := v.start("b", "", "--linger", "20ms")
	must(err)
	defer standby.kill()
	files, err := filepath.Glob(filepath.Join(v.dir, "a", "blocks-*", "[0-9]*"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("the worker has %d files of predictions (error %w), want some", len(files), err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(err)
		for i := 0; i < len(b); i += 500 {
			b[i] ^= 4
		}
		must(os.WriteFile(name, b, 0o600))
	}
	must(v.label(ctx, 0, inFiles, standby))
	select {
	case <-v.worker.ended:
	case <-time.After(drainTimeout):
		return errors.New("the worker whose files are damaged did not end")
	}
	for _, text := range []string{filepath.Join(v.dir, "a", "blocks-"), "it is not what was written: check the disk; start the worker again"} {
		if line := v.worker.lastLine(); !strings.Contains(line, text) {
			return fmt.Errorf("the worker ended with %q, which does not say %q", line, text)
		}
	}
	must(standby.stop())
	must(v.published(ctx, inFiles))
	return v.audit(ctx)
}

func folderRemoved(ctx context.Context, v *served) error {
	must(v.spill(ctx))
	must(os.RemoveAll(filepath.Join(v.dir, "a")))
	must(v.label(ctx, 0, inFiles/2, v.worker))
	must(v.halt())
	must(v.serve(ctx))
	must(v.label(ctx, inFiles/2, inFiles, v.worker))
	if !v.worker.logged("read a checkpoint") {
		return errors.New("the next start read no checkpoint")
	}
	must(v.halt())
	must(v.published(ctx, inFiles))
	return v.audit(ctx)
}

func cutShort(ctx context.Context, v *served) error {
	v.manyWindows(ctx)
	must(v.halt())
	must(v.endTransactions(ctx))
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
	must(v.replace(ctx, v.names.Ledger, left))
	want := "ends before window 5"
	if err := v.audit(ctx); err == nil || !strings.Contains(err.Error(), want) {
		return fmt.Errorf("audited with error %w, want one that says %q", err, want)
	}
	must(v.replace(ctx, v.names.Ledger, whole))
	must(v.published(ctx, v.sent))
	return v.audit(ctx)
}

func outputsDivided(ctx context.Context, v *served) error {
	must(v.send(ctx, 100))
	must(v.serve(ctx))
	for _, topic := range []string{v.names.Predictions, v.names.DeadLetters} {
		must(v.addPartitions(ctx, topic, partitions+2))
	}
	more := func() {
		v.out.poison(v.names.Nodes, v.sent)
		must(v.send(ctx, 100))
		must(v.predicted(ctx))
	}
	more() // by the worker that ran before
	must(v.halt())
	must(v.begin(ctx))
	more()
	must(v.halt())
	must(v.published(ctx, 300, "undecodable", "undecodable"))
	return v.audit(ctx)
}

// addPartitions raises a topic's number of partitions.
func (v *served) addPartitions(ctx context.Context, topic string, to int32) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: to}}
	res, err := req.RequestWith(ctx, v.admin)
	if err == nil {
		err = kerr.ErrorForCode(res.Topics[0].ErrorCode)
	}
	return err
}
