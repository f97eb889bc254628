package broker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

func dial(t *testing.T, addr string) *kafka.Client {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{addr}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// commit commits a transaction with the value in the topics out and ledger.
func commit(t *testing.T, c *kafka.Client, value string) {
	t.Helper()
	p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{TransactionalID: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	records := []kafka.Record{{Topic: "out", Value: []byte(value)}, {Topic: "ledger", Value: []byte(value)}}
	if err := p.Commit(t.Context(), records, "group", map[kafka.TopicPartition]int64{{Topic: "in"}: 1}); err != nil {
		t.Fatal(err)
	}
}

// create creates the topics and checks which of them did not exist before.
func create(t *testing.T, c *kafka.Client, want ...string) {
	t.Helper()
	var specs []kafka.TopicSpec
	for _, name := range []string{"in", "out", "ledger"} {
		specs = append(specs, kafka.TopicSpec{Name: name, Partitions: 1, Replication: 1})
	}
	got, err := c.CreateTopics(t.Context(), specs...)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" && len(want)+len(got) > 0 {
		t.Errorf("topics created, -want +got\n%s", d)
	}
}

// checkCommitted checks the committed values of the topics out and ledger. It reads from every
// offset on, because a reader that begins inside a transaction must skip aborted records too.
func checkCommitted(t *testing.T, c *kafka.Client, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kafkatest.Patience)
	defer cancel()
	for _, topic := range []string{"out", "ledger"} {
		at := kafka.TopicPartition{Topic: topic}
		bounds, err := c.Offsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		for start := range bounds[at].End {
			r := c.NewReader(map[kafka.TopicPartition]int64{at: start}, kafka.ReaderConfig{})
			var got []string
			for r.Position(at) < bounds[at].End {
				records, err := r.Poll(ctx)
				if err != nil {
					t.Fatalf("waiting until %v is read to offset %d: %v", at, bounds[at].End, err)
				}
				for _, r := range records {
					got = append(got, string(r.Value))
				}
			}
			from := max(len(want)-len(got), 0)
			if start == 0 && !slices.Equal(got, want) || start > 0 && !slices.Equal(got, want[from:]) {
				t.Errorf("%s from offset %d on has %q, want %q or, from a later offset, the end of it", topic, start, got, want)
			}
		}
	}
}

// TestMemory: a broker without a directory commits transactions.
func TestMemory(t *testing.T) {
	t.Parallel()
	b, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, b.Addr())
	create(t, c, "in", "out", "ledger")
	commit(t, c, "a")
	checkCommitted(t, c, "a")
	b.Close()
}

// TestNoAutoCreate: asking for a topic that does not exist does not create it.
func TestNoAutoCreate(t *testing.T) {
	t.Parallel()
	b, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	counts, err := dial(t, b.Addr()).Partitions(t.Context(), "out")
	if err != nil || len(counts) > 0 {
		t.Errorf("partition counts %v and error %v, want neither", counts, err)
	}
}

// TestPortInUse: the error of a second broker on a port names the port.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	b, err := Start(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var port int
	if _, err := fmt.Sscanf(b.Addr(), "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Port: port}); err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) {
		t.Errorf("a second broker on port %d: error %v, want one that names the port", port, err)
	}
}

// TestRestart: a broker that was closed and is started again on its directory has all topics
// and committed records, and accepts further transactions.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var want []string
	for _, v := range []string{"a", "b", "c"} {
		b, err := Start(Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		c := dial(t, b.Addr())
		if want == nil {
			create(t, c, "in", "out", "ledger")
		} else {
			create(t, c)
		}
		checkCommitted(t, c, want...)
		commit(t, c, v)
		want = append(want, v)
		checkCommitted(t, c, want...)
		c.Close()
		b.Close()
	}
}

// TestKilled: a directory whose broker was not closed, and that of a running one, is refused
// with the remedy. After it was removed, a broker starts there.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "demo")
	first, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), dir+" belongs to a broker that was killed, or still runs") {
		t.Errorf("a second broker: error %v, want one that names the directory and the remedy", err)
	}
	first.cluster.Close()
	if _, err := Start(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "remove the folder") {
		t.Errorf("after a kill: error %v, want the remedy", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	b, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	create(t, dial(t, b.Addr()), "in", "out", "ledger")
	b.Close()
}
