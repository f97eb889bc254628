package sender_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/kafka/kafkatest"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// stream returns a stream of two context nodes, 0 and 1, and steps of three nodes each.
func stream(steps int) *sender.Stream {
	node := func(i int) event.Node {
		return event.Node{ID: event.ID{Num: int64(i)}, Dense: []float32{1}, Context: i < 2, Time: int64(i + 1)}
	}
	s := &sender.Stream{Context: []sender.Item{{Node: node(0)}, {Node: node(1)}}}
	for t := range steps {
		var step []sender.Item
		for i := range 3 {
			step = append(step, sender.Item{Node: node(2 + 3*t + i), Class: fmt.Sprint("c", t)})
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

// fixture is the topics of one graph.
type fixture struct {
	t      *testing.T
	client *kafka.Client
	names  topics.Names
	fake   *kfake.Cluster
}

// onFake runs a test on kfake.
func onFake(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	kafkatest.Fake(t, func(t *testing.T, k *kafkatest.Kafka) {
		c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: k.Addrs, Dialer: k.Dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		names, err := topics.Under("sender-test")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := topics.Create(t.Context(), c, names, topics.Layout{Partitions: 1, Replication: 1}); err != nil {
			t.Fatal(err)
		}
		test(t, &fixture{t, c, names, k.Fake})
	}, kfake.NumBrokers(1))
}

// ids returns the node ids of the events or labels in a topic, in order.
func (f *fixture) ids(topic string) (ids []int64) {
	f.t.Helper()
	var d wire.Decoder
	err := f.client.ReadAll(f.t.Context(), topic, func(r *kafka.Record) {
		o := &event.Origin{Value: r.Value}
		for _, h := range r.Headers {
			o.Headers = append(o.Headers, event.Header(h))
		}
		var n event.Node
		var l event.Label
		if topic == f.names.Labels {
			if reason, detail := d.Label(o, &l); reason != "" {
				f.t.Fatalf("refused: %s: %s", reason, detail)
			}
			ids = append(ids, l.Node.Num)
			return
		}
		if reason, detail := d.Node(o, &n); reason != "" {
			f.t.Fatalf("refused: %s: %s", reason, detail)
		}
		ids = append(ids, n.ID.Num)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return ids
}

// upTo returns the integers from first to last.
func upTo(first, last int64) (ids []int64) {
	for i := first; i <= last; i++ {
		ids = append(ids, i)
	}
	return ids
}

// TestNodesInOrder: the nodes are sent in the order of their arrival, context nodes first. With
// the timing Never there are no labels.
func TestNodesInOrder(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		var nodes, labels int
		err := sender.Run(t.Context(), f.client, stream(4), sender.Config{
			Names: f.names, Labels: sender.Never, Progress: func(n, l int) { nodes, labels = n, l },
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.ids(f.names.Nodes); !slices.Equal(got, upTo(0, 13)) {
			t.Errorf("nodes %v, want 0 to 13", got)
		}
		if got := f.ids(f.names.Labels); len(got) != 0 || nodes != 14 || labels != 0 {
			t.Errorf("labels %v, and the progress is %d nodes and %d labels, want no labels and 14 nodes", got, nodes, labels)
		}
	})
}

// TestBrokersAway: a stream and a file of events go on after brokers that were away for a minute,
// longer than a request is repeated.
func TestBrokersAway(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		away := func() {
			until := time.Now().Add(time.Minute)
			f.fake.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				if time.Now().After(until) {
					return nil, nil, false
				}
				f.fake.KeepControl()
				return nil, errors.New("away"), true
			})
		}
		away()
		if err := sender.Run(t.Context(), f.client, stream(2), sender.Config{Names: f.names, Labels: sender.Never}); err != nil {
			t.Fatal(err)
		}
		away()
		if _, err := sender.Lines(t.Context(), f.client, f.names, nil, strings.NewReader(`{"id":8,"features":[1]}`), 0); err != nil {
			t.Fatal(err)
		}
		if got := f.ids(f.names.Nodes); !slices.Equal(got, upTo(0, 8)) {
			t.Errorf("nodes %v, want 0 to 8", got)
		}
	})
}

// TestDelayedLabels: every node gets one label in the order of the nodes, except for context
// nodes, which get none. Its event time is that of the last node before it.
func TestDelayedLabels(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		if err := sender.Run(t.Context(), f.client, stream(4), sender.Config{Names: f.names, Labels: sender.Delayed, Delay: 5}); err != nil {
			t.Fatal(err)
		}
		if got := f.ids(f.names.Labels); !slices.Equal(got, upTo(2, 13)) {
			t.Errorf("labels %v, want 2 to 13", got)
		}
		var d wire.Decoder
		var times []int64
		if err := f.client.ReadAll(t.Context(), f.names.Labels, func(r *kafka.Record) {
			var l event.Label
			if reason, detail := d.Label(&event.Origin{Value: r.Value}, &l); reason != "" {
				t.Fatalf("refused: %s: %s", reason, detail)
			}
			times = append(times, l.Time)
		}); err != nil {
			t.Fatal(err)
		}
		if want := []int64{8, 11, 11, 11, 14, 14, 14, 14, 14, 14, 14, 14}; !slices.Equal(times, want) {
			t.Errorf("labels of the times %v, want %v", times, want)
		}
	})
}

// TestResume: a sender that is started again sends only the events that the topics do not have
// yet.
func TestResume(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		for _, steps := range []int{2, 4, 4} {
			if err := sender.Run(t.Context(), f.client, stream(steps), sender.Config{Names: f.names, Labels: sender.Delayed, Resume: true}); err != nil {
				t.Fatal(err)
			}
		}
		for topic, first := range map[string]int64{f.names.Nodes: 0, f.names.Labels: 2} {
			if got := f.ids(topic); !slices.Equal(got, upTo(first, 13)) {
				t.Errorf("%s has the nodes %v, want %d to 13", topic, got, first)
			}
		}
	})
}

// TestPredictedLabels: with the timing Predicted, a step is sent only once the step before has
// all its predictions, and its labels only after the predictions of Delay further steps.
func TestPredictedLabels(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		s := stream(3)
		sent := make(chan int, 100)
		done := make(chan error, 1)
		go func() {
			done <- sender.Run(t.Context(), f.client, s, sender.Config{
				Names: f.names, Labels: sender.Predicted, Delay: 1, Progress: func(n, _ int) { sent <- n },
			})
		}()
		p, err := f.client.NewProducer(t.Context(), kafka.ProducerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		for step, items := range s.Steps {
			for n := 0; n != 2+3*(step+1); n = kafkatest.Receive(t, sent, "the next nodes are sent") {
			}
			var labels []int64
			if step > 1 {
				labels = upTo(2, int64(2+3*(step-1)-1))
			}
			if got := f.ids(f.names.Labels); !slices.Equal(got, labels) {
				t.Errorf("before step %d is predicted, the labels are %v, want %v", step, got, labels)
			}
			var records []kafka.Record
			for i := range items {
				records = append(records, kafka.Record{Topic: f.names.Predictions, Key: wire.AppendKey(nil, items[i].Node.ID), Value: []byte("x")})
			}
			if err := p.Send(t.Context(), records); err != nil {
				t.Fatal(err)
			}
		}
		if err := kafkatest.Receive(t, done, "the sender has ended"); err != nil {
			t.Fatal(err)
		}
		if got := f.ids(f.names.Labels); !slices.Equal(got, upTo(2, 10)) {
			t.Errorf("at the end the labels are %v, want 2 to 10", got)
		}
	})
}

// TestMissingTopics: sending to a topic that does not exist is an error.
func TestMissingTopics(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		f.names.Nodes = "nowhere"
		if err := sender.Run(t.Context(), f.client, stream(1), sender.Config{Names: f.names}); err == nil {
			t.Error("no error for a topic that does not exist")
		}
	})
}

// TestLoop: the steps are sent again and again as new nodes, which name each other and the
// context; the nodes of the pass before the last leave. A sender that resumes goes on in
// the pass that was interrupted. Events have the time at which they were sent.
func TestLoop(t *testing.T) {
	onFake(t, func(t *testing.T, f *fixture) {
		began := time.Now().UnixMilli()
		s := stream(2)
		for _, step := range s.Steps {
			for i := range step {
				step[i].Node.Neighbours = []event.ID{{Num: 0}, step[0].Node.ID}
			}
		}
		// run sends until so many nodes were sent or skipped.
		run := func(nodes int) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			err := sender.Run(ctx, f.client, s, sender.Config{
				Names: f.names, Labels: sender.Never, Loop: true, Now: true, Resume: true,
				Progress: func(n, _ int) {
					if n >= nodes {
						cancel()
					}
				},
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("a loop ended with %v", err)
			}
		}
		run(2 + 6 + 6 + 3) // the context, two passes, and half of a third
		run(2 + 3 + 3)     // the context again, and the rest of the third

		var (
			d   wire.Decoder
			got []string
		)
		err := f.client.ReadAll(t.Context(), f.names.Nodes, func(r *kafka.Record) {
			if r.Value == nil {
				got = append(got, "-"+string(r.Key))
				return
			}
			var n event.Node
			if reason, detail := d.Node(&event.Origin{Value: r.Value}, &n); reason != "" {
				t.Fatalf("refused: %s: %s", reason, detail)
			}
			if n.Time < began || n.Time > time.Now().UnixMilli() {
				t.Errorf("node %s was sent with the time %d", n.ID, n.Time)
			}
			got = append(got, fmt.Sprintf("%v%v", n.ID, n.Neighbours))
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"0[]", "1[]", "2[0 2]", "3[0 2]", "4[0 2]", "5[0 5]", "6[0 5]", "7[0 5]",
			"2/2[0 2/2]", "3/2[0 2/2]", "4/2[0 2/2]", "5/2[0 5/2]", "6/2[0 5/2]", "7/2[0 5/2]",
			"-2", "-3", "-4", "-5", "-6", "-7",
			"2/3[0 2/3]", "3/3[0 2/3]", "4/3[0 2/3]", "5/3[0 5/3]", "6/3[0 5/3]", "7/3[0 5/3]",
		}
		if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
