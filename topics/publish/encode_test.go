package publish

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/ledger"
	"github.com/gvbll/gvbll/topics/replay"
)

// TestEncodeAllocations: encoding predictions reuses memory, so that the garbage collector does
// not limit the throughput of a worker.
func TestEncodeAllocations(t *testing.T) {
	const size = 500
	window := encodes(t, size)
	window()
	if per := testing.AllocsPerRun(100, window) / size; per > 0.1 {
		t.Errorf("%v allocations per prediction, want at most 0.1", per)
	}
}

// BenchmarkEncode measures what an owner's loop does for a prediction besides stepping.
func BenchmarkEncode(b *testing.B) {
	const size = 500
	window := encodes(b, size)
	b.ReportAllocs()
	for b.Loop() {
		window()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/prediction")
}

// encodes returns a function that encodes a window of predictions.
func encodes(t testing.TB, size int) func() {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	names, err := topics.Under("encode-test")
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: names.Ledger})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &Config{}
	cfg.SetDefaults()
	pipeline := New(cfg, p, Sources{Terms: &replay.Terms{Names: names}, Ledger: &ledger.Ledger{}, Partitions: map[string]int{names.Predictions: 4}})
	out := &event.Outcome{}
	for i := range size {
		out.Predictions = append(out.Predictions, event.Prediction{Node: event.ID{Num: int64(i)}, Class: "class", Probabilities: make([]float32, 40)})
	}
	record := &ledger.Record{Version: ledger.Version, Model: "model", Ranges: []ledger.Range{}}
	return func() {
		if full, err := pipeline.Add(out, record, time.Now(), func(map[kafka.TopicPartition]int64) {}); full != nil || err != nil {
			t.Fatal(full, err)
		}
		o := <-pipeline.publisher.gathered
		o.batch.Reset()
		pipeline.publisher.spare <- o
	}
}
