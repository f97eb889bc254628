package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestOthersConsumers: consumers of read-committed records that others have
// written see every node's prediction once, behind a worker that was fenced with
// a transaction open: franz-go's, and Java's console consumer where
// GVBLL_KAFKA_TOOL names the script that can run it.
func TestOthersConsumers(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		const nodes = 120
		w.send(0, nodes/2)
		first := w.hire(&tally{}, worker.Config{})
		first.await(t, nodes+1)
		w.settle() // fences it
		w.send(nodes/2, nodes)
		<-first.ended
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		w.settle()

		t.Run("franz-go", func(t *testing.T) {
			k, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.ConsumeTopics(w.names.Predictions),
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
						t.Errorf("node %v comes twice", p.Node)
					}
					seen[p.Node] = true
				})
			}
		})
		tool := os.Getenv("GVBLL_KAFKA_TOOL")
		if tool == "" || w.addr != os.Getenv("GVBLL_KAFKA") {
			return
		}
		t.Run("Java", func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := exec.CommandContext(context.Background(), tool, "consume", w.addr, w.names.Predictions)
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, stderr.String())
			}
			seen := make(map[string]bool)
			for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
				if seen[lines.Text()] {
					t.Errorf("key %q comes twice", lines.Text())
				}
				seen[lines.Text()] = true
			}
			if len(seen) != nodes {
				t.Errorf("%d keys of %d", len(seen), nodes)
			}
		})
	})
}
