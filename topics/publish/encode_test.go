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
		pipeline.publisher.reuse(o)
	}
}

// TestSpareOutputsAreBounded: outputs are reused, but however many a flood has made large in turn, those that wait to be reused
// have had maxOutput bytes together at most.
func TestSpareOutputsAreBounded(t *testing.T) {
	p := &publisher{producer: &kafka.Producer{}}
	for range 10 * spareOutputs {
		p.reuse(&output{batch: &kafka.Batch{}})
	}
	if len(p.spare) != spareOutputs {
		t.Fatalf("%d outputs are kept, want %d", len(p.spare), spareOutputs)
	}
	for range 1000 {
		var list []*output
		for range spareOutputs {
			list = append(list, p.new())
		}
		for i, o := range list {
			o.most = max(o.most, maxOutput/8)
			if i == 0 {
				o.most = 2 * maxOutput
			}
			p.reuse(o)
		}
		total := 0
		for _, o := range p.spare {
			total += o.most
		}
		if total != p.kept || total > maxOutput {
			t.Fatalf("outputs of %d bytes are kept, and counted as %d, want at most %d", total, p.kept, maxOutput)
		}
	}
	if len(p.spare) != 8 {
		t.Errorf("%d outputs of an eighth of maxOutput are kept, want 8", len(p.spare))
	}
}

// TestCopiedHeadersAreBounded: of a record with far more headers than are copied, and a far longer one, the first short ones are.
func TestCopiedHeadersAreBounded(t *testing.T) {
	o := &event.Origin{Headers: []event.Header{{Key: "trace", Value: make([]byte, 100*maxCopiedValue)}}}
	for i := range 100 * maxCopied {
		o.Headers = append(o.Headers, event.Header{Key: "trace", Value: []byte{byte(i)}})
	}
	c := encoder{cfg: &Config{CopyHeaders: []string{"trace"}}}
	got := c.withCopied([]kafka.Header{{Key: "own"}}, o)
	if len(got) != 1+maxCopied || got[1].Value[0] != 0 || got[maxCopied].Value[0] != maxCopied-1 {
		t.Errorf("%d headers, %v", len(got), got)
	}
}
