package kafka

import (
	"context"
	"os"
	"testing"
	"time"
	"fmt"

	"github.com/twmb/franz-go/pkg/kfake"
)

func TestSmoke(t *testing.T) {
	f, err := kfake.NewCluster(kfake.NumBrokers(3))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	addr := f.ListenAddrs()
	if a := os.Getenv("GVBLL_KAFKA"); a != "" {
		addr = []string{a}
	}
	ctx := context.Background()
	c, err := Dial(ctx, Config{Brokers: addr})
	if err != nil {
		t.Fatal(err)
	}
	topic := fmt.Sprintf("a%d", time.Now().UnixNano())
	got, err := c.CreateTopics(ctx, TopicSpec{Name: topic, Partitions: 3, Replication: -1})
	t.Log(got, err)
	p, err := c.NewProducer(ctx, ProducerConfig{TransactionalID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	tp := TopicPartition{topic, 0}
	now := time.Now()
	for i := range 20 {
		b := time.Now()
		err := p.Commit(ctx, []Record{{Topic: topic, Value: []byte{byte(i)}, Time: now}, {Topic: topic, Partition: 1, Value: []byte{byte(i)}, Time: now}}, "g", map[TopicPartition]int64{tp: int64(i)})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(time.Since(b))
	}
	q, err := c.NewProducer(ctx, ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Send(ctx, []Record{{Topic: topic, Partition: 2, Value: []byte("s"), Time: now}}); err != nil {
		t.Fatal(err)
	}
	r := c.NewReader(map[TopicPartition]int64{tp: 0, {topic, 1}: 0, {topic, 2}: 0}, ReaderConfig{})
	n := 0
	for n < 41 {
		b := time.Now()
		recs, err := r.Poll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n += len(recs)
		t.Log(len(recs), time.Since(b))
	}
}
