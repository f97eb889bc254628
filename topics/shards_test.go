package topics

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

func dial(t *testing.T, k *kafkatest.Kafka) *kafka.Client {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func onFake(t *testing.T, test func(t *testing.T, c *kafka.Client)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, dial(t, k)) }, kfake.NumBrokers(1))
}

func under(t *testing.T, prefix string) Names {
	t.Helper()
	n, err := Under(prefix)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestShards: a graph has the shards that it was created with. Creating it again changes
// nothing and brings back what is missing, and another number of shards is refused.
func TestShards(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		one, four := under(t, "one"), under(t, "four")
		create := func(n Names, l Layout) []string {
			t.Helper()
			created, err := Create(t.Context(), c, n, l)
			if err != nil {
				t.Fatal(err)
			}
			return created
		}
		refused := func(n Names, l Layout, want string) {
			t.Helper()
			created, err := Create(t.Context(), c, n, l)
			if err == nil || len(created) > 0 || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v creates %v with error %v, want nothing and one line with %q", l, created, err, want)
			}
		}
		check := func(n Names, shards int, want map[string]int) {
			t.Helper()
			if got, err := Shards(t.Context(), c, n); got != shards || err != nil {
				t.Errorf("%d shards and error %v, want %d", got, err, shards)
			}
			have, err := c.Partitions(t.Context(), append(n.All(), n.Exchange)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("partitions, -want +got\n%s", diff)
			}
		}
		check(one, 0, map[string]int{})
		create(one, Layout{Partitions: 2, Replication: 1})
		check(one, 0, map[string]int{one.Nodes: 2, one.Labels: 2, one.Commands: 1, one.Predictions: 2, one.ToLabel: 1, one.DeadLetters: 1, one.Ledger: 1})
		refused(one, Layout{Partitions: 2, Replication: 1, Shards: 4}, "4 shards need 5")

		create(four, Layout{Partitions: 2, Replication: 1, Shards: 4})
		partitions := map[string]int{four.Nodes: 2, four.Labels: 2, four.Commands: 1, four.Predictions: 2, four.ToLabel: 1, four.DeadLetters: 1, four.Ledger: 5, four.Exchange: 6}
		check(four, 4, partitions)
		refused(four, Layout{Partitions: 2, Replication: 1, Shards: 2}, "2 shards need 3")
		if created := create(four, Layout{Partitions: 1, Replication: 1}); len(created) > 0 {
			t.Errorf("created %v though nothing was missing", created)
		}
	})
}

// TestUnfit: partitions of ledger and exchange that do not fit each other are named in one
// line.
func TestUnfit(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		for _, test := range []struct {
			name             string
			ledger, exchange int
			want             string
		}{
			{"two", 2, 0, "has 2 partitions: it needs 1, or"},
			{"many", MaxShards + 2, 0, "partitions: it needs 1, or"},
			{"none", 4, 0, "there is no topic none.exchange"},
			{"few", 4, 4, "few.exchange needs 5 partitions, but it has 4"},
			{"more", 4, 6, "more.exchange needs 5 partitions, but it has 6"},
		} {
			n := under(t, test.name)
			specs := []kafka.TopicSpec{{Name: n.Ledger, Partitions: test.ledger, Replication: 1}}
			if test.exchange > 0 {
				specs = append(specs, kafka.TopicSpec{Name: n.Exchange, Partitions: test.exchange, Replication: 1})
			}
			if _, err := c.CreateTopics(t.Context(), specs...); err != nil {
				t.Fatal(err)
			}
			if got, err := Shards(t.Context(), c, n); got != 0 || err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %d shards and error %v, want one line with %q", test.name, got, err, test.want)
			}
		}
	})
}

// TestExchangeGone: an exchange that is missing beside a ledger with records was deleted. It is
// not created anew. Beside a ledger without records it is. What is in it shows that a ledger
// without records was created anew.
func TestExchangeGone(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		write := func(topic string) {
			t.Helper()
			p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
			if err == nil {
				err = p.Send(t.Context(), []kafka.Record{{Topic: topic, Partition: 1, Value: []byte("x")}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		n := under(t, "graph")
		if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n.Ledger, Partitions: 4, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		if missing, err := Missing(t.Context(), c, n); err != nil || missing[len(missing)-1] != n.Exchange {
			t.Errorf("missing are %v with error %v, want the exchange among them", missing, err)
		}
		if _, err := Create(t.Context(), c, n, Layout{Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		if got, err := Shards(t.Context(), c, n); got != 3 || err != nil {
			t.Errorf("%d shards and error %v, want the ledger's 3", got, err)
		}
		write(n.Exchange)
		if err := CheckLedger(t.Context(), c, n); err == nil || !strings.Contains(err.Error(), "messages between shards in "+n.Exchange) {
			t.Errorf("an empty ledger beside messages: error %v, want one that names them", err)
		}
		write(n.Ledger)
		if err := CheckLedger(t.Context(), c, n); err != nil {
			t.Errorf("a ledger with a record of a shard: error %v", err)
		}

		n = under(t, "deleted")
		if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n.Ledger, Partitions: 4, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		write(n.Ledger)
		if created, err := Create(t.Context(), c, n, Layout{Partitions: 1, Replication: 1}); err == nil || len(created) > 0 || !strings.Contains(err.Error(), n.Exchange+" is missing, but ledger") {
			t.Errorf("created %v with error %v, want nothing and one that names the exchange", created, err)
		}
	})
}

// TestRecreate: a ledger that is created anew beside an exchange has its shards again.
func TestRecreate(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		n := under(t, "graph")
		if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n.Exchange, Partitions: 5, Replication: 1}, kafka.TopicSpec{Name: n.Nodes, Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(t.Context(), c, n, Layout{Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		if got, err := Shards(t.Context(), c, n); got != 3 || err != nil {
			t.Errorf("%d shards and error %v, want the 3 of the exchange", got, err)
		}
	})
}
