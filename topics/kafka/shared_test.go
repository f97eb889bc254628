package kafka

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestSharing200Readers: two hundred readers of one client hold a few connections and send a few requests a second. Each gets
// what is committed in its partition, in order and once, without the aborted, as soon as a reader of its own would.
func TestSharedReaders(t *testing.T) {
	const readers = 200
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		var fetches, open, most atomic.Int64
		k.Fake.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
			k.Fake.KeepControl()
			fetches.Add(1)
			return nil, nil, false
		})
		counted := *k
		counted.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := k.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			if n := open.Add(1); n > most.Load() {
				most.Store(n)
			}
			return &countedConn{Conn: c, open: &open}, nil
		}
		c := dial(t, &counted, Config{}).Sharing()
		p := producer(t, dial(t, k, Config{}), ProducerConfig{TransactionalID: "t"})
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan Record, 10_000)
		ended := make(chan error, readers)
		for i := range readers {
			at := TopicPartition{"in", int32(i)}
			go func() {
				r := c.Cell(int32(i)).NewReader(map[TopicPartition]int64{at: 0}, ReaderConfig{Patient: true})
				for {
					records, err := r.Poll(ctx)
					if err != nil {
						ended <- err
						return
					}
					for _, x := range records {
						got <- x
					}
				}
			}()
		}
		send := func(partition int32, text string) {
			t.Helper()
			if err := p.Commit(t.Context(), []Record{{Topic: "in", Partition: partition, Value: []byte(text)}}, "", nil); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(partition int32, text string, within time.Duration) {
			t.Helper()
			began := time.Now()
			x := kafkatest.Receive(t, got, "the next record")
			if x.Partition != partition || string(x.Value) != text {
				t.Fatalf("partition %d has %q, want %q in partition %d", x.Partition, x.Value, text, partition)
			}
			if took := time.Since(began); took > within {
				t.Errorf("%q came after %v, want it within %v", text, took, within)
			}
		}
		time.Sleep(patience + 2*busyFor) // each has had an answer, and is quiet
		before := fetches.Load()
		time.Sleep(10 * time.Second)
		if n := fetches.Load() - before; n > 20 {
			t.Errorf("%d requests in 10 quiet seconds", n)
		}
		send(77, "first")
		expect(77, "first", busyWait)
		for i := range 300 { // it is busy, and so are others
			text := fmt.Sprint(i)
			send(int32(i%7), text)
			if i%10 == 0 {
				b := p.NewBatch()
				if err := b.Add(&Record{Topic: "in", Partition: int32(i % 7), Value: []byte("aborted")}); err != nil {
					t.Fatal(err)
				}
				if err := p.Produce(t.Context(), b); err != nil {
					t.Fatal(err)
				}
				if err := p.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			expect(int32(i%7), text, busyWait)
		}
		stop()
		for range readers {
			<-ended
		}
		if n := most.Load(); n > 20 {
			t.Errorf("%d connections at once", n)
		}
		if len(got) > 0 {
			x := <-got
			t.Errorf("partition %d has %q besides", x.Partition, x.Value)
		}
	}, kfake.NumBrokers(1), kfake.SeedTopics(readers, "in"))
}

type countedConn struct {
	net.Conn
	open *atomic.Int64
}

func (c *countedConn) Close() error {
	c.open.Add(-1)
	return c.Conn.Close()
}
