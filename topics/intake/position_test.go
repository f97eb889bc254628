package intake

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/wire"
)

// consumeAll opens the inputs at the position, consumes n nodes and everything that is read
// with them, and returns the position then, as a checkpoint would keep it.
func (h *harness) consumeAll(t *testing.T, at Position, n int) (p Position, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in, err := Open(ctx, h.client, Config{Names: h.names}, at)
	if err != nil {
		return p, err
	}
	for got := 0; got < n || in.Nodes.lag() > 0; {
		if err := in.Nodes.Add(kafkatest.Receive(t, in.Nodes.Ready(), "a fetch of nodes is answered"), time.Now()); err != nil {
			return p, err
		}
		got += in.Nodes.store.held
		in.Nodes.store.claimOldest(in.Nodes.store.held, nil)
		in.Release()
	}
	b, err := json.Marshal(in.Position())
	if err != nil {
		t.Fatal(err)
	}
	return p, json.Unmarshal(b, &p)
}

// recreate deletes the nodes topic and creates it again with as many partitions.
func (h *harness) recreate(t *testing.T, partitions int) {
	t.Helper()
	admin := h.admin(t)
	res, err := admin.DeleteTopics(t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{h.names.Nodes}})
	if err != nil || res.Errors[h.names.Nodes] != nil {
		t.Fatal(err, res)
	}
	created, err := admin.CreateTopics(t.Context(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: h.names.Nodes, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil || created.Errors[h.names.Nodes] != nil {
		t.Fatal(err, created)
	}
}

// other returns node events that no other test sends.
func (h *harness) other(t *testing.T, n int) {
	t.Helper()
	p, err := h.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var records []kafka.Record
	for i := range 3 * n {
		value := wire.AppendNode(nil, &event.Node{ID: event.ID{Str: "other"}, Dense: []float32{float32(i)}})
		records = append(records, kafka.Record{Topic: h.names.Nodes, Partition: int32(i % 3), Value: value})
	}
	if err := p.Send(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// TestPositionOfAnotherLog: while nobody read it, the topic was deleted, created anew and
// filled with more records than were consumed. The position of a checkpoint is not
// believed: there is an error, and no record is skipped.
func TestPositionOfAnotherLog(t *testing.T) {
	onTopics(t, 20, func(t *testing.T, h *harness) {
		p, err := h.consumeAll(t, Position{}, 60)
		if err != nil {
			t.Fatal(err)
		}
		h.recreate(t, 3)
		h.other(t, 50)
		var replaced *kafka.ReplacedError
		if _, err := h.consumeAll(t, p, 90); !errors.As(err, &replaced) || !strings.Contains(err.Error(), h.names.Nodes) {
			t.Errorf("error %v, want a ReplacedError that names %s", err, h.names.Nodes)
		}
	})
}

// TestRestoredTopic: the topic was created anew with the same records, as from a backup. Its
// id is another one, but its records prove it.
func TestRestoredTopic(t *testing.T) {
	onTopics(t, 0, func(t *testing.T, h *harness) {
		h.other(t, 20)
		p, err := h.consumeAll(t, Position{}, 60)
		if err != nil {
			t.Fatal(err)
		}
		var records []kafka.Record
		if err := h.client.ReadAll(t.Context(), h.names.Nodes, func(r *kafka.Record) { records = append(records, *r) }); err != nil {
			t.Fatal(err)
		}
		h.recreate(t, 3)
		producer, err := h.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if err := producer.Send(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		h.other(t, 10)
		after, err := h.consumeAll(t, p, 30)
		if err != nil {
			t.Fatal(err)
		}
		if after.Stands[0].Last.Topic == p.Stands[0].Last.Topic || after.Stands[0].Last.Offset != 29 {
			t.Errorf("the position stands at %+v, want offset 29 and another topic than %+v", after.Stands[0], p.Stands[0])
		}
	})
}

// TestMarkersAreConsumed: behind the records that were consumed there are a transaction marker
// and aborted records. They do not count as lag, and when the log is deleted up to its end, a
// position of before is still believed. It is not if a record was deleted.
func TestMarkersAreConsumed(t *testing.T) {
	onTopics(t, 0, func(t *testing.T, h *harness) {
		nodes := h.names.Nodes
		tx, err := h.client.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "markers"})
		if err != nil {
			t.Fatal(err)
		}
		record := kafka.Record{Topic: nodes, Value: wire.AppendNode(nil, &event.Node{ID: event.ID{Num: 1}, Dense: []float32{1}})}
		if err := tx.Commit(t.Context(), []kafka.Record{record, record}, "", nil); err != nil {
			t.Fatal(err)
		}
		aborted := tx.NewBatch()
		for range 5 {
			if err := aborted.Add(&record); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Produce(t.Context(), aborted); err != nil {
			t.Fatal(err)
		}
		if err := tx.Restart(t.Context()); err != nil { // aborts it
			t.Fatal(err)
		}
		p, err := h.consumeAll(t, Position{}, 2) // which ends when there is no lag
		if err != nil {
			t.Fatal(err)
		}
		const end = 2 + 1 + 5 + 1
		if got := p.Stands[0]; got.Reached != end || got.Last.Offset != 1 || p.Consumed[0].To != 2 {
			t.Fatalf("position %+v of %+v, want offset 1 to be the last one consumed, and %d reached", got, p.Consumed[0], end)
		}
		if err := h.on.Fake.DeleteRecords(nodes, 0, end); err != nil {
			t.Fatal(err)
		}
		if _, err := h.consumeAll(t, p, 0); err != nil {
			t.Errorf("after the log was deleted to its end: %v, want no error", err)
		}
		if err := tx.Commit(t.Context(), []kafka.Record{record}, "", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := h.consumeAll(t, p, 1); err != nil {
			t.Errorf("with a new record behind the end: %v, want no error", err)
		}
		if err := h.on.Fake.DeleteRecords(nodes, 0, end+1); err != nil {
			t.Fatal(err)
		}
		var gap *kafka.OutOfRangeError
		if _, err := h.consumeAll(t, p, 0); !errors.As(err, &gap) {
			t.Errorf("after a record was deleted that was not consumed: error %v, want an OutOfRangeError", err)
		}
	})
}

// TestWithheld: records behind a transaction that its producer has not ended are reported, and
// are no lag.
func TestWithheld(t *testing.T) {
	onTopics(t, 0, func(t *testing.T, h *harness) {
		tx, err := h.client.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "open"})
		if err != nil {
			t.Fatal(err)
		}
		b := tx.NewBatch()
		if err := b.Add(&kafka.Record{Topic: h.names.Nodes, Value: []byte("open")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Produce(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		h.send(t, 1, 7)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, err := Open(ctx, h.client, Config{Names: h.names}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		kafkatest.Await(t, "8 nodes are withheld", func() bool { return in.Nodes.withheld() == 8 })
		in.Lag(func(topic string, records, withheld int64) {
			if topic == h.names.Nodes && (records != 0 || withheld != 8) {
				t.Errorf("%s has a lag of %d and %d withheld, want 0 and 8", topic, records, withheld)
			}
		})
	})
}

// TestPartitionAddedMeanwhile: a partition that was added while nobody read is needed from its
// offset 0, by a position and by a ledger that do not know it.
func TestPartitionAddedMeanwhile(t *testing.T) {
	onTopics(t, 5, func(t *testing.T, h *harness) {
		p, err := h.consumeAll(t, Position{}, 15)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		in, err := Open(ctx, h.client, Config{Names: h.names}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		begins := in.Begins()
		admin := h.admin(t)
		res, err := admin.CreatePartitions(t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: h.names.Nodes, Count: 4}}})
		if err != nil || res.Errors[h.names.Nodes] != nil {
			t.Fatal(err, res)
		}
		h.send(t, 4, 3)
		if _, err := h.consumeAll(t, p, 12); err != nil {
			t.Errorf("with a partition added: %v, want no error", err)
		}
		if err := h.on.Fake.DeleteRecords(h.names.Nodes, 3, 2); err != nil {
			t.Fatal(err)
		}
		var gap *kafka.OutOfRangeError
		if _, err := h.consumeAll(t, p, 12); !errors.As(err, &gap) || gap.At.Partition != 3 || gap.Position != 0 {
			t.Errorf("with a partition added and cut: error %v, want an OutOfRangeError of its offset 0", err)
		}
		in, err = Open(ctx, h.client, Config{Names: h.names}, Position{})
		if err != nil {
			t.Fatal(err)
		}
		if err := in.CheckBegins(begins); err == nil || !strings.Contains(err.Error(), "partition 3") {
			t.Errorf("replayed from a ledger that does not know it: error %v, want one that names partition 3", err)
		}
		if err := in.CheckBegins([]ledger.Input{{Topic: h.names.Nodes, First: []int64{0, 0, 0, 2}}}); err != nil {
			t.Errorf("replayed from a ledger that knows where it began: %v, want no error", err)
		}
	})
}
