package kafka_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
	"github.com/gvbll/gvbll/topics/worker/workertest"
)

// attributesAt is where the part of a batch begins that its producer writes and its CRC covers.
const attributesAt = 21

// sendWithJunk produces two node events in one batch that is compressed with gzip and has
// junk behind its end, as some producers send it and brokers store it. It returns the batch.
func sendWithJunk(f *workertest.Fixture) []byte {
	f.T.Helper()
	value := wire.AppendNode(nil, &event.Node{ID: event.ID{Num: -1}, Dense: []float32{1, 2}})
	set := protocol.RecordSet{
		Version: 2, Attributes: protocol.Attributes(compress.Gzip),
		Records: protocol.NewRecordReader(protocol.Record{Value: protocol.NewBytes(value)}, protocol.Record{Value: protocol.NewBytes(value)}),
	}
	var b bytes.Buffer
	if _, err := set.WriteTo(&b); err != nil {
		f.T.Fatal(err)
	}
	b.WriteString("junk")
	const size, length, crc, attributes = 0, 4 + 8, 4 + 17, 4 + attributesAt // positions
	all, be := b.Bytes(), binary.BigEndian
	be.PutUint32(all[size:], uint32(len(all)-4))
	be.PutUint32(all[length:], uint32(len(all)-length-4))
	be.PutUint32(all[crc:], crc32.Checksum(all[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	admin := f.Admin()
	_, err := admin.Transport.RoundTrip(f.T.Context(), admin.Addr, &rawproduce.Request{Acks: -1, Timeout: 5000, Topics: []rawproduce.RequestTopic{{
		Topic: f.Names.Nodes, Partitions: []rawproduce.RequestPartition{{RecordSet: protocol.RawRecordSet{Reader: bytes.NewReader(all)}}},
	}}})
	if err != nil {
		f.T.Fatal(err)
	}
	return all[4:]
}

// TestUnreadableBatch: a batch that cannot be read does not stop the stream. It becomes one
// dead letter with the batch's bytes, which the ledger counts; a worker that replays the
// ledger and an audit find the same.
func TestUnreadableBatch(t *testing.T) {
	workertest.OnBrokers(t, func(t *testing.T, f *workertest.Fixture) {
		// As in topics that others create: the broker keeps batches as they come.
		f.DeleteTopic(f.Names.Nodes)
		kept := map[string]string{"compression.type": "producer"}
		if _, err := f.Client.CreateTopics(t.Context(), kafka.TopicSpec{Name: f.Names.Nodes, Partitions: 3, Replication: 1, Config: kept}); err != nil {
			t.Fatal(err)
		}
		f.Send(0, 30)
		batch := sendWithJunk(f)
		f.Send(30, 60)
		if err := f.Run(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(60, 3)
		var found int
		for _, r := range f.Read(f.Names.DeadLetters) {
			var d event.Refusal
			if err := wire.DecodeDeadLetter(r.Value, &d); err != nil && !errors.Is(err, wire.ErrTruncated) {
				t.Fatal(err)
			}
			if d.Reason != event.UnreadableBatch {
				continue
			}
			found++
			if d.Origin.Topic != f.Names.Nodes || d.Origin.Partition != 0 || !strings.Contains(d.Detail, "gzip") || !bytes.Equal(d.Origin.Value[attributesAt:], batch[attributesAt:]) {
				t.Errorf("the dead letter has %d bytes of %s partition %d, and says %q, want the batch of %d bytes, and gzip", len(d.Origin.Value), d.Origin.Topic, d.Origin.Partition, d.Detail, len(batch))
			}
		}
		if found != 1 {
			t.Errorf("%d dead letters have the reason %s, want 1", found, event.UnreadableBatch)
		}
		f.Send(60, 70)
		if err := f.Run(&workertest.Tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(70, 4)
		got, err := f.Audit(&workertest.Tally{}, worker.Config{})
		if err != nil || got.DeadLetters != 4 {
			t.Errorf("audited %+v, error %v, want 4 dead letters and none", got, err)
		}
	})
}
