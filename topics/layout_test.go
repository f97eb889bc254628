package topics

import (
	"context"
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

// TestCreate: the topics have the partitions of the layout, and what is there is left as it is.
func TestCreate(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		n := under(t, "graph")
		for _, l := range []Layout{{Partitions: 2, Replication: 1}, {Partitions: 3, Replication: 1}} {
			created, err := Create(t.Context(), c, n, l)
			if again := l.Partitions == 3; err != nil || again != (len(created) == 0) {
				t.Errorf("%+v creates %v with error %v", l, created, err)
			}
		}
		have, err := c.Partitions(t.Context(), n.All()...)
		want := map[string]int{n.Nodes: 2, n.Labels: 2, n.Commands: 1, n.Predictions: 2, n.ToLabel: 1, n.DeadLetters: 1, n.Ledger: 1}
		if diff := cmp.Diff(want, have); diff != "" || err != nil {
			t.Errorf("error %v, partitions, -want +got\n%s", err, diff)
		}
	})
}

// TestLedgerOfShards: a ledger of several partitions is of a graph with shards, or was changed. It
// is refused in one line, which says what serves it, whether its other topics are there or not.
func TestLedgerOfShards(t *testing.T) {
	onFake(t, func(t *testing.T, c *kafka.Client) {
		n := under(t, "graph")
		if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: n.Ledger, Partitions: 5, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		for _, create := range []func(context.Context, *kafka.Client, Names, Layout) ([]string, error){Create, Create, Recreate} {
			_, err := create(t.Context(), c, n, Layout{Partitions: 1, Replication: 1})
			if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "graph.ledger has 5 partitions") || !strings.Contains(err.Error(), "gvbll 1.0.0 serves it") {
				t.Errorf("error %v, want one line with the partitions and the version that serves them", err)
			}
		}
	})
}
