package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gvbll/gvbll/topics/kafka"
)

// committed returns the values of a topic's committed records, by partition.
func committed(t *testing.T, c *kafka.Client, topic string) [][]string {
	t.Helper()
	bounds, err := c.Offsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	start := make(map[kafka.TopicPartition]int64)
	for at, b := range bounds {
		start[at] = b.First
	}
	r := c.NewReader(start, kafka.ReaderConfig{})
	var records []kafka.Record
	for at, b := range bounds {
		for r.Position(at) < b.End {
			got, err := r.Poll(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, got...)
		}
	}
	slices.SortFunc(records, func(a, b kafka.Record) int { return int(a.Offset - b.Offset) })
	values := make([][]string, len(bounds))
	for _, r := range records {
		values[r.Partition] = append(values[r.Partition], string(r.Value))
	}
	return values
}

// TestKilledInCommit kills the broker in the middle of a stream of transactions over
// several partitions, again and again.
func TestKilledInCommit(t *testing.T) {
	const partitions, kills = 6, 12
	dir := t.TempDir()
	var want []string
	next := 0
	for i := range kills {
		addr, kill := spawn(t, dir)
		c := dial(t, addr)
		if i == 0 {
			if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: "t", Partitions: partitions, Replication: 1}); err != nil {
				t.Fatal(err)
			}
		}
		p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "id", RetryFor: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		enough, gone := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(gone)
			<-enough
			kill()
			cancel()
		}()
		for n := 0; ; n++ {
			v := fmt.Sprint(next)
			var records []kafka.Record
			for part := range int32(partitions) {
				records = append(records, kafka.Record{Topic: "t", Partition: part, Value: []byte(v)})
			}
			if n == 20 {
				close(enough)
			}
			if err := p.Commit(ctx, records, "", nil); err != nil {
				break
			}
			want = append(want, v)
			next++
		}
		<-gone
		c.Close()
		addr, kill = spawn(t, dir)
		c = dial(t, addr)
		got := committed(t, c, "t")
		// The last one may have been committed; wholly, or not at all.
		if v := fmt.Sprint(next); slices.Contains(got[0], v) {
			t.Logf("kill %d: the unacknowledged one was committed", i)
			want = append(want, v)
		}
		next++
		for part := range partitions {
			if !slices.Equal(got[part], want) {
				t.Fatalf("kill %d: partition %d ends with %q and should with %q (%d, %d)", i, part, got[part][max(0, len(got[part])-3):], want[max(0, len(want)-3):], len(got[part]), len(want))
			}
		}
		kill()
		c.Close()
	}
}
