package publish_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os/exec"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestOtherConsumers: consumers of other Kafka clients, reading committed records only,
// see every prediction exactly once, even though a worker was fenced with a transaction
// open. The consumers are franz-go's and, on Apache Kafka, Java's console consumer.
func TestOtherConsumers(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		const nodes = 120
		n := f.Send(0, nodes/2)
		first := f.StartWorker(&tally{}, worker.Config{})
		first.AwaitEvents(t, n)
		f.Fence()
		f.Send(nodes/2, nodes)
		<-first.Ended
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.Fence()

		readWithFranz(f, nodes)
		if tool := kafkatest.Tool(); tool != "" && kafkatest.Apache() != "" {
			readWithJava(f, tool, nodes)
		}
	})
}

// readWithFranz reads so many predictions with franz-go, and checks that there are no others.
func readWithFranz(f *fixture, nodes int) {
	k, err := kgo.NewClient(kgo.SeedBrokers(f.On.Addrs...), kgo.Dialer(f.On.Dial), kgo.ConsumeTopics(f.Names.Predictions),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		f.T.Fatal(err)
	}
	defer k.Close()
	seen := make(map[event.ID]bool)
	for len(seen) < nodes {
		fetches := k.PollFetches(f.T.Context())
		if err := fetches.Err(); err != nil {
			f.T.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var p event.Prediction
			if err := wire.DecodePrediction(r.Value, &p); err != nil {
				f.T.Fatal(err)
			}
			if seen[p.Node] {
				f.T.Errorf("the consumer got two predictions of node %v, want one", p.Node)
			}
			seen[p.Node] = true
		})
	}
}

// readWithJava is the same with Java's console consumer.
func readWithJava(f *fixture, tool string, nodes int) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(f.T.Context(), tool, "consume", f.On.Addrs[0], f.Names.Predictions, fmt.Sprint(f.Count(f.Names.Predictions)))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		f.T.Fatalf("%v: %s", err, stderr.String())
	}
	seen := make(map[string]bool)
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if seen[lines.Text()] {
			f.T.Errorf("the consumer got two records with key %q, want one", lines.Text())
		}
		seen[lines.Text()] = true
	}
	if len(seen) != nodes {
		f.T.Errorf("the consumer got %d keys, want %d", len(seen), nodes)
	}
}
