package worker_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/wire"
	"github.com/gvbll/gvbll/topics/worker"
)

const epoch = 1_700_000_000_000

// sendAt produces nodes first..last-1 into the partitions by turns, with a label
// for each, both with the event time that at says.
func (w *fixture) sendAt(first, last, partitions int, at func(i int) int64) {
	w.t.Helper()
	p, err := w.client.NewProducer(w.t.Context(), kafka.ProducerConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	var records []kafka.Record
	for i := first; i < last; i++ {
		id := event.ID{Num: int64(i)}
		key := wire.AppendKey(nil, id)
		records = append(records,
			kafka.Record{Topic: w.names.Nodes, Partition: int32(i % partitions), Key: key, Value: wire.AppendNode(nil, &event.Node{ID: id, Dense: []float32{1, 2}, Time: at(i)})},
			kafka.Record{Topic: w.names.Labels, Partition: int32(i % 3), Key: key, Value: wire.AppendLabel(nil, &event.Label{Node: id, Class: "a", Time: at(i)})})
	}
	if err := p.Send(w.t.Context(), records); err != nil {
		w.t.Fatal(err)
	}
}

// TestEventTime: windows hold what lies in them by event time, whatever the
// order; a worker that starts again replays them, and knows what is late.
func TestEventTime(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		const width, disorder = 1000, 700
		rng := rand.New(rand.NewPCG(1, 2))
		times := make(map[int64]int64) // by node
		at := func(i int) int64 {
			if times[int64(i)] == 0 {
				times[int64(i)] = epoch + int64(i)*10 + rng.Int64N(disorder)
			}
			return times[int64(i)]
		}
		late := 0
		seen := make(map[int64]bool)
		cfg := worker.Config{
			Policy: intake.EventTime{Width: width * time.Millisecond, Lateness: disorder * time.Millisecond, Idle: 300 * time.Millisecond},
			Hooks: worker.Hooks{
				Untimely: func(_ string, n, early int) { late += n + early },
				Stepped: func(s worker.Stepped) {
					if s.Replayed {
						return
					}
					var of []int64
					for _, p := range s.Outcome.Predictions {
						of = append(of, times[p.Node.Num]/width)
					}
					for _, l := range s.Outcome.Labelled {
						of = append(of, times[l.Node.Num]/width)
					}
					for _, k := range of {
						if k != of[0] || seen[k] {
							t.Errorf("window %d, by %s, has events of %d and %d", s.Outcome.Window, s.Cause, of[0], k)
							return
						}
					}
					seen[of[0]] = true
				},
			},
		}
		w.sendAt(0, 600, 3, at)
		if err := w.run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		w.check(600, 0)
		// The last windows were closed because all was idle: on with the next.
		w.sendAt(1000, 1400, 3, at)
		if err := w.run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		w.check(1000, 0)
		if late > 0 {
			t.Errorf("%d events were late", late)
		}
		cfg.Hooks.Stepped = nil
		w.sendAt(1400, 1410, 3, func(int) int64 { return epoch })
		if err := w.run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		w.check(1010, 0)
		if late != 20 {
			t.Errorf("%d events were late, want 20", late)
		}
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Errorf("another policy: %v", err)
		}
		if a, err := worker.Audit(t.Context(), w.client, &tally{}, worker.Config{Names: w.names, Model: "tally", Settings: settings}, "", nil); err != nil || a.Predictions != 1010 {
			t.Errorf("audit: %+v, %v", a, err)
		}
	})
}

// TestNoTimes has events without any, under a policy that goes by them.
func TestNoTimes(t *testing.T) {
	w := newFixture(t, fake(t).ListenAddrs()[0])
	w.send(0, 100)
	cfg := worker.Config{Policy: intake.EventTime{Width: time.Second, Idle: 50 * time.Millisecond}}
	if err := w.run(&tally{}, cfg); err != nil {
		t.Fatal(err)
	}
	w.check(100, 1)
}

// start runs a worker until it has committed windows with n events, or fails.
// The channel has its end.
func (w *fixture) start(ctx context.Context, cfg worker.Config, n int) <-chan error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	cfg.Names, cfg.Model, cfg.Settings, cfg.Policy = w.names, "tally", settings, intake.CountOrLinger{Count: 7, Linger: 5 * time.Millisecond}
	got := 0
	cfg.Hooks = worker.Join(worker.Hooks{
		Stepped: func(s worker.Stepped) {
			got += len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
		},
		Committed: func(worker.Committed) {
			if got >= n {
				cancel()
			}
		},
	}, cfg.Hooks)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		err := worker.Run(ctx, w.client, &tally{}, cfg)
		if err == nil && got < n {
			err = errors.New("not all of the events came")
		}
		ended <- err
	}()
	return ended
}

// TestPartitionsGrow: partitions that are added while the worker runs are read
// from their beginning, by a replay too.
func TestPartitionsGrow(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		at := func(i int) int64 { return epoch + int64(i) }
		w.sendAt(0, 50, 3, at)
		var once sync.Once
		running := make(chan struct{})
		ended := w.start(t.Context(), worker.Config{Hooks: worker.Hooks{Committed: func(worker.Committed) { once.Do(func() { close(running) }) }}}, 200)
		<-running
		w.grow(w.names.Nodes, 5)
		w.sendAt(50, 100, 5, at)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		w.check(100, 0)
		if err := w.run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
	})
}

func (w *fixture) grow(topic string, n int32) {
	w.t.Helper()
	c := &kafkago.Client{Addr: kafkago.TCP(w.addr)}
	res, err := c.CreatePartitions(w.t.Context(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: topic, Count: n}}})
	if err == nil {
		err = res.Errors[topic]
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes a topic, and waits until it is gone.
func (w *fixture) remove(topic string) {
	w.t.Helper()
	c := &kafkago.Client{Addr: kafkago.TCP(w.addr)}
	res, err := c.DeleteTopics(w.t.Context(), &kafkago.DeleteTopicsRequest{Topics: []string{topic}})
	if err == nil {
		err = res.Errors[topic]
	}
	for n := 1; err == nil && n > 0; {
		var counts map[string]int
		counts, err = w.client.Partitions(w.t.Context(), topic)
		n = counts[topic]
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// whenCommitted returns hooks that close the channel with the first commit told
// of once exactly n nodes and labels have been stepped.
func whenCommitted(n int) (worker.Hooks, <-chan struct{}) {
	var once sync.Once
	reached := make(chan struct{})
	got := 0
	return worker.Hooks{
		Stepped: func(s worker.Stepped) { got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) },
		Committed: func(worker.Committed) {
			if got == n {
				once.Do(func() { close(reached) })
			}
		},
	}, reached
}

// TestTopicComesBack has an input deleted under a worker that is running, and
// created anew: as it was, with other records; with fewer; with none.
func TestTopicComesBack(t *testing.T) {
	for name, n := range map[string]int{"with others": 80, "with fewer": 20, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBrokers(t, func(t *testing.T, w *fixture) {
				hasty := w.impatient(3 * time.Second)
				w.sendAt(0, 60, 3, func(int) int64 { return 0 })
				hooks, running := whenCommitted(120)
				ended := hasty.start(t.Context(), worker.Config{Hooks: hooks}, 1000)
				<-running
				w.remove(w.names.Nodes)
				if _, err := topics.Create(t.Context(), w.client, w.names, 3, 1); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					w.sendAt(1000, 1000+n, 3, func(int) int64 { return 0 })
				}
				err := <-ended
				if err == nil || !strings.Contains(err.Error(), w.names.Nodes) || !strings.Contains(err.Error(), "restore") || strings.Contains(err.Error(), "\n") {
					t.Errorf("the worker ended with %v", err)
				}
				// A start tells it, too.
				err = hasty.run(&tally{}, worker.Config{})
				if err == nil || strings.Contains(err.Error(), "\n") {
					t.Errorf("the next worker ended with %v", err)
				}
			})
		})
	}
}

// TestTopicGoes has an input deleted for good.
func TestTopicGoes(t *testing.T) {
	onBrokers(t, func(t *testing.T, w *fixture) {
		hasty := w.impatient(3 * time.Second)
		w.sendAt(0, 60, 3, func(int) int64 { return 0 })
		hooks, running := whenCommitted(120)
		ended := hasty.start(t.Context(), worker.Config{Hooks: hooks}, 1000)
		<-running
		w.remove(w.names.Labels)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), w.names.Labels) || !strings.Contains(err.Error(), "restore") {
			t.Errorf("the worker ended with %v", err)
		}
	})
}

// TestRetention has the beginning of an input deleted behind the worker: nothing
// is wrong with that until it starts again.
func TestRetention(t *testing.T) {
	cluster := fake(t)
	w := newFixture(t, cluster.ListenAddrs()[0])
	w.send(0, 60)
	if err := w.run(&tally{}, worker.Config{}); err != nil {
		t.Fatal(err)
	}
	if err := cluster.DeleteRecords(w.names.Nodes, 1, 5); err != nil {
		t.Fatal(err)
	}
	if err := w.run(&tally{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "retention.ms=-1") {
		t.Errorf("the worker ended with %v", err)
	}
}

// TestWaitedOut has leaders move and connections cut, all the time, under a
// worker: every node is predicted once.
func TestWaitedOut(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(session))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	w := newFixture(t, cluster.ListenAddrs()[0])
	const rounds, each = 6, 40
	moved := make(chan struct{}, 1000)
	ended := w.start(t.Context(), worker.Config{CommitInterval: 5 * time.Millisecond, Hooks: worker.Hooks{
		Committed: func(worker.Committed) { moved <- struct{}{} },
	}}, 2*rounds*each)
	for i := range rounds {
		w.sendAt(i*each, (i+1)*each, 3, func(i int) int64 { return 0 })
		<-moved
		for part := range int32(3) {
			for _, topic := range []string{w.names.Nodes, w.names.Labels, w.names.Predictions} {
				if err := cluster.MoveTopicPartition(topic, part, (part+int32(i))%3); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cluster.MoveTopicPartition(w.names.Ledger, 0, int32(i)%3); err != nil {
			t.Fatal(err)
		}
		for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.EndTxn, kmsg.AddPartitionsToTxn} {
			cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.check(rounds*each, 0)
	if err := w.run(&tally{}, worker.Config{}); err != nil {
		t.Fatal(err)
	}
}

// TestBrokerRestarts has the only broker go, and come back with its data, under a
// worker.
func TestBrokerRestarts(t *testing.T) {
	dir := t.TempDir()
	port := 0
	broker := func() *kfake.Cluster {
		opts := []kfake.Opt{kfake.NumBrokers(1), kfake.DataDir(dir)}
		if port > 0 {
			opts = append(opts, kfake.Ports(port))
		}
		c, err := kfake.NewCluster(opts...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := broker()
	addr := first.ListenAddrs()[0]
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(p); err != nil {
		t.Fatal(err)
	}
	w := newFixture(t, addr)
	w.sendAt(0, 60, 3, func(int) int64 { return 0 })
	hooks, half := whenCommitted(120)
	ended := w.start(t.Context(), worker.Config{Hooks: hooks}, 240)
	<-half
	first.Close()
	t.Cleanup(broker().Close)
	w.sendAt(60, 120, 3, func(int) int64 { return 0 })
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	w.check(120, 0)
}
