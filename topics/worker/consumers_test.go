package worker_test

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
		n := f.send(0, nodes/2)
		first := f.startWorker(&tally{}, worker.Config{})
		first.awaitEvents(t, n)
		f.fence()
		f.send(nodes/2, nodes)
		<-first.ended
		if err := f.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		f.fence()

		t.Run("franz-go", func(t *testing.T) {
			k, err := kgo.NewClient(kgo.SeedBrokers(f.addr), kgo.ConsumeTopics(f.names.Predictions),
				kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			seen := make(map[event.ID]bool)
			for len(seen) < nodes {
				fetches := k.PollFetches(t.Context())
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					var p event.Prediction
					if err := wire.DecodePrediction(r.Value, &p); err != nil {
						t.Fatal(err)
					}
					if seen[p.Node] {
						t.Errorf("the consumer got two predictions of node %v, want one", p.Node)
					}
					seen[p.Node] = true
				})
			}
		})
		tool := kafkatest.Tool()
		if tool == "" || kafkatest.Apache() == "" {
			return
		}
		t.Run("Java", func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), tool, "consume", f.addr, f.names.Predictions, fmt.Sprint(f.count(f.names.Predictions)))
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			seen := make(map[string]bool)
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				if seen[lines.Text()] {
					t.Errorf("the consumer got two records with key %q, want one", lines.Text())
				}
				seen[lines.Text()] = true
			}
			if len(seen) != nodes {
				t.Errorf("the consumer got %d keys, want %d", len(seen), nodes)
			}
		})
	})
}
