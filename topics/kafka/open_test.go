package kafka

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestOpenTransactions: of two transactions in a topic the one is named that has not ended, once it is old.
func TestOpenTransactions(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k, Config{})
		if _, err := c.CreateTopics(t.Context(), TopicSpec{Name: "nodes", Partitions: 3, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{"ended", "open"} {
			p, err := c.NewProducer(t.Context(), ProducerConfig{TransactionalID: id})
			if err != nil {
				t.Fatal(err)
			}
			b := p.NewBatch()
			if err := b.Add(&Record{Topic: "nodes", Partition: int32(i), Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			if err := p.Produce(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if id == "ended" {
				if err := p.End(t.Context(), "", nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for before, want := range map[time.Time]int{time.Now().Add(time.Second): 1, time.Now().Add(-time.Second): 0} {
			open, err := c.OpenTransactions(t.Context(), before, "nodes")
			if err != nil || len(open) != want || want == 1 && open[0].At != (TopicPartition{"nodes", 1}) {
				t.Errorf("open are %+v with error %v, want %d, of partition 1", open, err, want)
			}
		}
	}, kfake.NumBrokers(1))
}
