package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/intake"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/publish"
	"github.com/gvbll/gvbll/topics/replay"
	"github.com/gvbll/gvbll/topics/worker"
)

// epoch is the event time at which the streams of these tests begin, in Unix milliseconds.
const epoch = 1_700_000_000_000

// noTimes gives every event the event time 0, which means none.
func noTimes(int) int64 { return 0 }

// TestEventTime: under the event-time policy a window holds the events of one interval of
// event time, in whatever order they arrive. A worker that starts again replays the windows
// and restores the watermark, so that events of closed windows still count as late.
func TestEventTime(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		const width, disorder = 1000, 700
		rng := rand.New(rand.NewPCG(1, 2))
		times := make(map[int64]int64) // by node
		at := func(i int) int64 {
			if times[int64(i)] == 0 {
				times[int64(i)] = epoch + int64(i)*10 + rng.Int64N(disorder)
			}
			return times[int64(i)]
		}
		untimely := 0
		counted := replay.On(func(u replay.Untimely) { untimely += u.Late + u.Early })
		seen := make(map[int64]bool) // intervals that a window has had
		cfg := worker.Config{
			Policy: intake.EventTime{Width: width * time.Millisecond, Lateness: disorder * time.Millisecond, Idle: 300 * time.Millisecond},
			Events: replay.Join(counted, replay.On(func(s replay.Stepped) {
				if s.Replayed {
					return
				}
				var intervals []int64 // of each event
				for _, p := range s.Outcome.Predictions {
					intervals = append(intervals, times[p.Node.Num]/width)
				}
				for _, l := range s.Outcome.Labelled {
					intervals = append(intervals, times[l.Node.Num]/width)
				}
				for _, k := range intervals {
					if k != intervals[0] || seen[k] {
						t.Errorf("window %d, cut by %s, has events of the intervals %d and %d, want one interval that no other window has", s.Outcome.Window, s.Cause, intervals[0], k)
						return
					}
				}
				seen[intervals[0]] = true
			})),
		}
		f.SendAt(0, 600, 3, at)
		if err := f.Run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(600, 0)
		// Idleness has closed the last windows, so the next events are of later intervals.
		f.SendAt(1000, 1400, 3, at)
		if err := f.Run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(1000, 0)
		if untimely > 0 {
			t.Errorf("%d events were late or early, want none", untimely)
		}
		cfg.Events = counted
		f.SendAt(1400, 1410, 3, func(int) int64 { return epoch })
		if err := f.Run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(1010, 0)
		if untimely != 20 {
			t.Errorf("%d events were late or early, want 20", untimely)
		}
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Errorf("a worker with another policy: %v", err)
		}
		if audited, err := f.Audit(&tally{}, worker.Config{}); err != nil || audited.Predictions != 1010 {
			t.Errorf("audit: %+v and error %v, want 1010 predictions", audited, err)
		}
	})
}

// TestNoTimes: under the event-time policy, events without an event time are still
// predicted.
func TestNoTimes(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		f.Send(0, 100)
		cfg := worker.Config{Policy: intake.EventTime{Width: time.Second, Idle: 50 * time.Millisecond}}
		if err := f.Run(&tally{}, cfg); err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(100, 1)
	})
}

// startUntil starts a worker that ends once it has committed windows with n events, or
// fails. Its error is sent on the channel.
func startUntil(f *fixture, cfg worker.Config, n int) <-chan error {
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	cfg = f.Config(cfg)
	got := 0
	cfg.Events = replay.Join(replay.Join(
		replay.On(func(s replay.Stepped) {
			got += len(s.Outcome.Labelled) + len(s.Outcome.Predictions) + len(s.Outcome.Refused)
		}),
		replay.On(func(replay.Committed) {
			if got >= n {
				cancel()
			}
		}),
	), cfg.Events)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		err := worker.Run(ctx, f.Client, &tally{}, cfg)
		if err == nil && got < n {
			err = fmt.Errorf("the worker ended after %d events, want %d", got, n)
		}
		ended <- err
	}()
	return ended
}

// TestPartitionsAdded: partitions that are added to an input while the worker runs are read
// from their beginning, and a replay reads them too.
func TestPartitionsAdded(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		at := func(i int) int64 { return epoch + int64(i) }
		f.SendAt(0, 50, 3, at)
		var once sync.Once
		running := make(chan struct{})
		ended := startUntil(f, worker.Config{Events: replay.On(func(replay.Committed) { once.Do(func() { close(running) }) })}, 200)
		<-running
		f.AddPartitions(f.Names.Nodes, 5)
		f.SendAt(50, 100, 5, at)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(100, 0)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
	})
}

// whenCommitted returns hooks that close the channel at the first commit after exactly n
// nodes and labels have been stepped.
func whenCommitted(n int) (func(replay.Event), <-chan struct{}) {
	var once sync.Once
	reached := make(chan struct{})
	got := 0
	return replay.Join(
		replay.On(func(s replay.Stepped) { got += len(s.Outcome.Predictions) + len(s.Outcome.Labelled) }),
		replay.On(func(replay.Committed) {
			if got == n {
				once.Do(func() { close(reached) })
			}
		}),
	), reached
}

// startImpatient sends 60 nodes and their labels, and starts a worker that waits for missing
// topics only briefly. It returns once the worker has committed them, with the fixture of
// such workers and a channel that receives the worker's error.
func startImpatient(f *fixture) (impatient *fixture, ended <-chan error) {
	f.T.Helper()
	impatient = f.WithDialTimeout(3 * time.Second)
	f.SendAt(0, 60, 3, noTimes)
	hooks, running := whenCommitted(120)
	ended = startUntil(impatient, worker.Config{Events: hooks}, 1000)
	<-running
	return impatient, ended
}

// TestTopicRecreated: an input topic is deleted under a running worker and created again
// with other records. The records in the ledger's ranges are gone, so the worker ends with
// an error that says how to restore them, and so does the next one at its start.
func TestTopicRecreated(t *testing.T) {
	for name, n := range map[string]int{"with more records": 80, "with fewer records": 20, "empty": 0} {
		t.Run(name, func(t *testing.T) {
			onBrokers(t, func(t *testing.T, f *fixture) {
				impatient, ended := startImpatient(f)
				f.DeleteTopic(f.Names.Nodes)
				if _, err := topics.Create(t.Context(), f.Client, f.Names, topics.Layout{Partitions: 3, Replication: 1}); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					f.SendAt(1000, 1000+n, 3, noTimes)
				}
				err := <-ended
				if err == nil || !strings.Contains(err.Error(), f.Names.Nodes) || !strings.Contains(err.Error(), "restore") || strings.Contains(err.Error(), "\n") {
					t.Errorf("the worker ended with error %v, want one line with the topic and the remedy", err)
				}
				err = impatient.Run(&tally{}, worker.Config{})
				if err == nil || strings.Contains(err.Error(), "\n") {
					t.Errorf("the next worker ended with error %v, want one line", err)
				}
			})
		})
	}
}

// TestTopicDeleted: an input topic is deleted under a running worker. The worker ends with
// an error that names the topic and the remedy.
func TestTopicDeleted(t *testing.T) {
	onBrokers(t, func(t *testing.T, f *fixture) {
		_, ended := startImpatient(f)
		f.DeleteTopic(f.Names.Labels)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), f.Names.Labels) || !strings.Contains(err.Error(), "restore") {
			t.Errorf("the worker ended with error %v, want one with the topic and the remedy", err)
		}
	})
}

// TestRetention: the broker has deleted the beginning of an input. A worker that would have
// to replay it ends with an error that names the setting to change.
func TestRetention(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		cluster := f.On.Fake
		f.Send(0, 60)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
		if err := cluster.DeleteRecords(f.Names.Nodes, 1, 5); err != nil {
			t.Fatal(err)
		}
		if err := f.Run(&tally{}, worker.Config{}); err == nil || !strings.Contains(err.Error(), "retention.ms=-1") {
			t.Errorf("the worker ended with error %v, want one with retention.ms=-1", err)
		}
	})
}

// TestLeadersMove: partition leaders move and connections are cut again and again while a
// worker runs. It retries until they are back, and every node is predicted once.
func TestLeadersMove(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, on *kafkatest.Kafka) {
		f := newFixture(t, on)
		const rounds, each = 6, 40
		committed := make(chan struct{}, 1000)
		ended := startUntil(f, worker.Config{
			Publishing: publish.Config{CommitInterval: 5 * time.Millisecond},
			Events:     replay.On(func(replay.Committed) { committed <- struct{}{} }),
		}, 2*rounds*each)
		for i := range rounds {
			f.SendAt(i*each, (i+1)*each, 3, noTimes)
			<-committed
			for part := range int32(3) {
				for _, topic := range []string{f.Names.Nodes, f.Names.Labels, f.Names.Predictions} {
					if err := on.Fake.MoveTopicPartition(topic, part, (part+int32(i))%3); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := on.Fake.MoveTopicPartition(f.Names.Ledger, 0, int32(i)%3); err != nil {
				t.Fatal(err)
			}
			for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.EndTxn, kmsg.AddPartitionsToTxn} {
				on.Fake.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(rounds*each, 0)
		if err := f.Run(&tally{}, worker.Config{}); err != nil {
			t.Fatal(err)
		}
	}, kfake.NumBrokers(3), kfake.GroupMinSessionTimeout(session))
}

// TestBrokerRestarts: the only broker stops and starts again with its data while a worker
// runs. The worker waits for it and continues.
func TestBrokerRestarts(t *testing.T) {
	kafkatest.Bubble(t, func(t *testing.T, n *kafkatest.Network) {
		opts := []kfake.Opt{kfake.Ports(9092), kfake.DataDir(t.TempDir())}
		on := n.KFake(t, opts...)
		f := newFixture(t, on)
		f.SendAt(0, 60, 3, noTimes)
		hooks, half := whenCommitted(120)
		ended := startUntil(f, worker.Config{Events: hooks}, 240)
		<-half
		on.Fake.Close()
		n.KFake(t, opts...)
		f.SendAt(60, 120, 3, noTimes)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		f.CheckOutputs(120, 0)
	})
}
