package trial

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/checkpoint"
	"github.com/gvbll/gvbll/topics/kafka"
)

// lostEnds are scenarios of logs that lose their newest records, as they do when nodes lose power
// before these are on disk. Nodes of Apache Kafka are killed, their files are cut, and they are
// started again. On kfake the topics are created anew with what is left.
var lostEnds = []scenario{
	{name: "ledger and input lose their ends while no worker runs", play: endsLost},
	{name: "the ledger loses its end under its owner", play: ledgerCutUnderOwner},
}

// windowsLost is how many of its windows a ledger loses.
const windowsLost = 4

// trickle sends nodes and has each few predicted, so that there are many windows.
func (v *served) trickle(ctx context.Context) error {
	for range 10 {
		if err := v.send(ctx, 20); err != nil {
			return err
		}
		if err := v.predicted(ctx); err != nil {
			return err
		}
	}
	return nil
}

func endsLost(ctx context.Context, v *served) error {
	must(v.begin(ctx))
	must(v.trickle(ctx))
	must(v.halt())
	must(v.lose(ctx, map[kafka.TopicPartition]int{v.names.LedgerAt(0): windowsLost, {Topic: v.names.Nodes, Partition: 1}: 5}))
	must(v.refuses(ctx, v.names.Ledger, "lost windows", "a checkpoint", "--accept-gap"))
	return v.goOn(ctx)
}

func ledgerCutUnderOwner(ctx context.Context, v *served) error {
	must(v.begin(ctx))
	must(v.trickle(ctx))
	w := v.worker
	v.worker = nil // it is to end by itself
	defer w.kill()
	must(v.progress.close())
	must(v.lose(ctx, map[kafka.TopicPartition]int{v.names.LedgerAt(0): windowsLost}))
	must(v.send(ctx, 20))
	select {
	case <-w.ended:
	case <-time.After(drainTimeout):
		return errors.New("the owner did not end")
	case <-ctx.Done():
		return ctx.Err()
	}
	if line := w.lastLine(); !strings.Contains(line, "lost windows") || !strings.Contains(line, "--accept-gap") {
		return fmt.Errorf("the owner ended with %q, which does not name the windows and the remedy", line)
	}
	must(v.refuses(ctx, v.names.Ledger, "lost windows", "predictions of window", "--accept-gap"))
	return v.goOn(ctx)
}

// goOn accepts what is lost, sends more nodes, and checks that each is predicted once, of those
// before too.
func (v *served) goOn(ctx context.Context) error {
	p, err := v.run(v.setup.Program, "rebase", "", "rebase", "--accept-gap", "--brokers", strings.Join(v.setup.Brokers, ","),
		"--prefix", v.prefix, "--model", v.setup.Model, "--state-dir", filepath.Join(v.dir, "a"))
	if err != nil {
		return err
	}
	if <-p.ended; p.err != nil {
		return fmt.Errorf("the gap is not accepted: %s", p.lastLine())
	}
	if err := v.send(ctx, 50); err != nil {
		return err
	}
	if err := v.begin(ctx); err != nil {
		return err
	}
	var found int
	err = v.progress.await(ctx, v.worker, fmt.Sprintf("prediction of each of %d nodes", v.sent), drainTimeout, func() bool {
		found = 0 // the ledger counts those of the windows that it has
		err = v.readAll(ctx, v.names.Predictions, func(*kgo.Record) { found++ })
		return err != nil || found >= v.sent
	})
	if err != nil {
		return err
	}
	if err := v.halt(); err != nil {
		return err
	}
	return errors.Join(v.published(ctx, v.sent), v.audit(ctx))
}

// lose has partitions lose so many of their newest committed records, and brokers start again if
// they are Apache Kafka's.
func (v *served) lose(ctx context.Context, records map[kafka.TopicPartition]int) error {
	cuts := make(map[kafka.TopicPartition]int64) // first offset that is lost
	left := make(map[kafka.TopicPartition][]*kgo.Record)
	for at := range records {
		err := v.readAll(ctx, at.Topic, func(r *kgo.Record) {
			at := kafka.TopicPartition{Topic: at.Topic, Partition: r.Partition}
			left[at] = append(left[at], r)
		})
		if err != nil {
			return err
		}
	}
	for at, n := range records {
		keep := len(left[at]) - n
		if keep < 1 {
			return fmt.Errorf("%s partition %d has %d records, of which %d cannot be lost", at.Topic, at.Partition, len(left[at]), n)
		}
		cuts[at], left[at] = left[at][keep].Offset, left[at][:keep]
	}
	if k, ok := v.cluster.(*Kafka); ok {
		return k.cut(cuts)
	}
	for at := range cuts {
		if err := v.recreate(ctx, at.Topic, left); err != nil {
			return err
		}
	}
	return nil
}

// recreate deletes a topic and creates it with the records. A ledger's checkpoints are given to the
// new one, as if it had kept its id.
func (v *served) recreate(ctx context.Context, topic string, records map[kafka.TopicPartition][]*kgo.Record) error {
	counts, err := v.setup.Client.Partitions(ctx, topic)
	if err != nil {
		return err
	}
	before, err := v.setup.Client.TopicIDs(ctx, topic)
	if err != nil {
		return err
	}
	if err := v.deleteTopics(ctx, topic); err != nil {
		return err
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(counts[topic]), -1
	req.Topics = append(req.Topics, t)
	if _, err := req.RequestWith(ctx, v.admin); err != nil {
		return err
	}
	out, err := kgo.NewClient(kgo.SeedBrokers(v.setup.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer out.Close()
	for at, list := range records {
		if at.Topic == topic && len(list) > 0 {
			if err := out.ProduceSync(ctx, list...).FirstErr(); err != nil {
				return err
			}
		}
	}
	after, err := v.setup.Client.TopicIDs(ctx, topic)
	if err != nil {
		return err
	}
	state := filepath.Join(v.dir, "a")
	err = os.Rename(checkpoint.Folder(state, topic, before[topic]), checkpoint.Folder(state, topic, after[topic]))
	if errors.Is(err, os.ErrNotExist) { // of an input, or not written yet
		return nil
	}
	return err
}

// cut kills all nodes, cuts the files of partitions at offsets, and starts the nodes again.
func (k *Kafka) cut(offsets map[kafka.TopicPartition]int64) error {
	if _, err := k.run("kill", k.dir); err != nil {
		return err
	}
	for _, node := range k.nodes {
		for at, offset := range offsets {
			if err := cutFiles(filepath.Join(node, "data", fmt.Sprintf("%s-%d", at.Topic, at.Partition)), offset); err != nil {
				return err
			}
		}
	}
	_, err := k.run("start", k.dir)
	return err
}

// cutFiles cuts the log in a folder, which has one segment, before the batch that has the offset. The
// broker makes the other files again.
func cutFiles(folder string, offset int64) error {
	files, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil // of another node
	}
	for _, f := range files {
		name := filepath.Join(folder, f.Name())
		switch filepath.Ext(name) {
		case ".log":
			var b []byte
			if b, err = os.ReadFile(name); err != nil {
				return err
			}
			at := 0
			for at+12 <= len(b) && int64(binary.BigEndian.Uint64(b[at:])) < offset {
				at += 12 + int(binary.BigEndian.Uint32(b[at+8:]))
			}
			err = errors.Join(err, os.Truncate(name, int64(min(at, len(b)))))
		case ".index", ".timeindex", ".txnindex", ".snapshot":
			err = errors.Join(err, os.Remove(name))
		}
	}
	return err
}
