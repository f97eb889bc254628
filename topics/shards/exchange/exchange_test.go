package exchange

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
)

// TestExchange runs the suite on a kfake of three brokers, or on Apache Kafka.
func TestExchange(t *testing.T) {
	suite := map[string]func(*testing.T, *graph){
		"every task gets what the others send it":         testWindows,
		"a large message is sent in pieces":               testPieces,
		"what is sent twice is taken once":                testTwice,
		"other bytes for the same window are an error":    testOther,
		"what is missing has a name":                      testMissing,
		"messages far ahead do not fill the memory":       testAhead,
		"a receiver goes on at another one's position":    testPosition,
		"what is not of this run is ignored":              testIgnored,
		"an empty message is a message":                   testEmpty,
		"who gives up waiting can wait again":             testGivenUp,
		"messages that were deleted are a one-line error": testDeleted,
	}
	for name, test := range suite {
		t.Run(name, func(t *testing.T) {
			kafkatest.Run(t, func(t *testing.T, k *kafkatest.Kafka) { test(t, newGraph(t, k, 3)) }, kfake.NumBrokers(3))
		})
	}
}

// graph is an exchange topic between a lead and some shards.
type graph struct {
	*testing.T
	client  *kafka.Client
	cfg     Config
	on      *kafkatest.Kafka
	ctx     context.Context // of run: ends when a task fails
	stepped atomic.Int64    // last window of the lead
	step    chan struct{}   // receives when the lead steps
}

var topicNumber atomic.Int64

func newGraph(t *testing.T, on *kafkatest.Kafka, shards int) *graph {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: on.Addrs, Dialer: on.Dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	g := &graph{T: t, client: c, cfg: Config{Topic: fmt.Sprintf("exchange-%x-%d", time.Now().UnixNano(), topicNumber.Add(1)), Shards: shards, Run: 7, Logger: slog.New(slog.DiscardHandler)}, on: on, step: make(chan struct{}, 1)}
	if _, err := c.CreateTopics(t.Context(), kafka.TopicSpec{Name: g.cfg.Topic, Partitions: shards + 2, Replication: -1}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *graph) of(task int) Config {
	cfg := g.cfg
	cfg.Task = task
	return cfg
}

func (g *graph) sender(task int) *Sender {
	g.Helper()
	s, err := NewSender(g.Context(), g.client, g.of(task))
	if err != nil {
		g.Fatal(err)
	}
	g.Cleanup(s.Close)
	return s
}

func (g *graph) receiver(task int, at Position) *Receiver {
	return NewReceiver(g.client, g.of(task), at)
}

func (g *graph) send(s *Sender, window int64, k Kind, payloads ...[]byte) {
	g.Helper()
	if err := s.Send(g.Context(), window, k, payloads...); err != nil {
		g.Fatal(err)
	}
}

func (g *graph) flush(s *Sender) {
	g.Helper()
	if err := s.Flush(g.Context(), math.MaxInt64); err != nil {
		g.Fatal(err)
	}
}

// got waits for messages and compares them.
func (g *graph) got(r *Receiver, window int64, k Kind, want ...[]byte) {
	g.Helper()
	payloads, err := r.Wait(g.Context(), window, k)
	if err != nil {
		g.Fatal(err)
	}
	if !slices.EqualFunc(payloads, want, bytes.Equal) {
		g.Errorf("task %d got for window %d %v %.200q, want %.200q", r.cfg.Task, window, k, payloads, want)
	}
}

// says returns what a task sends another in a window: a function of these, as in a graph.
func says(window int64, k Kind, from, to int) []byte {
	if window%3 == 1 && k == Rows {
		return nil // nothing to say
	}
	return fmt.Appendf(nil, "%v of window %d from %d to %d", k, window, from, to)
}

// parts are what a shard sends the shards.
func parts(window int64, from, shards int) (p [][]byte) {
	for to := range shards {
		p = append(p, says(window, Part, from, to+1))
	}
	return p
}

// testWindows: shards and lead step windows as a graph does. Each gets what the others have
// sent it, whichever of them is ahead.
func testWindows(t *testing.T, g *graph) {
	g.run(1, func(_, w int64) bool { return w < 40 })
}

// lag is after how many windows heads and served bytes are waited for.
const lag = 2

// run has every task step windows while more holds for them, each task in so many workers at
// once, which send the same. Each checks what it gets.
func (g *graph) run(workers int, more func(task, window int64) bool) {
	g.Helper()
	var stop context.CancelFunc
	g.ctx, stop = context.WithCancel(g.Context())
	defer stop()
	errs := make(chan error)
	for range workers {
		go func() { errs <- g.lead(more) }()
		for task := 1; task <= g.cfg.Shards; task++ {
			go func() { errs <- g.shard(task, more) }()
		}
	}
	for range workers * (1 + g.cfg.Shards) {
		if err := <-errs; err != nil {
			g.Error(err)
			stop()
		}
	}
}

// expect waits for messages, and returns an error unless they are what the senders say.
func (g *graph) expect(r *Receiver, window int64, k Kind) error {
	payloads, err := r.Wait(g.ctx, window, k)
	if err != nil {
		return err
	}
	first, _ := r.cfg.senders(k)
	for i, got := range payloads {
		from, to := first+i, r.cfg.Task
		if k == Heads || k == Served {
			to = 0
		}
		want := says(window, k, from, to)
		if from == r.cfg.Task {
			want = nil
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("task %d got %q, want %q", r.cfg.Task, got, want)
		}
	}
	return nil
}

// lead steps windows as a lead does.
func (g *graph) lead(more func(task, window int64) bool) error {
	s, err := NewSender(g.ctx, g.client, g.of(0))
	if err != nil {
		return err
	}
	defer s.Close()
	r := g.receiver(0, Position{})
	for w := int64(0); more(0, w); w++ {
		if err := g.expect(r, w, Rows); err != nil {
			return err
		}
		if err := s.Send(g.ctx, w, Heads, says(w, Heads, 0, 0)); err != nil {
			return err
		}
	}
	return s.Flush(g.ctx, math.MaxInt64)
}

// shard steps windows as a shard does.
func (g *graph) shard(task int, more func(task, window int64) bool) error {
	s, err := NewSender(g.ctx, g.client, g.of(task))
	if err != nil {
		return err
	}
	defer s.Close()
	r := g.receiver(task, Position{})
	for w := int64(0); more(int64(task), w); w++ {
		if err := s.Send(g.ctx, w, Part, parts(w, task, g.cfg.Shards)...); err != nil {
			return err
		}
		if err := g.expect(r, w, Part); err != nil {
			return err
		}
		for _, k := range []Kind{Heads, Served} {
			if w > lag {
				if err := g.expect(r, w-lag-1, k); err != nil {
					return err
				}
			}
		}
		for _, k := range []Kind{Rows, Served} {
			if err := s.Send(g.ctx, w, k, says(w, k, task, 0)); err != nil {
				return err
			}
		}
		if err := s.Flush(g.ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// testPieces: a message of several megabytes is the same after it was sent, beside small ones.
func testPieces(t *testing.T, g *graph) {
	rng := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 2_600_000)
	for i := range large {
		large[i] = byte(rng.Uint32())
	}
	for _, from := range []int{3, 1} {
		s := g.sender(from)
		g.send(s, 5, Rows, large[:len(large)-from])
		g.flush(s)
	}
	g.send(g.sender(2), 5, Rows, []byte("small"))
	g.got(g.receiver(0, Position{}), 5, Rows, large[:len(large)-1], []byte("small"), large[:len(large)-3])
}

// testTwice: a task that is run twice sends the same again, before and after it is taken.
func testTwice(t *testing.T, g *graph) {
	lead := g.receiver(0, Position{})
	for w := range int64(3) {
		for range 2 {
			for task := 1; task <= 3; task++ {
				s := g.sender(task)
				g.send(s, w, Rows, says(w, Rows, task, 0))
				g.flush(s)
			}
		}
	}
	for w := range int64(3) {
		g.got(lead, w, Rows, says(w, Rows, 1, 0), says(w, Rows, 2, 0), says(w, Rows, 3, 0))
	}
}

// testOther: two workers that step the same cuts and do not agree are found out, even after
// the first one's message was taken.
func testOther(t *testing.T, g *graph) {
	shard := g.receiver(2, Position{})
	s := g.sender(0)
	g.send(s, 0, Heads, []byte("heads"))
	g.flush(s)
	g.got(shard, 0, Heads, []byte("heads"))
	g.send(s, 0, Heads, []byte("other heads"))
	g.send(s, 1, Heads, []byte("heads"))
	g.flush(s)
	_, err := shard.Wait(t.Context(), 1, Heads)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "task 0 sent other heads for window 0 than at offset 0") {
		t.Errorf("other heads for the same window: error %v, want a line that names them", err)
	}
}

// testMissing: who is waited for, and for what, can be asked for at any time; afterwards how
// long it took is reported.
func testMissing(t *testing.T, g *graph) {
	waited := make(map[int]bool)
	g.cfg.Waited = func(from int, d time.Duration) { waited[from] = d > 0 }
	shard := g.receiver(1, Position{})
	if m := shard.Missing(); m != nil {
		t.Errorf("before it waits, %v is missing", m)
	}
	done := make(chan error)
	go func() {
		_, err := shard.Wait(t.Context(), 8, Part)
		done <- err
	}()
	want := func(what string) {
		t.Helper()
		for m := shard.Missing(); m == nil || m.String() != what || time.Since(m.Since) <= 0; m = shard.Missing() {
			select {
			case err := <-done:
				t.Fatalf("it has returned with error %v before %q", err, what)
			case <-time.After(time.Millisecond):
			case <-t.Context().Done():
				t.Fatalf("%v is missing, want %q", m, what)
			}
		}
	}
	want("the parts of window 8 from shard 2, shard 3")
	s := g.sender(3)
	g.send(s, 8, Part, parts(8, 3, 3)...)
	want("the parts of window 8 from shard 2")
	s = g.sender(2)
	g.send(s, 8, Part, parts(8, 2, 3)...)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if m := shard.Missing(); m != nil {
		t.Errorf("%v is missing after all has come", m)
	}
	if diff := cmp.Diff(map[int]bool{2: true, 3: true}, waited); diff != "" {
		t.Errorf("waited for, -want +got\n%s", diff)
	}
}

// testAhead: one sender is far ahead of another, by more than a receiver may hold. What it
// cannot hold it reads again, and loses nothing.
func testAhead(t *testing.T, g *graph) {
	const windows, size = 60, 20_000
	g.cfg.Memory = 10 * size
	payload := func(w int64, task int) []byte { return bytes.Repeat([]byte{byte(w), byte(task)}, size/2) }
	for task := 1; task <= 3; task++ {
		s := g.sender(task)
		for w := range int64(windows) {
			g.send(s, w, Rows, payload(w, task))
		}
		g.flush(s)
	}
	lead := g.receiver(0, Position{})
	for w := range int64(windows) {
		g.got(lead, w, Rows, payload(w, 1), payload(w, 2), payload(w, 3))
		if held := lead.own.bytes; held > g.cfg.Memory+3*size {
			t.Fatalf("after window %d it holds %d bytes, want at most %d and a window", w, held, g.cfg.Memory)
		}
	}
}

// testPosition: a receiver that begins where another one was at a window gets everything from
// that window on, though some of it was sent early.
func testPosition(t *testing.T, g *graph) {
	const windows = 30
	fast, slow, other := g.sender(1), g.sender(2), g.sender(3)
	for w := range int64(windows) {
		g.send(fast, w, Rows, says(w, Rows, 1, 0))
		g.flush(fast)
		if w >= 4 {
			for _, s := range []*Sender{slow, other} {
				g.send(s, w-4, Rows, says(w-4, Rows, s.cfg.Task, 0))
				g.flush(s)
			}
		}
	}
	lead := g.receiver(0, Position{})
	at := make([]Position, windows)
	for w := range int64(windows - 4) {
		g.got(lead, w, Rows, says(w, Rows, 1, 0), says(w, Rows, 2, 0), says(w, Rows, 3, 0))
		at[w+1] = lead.Position(w + 1)
	}
	if at[10].Own == 0 {
		t.Error("a position at window 10 is that of the beginning")
	}
	for _, w := range []int64{1, 10, windows - 5} {
		again := g.receiver(0, at[w])
		for ; w < windows-4; w++ {
			g.got(again, w, Rows, says(w, Rows, 1, 0), says(w, Rows, 2, 0), says(w, Rows, 3, 0))
		}
	}
	// A window that is not remembered any more.
	if got := lead.Position(-behind); got != (Position{}) {
		t.Errorf("the position of a window long ago is %v, want where the receiver began", got)
	}
}

// testIgnored: messages of another run, of tasks that do not send such messages, and what is no
// message are ignored.
func testIgnored(t *testing.T, g *graph) {
	p, err := g.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	whole := func(p piece) []byte { return p.append(nil) }
	damaged := whole(piece{slot: slot{0, Heads, 0}, run: 7, of: 1, payload: []byte("damaged")})
	damaged[headerLen]++
	values := [][]byte{
		nil, []byte("hello"), damaged,
		whole(piece{slot: slot{0, Heads, 0}, run: 6, of: 1, payload: []byte("of another run")}),
		whole(piece{slot: slot{0, Heads, 1}, run: 7, of: 1, payload: []byte("of a shard")}),
		whole(piece{slot: slot{0, Served, 4}, run: 7, of: 1, payload: []byte("of a shard that there is not")}),
		whole(piece{slot: slot{0, Rows, 1}, run: 7, of: 1, payload: []byte("in another partition")}),
		whole(piece{slot: slot{0, Heads, 0}, run: 7, of: 1, payload: []byte("heads")}),
	}
	for _, v := range values {
		if err := p.Send(t.Context(), []kafka.Record{{Topic: g.cfg.Topic, Partition: 4, Value: v}}); err != nil {
			t.Fatal(err)
		}
	}
	shard := g.receiver(1, Position{})
	g.got(shard, 0, Heads, []byte("heads"))
}

// testEmpty: a receiver waits for empty messages too, and nil is one.
func testEmpty(t *testing.T, g *graph) {
	shard := g.receiver(1, Position{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := shard.Wait(ctx, 0, Heads); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("before anything is sent: error %v, want that of the context", err)
	}
	g.send(g.sender(0), 0, Heads, nil)
	g.got(shard, 0, Heads, nil)
}

// testGivenUp: a Wait whose context ends keeps what has come.
func testGivenUp(t *testing.T, g *graph) {
	lead := g.receiver(0, Position{})
	for _, task := range []int{1, 3} {
		s := g.sender(task)
		g.send(s, 0, Rows, says(0, Rows, task, 0))
		g.flush(s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := lead.Wait(ctx, 0, Rows)
		done <- err
	}()
	for m := lead.Missing(); m == nil || len(m.From) > 1; m = lead.Missing() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want that of the context", err)
	}
	g.send(g.sender(2), 0, Rows, says(0, Rows, 2, 0))
	g.got(lead, 0, Rows, says(0, Rows, 1, 0), says(0, Rows, 2, 0), says(0, Rows, 3, 0))
}

// testDeleted: where a receiver must begin, the topic has been deleted up to: it says so, and
// how to go on.
func testDeleted(t *testing.T, g *graph) {
	s := g.sender(0)
	for w := range int64(4) {
		g.send(s, w, Heads, []byte("heads"))
		g.flush(s)
	}
	deleteUpTo(t, g, 4, 2)
	_, err := g.receiver(1, Position{}).Wait(t.Context(), 0, Heads)
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "begins at offset 2") {
		t.Errorf("error %v, want one line that says where the topic begins", err)
	}
	g.got(g.receiver(1, Position{All: 2}), 2, Heads, []byte("heads"))
}

// deleteUpTo deletes the records of a partition before the offset.
func deleteUpTo(t *testing.T, g *graph, partition int32, offset int64) {
	t.Helper()
	k := franz(t, g)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = g.cfg.Topic
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = partition, offset
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	for _, shard := range k.RequestSharded(t.Context(), req) {
		if shard.Err != nil {
			t.Fatal(shard.Err)
		}
		for _, topic := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestLostAnswers: the broker appends what is produced and its answer is lost, several times,
// and sessions are dropped. Everything arrives, and what is in the log twice is taken once.
func TestLostAnswers(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		g := newGraph(t, k, 2)
		s := g.sender(1)
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: g.cfg.Topic, Err: kerr.RequestTimedOut, Count: 3})
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: g.cfg.Topic, Err: kerr.OutOfOrderSequenceNumber, Count: 4})
		other := g.sender(2)
		for w := range int64(20) {
			g.send(s, w, Rows, says(w, Rows, 1, 0))
			g.flush(s)
			g.send(other, w, Rows, says(w, Rows, 2, 0))
		}
		g.flush(other)
		lead := g.receiver(0, Position{})
		for w := range int64(20) {
			g.got(lead, w, Rows, says(w, Rows, 1, 0), says(w, Rows, 2, 0))
		}
	}, kfake.NumBrokers(3))
}

// TestRefused: what a broker refuses ends the sender with its reason: whoever waits for
// acknowledgements must not commit.
func TestRefused(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		g := newGraph(t, k, 2)
		s := g.sender(1)
		k.Fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: g.cfg.Topic, Err: kerr.TopicAuthorizationFailed})
		g.send(s, 0, Rows, []byte("rows"))
		for range 2 {
			if err := s.Flush(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "sending to "+g.cfg.Topic) {
				t.Errorf("error %v, want one that names the topic", err)
			}
		}
	}, kfake.NumBrokers(3))
}

// FuzzDecode: bytes are refused, or are the same after they are decoded and encoded again, and
// nothing is allocated for what they only declare.
func FuzzDecode(f *testing.F) {
	f.Add((&piece{slot: slot{3, Part, 2}, run: 9, k: 1, of: 3, payload: []byte("abc")}).append(nil))
	f.Add((&piece{slot: slot{0, Heads, 0}, of: 1}).append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, sealed(b)} {
			p, err := decode(b)
			if err != nil {
				continue
			}
			if p.window < 0 || p.k < 0 || p.k >= p.of || p.of > maxPieces || len(p.payload) != len(b)-headerLen-trailerLen {
				t.Fatalf("%+v is accepted", p)
			}
			if again := p.append(nil); !bytes.Equal(again, b) {
				t.Fatalf("decoded and encoded again: %x, want %x", again, b)
			}
		}
	})
}

// sealed returns the bytes with the right format and CRC, which a fuzzer does not find.
func sealed(b []byte) []byte {
	if len(b) < headerLen+trailerLen {
		return b
	}
	b = slices.Clone(b)
	b[0] = format
	end := len(b) - trailerLen
	binary.LittleEndian.PutUint32(b[end:], sum(b[:end]))
	return b
}

// franz returns a franz-go client of the cluster.
func franz(t *testing.T, g *graph) *kgo.Client {
	t.Helper()
	k, err := kgo.NewClient(kgo.SeedBrokers(g.on.Addrs...), kgo.Dialer(g.on.Dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}
