package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestShadow: a record has the chain of the model that serves and that of the model in the
// shadow, and knows which one serves after a promotion. A record without a shadow does
// not mention one.
func TestShadow(t *testing.T) {
	r := &Record{Version: Version, Window: 3, Model: "a", Chain: "1"}
	const alone = `{"v":1,"window":3,"cause":"","ranges":null,"model":"a","settings":"","predictions":0,"labels":0,"refused":0,"updates":0,"posterior":"","chain":"1"}`
	if got := string(r.Append(nil)); got != alone {
		t.Errorf("without a shadow the record is %s, want %s", got, alone)
	}
	if r.Serves() != "a" {
		t.Errorf("model %q serves, want a", r.Serves())
	}
	r.Shadow, r.Promoted = &Shadow{Model: "b", Chain: "2"}, "b"
	again, err := Decode(r.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("decoded again, -want +got\n%s", diff)
	}
	if again.Serves() != "b" {
		t.Errorf("after the promotion model %q serves, want b", again.Serves())
	}
	for model, want := range map[string]string{"a": "1", "b": "2", "c": "", "": ""} {
		if got, ok := again.ChainOf(model); got != want || ok != (want != "") {
			t.Errorf("the chain of model %q is %q, %t, want %q", model, got, ok, want)
		}
	}
}

// TestNewest: the last committed record is found even if many aborted transactions, with their
// records and markers, follow it.
func TestNewest(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: "ledger", Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		if r, err := Newest(t.Context(), c, kafka.TopicPartition{Topic: "ledger"}); r != nil || err != nil {
			t.Errorf("newest record of an empty ledger: %v and error %v, want neither", r, err)
		}
		p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		for window := range int64(200) {
			r := Record{Version: Version, Window: window}
			if err := p.Send(t.Context(), []kafka.Record{{Topic: "ledger", Value: r.Append(nil)}}); err != nil {
				t.Fatal(err)
			}
		}
		for range 100 { // aborted transactions
			p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "ledger"})
			if err != nil {
				t.Fatal(err)
			}
			b := p.NewBatch()
			r := Record{Version: Version, Window: 200}
			if err := b.Add(&kafka.Record{Topic: "ledger", Value: r.Append(nil)}); err != nil {
				t.Fatal(err)
			}
			if err := p.Produce(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if err := p.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if r, err := Newest(t.Context(), c, kafka.TopicPartition{Topic: "ledger"}); err != nil || r == nil || r.Window != 199 {
			t.Errorf("newest record: %+v and error %v, want window 199", r, err)
		}
	}, kfake.NumBrokers(1))
}
