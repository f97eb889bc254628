package topics

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestRisks: topics as gvbll creates them lose nothing. What others set is found, with one
// line in the log for all of it, and one when it has ended.
func TestRisks(t *testing.T) {
	kafkatest.Run(t, func(t *testing.T, k *kafkatest.Kafka) {
		testRisks(t, k)
	}, kfake.NumBrokers(1))
}

func testRisks(t *testing.T, k *kafkatest.Kafka) {
	c := dial(t, k)
	n := under(t, "risks-"+time.Now().Format("150405.000000"))
	if _, err := Create(t.Context(), c, n, Layout{Partitions: 1, Replication: -1}); err != nil {
		t.Fatal(err)
	}
	look := func() ([]string, string) { return lookForRisks(t, c, n) }
	if found, said := look(); len(found) > 0 || said != "" {
		t.Errorf("of topics as they are created: found %v, said %q, want nothing", found, said)
	}
	set := func(topic string, settings ...string) { setOf(t, k, topic, settings...) }
	set(n.Nodes, "cleanup.policy", "compact,delete", "retention.ms", "604800000", "compression.type", "producer")
	set(n.Labels, "cleanup.policy", "compact", "retention.ms", "1000")
	set(n.Ledger, "retention.bytes", "1000000", "compression.type", "producer")
	want := []string{
		n.Nodes + ": cleanup.policy=compact,delete", n.Nodes + ": retention.ms=604800000", n.Nodes + ": compression.type=producer",
		n.Labels + ": cleanup.policy=compact", n.Ledger + ": retention.bytes=1000000",
	}
	var found []string
	var said string
	kafkatest.Await(t, "the topics have other settings", func() bool { // Apache Kafka applies them a little later
		found, said = look()
		return len(found) > 0
	})
	if !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "level=WARN") || !strings.Contains(said, "retention.ms=-1") || !strings.Contains(said, n.Ledger) {
		t.Errorf("said %q, want one warning line with the topics and the remedies", said)
	}
}

// lookForRisks watches for one round, and returns what was found and logged.
func lookForRisks(t *testing.T, c *kafka.Client, n Names) ([]string, string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	var found []string
	WatchRisks(ctx, c, n, time.Hour, slog.New(slog.NewTextHandler(&out, nil)), nil, func(risks []Risk) {
		for _, r := range risks {
			found = append(found, r.String())
		}
		cancel()
	})
	return found, out.String()
}

// setOf sets settings of a topic, given as names and values.
func setOf(t *testing.T, k *kafkatest.Kafka, topic string, settings ...string) {
	t.Helper()
	transport := &kafkago.Transport{Dial: k.Dial}
	defer transport.CloseIdleConnections()
	admin := &kafkago.Client{Addr: kafkago.TCP(k.Addrs...), Transport: transport}
	r := kafkago.IncrementalAlterConfigsRequestResource{ResourceType: kafkago.ResourceTypeTopic, ResourceName: topic}
	for i := 0; i < len(settings); i += 2 {
		r.Configs = append(r.Configs, kafkago.IncrementalAlterConfigsRequestConfig{Name: settings[i], Value: settings[i+1], ConfigOperation: kafkago.ConfigOperationSet})
	}
	res, err := admin.IncrementalAlterConfigs(t.Context(), &kafkago.IncrementalAlterConfigsRequest{Resources: []kafkago.IncrementalAlterConfigsRequestResource{r}})
	if err == nil {
		err = res.Resources[0].Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestReplicationRisks: where there are three brokers, a topic that would lose its end with one of
// them is found, the predictions' too.
func TestReplicationRisks(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c := dial(t, k)
		of := func(name string, replication int) Names {
			n, err := Under(name)
			if err == nil {
				_, err = Create(t.Context(), c, n, Layout{Partitions: 2, Replication: replication})
			}
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		single := of("single", 1)
		found, said := lookForRisks(t, c, single)
		if len(found) != 5 || !slices.Contains(found, single.Predictions+": replication.factor=1") || !strings.Contains(said, "replication.factor=3") {
			t.Errorf("of topics with one replica: found %q, said %q, want the factor of inputs, ledger and predictions", found, said)
		}
		safe := of("safe", 3)
		for _, topic := range safe.All() {
			setOf(t, k, topic, "min.insync.replicas", "2")
		}
		if found, said := lookForRisks(t, c, safe); len(found) > 0 || said != "" {
			t.Errorf("of topics that are replicated: found %v, said %q, want nothing", found, said)
		}
		setOf(t, k, safe.Nodes, "min.insync.replicas", "1")
		setOf(t, k, safe.Ledger, "unclean.leader.election.enable", "true")
		want := []string{safe.Nodes + ": min.insync.replicas=1", safe.Ledger + ": unclean.leader.election.enable=true"}
		if found, _ := lookForRisks(t, c, safe); !slices.Equal(found, want) {
			t.Errorf("found %q, want %q", found, want)
		}
	}, kfake.NumBrokers(3))
}
