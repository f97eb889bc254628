package broker

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/gvbll/gvbll/topics/kafka"
)

// childDir is an environment variable. If it is set, the test binary does not run tests but a
// broker on that directory, until it is killed.
const childDir = "GVBLL_TEST_BROKER"

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	b, err := Start(Config{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(b.Addr())
	select {}
}

// spawn starts a broker in another process, which kill ends with SIGKILL.
func spawn(t *testing.T, dir string) (addr string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill() // SIGKILL
			_ = cmd.Wait()         // its error is the signal
		}
	}
	t.Cleanup(kill)
	addr, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the broker did not start: %v", err)
	}
	return strings.TrimSpace(addr), kill
}

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

// leaveOpen produces the value in a transaction of the same transactional id that it does not
// end.
func leaveOpen(t *testing.T, addr, value string) {
	t.Helper()
	k, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("worker"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The broker was killed, so do not wait for it.
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = k.AbortBufferedRecords(ctx)
		k.Close()
	})
	if err := k.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"out", "ledger"} {
		if err := k.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
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
				records, err := r.Poll(t.Context())
				if err != nil {
					t.Fatal(err)
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

// TestKilled: the broker is killed repeatedly, each time with committed records and with an
// open transaction of the same transactional id. After every start all committed records are
// there and none of the open transaction's, also after the id's next commit and after the next
// kill.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	var want []string
	for i := range 4 {
		addr, kill := spawn(t, dir)
		c := dial(t, addr)
		if i == 0 {
			create(t, c, "in", "out", "ledger")
		} else {
			create(t, c)
		}
		checkCommitted(t, c, want...)
		if i == 2 {
			kill() // before anything is written
			continue
		}
		v := fmt.Sprint(i)
		commit(t, c, v)
		want = append(want, v)
		leaveOpen(t, addr, "open "+v)
		checkCommitted(t, c, want...)
		kill()
	}
	b, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	c := dial(t, b.Addr())
	checkCommitted(t, c, want...)
	commit(t, c, "last")
	checkCommitted(t, c, append(want, "last")...)
}
