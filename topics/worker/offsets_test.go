package worker_test

import (
	"maps"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/worker"
)

// TestOffsetsOfPausedStream: a transaction of several windows commits the group's offsets behind
// the last of them, so that lag tools show none when the stream pauses.
func TestOffsetsOfPausedStream(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		w := f.startWorker(&tally{}, worker.Config{Publishing: publish.Config{CommitInterval: 50 * time.Millisecond}})
		for i := range 3 {
			w.awaitEvents(t, f.send(100*i, 100*(i+1)))
			want, err := f.client.Offsets(t.Context(), f.names.Nodes, f.names.Labels)
			if err != nil {
				t.Fatal(err)
			}
			ends := make(map[kafka.TopicPartition]int64)
			for at, bounds := range want {
				ends[at] = bounds.End
			}
			for reached := false; !reached; {
				got, err := f.client.Committed(t.Context(), f.names.Ledger, f.names.Nodes, f.names.Labels)
				if err != nil {
					t.Fatal(err) // also when the test takes too long
				}
				reached = maps.Equal(got, ends)
				time.Sleep(time.Millisecond)
			}
		}
		w.cancel()
		if err := <-w.ended; err != nil {
			t.Fatal(err)
		}
		f.checkOutputs(300, 3)
	})
}
