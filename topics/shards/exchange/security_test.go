package exchange

import (
	"log/slog"
	"testing"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestPermissions: what docs/security.md grants a worker is enough to exchange messages.
func TestPermissions(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Secured(t)
	dial := func(user string) *kafka.Client {
		t.Helper()
		cfg := kafka.Config{Brokers: []string{cluster.Addr}, Logger: slog.New(slog.DiscardHandler)}
		var err error
		if cfg.TLS, err = (kafka.TLSFiles{CA: cluster.Authority.File, Cert: cluster.Cert, Key: cluster.Key}).Config(); err != nil {
			t.Fatal(err)
		}
		if cfg.SASL, err = kafka.SASL("plain", user, kafkatest.Password); err != nil {
			t.Fatal(err)
		}
		c, err := kafka.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	g := &graph{T: t, client: dial("worker"), cfg: Config{Topic: "graph.exchange", Shards: 2, Run: 7}}
	spec := kafka.TopicSpec{Name: g.cfg.Topic, Partitions: 4, Replication: 1}
	if _, err := dial(kafkatest.Admin).CreateTopics(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	cluster.Allow(t, "worker", kafkago.ResourceTypeTopic, g.cfg.Topic, kafkago.ACLOperationTypeRead, kafkago.ACLOperationTypeWrite)
	s := g.sender(0)
	g.send(s, 0, Heads, []byte("heads"))
	g.flush(s)
	g.got(g.receiver(1, Position{}), 0, Heads, []byte("heads"))
}
