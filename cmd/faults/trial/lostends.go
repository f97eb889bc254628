package trial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
)

// windowsLost is how many of its windows a ledger loses.
const windowsLost = 4

// manyWindows starts a worker, and has each few nodes predicted before more are sent.
func (v *served) manyWindows(ctx context.Context) {
	v.begin(ctx)
	for range 10 {
		v.more(ctx, 20)
	}
}

func endsLost(ctx context.Context, v *served) {
	v.manyWindows(ctx)
	v.halt()
	v.lose(ctx, map[kafka.TopicPartition]int{v.names.LedgerAt(): windowsLost, {Topic: v.names.Nodes, Partition: 1}: 5})
	v.refuses(ctx, v.names.Ledger, "lost windows", "a checkpoint", "--accept-gap")
	v.goOn(ctx)
}

func ledgerCutUnderOwner(ctx context.Context, v *served) {
	v.manyWindows(ctx)
	w := v.worker // it is to end by itself
	must(v.progress.close())
	v.progress = nil
	v.lose(ctx, map[kafka.TopicPartition]int{v.names.LedgerAt(): windowsLost})
	v.send(ctx, 20)
	w.endsWith(ctx, "lost windows", "--accept-gap")
	v.refuses(ctx, v.names.Ledger, "lost windows", "predictions of window", "--accept-gap")
	v.goOn(ctx)
}

// goOn accepts what is lost, sends more nodes, and checks that each is predicted once, of those
// before too.
func (v *served) goOn(ctx context.Context) {
	p := v.run(v.setup.Program, "rebase", "", "rebase", "--accept-gap", "--brokers", strings.Join(v.setup.Brokers, ","),
		"--prefix", v.prefix, "--model", v.setup.Model, "--state-dir", filepath.Join(v.dir, "a"))
	if <-p.ended; p.err != nil {
		fail("the gap is not accepted: %s", p.lastLine())
	}
	behind := need(checkpoint.Find(filepath.Join(v.dir, "a"), v.names.Ledger))[0].Path
	v.send(ctx, 50)
	v.begin(ctx)
	v.everyPrediction(ctx)
	v.halt()
	v.published(ctx, v.sent)
	must(v.gvbll(ctx, "audit", "--model", v.setup.Model, "--checkpoint", behind))
}

// everyPrediction waits until all that was sent is predicted, where the ledger lacks windows.
func (v *served) everyPrediction(ctx context.Context) {
	await(ctx, drainTimeout, func() (missing string) {
		found := 0
		v.readAll(ctx, v.names.Predictions, func(*kgo.Record) { found++ })
		switch {
		case found >= v.sent:
			return ""
		case closed(v.worker.ended):
			fail("the worker ended: %s, see %s", v.worker.lastLine(), v.worker.log.Name())
		}
		return fmt.Sprintf("%d of %d nodes are predicted", found, v.sent)
	})
}

// lose has partitions lose so many of their newest committed records, as they do when nodes lose power before these are on
// disk. Nodes of Apache Kafka are killed, their files are cut, and they are started again. On kfake the topics are created
// anew with what is left.
func (v *served) lose(ctx context.Context, lost map[kafka.TopicPartition]int) {
	cuts := make(map[kafka.TopicPartition]int64) // first offset that is lost
	for at, n := range lost {
		var left []kafka.Record
		for _, r := range slices.Backward(v.records(ctx, at.Topic)) {
			if r.Partition == at.Partition && n > 0 {
				cuts[at], n = r.Offset, n-1
			} else {
				left = append(left, r)
			}
		}
		if _, ok := v.setup.Cluster.(*fake); ok {
			slices.Reverse(left)
			v.replace(ctx, at.Topic, left)
		}
	}
	if k, ok := v.setup.Cluster.(*nodes); ok {
		k.cut(cuts)
	}
}

// records returns the committed records of a topic.
func (v *served) records(ctx context.Context, topic string) (all []kafka.Record) {
	v.readAll(ctx, topic, func(r *kgo.Record) {
		all = append(all, kafka.Record{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value, Time: r.Timestamp,
		})
	})
	return all
}

// replace deletes a topic and creates it again with the records. A ledger's checkpoints are given
// to the new one, as if it had kept its id.
func (v *served) replace(ctx context.Context, topic string, records []kafka.Record) {
	c := v.setup.Client
	counts := need(c.Partitions(ctx, topic))
	before := need(c.TopicIDs(ctx, topic))
	v.deleteTopics(ctx, topic)
	need(c.CreateTopics(ctx, kafka.TopicSpec{Name: topic, Partitions: counts[topic], Replication: -1}))
	must(v.out.producer.SendAgain(ctx, records))
	after := need(c.TopicIDs(ctx, topic))
	state := filepath.Join(v.dir, "a")
	err := os.Rename(checkpoint.Folder(state, topic, before[topic]), checkpoint.Folder(state, topic, after[topic]))
	if !errors.Is(err, os.ErrNotExist) { // as for an input, or one that is not written yet
		must(err)
	}
}

// cut kills all nodes, cuts the files of partitions at offsets, and starts the nodes again.
func (k *nodes) cut(offsets map[kafka.TopicPartition]int64) {
	k.run("kill", k.dir)
	for _, node := range k.each {
		for at, offset := range offsets {
			cutFiles(filepath.Join(node, "data", fmt.Sprintf("%s-%d", at.Topic, at.Partition)), offset)
		}
	}
	k.run("start", k.dir)
}

// cutFiles cuts the log in a folder, which has one segment, before the batch that has the offset. The
// broker makes the other files again.
func cutFiles(folder string, offset int64) {
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return // of another node
	}
	must(err)
	for _, f := range files {
		name := filepath.Join(folder, f.Name())
		switch filepath.Ext(name) {
		case ".log":
			b := need(os.ReadFile(name))
			at := 0
			for at+12 <= len(b) && int64(binary.BigEndian.Uint64(b[at:])) < offset {
				at += 12 + int(binary.BigEndian.Uint32(b[at+8:]))
			}
			must(os.Truncate(name, int64(min(at, len(b)))))
		case ".index", ".timeindex", ".txnindex", ".snapshot":
			must(os.Remove(name))
		}
	}
}
