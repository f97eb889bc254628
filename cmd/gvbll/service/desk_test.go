package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gvbll/gvbll/charts/page"
	"github.com/gvbll/gvbll/cmd/gvbll/flags"
	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/wire"
)

// deskOn runs a desk of a graph that nobody serves, whose nodes topic has the given settings.
func deskOn(t *testing.T, k *kafkatest.Kafka, config map[string]string) (*desk, *kafka.Client) {
	t.Helper()
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(c.Close)
	names, err := topics.Under(fmt.Sprintf("desk-%d", time.Now().UnixNano()))
	must(t, err)
	_, err = c.CreateTopics(t.Context(), kafka.TopicSpec{Name: names.Nodes, Partitions: 1, Replication: 1, Config: config},
		kafka.TopicSpec{Name: names.Predictions, Partitions: 1, Replication: 1})
	must(t, err)
	set := Setup{Process: flags.Process{Log: slog.New(slog.DiscardHandler)}, Names: names, Web: &Web{Registry: prometheus.NewRegistry()}}
	d, err := newDesk(t.Context(), c, set, func() []string { return []string{"a", "b"} })
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.run(ctx, 0)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return d, c
}

// TestDeskIsBounded: far more calls than may wait, and far larger ones, are refused at once; those that wait end when their
// time is over, and leave nothing. Of ten times as many answers as are kept the newest are.
func TestDeskIsBounded(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		d, _ := deskOn(t, k, nil)
		for _, c := range []struct{ calls, size, wait int }{{10 * mostCalls, 100, mostCalls}, {10 * mostBytes / (500 << 10), 500 << 10, mostBytes / (500 << 10)}} {
			var all sync.WaitGroup
			var late, busy atomic.Int64
			for i := range c.calls {
				all.Go(func() {
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					defer stop()
					_, err := d.Decide(ctx, event.ID{Num: int64(i)}, make([]byte, c.size), false, 0)
					switch {
					case errors.Is(err, page.ErrBusy):
						busy.Add(1)
					case err != nil && strings.Contains(err.Error(), "partition 0, under the key"):
						late.Add(1)
					}
				})
			}
			all.Wait()
			if int(late.Load()) != c.wait || int(busy.Load()) != c.calls-c.wait {
				t.Errorf("of %d calls of %d bytes %d waited and %d were refused, want %d to wait", c.calls, c.size, late.Load(), busy.Load(), c.wait)
			}
		}
		if d.count != 0 || d.bytes != 0 || len(d.waiting) != 0 {
			t.Errorf("%d calls of %d bytes are left", d.count, d.bytes)
		}
		for i := range int64(10 * mostAnswers) {
			if d.remember(event.ID{Num: i}, answer{at: time.Now()}); len(d.answers) > mostAnswers || len(d.order) != len(d.answers) {
				t.Fatalf("after %d answers %d are kept, in an order of %d", i+1, len(d.answers), len(d.order))
			}
		}
	})
}

// TestDeskSendsOthers: an event that the topic refuses takes no other with it, and its call is told why.
func TestDeskSendsOthers(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		d, c := deskOn(t, k, map[string]string{"max.message.bytes": "2000"})
		var all sync.WaitGroup
		var told atomic.Int64
		for i := range 40 {
			all.Go(func() {
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				size := 100
				if i%4 == 0 {
					size = 5000
				}
				_, err := d.Decide(ctx, event.ID{Num: int64(i)}, []byte(strings.Repeat("x", size)), false, 0)
				if err != nil && strings.Contains(err.Error(), "max.message.bytes=2000") != (i%4 == 0) {
					t.Errorf("event %d of %d bytes: %v", i, size, err)
				} else if i%4 == 0 {
					told.Add(1)
				}
			})
		}
		all.Wait()
		sent := make(map[string]bool) // some may be there twice, which changes nothing
		must(t, c.ReadAll(t.Context(), d.names.Nodes, func(r *kafka.Record) { sent[string(r.Key)] = true }))
		if len(sent) != 30 || told.Load() != 10 {
			t.Errorf("%d events are sent, and %d calls told why theirs is not, want 30 and 10", len(sent), told.Load())
		}
	})
}

// longestCommit is how long a commit takes in a test.
const longestCommit = 10 * settle

// TestDeskTellsNodesApart: the nodes 7 and "7" have the same record key, and each call gets its own node's prediction, as the
// same answer whether it is waited for or found, by number of class where the model has no name. What is
// not committed yet is waited for.
func TestDeskTellsNodesApart(t *testing.T) {
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		d, c := deskOn(t, k, nil)
		p, err := c.NewProducer(t.Context(), kafka.ProducerConfig{})
		must(t, err)
		put := func(id event.ID, revision int32, probability float32) {
			value := wire.MsgPack.AppendPrediction(nil, &event.Prediction{
				Node: id, Class: "a", Probabilities: []float32{probability, 1 - probability}, Revision: revision, Model: "m",
			})
			must(t, p.Send(t.Context(), []kafka.Record{{Topic: d.names.Predictions, Key: wire.AppendKey(nil, id), Value: value}}))
		}
		number, text := event.ID{Num: 7}, event.ID{Str: "7"}
		put(number, 0, .75)
		put(number, 1, .25)
		put(text, 0, .5)
		for id, want := range map[event.ID]string{number: `{"a":0.75,"b":0.25}`, text: `{"a":0.5,"b":0.5}`} {
			for range 2 { // found, and remembered
				found, err := d.Decide(t.Context(), id, nil, true, 0)
				if err != nil || !strings.Contains(string(found.Prediction), want) {
					t.Errorf("node %v: %s, %v, want %s", id, found.Prediction, err, want)
				}
			}
		}
		if _, err := d.Decide(t.Context(), event.ID{Num: 8}, nil, true, 5); !errors.Is(err, page.ErrOld) {
			t.Errorf("a node that came long ago, asked for at a standby: %v, want %v", err, page.ErrOld)
		}
		// A node of a window whose commit takes long, as brokers do not answer, did not come long ago.
		late := event.ID{Num: 9}
		d.committed.Store(4)
		within, stop := context.WithTimeout(t.Context(), longestCommit)
		defer stop()
		if _, err := d.Decide(within, late, nil, true, 5); err == nil || errors.Is(err, page.ErrOld) {
			t.Errorf("a node whose window is not committed: %v", err)
		}
		var commit sync.WaitGroup // it may be read before its sender knows it is stored
		commit.Go(func() {
			time.Sleep(longestCommit)
			put(late, 0, .75)
			d.committed.Store(5)
		})
		defer commit.Wait()
		if found, err := d.Decide(t.Context(), late, nil, true, 5); err != nil || !strings.Contains(string(found.Prediction), "0.75") {
			t.Errorf("a node whose window is committed meanwhile: %s, %v", found.Prediction, err)
		}
	})
}
