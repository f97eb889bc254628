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
	counts, err := c.Partitions(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	values := make([][]string, counts[topic])
	err = c.ReadAll(t.Context(), topic, func(r *kafka.Record) {
		values[r.Partition] = append(values[r.Partition], string(r.Value))
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// TestKilledInCommit: the broker is killed repeatedly in the middle of a stream of transactions
// over several partitions. After every start each transaction is in all partitions or in none,
// and every acknowledged one is there.
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
		enough, killed := make(chan struct{}), make(chan struct{}) // enough transactions are committed; the broker is killed
		go func() {
			defer close(killed)
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
		<-killed
		c.Close()
		addr, kill = spawn(t, dir)
		c = dial(t, addr)
		got := committed(t, c, "t")
		// The transaction that was not acknowledged may have been committed, but then in
		// every partition.
		if v := fmt.Sprint(next); slices.Contains(got[0], v) {
			t.Logf("kill %d: the unacknowledged transaction was committed", i)
			want = append(want, v)
		}
		next++
		for part := range partitions {
			if !slices.Equal(got[part], want) {
				t.Fatalf("kill %d: partition %d has %d values ending with %q, want %d ending with %q", i, part, len(got[part]), got[part][max(0, len(got[part])-3):], len(want), want[max(0, len(want)-3):])
			}
		}
		kill()
		c.Close()
	}
}
