package sender_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics"
	"github.com/gvbll/gvbll/topics/broker"
	"github.com/gvbll/gvbll/topics/kafka"
	"github.com/gvbll/gvbll/topics/sender"
	"github.com/gvbll/gvbll/topics/wire"
)

// stream has two context nodes and steps of three nodes each.
func stream(steps int) *sender.Stream {
	node := func(i int) event.Node {
		return event.Node{ID: event.ID{Num: int64(i)}, Dense: []float32{1}, Context: i < 2, Time: int64(i + 1)}
	}
	s := &sender.Stream{Context: []event.Node{node(0), node(1)}}
	for t := range steps {
		var step []sender.Item
		for i := range 3 {
			step = append(step, sender.Item{Node: node(2 + 3*t + i), Class: fmt.Sprint("c", t)})
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

type fixture struct {
	t      *testing.T
	client *kafka.Client
	names  topics.Names
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	b, err := broker.Start(broker.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	c, err := kafka.Dial(t.Context(), kafka.Config{Brokers: []string{b.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	names, err := topics.Under("sender-test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topics.Create(t.Context(), c, names, 1, 1); err != nil {
		t.Fatal(err)
	}
	return &fixture{t, c, names}
}

// ids reads the node ids of a topic's events, in order.
func (w *fixture) ids(topic string) (ids []int64) {
	w.t.Helper()
	at := kafka.TopicPartition{Topic: topic}
	bounds, err := w.client.Offsets(w.t.Context(), topic)
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.client.NewReader(map[kafka.TopicPartition]int64{at: 0}, kafka.ReaderConfig{})
	var d wire.Decoder
	for r.Position(at) < bounds[at].End {
		records, err := r.Poll(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, rec := range records {
			o := &event.Origin{Value: rec.Value}
			var n event.Node
			var l event.Label
			if topic == w.names.Labels {
				if reason, detail := d.Label(o, &l); reason != "" {
					w.t.Fatal(reason, detail)
				}
				ids = append(ids, l.Node.Num)
				continue
			}
			if reason, detail := d.Node(o, &n); reason != "" {
				w.t.Fatal(reason, detail)
			}
			ids = append(ids, n.ID.Num)
		}
	}
	return ids
}

func upTo(first, last int64) (ids []int64) {
	for i := first; i <= last; i++ {
		ids = append(ids, i)
	}
	return ids
}

func TestNodesGoInOrder(t *testing.T) {
	w := newFixture(t)
	var nodes, labels int
	err := sender.Run(t.Context(), w.client, stream(4), sender.Config{
		Names: w.names, Labels: sender.Never, Progress: func(n, l int) { nodes, labels = n, l },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.ids(w.names.Nodes); !slices.Equal(got, upTo(0, 13)) {
		t.Errorf("nodes %v", got)
	}
	if got := w.ids(w.names.Labels); len(got) != 0 || nodes != 14 || labels != 0 {
		t.Errorf("labels %v; progress says %d and %d", got, nodes, labels)
	}
}

// TestDelayedLabels: context nodes have none, all others one.
func TestDelayedLabels(t *testing.T) {
	w := newFixture(t)
	if err := sender.Run(t.Context(), w.client, stream(4), sender.Config{Names: w.names, Labels: sender.Delayed, Delay: 5}); err != nil {
		t.Fatal(err)
	}
	if got := w.ids(w.names.Labels); !slices.Equal(got, upTo(2, 13)) {
		t.Errorf("labels %v", got)
	}
}

// TestResume: a sender that is started again sends what is missing, and no
// more.
func TestResume(t *testing.T) {
	w := newFixture(t)
	for _, steps := range []int{2, 4, 4} {
		if err := sender.Run(t.Context(), w.client, stream(steps), sender.Config{Names: w.names, Labels: sender.Delayed, Resume: true}); err != nil {
			t.Fatal(err)
		}
	}
	for topic, first := range map[string]int64{w.names.Nodes: 0, w.names.Labels: 2} {
		if got := w.ids(topic); !slices.Equal(got, upTo(first, 13)) {
			t.Errorf("%s: %v", topic, got)
		}
	}
}

// TestPredictedLabels: a step waits for its predictions, and its labels for
// further steps.
func TestPredictedLabels(t *testing.T) {
	w := newFixture(t)
	s := stream(3)
	sent := make(chan int, 100)
	done := make(chan error)
	go func() {
		done <- sender.Run(t.Context(), w.client, s, sender.Config{
			Names: w.names, Labels: sender.Predicted, Delay: 1, Progress: func(n, _ int) { sent <- n },
		})
	}()
	p, err := w.client.NewProducer(t.Context(), kafka.ProducerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for step, items := range s.Steps {
		for n := 0; n != 2+3*(step+1); n = <-sent {
		}
		var labels []int64
		if step > 1 {
			labels = upTo(2, int64(2+3*(step-1)-1))
		}
		if got := w.ids(w.names.Labels); !slices.Equal(got, labels) {
			t.Errorf("before step %d is predicted, the labels are %v, want %v", step, got, labels)
		}
		var records []kafka.Record
		for i := range items {
			records = append(records, kafka.Record{Topic: w.names.Predictions, Key: wire.AppendKey(nil, items[i].Node.ID), Value: []byte("x")})
		}
		if err := p.Send(t.Context(), records); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := w.ids(w.names.Labels); !slices.Equal(got, upTo(2, 10)) {
		t.Errorf("at the end the labels are %v", got)
	}
}

func TestMissingTopics(t *testing.T) {
	w := newFixture(t)
	w.names.Nodes = "nowhere"
	if err := sender.Run(t.Context(), w.client, stream(1), sender.Config{Names: w.names}); err == nil {
		t.Error("a topic that does not exist is sent to")
	}
}
